"""What the server tells about our commands, and the module's own comings and goings."""

from dataclasses import dataclass

import pytest
import redis

import servers
from limiters import LIMITERS, SLIDING, as_map, registered
from wire import Failure

NOW = 1_699_999_200_000
TAKES = {"write", "denyoom", "fast"}
LOOKS = {"readonly", "fast"}
WATCHES = {"readonly", "loading", "stale"}
ALL_FLAGS = TAKES | LOOKS | {"admin", "noscript", "blocking", "movablekeys", "random", "loading"}
ALL_FLAGS |= {"stale", "no_auth", "pubsub", "sort_for_script", "skip_monitor", "may_replicate"}


@dataclass(frozen=True)
class Command:
    """What the server says of a command; `key` is its place: 0 where only the command knows,
    None where there is no key."""

    arity: int
    flags: set
    key: int | None
    sample: list


COMMANDS = {
    **{each.command: Command(-4, TAKES, 1, each.call("the key", 10)) for each in LIMITERS},
    "RL.THROTTLE": Command(-5, TAKES, 1, ["RL.THROTTLE", "the key", 15, 30, 60]),
    "RL.ALL": Command(-5, TAKES | {"movablekeys"}, 0, ["RL.ALL", *SLIDING.clause("the key", 10)]),
    "RL.PEEK": Command(-5, LOOKS, 2, SLIDING.peek("the key", 10)),
    "RL.INSPECT": Command(2, LOOKS, 1, ["RL.INSPECT", "the key"]),
    "RL.STATS": Command(-1, WATCHES, None, ["RL.STATS"]),
    "RL.TOP": Command(-1, WATCHES, None, ["RL.TOP"]),
}


WITH_KEYS = [name for name, command in COMMANDS.items() if command.key is not None]


def info(wire, command) -> list:
    """COMMAND INFO: name, arity, flags, first key, last key, step, and more on newer servers."""
    return wire("COMMAND", "INFO", command)[0]


def counts_arguments(wire) -> bool:
    """Servers from 7.0 on take an arity from a module, and documentation too."""
    return not isinstance(wire("COMMAND", "DOCS", "GET"), Failure)


def documentation(wire, command) -> dict:
    reply = wire("COMMAND", "DOCS", command)
    if isinstance(reply, Failure):
        pytest.skip("this server has no COMMAND DOCS")
    return as_map(reply[1])


@pytest.mark.parametrize("name", COMMANDS)
def test_flags_and_key_position(wire, name):
    right = COMMANDS[name]
    told, _, flags, first, last, step, *_ = info(wire, name)
    assert told.decode().upper() == name
    assert set(flags) & ALL_FLAGS == right.flags
    assert (first, last, step) == ((right.key, right.key, 1) if right.key else (0, 0, 0))


@pytest.mark.parametrize("name", COMMANDS)
def test_arity(wire, name):
    """6.2 cannot be told, so there the module counts."""
    assert info(wire, name)[1] == (COMMANDS[name].arity if counts_arguments(wire) else -1)


def test_the_module_has_no_other_commands(server, spawn):
    with server.wire() as ours, spawn(module=False).wire() as bare:
        assert ours("COMMAND", "COUNT") - bare("COMMAND", "COUNT") == len(COMMANDS)


@pytest.mark.parametrize("name", WITH_KEYS)
def test_getkeys(wire, name):
    assert wire("COMMAND", "GETKEYS", *COMMANDS[name].sample) == [b"the key"]


@pytest.mark.parametrize("name", WITH_KEYS)
def test_what_is_done_with_the_key(wire, name):
    """ACL goes by it: a command that looks needs the right to read, one that takes both rights."""
    if not counts_arguments(wire):
        pytest.skip("this server has no key permissions")
    ((key, flags),) = wire("COMMAND", "GETKEYSANDFLAGS", *COMMANDS[name].sample)
    assert key == b"the key"
    looks = COMMANDS[name].flags == LOOKS
    assert set(flags) == ({"RO", "access"} if looks else {"RW", "access", "update"})


def test_getkeys_of_several_tiers(wire):
    line = ["RL.SLIDING", "the key", 1, 10, 60, 100, 3600, 1000, "COST", 2]
    assert wire("COMMAND", "GETKEYS", *line) == [b"the key"]


@pytest.mark.parametrize("name", COMMANDS)
def test_docs(wire, name):
    docs = documentation(wire, name)
    assert len(docs[b"summary"]) > 20
    assert docs[b"since"]
    assert docs[b"group"] == b"module"
    assert docs[b"complexity"]


