"""A replica without the module holds the same bytes, and expires them in the same millisecond."""

import random
import time

import pytest

from limiters import LIMITERS, changes, commands_run, held, registered
from replicas import AROUND, CORE_WRITES, PRIMARY, until

NOW = 1_699_999_200_000


def traffic(dice, limiter, calls):
    """Command lines on a few keys: clocks, costs and arguments change; many are denied."""
    now = NOW
    for _ in range(calls):
        now += dice.choices([0, 1, 20, 1_000, 61_000, -5_000, -400_000], [9, 9, 9, 9, 2, 2, 1])[0]
        key = f"{limiter.word}:{dice.randrange(3)}"
        yield limiter.call(
            key,
            dice.choice([10, 10, 10, 1, 500, 0]),
            seconds=dice.choice([60, 60, 60, 600]),
            cost=dice.choice([1, 1, 2, 9]),
            at=dice.choice([now, now, now, None]),
        )


def test_replica_without_the_module_is_equal(pair, limiter):
    """After direct calls, MULTI, EVAL and refused commands; compared on the way, too."""
    dice = random.Random(5)
    for _ in range(8):
        with pair.primary.wire() as wire:
            wire.pipeline(traffic(dice, limiter, 60))
            wire.transaction(traffic(dice, limiter, 10))
            for line in traffic(dice, limiter, 10):
                wire("EVAL", "redis.call(unpack(ARGV)) redis.call(unpack(ARGV))", 1, line[1], *line)
            wire(*limiter.call("first", 10))
            wire(*limiter.call(f"{limiter.word}:0", 10, cost=-1))
        pair.assert_equal()
    with pair.replica.wire() as wire:
        assert not registered(wire, limiter.command)


def test_long_log_stays_equal(pair):
    """Slots appended, dropped and moved: the sliding log changes in more ways than one blob."""
    dice = random.Random(11)
    steps, weights = [0, 1, 5, 3_000, -500, -70_000], [3_000, 9_000, 9_000, 5, 5, 5]
    now, lengths = NOW, []
    with pair.primary.wire() as wire:
        for _ in range(8):
            calls = []
            for step in dice.choices(steps, weights, k=1_500):
                now += step
                calls.append(["RL.SLIDING", "k", 1, 300, 10, 2_000, "AT", now])
                if dice.random() < 0.01:  # so that the lifetime of a long log has to move
                    cut = int(time.time() * 1000) + dice.choice([2_000, 100_000])
                    calls.append(["PEXPIREAT", "k", cut])  # (6.2 replicates PEXPIRE as relative)
            replies = [reply for reply in wire.pipeline(calls) if isinstance(reply, list)]
            assert {reply[0] for reply in replies} == {0, 1}
            pair.assert_equal()
            lengths.append(wire("STRLEN", "k"))
    assert max(lengths) > 10_000


def test_replica_expires_what_the_primary_expires(pair, limiter):
    """Relative lifetimes become one absolute time, whatever the command was wrapped in."""
    with pair.primary.wire() as wire:
        for i, seconds in enumerate((1, 7, 60, 3600, 86_400)):
            wire(*limiter.call(f"direct{i}", 5, seconds=seconds))
            wire.transaction([limiter.call(f"multi{i}", 5, seconds=seconds)] * 2)
            script = "redis.call(unpack(ARGV)) return redis.call(unpack(ARGV))"
            wire("EVAL", script, 1, f"eval{i}", *limiter.call(f"eval{i}", 5, seconds=seconds))
    pair.assert_equal()
    for key in pair.p.keys("*[2-4]"):  # the short ones may be gone by now
        assert held(pair.q, key).expires_at is not None


@pytest.mark.parametrize("step", [0, 1, 700], ids=["same ms", "each ms", "sliding on"])
def test_one_core_command_for_each_allowed_call(pair, limiter, step):
    """What the replica executes: one write for a call, and none of our names."""
    calls = 200
    pair.settle()
    pair.q.config_resetstat()
    with pair.primary.wire() as wire:
        lines = [limiter.call("k", 10_000, at=NOW + i * step) for i in range(calls)]
        assert all(reply[0] == 1 for reply in wire.pipeline(lines))
    pair.settle()
    ran = commands_run(pair.q)
    assert set(ran) <= CORE_WRITES | AROUND
    assert sum(count for name, count in ran.items() if name in CORE_WRITES) == calls


def test_denied_calls_move_nothing(pair, limiter):
    """Neither the replication offset nor the count of changes that leads to the next save."""
    full = limiter.call("k", 3, at=NOW)
    for _ in range(3):
        assert pair.p.execute_command(*full)[0] == 1
    denied = [
        full,
        limiter.call("k", 3, at=NOW + 1_000),
        limiter.call("k", 3, at=NOW - 1_000),
        limiter.call("k", 3, cost=4, at=NOW),
        limiter.call("k", 0, at=NOW),
        limiter.call("fresh", 0),
        limiter.call("fresh", 3, cost=4),
    ]
    before = changes(pair.p)
    with pair.primary.wire() as wire:
        replies = wire.pipeline(denied * 50) + wire.transaction(denied)
    assert all(reply[0] == 0 for reply in replies)
    assert changes(pair.p) == before
    assert pair.p.execute_command(*limiter.call("k", 9, at=NOW))[0] == 1
    offset, count = changes(pair.p)
    assert offset > before[0]
    assert count > before[1]


def test_errors_move_nothing(pair, limiter):
    pair.p.lpush("list", "x")
    pair.p.execute_command(*limiter.call("k", 3, at=NOW))
    bad = [limiter.call("k", 3, cost=0), limiter.call("list", 3), limiter.call("k", -1)]
    bad += [[limiter.command, "k"], [*limiter.call("k", 3), "AT"]]
    before = changes(pair.p)
    with pair.primary.wire() as wire:
        replies = wire.pipeline(bad * 20)
    assert all(isinstance(reply, str) for reply in replies)
    assert changes(pair.p) == before


def test_promoted_replica_goes_on(spawn, limiter):
    """A replica that has the module, once promoted, decides on where the primary left off."""
    primary, replica = spawn(*PRIMARY), spawn()
    with primary.client() as p, replica.client() as q:
        q.replicaof("127.0.0.1", primary.port)
        p.execute_command(*limiter.call("k", 3, cost=2, at=NOW))
        until(lambda: q.exists("k"), "the key does not arrive")
        with pytest.raises(Exception, match="read only"):
            q.execute_command(*limiter.call("k", 3, at=NOW))
        q.replicaof("NO", "ONE")
        assert q.execute_command(*limiter.call("k", 3, cost=2, at=NOW))[:3] == [0, 3, 1]
        assert q.execute_command(*limiter.call("k", 3, at=NOW))[:3] == [1, 3, 0]


def test_all_algorithms_on_one_primary(pair):
    dice = random.Random(3)
    lines = [line for limiter in LIMITERS for line in traffic(dice, limiter, 200)]
    dice.shuffle(lines)
    with pair.primary.wire() as wire:
        wire.pipeline(lines)
    pair.assert_equal()


def test_a_log_takes_as_much_memory_on_a_replica(pair):
    """A server that lengthens a string keeps room behind it; growth is sent so that none is."""
    with pair.primary.wire() as wire:
        for start in range(0, 20_000, 1_000):
            times = range(NOW + start, NOW + start + 1_000)
            wire.pipeline([["RL.SLIDING", "k", 3600, 10**6, "AT", time] for time in times])
    pair.settle()
    usage = [client.memory_usage("k", samples=0) for client in (pair.p, pair.q)]
    assert usage[1] <= usage[0] * 5 / 4, usage
