"""Logs of RL.SLIDING in sorted sets: the same answers, in a form that people and scripts read."""

import random
import re
import time

import pytest

from lifetimes import assert_lifetime
from limiters import SLIDING, TOKEN, changes, held, peek
from refusals import assert_error, assert_wrong_type
from replicas import Pair
from sequences import agreement, sorted_set_sequence
from servers import Server, check_health
from wire import Failure

NOW = 1_699_999_200_000
ARGUMENT = "sliding-storage sorted-set"
ULID = re.compile(rb"[0-7][0-9A-HJKMNP-TV-Z]{25}")


@pytest.fixture(scope="module")
def storing(binary):
    """A server that keeps new logs in sorted sets: told by module argument, as 6.2 needs it."""
    running = Server(binary, arguments=ARGUMENT)
    yield running
    running.remove()


@pytest.fixture
def server(storing):
    """In place of the other tests' server, and as closely watched."""
    with storing.wire() as wire:
        wire("FLUSHALL")
    process, position = storing.process, storing.log.stat().st_size
    yield storing
    check_health(storing, process, position)


def entries(wire, key="k") -> list[tuple[bytes, int]]:
    flat = wire("ZRANGE", key, 0, -1, "WITHSCORES")
    return [(member, int(score)) for member, score in zip(flat[::2], flat[1::2], strict=True)]


def times(wire, key="k") -> list[int]:
    return [time for _, time in entries(wire, key)]


def time_of(ulid: bytes) -> int:
    """The milliseconds in a ULID: its first ten digits, in base 32."""
    digits = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    value = 0
    for digit in ulid[:10]:
        value = value * 32 + digits.index(digit)
    return value


@pytest.mark.parametrize("seed", range(40))
def test_answers_as_the_model(wire, seed, record_property):
    """The model of the compact log: tiers, costs, limits that change, clocks, exact waits."""
    agreed = agreement(wire, "RL.SLIDING", sorted_set_sequence, seed)
    record_property("agreed SLIDING in sorted sets", agreed)
    assert wire("TYPE", "k") in ("zset", "none")


def test_shows_what_a_person_expects(wire):
    """ZRANGE WITHSCORES: the milliseconds of each request, and a member for each unit of cost."""
    calls = [(NOW, 1), (NOW, 2), (NOW + 1, 1), (NOW + 59_999, 3)]
    for at, cost in calls:
        assert wire("RL.SLIDING", "k", 60, 10, "COST", cost, "AT", at)[0] == 1
    assert times(wire) == [NOW] * 3 + [NOW + 1] + [NOW + 59_999] * 3
    assert wire("ZRANGE", "k", 0, 0, "WITHSCORES")[1] == str(NOW).encode()
    assert wire("RL.SLIDING", "k", 60, 10, "COST", 7, "AT", NOW + 60_001)[0] == 1
    assert times(wire) == [NOW + 59_999] * 3 + [NOW + 60_001] * 7


def test_what_has_left_the_window_is_removed(wire):
    moments = range(NOW, NOW + 50_000, 37)
    wire.pipeline(["RL.SLIDING", "k", 10, 10_000, "AT", at] for at in moments)
    assert times(wire) == [at for at in moments if at > moments[-1] - 10_000]


def test_members_are_ulids_in_order(wire):
    """Strictly increasing, also within a millisecond and where the clock stood still."""
    dice, now = random.Random(1), NOW
    for _ in range(200):
        now += dice.choice([0, 0, 1, 5, -3])
        wire("RL.SLIDING", "k", 60, 10_000, "COST", dice.choice([1, 1, 2, 50]), "AT", now)
    members = [member for member, _ in entries(wire)]
    assert all(ULID.fullmatch(member) for member in members)
    assert members == sorted(set(members))
    scores = times(wire)
    assert [time_of(member) for member in members] == scores


