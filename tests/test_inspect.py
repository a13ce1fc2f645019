"""RL.INSPECT: what a key holds, in words; it changes nothing."""

import time

import pytest

from limiters import COUNTER, FIXED, LEAKY, LIMITERS, SLIDING, TOKEN, as_map, changes, held
from refusals import assert_wrong_type
from replicas import Pair
from test_state import FOREIGN
from wire import Failure

NOW = 1_699_999_200_000  # begins a minute
EVERYWHERE = {"algorithm", "bytes", "ttl_ms"}


def inspect(wire, key="k") -> dict:
    """The fields by name, texts as text."""
    reply = wire("RL.INSPECT", key)
    fields = reply if isinstance(reply, dict) else as_map(reply)
    return {
        name.decode(): value.decode() if isinstance(value, bytes) else value
        for name, value in fields.items()
    }


def stored(wire, key="k") -> dict:
    """The same without what differs from server to server."""
    return {name: value for name, value in inspect(wire, key).items() if name not in EVERYWHERE}


STATES = {
    "fixed": [
        ("RL.FIXED k 60 100 COST 3 AT 1699999205000", {
            "count": 3, "window_ms": 60_000, "window_start_ms": NOW}),
        ("RL.FIXED k 60 100 AT 1699999259999", {
            "count": 4, "window_ms": 60_000, "window_start_ms": NOW}),
        ("RL.FIXED k 1d 100 OFFSET 8h AT 1700049600000", {
            "count": 5, "window_ms": 86_400_000, "window_start_ms": 1_699_977_600_000}),
    ],
    "counter": [
        ("RL.COUNTER k 60 100 BUCKETS 4 COST 3 AT 1699999205000", {
            "buckets": 4, "sub_window_ms": 15_000, "latest_start_ms": NOW,
            "counts": [3, 0, 0, 0, 0]}),
        ("RL.COUNTER k 60 100 BUCKETS 4 COST 2 AT 1699999235000", {
            "buckets": 4, "sub_window_ms": 15_000, "latest_start_ms": NOW + 30_000,
            "counts": [2, 0, 3, 0, 0]}),
        ("RL.COUNTER k 60 100 BUCKETS 4 AT 1699999275000", {
            "buckets": 4, "sub_window_ms": 15_000, "latest_start_ms": NOW + 75_000,
            "counts": [1, 0, 0, 2, 0]}),
        ("RL.COUNTER k 1ms 100 BUCKETS 1 AT 1699999300000", {
            "buckets": 1, "sub_window_ms": 1, "latest_start_ms": NOW + 100_000,
            "counts": [3, 0]}),
    ],
    "token": [
        ("RL.TOKEN k 10 3 COST 4 AT 1699999200000", {"used": "4", "last_us": NOW * 1000}),
        ("RL.TOKEN k 10 3 AT 1699999200500", {"used": "3.5", "last_us": (NOW + 500) * 1000}),
        ("RL.TOKEN k 10 1/3 AT 1699999201500", {
            "used": "4.166666", "last_us": (NOW + 1500) * 1000}),
        ("RL.TOKEN k 9007199254740991 1 COST 9007199254740986 AT 1699999201500", {
            "used": "9007199254740990.166666", "last_us": (NOW + 1500) * 1000}),
    ],
    "leaky": [
        ("RL.LEAKY k 10 3 COST 4 AT 1699999200000", {"level": "4", "last_us": NOW * 1000}),
        ("RL.LEAKY k 10 3 AT 1699999200500", {"level": "3.5", "last_us": (NOW + 500) * 1000}),
        ("RL.LEAKY k 10 1000000 AT 1699999200501", {
            "level": "1", "last_us": (NOW + 501) * 1000}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("word", STATES)
def test_stored_fields(wire, word):
    for line, fields in STATES[word]:
        assert wire(*line.split())[0] == 1
        assert inspect(wire)["algorithm"] == word
        assert stored(wire) == fields


def test_sliding_fields(wire):
    wire("RL.SLIDING", "k", 60, 100, "COST", 3, "AT", NOW)
    wire("RL.SLIDING", "k", 60, 100, 10, 50, "AT", NOW + 5)
    fields = inspect(wire)
    assert fields["algorithm"] == "sliding"
    slots, overhead = fields["slots"], wire("STRLEN", "k") - 8 * fields["slots"]
    assert stored(wire) == {
        "storage": "compact", "cost": 4, "oldest_ms": NOW, "newest_ms": NOW + 5,
        "horizon_ms": 60_000, "slots": slots,
    }  # fmt: skip
    for i in range(100):
        wire("RL.SLIDING", "k", 3600, 1000, "AT", NOW + 10 * i)
    fields = stored(wire)
    assert fields["slots"] >= 100
    assert wire("STRLEN", "k") - 8 * fields["slots"] == overhead > 0
    assert (fields["cost"], fields["oldest_ms"], fields["newest_ms"], fields["horizon_ms"]) == (
        104, NOW, NOW + 990, 3_600_000,
    )  # fmt: skip


def test_the_oldest_is_one_that_still_counts(wire):
    """As of the newest request: what lies a horizon before it has left, also if it is stored."""
    for i in range(50):
        wire("RL.SLIDING", "k", 10, 100, "AT", NOW + 1_000 * i)
    fields = stored(wire)
    assert fields["newest_ms"] == NOW + 49_000
    assert fields["oldest_ms"] <= NOW + 40_000
    assert fields["cost"] == 10


def test_sorted_set_fields(wire):
    """Of a script's log, which is near to now, and of our own, whose members tell."""
    now = int(time.time() * 1000)
    wire("ZADD", "k", now - 900, "4f2a", f"{now - 100}.5", "91bc")
    wire("EXPIRE", "k", 60)
    fields = {"storage": "sorted-set", "cost": 2, "oldest_ms": now - 900, "newest_ms": now - 99}
    assert stored(wire) == fields
    assert inspect(wire)["algorithm"] == "sliding"
    assert wire("RL.SLIDING", "k", 60, 100, "COST", 3)[0] == 1
    wire("ZREMRANGEBYSCORE", "k", 0, now - 50)
    wire("PERSIST", "k")
    fields = inspect(wire)
    assert (fields["cost"], fields["ttl_ms"]) == (3, -1)
    assert now <= fields["oldest_ms"] == fields["newest_ms"] < now + 60_000


def test_a_throttle_is_a_token_bucket(wire):
    wire("RL.THROTTLE", "k", 15, 30, 60_000, 2)
    fields = inspect(wire)
    assert (fields["algorithm"], fields["used"]) == ("token", "2")


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_map_where_there_are_maps(server, limiter, protocol):
    """Flat in RESP2; 6.2 has no way for a module to answer a map."""
    with server.wire(protocol) as wire:
        wire(*limiter.call("k", 5, at=NOW))
        reply = wire("RL.INSPECT", "k")
        is_map = protocol == 3 and server.binary.version >= (7, 0)
        assert isinstance(reply, dict if is_map else list)
        fields = reply if is_map else as_map(reply)
        assert all(isinstance(name, bytes) for name in fields)
        assert fields[b"algorithm"] == limiter.word.encode()
        assert {name.decode() for name in fields} > EVERYWHERE
        assert wire("RL.INSPECT", "none") is None
        replies = wire.transaction([["RL.INSPECT", "k"], ["RL.INSPECT", "none"]])
        assert type(replies[0]) is type(reply)
        assert replies[1] is None


def test_bytes_are_those_of_memory_usage(wire, limiter):
    for calls in (1, 50):
        for i in range(calls):
            wire(*limiter.call("k", 10**6, seconds=600, at=NOW + i))
        assert inspect(wire)["bytes"] == wire("MEMORY", "USAGE", "k")
    now = int(time.time() * 1000)
    wire("ZADD", "z", *(word for i in range(400) for word in (now + i, i)))
    wire("EXPIRE", "z", 60)
    assert inspect(wire, "z")["bytes"] == wire("MEMORY", "USAGE", "z")


def test_ttl_is_that_of_the_key(wire, limiter):
    wire(*limiter.call("k", 5, seconds=600))
    for change in (None, ["PEXPIRE", "k", 5_000_000], ["PEXPIRE", "k", 100_000]):
        if change:
            wire(*change)
        before, _, after = wire.transaction([["PTTL", "k"], ["PING"], ["PTTL", "k"]])
        told = inspect(wire)["ttl_ms"]
        assert wire("PTTL", "k") <= told <= before
        assert after <= before
    wire("PERSIST", "k")
    assert inspect(wire)["ttl_ms"] == -1


@pytest.mark.parametrize("encoding", ["raw", "as loaded"])
def test_changes_nothing(r, wire, limiter, encoding):
    for name, value in (("maxmemory-policy", "allkeys-lfu"), ("lfu-log-factor", 0)):
        r.config_set(name, value)
    try:
        wire(*limiter.call("k", 5, at=NOW))
        if encoding == "as loaded":
            wire("SET", "k", wire("GET", "k"), "KEEPTTL")
        before, kind = held(r, "k"), wire("OBJECT", "ENCODING", "k")
        frequency = r.object("freq", "k")
        for _ in range(3):
            assert inspect(wire)["algorithm"] == limiter.word
        assert r.object("freq", "k") == frequency
        assert held(r, "k") == before
        assert wire("OBJECT", "ENCODING", "k") in (kind, b"raw")  # see test_peek.py
    finally:
        for name, value in (("maxmemory-policy", "noeviction"), ("lfu-log-factor", 10)):
            r.config_set(name, value)


def test_sends_nothing_and_works_on_a_replica(spawn):
    pair = Pair(spawn, module_on_replica=True)
    for limiter in LIMITERS:
        pair.p.execute_command(*limiter.call(limiter.word, 5, seconds=86_400))
    now = int(time.time() * 1000)
    pair.p.zadd("set", {"a": now})
    pair.p.pexpireat("set", now + 86_400_000)  # an EXPIRE is sent as it is by 6.2, and begins later
    pair.settle()
    before = changes(pair.p)
    with pair.primary.wire() as primary, pair.replica.wire() as replica:
        for key in (*(limiter.word for limiter in LIMITERS), "set"):
            assert stored(primary, key) == stored(replica, key)
        assert replica("RL.INSPECT", "none") is None
        assert changes(pair.p) == before
    pair.assert_equal()
    pair.close()


def test_inside_scripts(server, wire, limiter):
    """A table in Lua; also from scripts that may not write."""
    wire(*limiter.call("k", 5, at=NOW))
    script = """
        local fields, seen = redis.call('RL.INSPECT', KEYS[1]), {}
        for i = 1, #fields, 2 do seen[fields[i]] = fields[i + 1] end
        return {#fields, seen.algorithm, redis.call('RL.INSPECT', 'none') == false}
    """
    ways = [("EVAL", script)]
    if server.binary.version >= (7, 0):
        ways += [("EVAL_RO", script), ("EVAL", "#!lua flags=no-writes\n" + script)]
    for way in ways:
        reply = wire(*way, 1, "k")
        assert reply == [2 * len(inspect(wire)), limiter.word.encode(), 1]


@pytest.mark.parametrize("make", FOREIGN)
def test_a_foreign_value_is_named(r, wire, make):
    command, word = FOREIGN[make]
    wire(*command)
    before = held(r, "k")
    assert_wrong_type(wire("RL.INSPECT", "k"), word)
    assert held(r, "k") == before


def test_a_value_with_a_flipped_bit_never_crashes(wire, limiter):
    wire(*limiter.call("k", 10, at=NOW))
    wire(*limiter.call("k", 10, at=NOW + 7))
    blob = wire("GET", "k")
    for bit in range(8 * len(blob)):
        flipped = bytearray(blob)
        flipped[bit // 8] ^= 1 << bit % 8
        _, reply, pong = wire.pipeline(
            [["SET", "k", bytes(flipped)], ["RL.INSPECT", "k"], ["PING"]]
        )
        if isinstance(reply, Failure):
            assert_wrong_type(reply, "string")
        else:
            assert as_map(reply)[b"algorithm"].decode() in {other.word for other in LIMITERS}
        assert pong == "PONG"


@pytest.mark.parametrize("line", ["", "k k", "k AT 5"])
def test_wrong_number_of_arguments(wire, line):
    said = "ERR wrong number of arguments for 'RL.INSPECT' command"
    assert wire("RL.INSPECT", *line.split()).lower() == said.lower()


def test_bytes_are_0_where_memory_was_renamed(spawn):
    with spawn('rename-command MEMORY ""').wire() as wire:
        for limiter in (FIXED, SLIDING, COUNTER, TOKEN, LEAKY):
            wire(*limiter.call("k", 5, at=NOW))
            fields = inspect(wire)
            assert (fields["algorithm"], fields["bytes"]) == (limiter.word, 0)
            wire("DEL", "k")
