"""Moving over: from a Lua script, live, key by key; between storages; and the module's settings."""

import random
import threading
import time

import pytest

import servers
from limiters import SLIDING, held
from refusals import assert_error, assert_wrong_type
from wire import Failure

NOW = 1_699_999_200_000
THREADS = 20

# The classic sliding window of so many services: KEYS[1], milliseconds, maximum, unique member.
SCRIPT = """
    local clock = redis.call('TIME')
    local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
    local window, max = tonumber(ARGV[1]), tonumber(ARGV[2])
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
    if redis.call('ZCARD', KEYS[1]) >= max then
        return 0
    end
    redis.call('ZADD', KEYS[1], now, ARGV[3])
    redis.call('EXPIRE', KEYS[1], math.ceil(window / 1000))
    return 1
"""


def by_script(wire, window, limit, member) -> int:
    """One request through the script: how much was admitted."""
    return wire("EVAL", SCRIPT, 1, "k", window, limit, member)


def by_command(wire, window, limit, cost=1) -> int:
    """The same through RL.SLIDING."""
    return cost * wire("RL.SLIDING", "k", f"{window}ms", limit, "COST", cost)[0]


def together(server, ask) -> list:
    """`ask(wire, thread)` in twenty threads that start at once; all that they return."""
    answers, failures, start = [], [], threading.Barrier(THREADS)

    def run(thread):
        try:
            with server.wire() as wire:
                start.wait(60)
                answers.append(ask(wire, thread))
        except Exception as failure:  # reported by the main thread, which must see it
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    return answers


@pytest.mark.parametrize("first", ["script", "command"])
def test_script_and_command_admit_the_maximum_together(server, wire, first):
    """One service has moved over, the other has not: exactly max pass, whoever asks."""
    window, limit = 3_600_000, 500
    if first == "script":
        assert by_script(wire, window, limit, "the first") == 1
    else:  # with compact storage, a new key would be a string, which the script cannot read
        wire("ZADD", "k", int(time.time() * 1000), "the first")
        wire("EXPIRE", "k", 3600)
        assert by_command(wire, window, limit) == 1

    def ask(wire, thread):
        script = sum(by_script(wire, window, limit, f"{thread}:{i}") for i in range(25))
        command = 0
        for i in range(25):
            command += by_command(wire, window, limit)
            script += by_script(wire, window, limit, f"{thread}+{i}")
        return script, command

    before = wire("ZCARD", "k")
    script, command = map(sum, zip(*together(server, ask), strict=True))
    assert min(script, command) > 0
    assert before + script + command == limit == wire("ZCARD", "k")
    assert by_script(wire, window, limit, "late") == by_command(wire, window, limit) == 0


def added(server) -> list[int]:
    """The score of every member that was ever added, from the append-only file."""
    scores = []
    for path in sorted(server.directory.rglob("*.aof")):
        words = iter(path.read_bytes().split(b"\r\n"))
        for head in words:  # *3, $4, ZADD, $1, k, ...; no value here holds a line break
            if not head.startswith(b"*"):
                continue
            command = [next(words) for _ in range(2 * int(head[1:]))][1::2]
            if command[0].upper() == b"ZADD":
                scores += map(int, command[2::2])
    return sorted(scores)


def test_never_more_than_the_maximum_in_any_window(spawn):
    """Seconds of both at once, costs among them. All that was admitted is in the file."""
    server, window, limit = spawn("appendonly yes"), 700, 60
    with server.wire() as wire:
        assert by_script(wire, window, limit, "the first") == 1
    end = time.monotonic() + 2.5

    def ask(wire, thread):
        dice, script, command = random.Random(thread), 0, 0
        while time.monotonic() < end:
            if dice.random() < 0.5:
                script += by_script(wire, window, limit, f"{thread}:{dice.random()}")
            else:
                command += by_command(wire, window, limit, dice.choice([1, 1, 2, 5]))
            time.sleep(0.01)  # room for the others
        return script, command

    script, command = map(sum, zip(*together(server, ask), strict=True))
    server.stop()
    scores = added(server)
    assert len(scores) == 1 + script + command
    assert min(script, command) > limit // 4
    for i, score in enumerate(scores):
        assert sum(score <= other < score + window for other in scores[i : i + limit + 1]) <= limit
    assert len(scores) > 2 * limit  # several windows long, and full


