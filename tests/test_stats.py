"""What is counted: by command, by key, in INFO, and told to those who listen."""

from itertools import takewhile

import pytest

from limiters import FIXED, LIMITERS, SLIDING, TOKEN, as_map
from refusals import assert_error
from servers import MODULE, REPOSITORY

NOW = 1_699_999_200_000
NAMES = {"rl.throttle", "rl.all", "rl.peek", *(each.command.lower() for each in LIMITERS)}
MOST = 256


@pytest.fixture(autouse=True)
def nothing_counted(wire):
    assert wire("RL.STATS", "RESET") == "OK"


def stats(wire) -> dict[str, list[int]]:
    """Allowed, denied and errors of each command that has any."""
    reply = as_map(wire("RL.STATS"))
    assert isinstance(reply.pop(b"since_ms"), int)
    told = {name.decode(): as_map(counts) for name, counts in reply.items()}
    assert set(told) == NAMES
    assert all(list(counts) == [b"allowed", b"denied", b"errors"] for counts in told.values())
    return {name: list(counts.values()) for name, counts in told.items() if any(counts.values())}


def section(wire, name: str) -> dict[str, str]:
    lines = wire("INFO", "rl").decode().splitlines()
    behind = lines[lines.index(f"# rl_{name}") + 1 :]
    return dict(line.split(":", 1) for line in takewhile(bool, behind))


def test_each_command_is_counted(wire, limiter):
    call = limiter.call("k", 2, at=NOW)
    replies = [wire(*call)[0] for _ in range(5)]
    assert replies == [1, 1, 0, 0, 0]
    wire("SET", "text", "x")
    wire(limiter.command, "text", *call[2:])
    wire(limiter.command, "k", "wrong", 2)
    assert stats(wire) == {limiter.command.lower(): [2, 3, 2]}


def test_a_look_is_counted_as_one(wire, limiter):
    assert wire(*limiter.peek("k", 1, at=NOW))[0] == 1
    assert wire(*limiter.peek("k", 0, at=NOW))[0] == 0
    assert stats(wire) == {"rl.peek": [1, 1, 0]}
    assert wire("RL.TOP") == []
    assert section(wire, "stats")["rl_total_allowed"] == "0"


def test_throttle_and_all(wire):
    for _ in range(3):
        wire("RL.THROTTLE", "t", 1, 1, 1000)
    wire("RL.THROTTLE", "t", 1, 1, 1000, 0)  # a look
    wire("RL.THROTTLE", "t", 1, 1, 0)
    clauses = [*FIXED.clause("a", 2), *TOKEN.clause("b", 5)]
    for _ in range(3):
        wire("RL.ALL", *clauses, "AT", NOW)
    wire("RL.ALL", *clauses, *FIXED.clause("a", 2))
    assert stats(wire) == {"rl.throttle": [2, 2, 1], "rl.all": [2, 1, 1]}
    assert wire("RL.TOP") == [[b"a", 1, 0, 0], [b"t", 1, 0, 0]]


def test_info_has_the_same(wire):
    for max_ in (1, 0, 0):
        wire(*SLIDING.call("k", max_, at=NOW))
    wire("RL.TOKEN", "k", 1, 1)
    assert section(wire, "commandstats") == {
        f"rl_{name.removeprefix('rl.')}": "allowed=0,denied=0,errors=0" for name in NAMES
    } | {
        "rl_sliding": "allowed=1,denied=2,errors=0",
        "rl_token": "allowed=0,denied=0,errors=1",
    }
    totals = section(wire, "stats")
    since = as_map(wire("RL.STATS"))[b"since_ms"]
    assert totals == {
        "rl_since_ms": str(since),
        "rl_total_allowed": "1",
        "rl_total_denied": "2",
        "rl_total_errors": "1",
    }
    assert b"# rl_stats" in wire("INFO", "modules" if wire("INFO", "modules") else "everything")
    assert b"rl_total_allowed" not in wire("INFO")  # as for any module, only where it is asked for


def test_reset_begins_anew(wire):
    wire(*SLIDING.call("k", 1, at=NOW))
    before = as_map(wire("RL.STATS"))[b"since_ms"]
    seconds, micros = map(int, wire("TIME"))
    deny(wire, "k")
    assert wire("rl.stats", "reset") == "OK"
    assert stats(wire) == {}
    assert wire("RL.TOP") == []
    since = as_map(wire("RL.STATS"))[b"since_ms"]
    assert before <= since
    assert seconds * 1000 + micros // 1000 <= since
    assert wire(*SLIDING.peek("k", 1, at=NOW))[0] == 0  # limits are no statistics


def test_stats_as_a_map(server):
    if server.binary.version < (7, 0):
        pytest.skip("this server has no maps for modules")
    with server.client(protocol=3) as client:
        reply = client.execute_command("RL.STATS")
    assert set(reply) == {b"since_ms", *(name.encode() for name in NAMES)}
    assert reply[b"rl.fixed"] == {b"allowed": 0, b"denied": 0, b"errors": 0}


def test_what_is_wrong(wire):
    for line in ("RL.STATS RESET RESET", "RL.STATS x", "RL.STATS 1"):
        assert_error(wire(*line.split()), "RESET")
    for n in ("0", "257", "-1", "1.5", "9999999999999999999999"):
        assert_error(wire("RL.TOP", n), "n", "1 to 256")
    for line in ("RL.TOP x", "RL.TOP RESET 3", "RL.TOP 3 RESET RESET", "RL.TOP 3 3"):
        assert_error(wire(*line.split()), "RESET")


def deny(wire, key, times=1) -> None:
    wire.pipeline([FIXED.call(key, 0, at=NOW)] * times)


