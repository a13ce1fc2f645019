"""Renamed commands, ACL rules, scripts that promise not to write: refusals that change nothing."""

import contextlib
import tempfile

import pytest

from limiters import five_integers
from living import LIMIT, QUOTAS, SCRIPT, TAKES, fill, looks, take
from replication import PRIMARY, changes, differences, is_in_step
from servers import MODULE
from waiting import until
from wire import Failure
from workload import ULID, Traffic, everything, now_ms

# --- Renamed commands ----------------------------------------------------------------------------

NEEDED = ["SET", "SETRANGE", "PEXPIREAT", "ZADD", "ZCARD", "ZCOUNT", "ZRANGE", "ZREMRANGEBYSCORE"]


@pytest.mark.parametrize("command", NEEDED)
def test_a_needed_command_was_renamed(spawn, count, command):
    """The module does not load, says why in the log, and leaves nothing behind."""
    server = spawn(f"rename-command {command} hidden", module=False)
    with server.wire() as wire:
        wire("HIDDEN" if command == "SET" else "SET", "k", "v")
        before = everything(server)
        assert isinstance(wire("MODULE", "LOAD", str(MODULE)), Failure)
        assert "took away" in server.log_text()
        assert f'"{command}"' in server.log_text()
        assert wire("COMMAND", "INFO", "RL.TOKEN", "RL.ALL") == [None, None]
        assert b"rl" not in [module[1] for module in wire("MODULE", "LIST")]
        assert wire("PING") == "PONG"
    assert everything(server) == before
    count("living", refused_loads=1)