def test_a_script_with_a_longer_window_keeps_what_it_needs(r, wire):
    """The key expires later than the call needs, so somebody counts further back."""
    now = int(time.time() * 1000)
    for age in (50_000, 40_000, 2_000):
        wire("ZADD", "k", now - age, age)
    wire("EXPIRE", "k", 60)
    assert wire("RL.SLIDING", "k", 1, 10) == [1, 10, 9, 0, 1_000]
    assert wire("ZCARD", "k") == 4
    assert 55_000 < wire("PTTL", "k") <= 90_000
    assert by_script(wire, 60_000, 4, "x") == 0
    assert by_script(wire, 60_000, 5, "x") == 1


def test_what_the_script_left_is_taken_over(wire):
    """Each of its requests counts until its own window ends, then the key is ours alone."""
    for i, member in enumerate(("4f2a", "91bc", "0000")):
        wire("ZADD", "k", NOW + 10_000 * i, member)
    wire("EXPIRE", "k", 60)
    later = NOW + 25_000
    assert wire("RL.SLIDING", "k", 60, 4, "AT", later) == [1, 4, 0, 0, 60_000]
    assert wire("RL.SLIDING", "k", 60, 4, "AT", later) == [0, 4, 0, 35_000, 60_000]
    for i in range(3):
        at = NOW + 60_000 + 10_000 * i
        assert wire("RL.SLIDING", "k", 60, 4, "AT", at - 1)[:4] == [0, 4, 0, 1]
        assert wire("RL.SLIDING", "k", 60, 4, "AT", at)[:3] == [1, 4, 0]
    assert len(wire("ZRANGE", "k", 0, -1)) == 4
    assert all(len(member) == 26 for member in wire("ZRANGE", "k", 0, -1))


def without_expiry(wire, change):
    if change == "PERSIST":
        wire("PERSIST", "k")
    else:
        wire("RESTORE", "k", 0, wire("DUMP", "k"), "REPLACE")


@pytest.mark.parametrize("change", ["PERSIST", "RESTORE without TTL"])
def test_what_only_a_script_wrote_needs_its_expiry(r, wire, change):
    """Times near now in a set that does not expire may be a queue: it is refused, not trimmed."""
    wire("ZADD", "k", NOW, "4f2a", NOW + 10, "91bc")
    wire("EXPIRE", "k", 60)
    look = SLIDING.peek("k", 3, cost=2, at=NOW + 1_000)
    assert wire(*look) == [0, 3, 1, 59_000, 59_010]
    without_expiry(wire, change)
    before = held(r, "k")
    for line in (look, SLIDING.call("k", 3, at=NOW + 1_000), SLIDING.call("k", 3, at=NOW + 10**7)):
        assert_wrong_type(wire(*line), "sorted set")
    assert held(r, "k") == before


@pytest.mark.parametrize("change", ["PERSIST", "RESTORE without TTL"])
def test_what_we_wrote_too_decides_without_its_expiry(wire, change):
    """Decisions come from the value alone, never from the TTL: SPEC.md."""
    wire("ZADD", "k", NOW, "4f2a")
    wire("EXPIRE", "k", 60)
    assert wire(*SLIDING.call("k", 3, at=NOW + 10)) == [1, 3, 1, 0, 60_000]
    look = SLIDING.peek("k", 3, cost=2, at=NOW + 1_000)
    before = wire(*look)
    assert before == [0, 3, 1, 59_000, 59_010]
    without_expiry(wire, change)
    assert wire(*look) == before
    assert wire(*SLIDING.call("k", 3, at=NOW + 1_000)) == [1, 3, 0, 0, 60_000]
    assert 60_000 - 1_000 <= wire("PTTL", "k") <= 90_000


def storing(server, wire, value):
    """Switches a running server, where it can be switched."""
    if server.binary.version < (7, 0):
        pytest.skip("this server has no configuration for modules")
    assert wire("CONFIG", "SET", "rl.sliding-storage", value) == "OK"
    assert wire("CONFIG", "GET", "rl.sliding-storage")[1] == value.encode()


@pytest.fixture
def switched(spawn):
    """A server of its own, so that the setting ends with the test."""
    server = spawn()
    with server.wire() as wire:
        yield server, wire