def test_members_carry_the_servers_clock(wire):
    before, *_, after = wire.pipeline([["TIME"], *[SLIDING.call("k", 99)] * 50, ["TIME"]])
    first, last = (int(s) * 1000 + int(us) // 1000 for s, us in (before, after))
    for member, score in entries(wire):
        assert first <= score <= last
        assert time_of(member) == score


def test_members_differ_from_key_to_key(wire):
    for key in range(50):
        wire(*SLIDING.call(key, 9, cost=3, at=NOW))
    members = {member for key in range(50) for member, _ in entries(wire, key)}
    assert len(members) == 150


def test_cost_of_a_thousand_is_the_most(r, wire):
    assert wire("RL.SLIDING", "k", 60, 5000, "COST", 1000, "AT", NOW) == [1, 5000, 4000, 0, 60_000]
    assert wire("ZCARD", "k") == 1000
    before = held(r, "k")
    for cost in (1001, 2**32 - 1):
        line = ["RL.SLIDING", "k", 60, 5000, "COST", cost, "AT", NOW]
        for key in ("k", "none"):
            line[1] = key
            for asked in (line, peek(line), ["RL.ALL", "FIXED", "f", 60, 5, *peek(line)[1:]]):
                assert_error(wire(*asked), "COST", "1000")
    assert held(r, "k") == before
    assert wire("EXISTS", "none", "f") == 0
    assert wire("RL.SLIDING", "k", 60, 999, "COST", 1000, "AT", NOW) == [0, 999, 0, -1, 60_000]


def test_lifetime(r, wire):
    for command in ("RL.SLIDING k 1h 1000", "RL.SLIDING k 1 1000 1m 1000 31d 10000"):
        for _ in range(10):
            assert_lifetime(r, command.split())
        r.pexpire("k", 1_000)
        assert_lifetime(r, command.split())
    for at in (0, 1_000, NOW, 9_007_199_254_740_991):
        wire("DEL", "k")
        assert_lifetime(r, ["RL.SLIDING", "k", "1ms", 10, "AT", at], at_least=1_000)


def test_a_lifetime_lost_is_given_back(r, wire):
    """As SPEC.md has it: reset_ms, at most half as long again, also after a PERSIST."""
    wire("RL.SLIDING", "k", "1h", 10)
    r.persist("k")
    assert_lifetime(r, ["RL.SLIDING", "k", "1h", 10])


def test_denied_calls_and_looks_touch_nothing(r, wire):
    assert wire(*SLIDING.call("k", 2, cost=2, at=NOW))[0] == 1
    for touch in (lambda: None, lambda: r.persist("k"), lambda: r.pexpire("k", 5_000_000)):
        touch()
        before = held(r, "k")
        for at in (NOW, NOW + 59_999, NOW - 60_000):
            assert wire(*SLIDING.call("k", 2, at=at))[0] == 0
            assert wire(*SLIDING.call("k", 2, cost=3, at=at))[0] == 0
            for limit in (2, 9):
                assert wire(*SLIDING.peek("k", limit, at=at))[:2] == [limit == 9, limit]
            denied = wire("RL.ALL", *SLIDING.clause("k", 9), *SLIDING.clause("z", 0), "AT", at)
            assert denied[:2] == [0, 1]
        assert held(r, "k") == before
    assert wire("EXISTS", "z") == 0


def test_only_a_move_is_written_by_a_denied_call(r, wire):
    """All members, ages kept, in pieces of any size; a look and a clause that allows leave it."""
    for at, cost in ((NOW, 1000), (NOW + 3, 1000), (NOW + 500, 500)):
        assert wire("RL.SLIDING", "k", 60, 2500, "COST", cost, "AT", at)[0] == 1
    before, moved_to = held(r, "k"), NOW + 500 - 60_001
    look = wire("RL.PEEK", "SLIDING", "k", 60, 2500, "AT", moved_to)
    allowed = "RL.ALL SLIDING k 60 2501 FIXED f 60 0 AT".split()
    assert wire(*allowed, moved_to)[:2] == [0, 1]
    assert held(r, "k") == before
    assert wire("RL.SLIDING", "k", 60, 2500, "AT", moved_to) == look == [0, 2500, 0, 59_500, 60_000]
    assert times(wire) == [moved_to - 500] * 1000 + [moved_to - 497] * 1000 + [moved_to] * 500
    assert wire("RL.SLIDING", "k", 60, 2500, "AT", moved_to + 59_499)[3] == 1
    assert wire("RL.SLIDING", "k", 60, 2500, "AT", moved_to + 59_500)[0] == 1


@pytest.mark.parametrize("change", [None, "PERSIST", "PEXPIRE 900"])
def test_a_shorter_window_keeps_what_a_longer_one_needs(wire, change):
    """The log holds at least all that its earlier calls needed, whatever became of the expiry."""
    assert wire("RL.SLIDING", "k", 60, 3, "COST", 3, "AT", NOW)[0] == 1
    if change:
        name, *value = change.split()
        wire(name, "k", *value)
    assert wire("RL.SLIDING", "k", 1, 100, "AT", NOW + 2_000)[0] == 1
    assert wire("RL.SLIDING", "k", 60, 5, "COST", 2, "AT", NOW + 2_000) == [
        0, 5, 1, 58_000, 60_000,
    ]  # fmt: skip


def test_a_log_survives_what_keys_survive(wire):
    for travel in (
        lambda: wire("COPY", "k", "c", "REPLACE") and wire("RENAME", "c", "k"),
        lambda: wire("RESTORE", "k", 0, wire("DUMP", "k"), "REPLACE"),
        lambda: wire("PERSIST", "k"),
    ):
        wire("DEL", "k")
        assert wire(*SLIDING.call("k", 3, cost=2, at=NOW))[0] == 1
        travel()
        assert wire(*SLIDING.call("k", 3, cost=2, at=NOW + 1)) == [0, 3, 1, 59_999, 59_999]
        ten_years = NOW + 3653 * 86_400_000
        assert wire(*SLIDING.call("k", 3, cost=2, at=ten_years)) == [1, 3, 1, 0, 60_000]


FOREIGN = {
    "ranks": ["ZADD", "k", 1, "a", 2, "b", 4200, "c"],
    "geo": ["GEOADD", "k", 13.4, 52.5, "Berlin", 2.35, 48.86, "Paris"],
    "seconds": ["ZADD", "k", "{s}", "a", "{s}", "b"],
    "microseconds": ["ZADD", "k", "{us}", "a", "{us}", "b"],
    "negative": ["ZADD", "k", -5, "a"],
    "infinite": ["ZADD", "k", "-inf", "a", "+inf", "b"],
    "a rank below": ["ZADD", "k", 7, "a", "{ms}", "b"],
    "an end above": ["ZADD", "k", "{ms}", "a", "+inf", "b"],
    "many": ["ZADD", "k", *(word for i in range(500) for word in (i, f"m{i}"))],
}


@pytest.mark.parametrize("make", FOREIGN)
@pytest.mark.parametrize("lifetime", [None, 3_600_000], ids=["persistent", "with TTL"])
def test_a_foreign_sorted_set_is_refused_and_kept(r, wire, make, lifetime):
    now = time.time()
    clock = {"{s}": int(now), "{ms}": int(now * 1e3), "{us}": int(now * 1e6)}
    wire(*(clock.get(word, word) for word in FOREIGN[make]))
    if lifetime:
        wire("PEXPIRE", "k", lifetime)
    before, encoding = held(r, "k"), wire("OBJECT", "ENCODING", "k")
    for line in (
        SLIDING.call("k", 10),
        SLIDING.call("k", 10, at=NOW),
        SLIDING.call("k", 0),
        SLIDING.peek("k", 10),
        ["RL.ALL", "FIXED", "f", 60, 5, *SLIDING.clause("k", 10)],
        ["RL.INSPECT", "k"],
    ):
        assert_wrong_type(wire(*line), "sorted set")
    assert held(r, "k") == before
    assert wire("OBJECT", "ENCODING", "k") == encoding
    assert wire("EXISTS", "f") == 0


def test_fractions_of_a_millisecond_round_up(wire):
    """A script's request at NOW + 0.5 counts from NOW + 1 on, and for a whole window."""
    wire("ZADD", "k", f"{NOW}.5", "a")
    wire("EXPIRE", "k", 60)
    assert wire("RL.PEEK", "SLIDING", "k", 60, 1, "AT", NOW) == [0, 1, 0, 60_001, 60_001]
    assert wire("RL.PEEK", "SLIDING", "k", 60, 1, "AT", NOW + 60_000) == [0, 1, 0, 1, 1]
    assert wire("RL.SLIDING", "k", 60, 1, "AT", NOW + 60_001) == [1, 1, 0, 0, 60_000]
    assert times(wire) == [NOW + 60_001]


@pytest.mark.parametrize("protocol", [2, 3])
def test_members_and_scores_of_any_kind(server, protocol):
    """A script's members may be any bytes, its scores have fractions; a move keeps both."""
    with server.wire(protocol) as wire:
        for i, member in enumerate((b"\xff\x00\r\n", "caf\u00e9", "", "7", "x" * 500)):
            wire("ZADD", "k", f"{NOW + i}.25", member)
        wire("EXPIRE", "k", 60)
        assert wire("RL.SLIDING", "k", 60, 6, "AT", NOW + 10) == [1, 6, 0, 0, 60_000]
        before = wire("ZRANGE", "k", 0, -1)
        moved_to = NOW - 59_990
        assert wire("RL.SLIDING", "k", 60, 6, "AT", moved_to)[0] == 0
        assert wire("RL.SLIDING", "k", 60, 6, "AT", moved_to - 1) == [0, 6, 0, 59_991, 60_000]
        assert wire("ZRANGE", "k", 0, -1) == before
        scores = [float(wire("ZSCORE", "k", member)) for member in before]
        ages = [9.75, 8.75, 7.75, 6.75, 5.75, 0]
        assert [moved_to - 1 - score for score in scores] == ages


def test_looks_are_no_use_of_the_key(server, r, wire):
    settings = ["maxmemory-policy", "allkeys-lfu", "lfu-log-factor", "0", "lfu-decay-time", "0"]
    pairs = list(zip(settings[::2], settings[1::2], strict=True))
    before = {name: r.config_get(name)[name] for name, _ in pairs}
    try:
        for name, value in pairs:
            r.config_set(name, value)
        wire(*SLIDING.call("k", 5, at=NOW))
        frequency = r.object("freq", "k")
        for _ in range(5):
            wire(*SLIDING.peek("k", 5, at=NOW))
            wire("RL.INSPECT", "k")
        assert r.object("freq", "k") == frequency
    finally:
        for name, value in before.items():
            r.config_set(name, value)


def test_looks_work_where_nothing_may_be_written(spawn):
    """On a replica, while writes are paused, and in scripts that may not write."""
    pair = Pair(spawn, arguments=ARGUMENT, module_on_replica=True)
    pair.p.execute_command(*SLIDING.call("k", 5, cost=2, at=NOW))
    pair.settle()
    look = SLIDING.peek("k", 5, at=NOW + 1)
    with pair.primary.wire() as primary, pair.replica.wire() as replica:
        primary("CLIENT", "PAUSE", 100_000, "WRITE")
        for wire in (primary, replica):
            assert wire(*look) == [1, 5, 3, 0, 59_999]
            assert wire(*SLIDING.peek("none", 5)) == [1, 5, 5, 0, 0]
            assert wire("RL.INSPECT", "k")
        primary("CLIENT", "UNPAUSE")
        if pair.primary.binary.version >= (7, 0):
            script = "#!lua flags=no-writes\nreturn redis.call(unpack(ARGV))"
            assert primary("EVAL", script, 1, "k", *look) == [1, 5, 3, 0, 59_999]
            assert primary("EVAL_RO", script, 1, "k", "RL.INSPECT", "k")
        assert replica(*SLIDING.call("k", 5)).startswith("READONLY ")
    pair.assert_equal()
    pair.close()


def test_a_watcher_hears_of_allowed_calls_only(server, wire):
    for limit, heard in ((5, True), (1, False), (5, True)):
        with server.wire() as watcher:
            watcher("WATCH", "k")
            assert wire(*SLIDING.call("k", limit, at=NOW))[0] == heard
            watcher("MULTI")
            watcher("PING")
            assert watcher("EXEC") == (None if heard else ["PONG"])


def test_within_all_and_in_one_transaction(spawn):
    """A refusal leaves it as it is and sends nothing; an admission takes from it as from others."""
    pair = Pair(spawn, arguments=ARGUMENT)
    clauses = [*SLIDING.clause("k", 3), *TOKEN.clause("t", 2), *SLIDING.clause("l", 9)]
    with pair.primary.wire() as wire:
        for taken in (1, 2):
            assert wire("RL.ALL", *clauses, "AT", NOW)[:2] == [1, -1]
            assert (wire("ZCARD", "k"), wire("ZCARD", "l")) == (taken, taken)
        before, offset = held(pair.p, "k"), changes(pair.p)
        assert wire("RL.ALL", *clauses, "AT", NOW)[:2] == [0, 1]
        assert wire(*SLIDING.call("k", 3, cost=2, at=NOW))[0] == 0
        assert (held(pair.p, "k"), changes(pair.p)) == (before, offset)
    pair.assert_equal()
    pair.close()


def everything(client) -> dict:
    return {key: held(client, key) for key in client.scan_iter()}


def traffic(dice, calls):
    now = NOW
    for _ in range(calls):
        now += dice.choices([0, 1, 900, 61_000, -5_000, -400_000], [9, 9, 9, 2, 2, 1])[0]
        key, cost = f"k{dice.randrange(3)}", dice.choice([1, 1, 2, 9])
        limit, seconds = dice.choice([10, 10, 40, 0]), dice.choice([60, 60, 5])
        yield SLIDING.call(key, limit, seconds, cost, at=dice.choice([now, now, None]))


def test_replica_without_the_module_is_equal(spawn):
    """The same members and scores, expiring in the same millisecond."""
    pair, dice = Pair(spawn, arguments=ARGUMENT), random.Random(6)
    for _ in range(6):
        with pair.primary.wire() as wire:
            replies = wire.pipeline(traffic(dice, 60)) + wire.transaction(traffic(dice, 20))
            assert not any(isinstance(reply, Failure) for reply in replies)
            for line in traffic(dice, 10):
                wire("EVAL", "redis.call(unpack(ARGV)) redis.call(unpack(ARGV))", 1, line[1], *line)
        pair.assert_equal()
    assert set(map(pair.q.type, pair.q.keys("k*"))) == {b"zset"}
    pair.close()


@pytest.mark.parametrize("config", ["save 3600 1", "appendonly yes"])
def test_restart_keeps_the_log(spawn, config):
    """With and without the module; the decision after it is the one before it."""
    server, dice = spawn(config, arguments=ARGUMENT), random.Random(8)
    with server.wire() as wire:
        wire.pipeline(traffic(dice, 300))
        wire("RL.SLIDING", "full", 600, 40, "COST", 40, "AT", NOW)
    with server.client() as client:
        before = everything(client)
    assert len(before) > 1
    for module in (False, True):
        server.stop()
        server.start(module=module)
        with server.client() as client:
            assert everything(client) == before
    with server.wire() as wire:
        denied = wire("RL.SLIDING", "full", 600, 40, "AT", NOW + 599_999)
        assert denied == [0, 40, 0, 1, 1]
        assert wire("RL.SLIDING", "full", 600, 40, "AT", NOW + 600_000)[0] == 1