def test_top_lists_who_is_denied_most(wire):
    for key, times in (("ann", 3), ("bob", 7), ("carl", 1)):
        deny(wire, key, times)
    wire(*FIXED.call("dora", 1, at=NOW))  # allowed
    listed = [[b"bob", 7, 0, 0], [b"ann", 3, 0, 0], [b"carl", 1, 0, 0]]
    assert wire("RL.TOP") == listed
    assert wire("RL.TOP", 2) == listed[:2]
    assert wire("RL.TOP", 1, "RESET") == listed[:1]
    assert wire("RL.TOP", MOST) == []


def test_top_tells_the_database(wire):
    deny(wire, "k")
    wire("SELECT", 7)
    deny(wire, "k", 2)
    wire("SELECT", 0)
    assert wire("RL.TOP") == [[b"k", 2, 0, 7], [b"k", 1, 0, 0]]


def test_top_is_of_fixed_size_and_states_its_error(wire):
    """More keys than places: the heavy ones stay, and each count is right within its error."""
    truth = {}
    for i in range(3_000):
        key = f"heavy:{i % 5}" if i % 2 else f"light:{i}"
        truth[key.encode()] = truth.get(key.encode(), 0) + 1
        deny(wire, key)
    entries = wire("RL.TOP", MOST)
    assert len(entries) == MOST
    for key, count, error, database in entries:
        assert count - error <= truth[key] <= count
        assert database == 0
    assert {key for key, *_ in entries[:5]} == {f"heavy:{i}".encode() for i in range(5)}
    assert len(wire("RL.TOP")) == 10


def test_long_names_and_any_bytes(wire):
    names = [b"", b"\x00\xff\r\n", b"x" * 256, b"y" * 257, b"z" * 100_000]
    for name in names:
        deny(wire, name)
    assert {key for key, *_ in wire("RL.TOP")} == {name[:256] for name in names}


@pytest.mark.parametrize("storage", ["compact", "sorted-set"])
def test_denials_are_told_to_those_who_listen(spawn, storage):
    server = spawn("notify-keyspace-events KEd", arguments=f"sliding-storage {storage}")
    with server.wire() as wire, server.client() as client:
        listener = client.pubsub()
        listener.psubscribe("__key*@0__:*")
        assert listener.get_message(timeout=60)["type"] == "psubscribe"
        for limiter in LIMITERS:
            wire(*limiter.call(limiter.word, 1, at=NOW))
            wire(*limiter.call(limiter.word, 1, at=NOW))
            wire(*limiter.peek(limiter.word, 1, at=NOW))
        wire("RL.THROTTLE", "t", 0, 1, 1000)
        wire("RL.THROTTLE", "t", 0, 1, 1000)
        wire("RL.ALL", *FIXED.clause("free", 5), *FIXED.clause("fixed", 0), *TOKEN.clause("b", 0))
        denied = [*(limiter.word for limiter in LIMITERS), "t", "fixed", "b"]
        for key in denied:
            for channel, data in (
                (f"__keyspace@0__:{key}", "rl.denied"),
                ("__keyevent@0__:rl.denied", key),
            ):
                message = listener.get_message(timeout=60)
                assert (message["channel"], message["data"]) == (channel.encode(), data.encode())
        listener.close()


def test_on_a_replica(spawn):
    """Its own looks are counted there, what its primary sends is not."""
    primary, replica = spawn(), spawn()
    with primary.wire() as p, replica.wire() as q:
        q("REPLICAOF", "127.0.0.1", primary.port)
        for _ in range(3):
            p(*FIXED.call("k", 1, at=NOW))
        assert p("WAIT", 1, 60_000) == 1
        assert q(*FIXED.peek("k", 1, at=NOW))[0] == 0
        assert stats(q) == {"rl.peek": [0, 1, 0]}
        assert q("RL.TOP") == []
        assert stats(p) == {"rl.fixed": [1, 2, 0]}


def test_a_new_load_begins_at_zero(spawn):
    server = spawn()
    with server.wire() as wire:
        deny(wire, "k", 3)
        assert stats(wire) == {"rl.fixed": [0, 3, 0]}
    with server.wire() as wire:
        assert wire("MODULE", "UNLOAD", "rl") == "OK"
    with server.wire() as wire:
        assert b"rl_" not in wire("INFO", "everything")
    with server.wire() as wire:
        assert wire("MODULE", "LOAD", str(MODULE)) == "OK"
        assert stats(wire) == {}
        assert wire("RL.TOP") == []


def test_the_script_for_an_exporter(wire):
    """Names and numbers in turn, all of them text."""
    for max_ in (1, 1, 0):
        wire(*SLIDING.call("k", max_, at=NOW))
    flat = wire("EVAL", (REPOSITORY / "tools" / "exporter.lua").read_text(), 0)
    metrics = dict(zip(flat[::2], map(int, flat[1::2]), strict=True))
    assert metrics.pop(b"since_ms") == as_map(wire("RL.STATS"))[b"since_ms"]
    assert len(metrics) == 3 * len(NAMES)
    counted = {name.decode(): count for name, count in metrics.items() if count}
    assert counted == {"rl_sliding_allowed": 1, "rl_sliding_denied": 2}


def test_in_scripts_and_transactions(wire):
    replies = wire.transaction([FIXED.call("k", 1, at=NOW)] * 2 + [["RL.TOP"]])
    assert replies[-1] == [[b"k", 1, 0, 0]]
    script = "return redis.call('RL.STATS')"
    assert as_map(wire("EVAL", script, 0))[b"rl.fixed"] == [
        b"allowed",
        1,
        b"denied",
        1,
        b"errors",
        0,
    ]