def test_the_setting_decides_for_new_keys_only(switched):
    """Whoever exists goes on as it is, and both answer alike."""
    server, wire = switched
    assert wire(*SLIDING.call("compact", 4, at=NOW)) == [1, 4, 3, 0, 60_000]
    storing(server, wire, "sorted-set")
    assert wire(*SLIDING.call("sorted", 4, at=NOW)) == [1, 4, 3, 0, 60_000]
    for value in ("compact", "sorted-set"):
        storing(server, wire, value)
        for key, kind in (("compact", "string"), ("sorted", "zset")):
            assert wire(*SLIDING.call(key, 9, at=NOW + 1))[0] == 1
            assert wire("TYPE", key) == kind
    assert wire(*SLIDING.peek("compact", 9, at=NOW)) == wire(*SLIDING.peek("sorted", 9, at=NOW))
    wire("DEL", "compact")
    assert wire(*SLIDING.call("compact", 4, at=NOW))[0] == 1
    assert wire("TYPE", "compact") == "zset"


def test_both_storages_answer_alike(switched):
    """The same random calls on two keys, the setting switched in between."""
    server, wire = switched
    dice, now = random.Random(12), NOW
    for _ in range(600):
        now += dice.choices([0, 1, 700, 61_000, -500, -90_000], [9, 9, 9, 1, 3, 1])[0]
        tiers = dice.choice([[10, 8], [1, 3, 10, 8], [10, 8, 2, 2, 10, 7]])
        replies = []
        for key, value in (("c", "compact"), ("s", "sorted-set")):
            storing(server, wire, value)
            cost = 1 + now % 3
            replies.append(wire("RL.SLIDING", key, *tiers, "COST", cost, "AT", now))
        assert replies[0] == replies[1]
    assert (wire("TYPE", "c"), wire("TYPE", "s")) == ("string", "zset")


@pytest.mark.parametrize("wrong", ["", "zset", "sorted_set", "compact ", "0", "1"])
def test_a_wrong_setting_is_refused(switched, wrong):
    server, wire = switched
    storing(server, wire, "sorted-set")
    refused = wire("CONFIG", "SET", "rl.sliding-storage", wrong)
    assert_error(refused, "compact", "sorted-set")
    assert wire("CONFIG", "GET", "rl.sliding-storage")[1] == b"sorted-set"


def test_compact_is_the_default(wire, server):
    assert wire(*SLIDING.call("k", 4, at=NOW))[0] == 1
    assert wire("TYPE", "k") == "string"
    if server.binary.version >= (7, 0):
        assert wire("CONFIG", "GET", "rl.*") == [b"rl.sliding-storage", b"compact"]


def test_the_configuration_file_has_the_last_word(spawn, binary):
    """`rl.sliding-storage` in it stands above the module argument, and CONFIG REWRITE keeps it."""
    if binary.version < (7, 0):
        pytest.skip("this server has no configuration for modules")
    server = spawn("rl.sliding-storage sorted-set", arguments="sliding-storage compact")
    with server.wire() as wire:
        wire(*SLIDING.call("k", 4))
        assert wire("TYPE", "k") == "zset"
        assert wire("CONFIG", "REWRITE") == "OK"
    assert "rl.sliding-storage sorted-set" in (server.directory / "server.conf").read_text()


@pytest.mark.parametrize(
    "arguments",
    ["SLIDING-STORAGE Sorted-Set", "cl-throttle no sliding-storage sorted-set cl-throttle yes"],
)
def test_module_arguments(spawn, arguments):
    """In any case and any order; of one that is given twice the last counts."""
    with spawn(arguments=arguments).wire() as wire:
        wire(*SLIDING.call("k", 4))
        assert wire("TYPE", "k") == "zset"


WRONG = ["sliding-storage", "sliding-storage zset", "storage compact", "compact", "cl-throttle on"]
WRONG += ["sliding-storage compact cl-throttle", "cl-throttle yes cl-throttle maybe", "yes no"]


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_module_arguments(spawn, arguments):
    """Not loaded, nothing left behind, and the log says what would be right."""
    server = spawn(module=False)
    with server.wire() as wire:
        refused = wire("MODULE", "LOAD", str(servers.MODULE), *arguments.split())
        assert isinstance(refused, Failure)
        assert isinstance(wire("RL.FIXED", "k", 60, 5), Failure)
        assert wire("MODULE", "LOAD", str(servers.MODULE)) == "OK"
        assert wire("RL.FIXED", "k", 60, 5)[:3] == [1, 5, 4]
    (line,) = [line for line in server.log_text().splitlines() if "redis-rl" in line]
    assert "sliding-storage compact|sorted-set" in line
    assert "cl-throttle yes|no" in line