def flatten(arguments) -> list[dict]:
    found = []
    for argument in map(as_map, arguments):
        found.append(argument)
        found += flatten(argument.get(b"arguments", []))
    return found


@pytest.mark.parametrize(
    ("command", "names", "options"),
    [
        ("RL.FIXED", ["key", "window", "max"], {"COST", "OFFSET", "AT"}),
        ("RL.SLIDING", ["key", "window", "max"], {"COST", "AT"}),
        ("RL.COUNTER", ["key", "window", "max"], {"BUCKETS", "COST", "AT"}),
        ("RL.TOKEN", ["key", "capacity", "rate"], {"COST", "AT"}),
        ("RL.LEAKY", ["key", "capacity", "rate"], {"COST", "AT"}),
        ("RL.ALL", ["clause", "algorithm", "key"], {"AT"}),
        ("RL.PEEK", ["algorithm", "key"], set()),
        ("RL.INSPECT", ["key"], set()),
        ("RL.THROTTLE", ["key", "max_burst", "count", "period", "quantity"], set()),
        ("RL.STATS", [], {"RESET"}),
        ("RL.TOP", ["n"], {"RESET"}),
    ],
)
def test_documented_arguments(wire, command, names, options):
    arguments = flatten(documentation(wire, command)[b"arguments"])
    in_order = [argument[b"name"].decode() for argument in arguments]
    assert [name for name in in_order if name in names] == names
    tokens = {argument[b"token"].decode() for argument in arguments if b"token" in argument}
    words = {"FIXED", "SLIDING", "COUNTER", "TOKEN", "LEAKY"} if "algorithm" in names else set()
    assert tokens == options | words
    optional = [argument for argument in arguments if "optional" in argument.get(b"flags", [])]
    named = {argument.get(b"token", argument[b"name"]).decode() for argument in optional}
    assert named == options | ({"quantity", "n"} & set(names))


def modules(wire) -> set[str]:
    return {as_map(entry)[b"name"].decode() for entry in wire("MODULE", "LIST")}


def our_name(server, spawn) -> str:
    """The module's name: what this server lists and one without the module does not."""
    with server.wire() as ours, spawn(module=False).wire() as bare:
        (name,) = modules(ours) - modules(bare)
        return name


def test_loading_twice_is_refused(spawn):
    server = spawn()
    with server.client() as client:
        with pytest.raises(redis.ResponseError):
            client.execute_command("MODULE", "LOAD", str(servers.MODULE))
        assert client.execute_command(*LIMITERS[0].call("k", 2, at=NOW))[:3] == [1, 2, 1]


def test_unload_and_load_again(spawn):
    """Ten times, the keys living on as plain strings and deciding on when the module is back.

    Each step has a connection of its own: all four servers keep a pointer to the last command of a
    connection, and follow it after UNLOAD (redis issues 4826 and 10177).
    """
    server = spawn()
    name = our_name(server, spawn)
    limit = 12
    for taken in range(1, 11):
        with server.wire() as wire:
            for limiter in LIMITERS:
                reply = wire(*limiter.call(limiter.word, limit, seconds=600, at=NOW))
                assert reply[:3] == [1, limit, limit - taken]
            values = [wire("GET", limiter.word) for limiter in LIMITERS]
        with server.wire() as wire:
            assert wire("MODULE", "UNLOAD", name) == "OK"
        with server.wire() as wire:
            assert not any(registered(wire, name) for name in COMMANDS)
            assert [wire("GET", limiter.word) for limiter in LIMITERS] == values
        with server.wire() as wire:
            assert wire("MODULE", "LOAD", str(servers.MODULE)) == "OK"


def test_hot_swap_in_one_transaction(spawn):
    """The upgrade without a gap: in one EXEC all others are cut off, the old module goes, the new
    one comes."""
    server = spawn()
    name = our_name(server, spawn)
    with server.wire() as wire:
        wire("RL.SLIDING", "k", 60, 2, "AT", NOW)
    with server.wire() as wire:
        replies = wire.transaction(
            [
                ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"],
                ["MODULE", "UNLOAD", name],
                ["MODULE", "LOAD", str(servers.MODULE)],
            ]
        )
        assert replies[1:] == ["OK", "OK"]
    with server.wire() as wire:
        assert wire("RL.SLIDING", "k", 60, 2, "AT", NOW) == [1, 2, 0, 0, 60_000]