def test_a_server_whose_set_is_gone_does_not_start(binary, spawn, tmp_path, monkeypatch):
    """As with any module that does not load; the log tells the reason."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(RuntimeError, match='needs the command "SET", which rename-command took'):
        spawn('rename-command SET ""')


def test_other_commands_may_be_renamed(spawn, count):
    """None of these is missed, by the primary or on the way to a replica that has them all."""
    others = "DEL UNLINK GET EXPIRE PEXPIRE ZREM ZREMRANGEBYRANK APPEND MEMORY TIME RESTORE DUMP"
    renamed = [f'rename-command {name} ""' for name in others.split() if name != "DUMP"]
    primary, replica = spawn(*PRIMARY, *renamed), spawn()
    with primary.wire() as wire, replica.wire() as other:
        other("REPLICAOF", "127.0.0.1", primary.port)
        until(lambda: is_in_step(primary, replica), "the replica does not come up")
        assert wire("DEL", "k").startswith("ERR unknown command")
        fill(wire)
        for line in looks():
            assert isinstance(wire(*line), list), line
        report = wire("RL.INSPECT", "token")
        assert report[report.index(b"bytes") + 1] == 0  # as its page says, without MEMORY
        traffic = Traffic("renamed")
        traffic.run(wire, 600)
        # `held` asks for TIME, which is gone here: what lasts is compared by DUMP and PTTL.
        keys = set(wire("KEYS", "*"))
        for key in keys:
            wire("PERSIST", key)
        until(lambda: is_in_step(primary, replica), "the replica stays behind")
        keys &= set(wire("KEYS", "*"))
        assert len(keys) > 10
        for key in keys:
            assert other("DUMP", key) == wire("DUMP", key), key
            assert other("PTTL", key) == -1, key
        assert wire("DBSIZE") == other("DBSIZE") == len(keys)
    count("living", commands=traffic.commands)


# --- ACL -----------------------------------------------------------------------------------------


@pytest.fixture
def guarded(spawn):
    """A server, and a way to log in as a user with some rules."""
    server = spawn()
    with contextlib.ExitStack() as stack:

        def user(*rules):
            with server.wire() as wire:
                reply = wire("ACL", "SETUSER", "someone", "reset", "on", "nopass", *rules)
                assert reply == "OK", reply
            connection = stack.enter_context(server.wire())
            assert connection("AUTH", "someone", "x") == "OK"
            return connection

        yield server, user


def is_refused(reply) -> bool:
    """By ACL: NOPERM, which 6.2 and 7.0 put into other words where it happens in a script."""
    return isinstance(reply, Failure) and (
        reply.startswith("NOPERM") or "can't run this command" in reply or "NOPERM" in reply
    )


def test_one_command_and_one_pattern(guarded, count):
    """`~rl:* +rl.token` allows RL.TOKEN on rl:..., and nothing else at all."""
    server, user = guarded
    someone = user("~rl:*", "+rl.token")
    assert someone("RL.TOKEN", "rl:a", 10, 1)[0] == 1
    assert someone("rl.token", "rl:b", 10, 1)[0] == 1
    before = everything(server)
    for name in TAKES:
        line = take(name)
        assert is_refused(someone(*line)), line  # RL.TOKEN, too: not this key
    for line in [*looks(), ["RL.INSPECT", "rl:a"], ["RL.PEEK", "TOKEN", "rl:a", 10, 1]]:
        assert is_refused(someone(*line)), line
    assert is_refused(someone("GET", "rl:a"))
    assert is_refused(someone("RL.TOKEN", "other", 10, 1))
    assert everything(server) == before
    count("living", acl_checks=len(TAKES) + 20)


def test_every_key_of_a_call_is_checked(guarded):
    """RL.ALL with one key outside the pattern takes nothing from the others."""
    server, user = guarded
    someone = user("~rl:*", "+rl.all", "+rl.peek", "+rl.inspect", "+rl.sliding")
    inside = [*QUOTAS["fixed"].clause("rl:a"), *QUOTAS["token"].clause("rl:b")]
    outside = QUOTAS["leaky"].clause("else")
    assert someone("RL.ALL", *inside)[0] == 1
    before = everything(server)
    for clauses in ([*inside, *outside], [*outside, *inside]):
        assert is_refused(someone("RL.ALL", *clauses))
    assert is_refused(someone("RL.PEEK", *outside))
    assert is_refused(someone("RL.INSPECT", "else"))
    assert everything(server) == before
    # What the module itself calls for a log in a sorted set is not the user's affair.
    with server.wire() as wire:
        wire("ZADD", "rl:set", now_ms(), ULID)
    assert is_refused(someone("ZADD", "rl:set", now_ms(), "two"))
    assert someone("RL.SLIDING", "rl:set", 60, 10)[:3] == [1, 10, 8]


def test_permissions_to_read_and_to_write(guarded, count):
    """From 7.0 on a pattern can allow reading only: enough for looks, and for nothing else."""
    server, user = guarded
    if server.binary.version < (7, 0):
        pytest.skip("Redis 6.2 has no such patterns")
    with server.wire() as wire:
        fill(wire)
    before = everything(server)
    for pattern, may_look, may_take in [
        ("%R~*", True, False),
        ("%W~*", False, False),
        ("%RW~*", True, True),
        ("~*", True, True),
    ]:
        someone = user(pattern, "+@all")
        for line in looks():
            assert is_refused(someone(*line)) != may_look, (pattern, line)
        for name in TAKES:
            reply = someone(*take(name, LIMIT + 1))
            assert is_refused(reply) != may_take, (pattern, name, reply)
            count("living", acl_checks=1)
    assert everything(server) == before


def test_scripts_are_checked(guarded):
    """A script may call what its user may call."""
    server, user = guarded
    someone = user("~rl:*", "+eval", "+rl.token")
    calls = [["RL.FIXED", "rl:b", 60, 10], ["RL.TOKEN", "other", 10, 1]]
    assert someone("EVAL", SCRIPT, 1, "rl:a", "RL.TOKEN", "rl:a", 10, 1)[0] == 1
    before = everything(server)
    for line in calls:
        assert isinstance(someone("EVAL", SCRIPT, 0, *line), Failure), line
    assert everything(server) == before


def test_categories(guarded, count):
    """Each command obeys the categories that the server lists it in, and no others.

    Where it is in none, it takes `+@all` or its name.
    """
    server, user = guarded
    lines = [*map(take, TAKES), QUOTAS["token"].peek("token"), ["RL.INSPECT", "token"]]
    with server.wire() as wire:
        fill(wire)
        every = {category.decode() for category in wire("ACL", "CAT")}
        listed = {
            line[0]: {flag.removeprefix("@") for flag in wire("COMMAND", "INFO", line[0])[0][6]}
            for line in lines
        }
    for line in lines:
        mine = listed[line[0]]
        assert mine <= every
        assert is_refused(user("~*", *(f"+@{name}" for name in every - mine))(*line)), line
        assert not is_refused(user("~*", "+@all")(*line)), line
        assert not is_refused(user("~*", "+@all", "-@admin", "-@dangerous")(*line)), line
        assert not is_refused(user("~*", f"+{line[0].lower()}")(*line)), line
        assert is_refused(user("~*", "+@all", f"-{line[0].lower()}")(*line)), line
        for name in mine:
            assert not is_refused(user("~*", f"+@{name}")(*line)), (line, name)
            assert is_refused(user("~*", "+@all", f"-@{name}")(*line)), (line, name)
        count("living", acl_checks=5 + 2 * len(mine))


def test_users_in_the_configuration_file(spawn):
    """A `user` line that names our commands works: modules are loaded before users."""
    server = spawn("user someone on nopass ~rl:* +rl.token")
    with server.wire() as wire:
        assert wire("AUTH", "someone", "x") == "OK"
        assert wire("RL.TOKEN", "rl:a", 10, 1)[0] == 1
        assert is_refused(wire("RL.TOKEN", "a", 10, 1))


# --- Scripts that promise not to write -----------------------------------------------------------


def test_scripts_that_do_not_write(spawn, count):
    """RL.PEEK and RL.INSPECT may be called there; what could take may not, even to be denied."""
    primary, replica = spawn(*PRIMARY), spawn()
    if primary.binary.version < (7, 0):
        pytest.skip("Redis 6.2 has no such scripts")
    library = f"""#!lua name=mine
        redis.register_function{{
            function_name = 'look', flags = {{'no-writes'}},
            callback = function(keys, ARGV) {SCRIPT} end}}
    """
    with primary.wire() as wire, replica.wire() as other:
        fill(wire)
        assert wire("FUNCTION", "LOAD", library) == b"mine"
        other("REPLICAOF", "127.0.0.1", primary.port)
        until(lambda: is_in_step(primary, replica), "the replica does not come up")
        before = everything(primary)
        moved = changes(primary)
        for each in (wire, other):
            ways = [
                ["EVAL", f"#!lua flags=no-writes\n{SCRIPT}", 0],
                ["EVAL_RO", SCRIPT, 0],
                ["FCALL", "look", 0],
                ["FCALL_RO", "look", 0],
            ]
            for way in ways:
                for line in looks():
                    reply = each(*way, *line)
                    assert isinstance(reply, list), (way, line, reply)
                    if line[0] == "RL.PEEK":
                        assert five_integers(reply)
                        assert reply[:3] == [1, LIMIT, 6]
                for name in TAKES:
                    for cost in (1, LIMIT + 1):
                        reply = each(*way, *take(name, cost))
                        assert isinstance(reply, Failure), (way, name, reply)
                        assert "Write commands are not allowed" in reply, reply
                count("living", calls_from_read_only_scripts=len(looks()) + 2 * len(TAKES))
        assert everything(primary) == before
        assert changes(primary) == moved
        assert differences(primary, [replica], 0) == {}