def test_a_server_does_not_start_with_wrong_arguments(spawn):
    with pytest.raises(RuntimeError, match=r"sliding-storage compact\|sorted-set"):
        spawn(arguments="sliding-storage list")


@pytest.mark.parametrize("command", ["SET", "SETRANGE", "PEXPIREAT", "ZADD", "ZREMRANGEBYSCORE"])
def test_not_loaded_where_a_needed_command_is_renamed(spawn, command):
    server = spawn(f'rename-command {command} ""', module=False)
    with server.wire() as wire:
        assert isinstance(wire("MODULE", "LOAD", str(servers.MODULE)), Failure)
        assert isinstance(wire("RL.FIXED", "k", 60, 5), Failure)
    (line,) = [line for line in server.log_text().splitlines() if "redis-rl" in line]
    assert f'"{command}"' in line


ULIDS = ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW")


@pytest.mark.parametrize("scores", [(4200, 5000), (NOW - 100_000, NOW - 90_000)])
def test_other_peoples_ulids_are_no_log(r, wire, scores):
    """A queue or a ranking may have ULIDs for members, too."""
    wire("ZADD", "k", scores[0], ULIDS[0], scores[1], ULIDS[1])
    before = held(r, "k")
    assert_wrong_type(wire(*SLIDING.call("k", 100, at=NOW)), "sorted set")
    assert held(r, "k") == before


@pytest.mark.parametrize("ours_first", [False, True])
def test_a_scripts_longer_window_is_kept_whoever_came_last(wire, ours_first):
    """The script's expiry tells what it needs, also where the log begins or ends with ours."""
    now = int(time.time() * 1000)
    wire("ZADD", "k", now - 3_000_000, "old")
    wire("EXPIRE", "k", 3600)
    if ours_first:
        assert wire("RL.SLIDING", "k", 1, 100)[0] == 1
    wire("ZADD", "k", int(time.time() * 1000) + 1, "new")
    wire("EXPIRE", "k", 3600)
    assert wire("RL.SLIDING", "k", 1, 100)[0] == 1
    assert b"old" in wire("ZRANGE", "k", 0, -1)
    assert wire("PTTL", "k") > 3_500_000


def test_a_horizon_outlives_the_last_time_of_a_ulid(server, wire):
    storing(server, wire, "sorted-set")
    try:
        last = 2**48 - 1
        assert wire("RL.SLIDING", "w", 10, 100, "AT", last)[0] == 1
        for i in (1, 2):
            assert wire("RL.SLIDING", "w", 3600, 4, "AT", last + i)[0] == 1
        assert wire("RL.SLIDING", "w", 10, 100, "AT", last + 20_000)[0] == 1
        assert wire("RL.SLIDING", "w", 3600, 4, "AT", last + 20_001)[:3] == [0, 4, 0]
    finally:
        storing(server, wire, "compact")


def test_a_refusal_of_the_server_is_no_admission(spawn):
    """In a slot that is on its way elsewhere the server may refuse what a call has to write."""
    first, second = (spawn("cluster-enabled yes", module=True) for _ in range(2))
    with first.wire() as wire, second.wire() as other:
        for slots in range(0, 16_384, 4_096):
            wire("CLUSTER", "ADDSLOTS", *range(slots, slots + 4_096))
        wire("CLUSTER", "MEET", "127.0.0.1", second.port)
        peer = other("CLUSTER", "MYID")
        deadline = time.monotonic() + 60
        while peer not in wire("CLUSTER", "NODES") or b"cluster_state:ok" not in wire(
            "CLUSTER", "INFO"
        ):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        if isinstance(wire("CONFIG", "SET", "rl.sliding-storage", "sorted-set"), Failure):
            pytest.skip("this server has no configuration for modules")
        assert wire("RL.SLIDING", "k", 60, 1)[0] == 1
        slot = wire("CLUSTER", "KEYSLOT", "k")
        assert wire("CLUSTER", "SETSLOT", slot, "MIGRATING", peer) == "OK"
        line = ["RL.SLIDING", "k", 60, 1]
        replies = wire.transaction([["DEL", "k"], line, line, line, ["EXISTS", "k"]])
        admitted = [reply for reply in replies[1:4] if isinstance(reply, list) and reply[0]]
        assert len(admitted) <= replies[4], replies
