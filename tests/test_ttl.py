"""A key lives as long as it matters: reset_ms, at most half as long again, never shorter."""

import time

import pytest

from lifetimes import assert_lifetime
from limiters import held

SHORT = 40  # milliseconds
VANISH_DEADLINE = 10  # seconds


@pytest.mark.parametrize(
    "command",
    [
        "RL.FIXED k 1h 1000",
        "RL.FIXED k 7s 1000 COST 3",
        "RL.FIXED k 1d 1000 OFFSET 8h",
        "RL.FIXED k 366d 1000",
        "RL.SLIDING k 1h 1000",
        "RL.SLIDING k 1 1000 1m 1000 31d 10000",
        "RL.SLIDING k 7s 1000 COST 3",
        "RL.COUNTER k 1h 1000",
        "RL.COUNTER k 7s 1000 COST 3",
        "RL.COUNTER k 1d 1000 BUCKETS 1",
        "RL.COUNTER k 366d 1000 BUCKETS 256",
        "RL.LEAKY k 1000 1",
        "RL.LEAKY k 1000 100/h COST 5",
        "RL.TOKEN k 1000 1",
        "RL.TOKEN k 1000 1/h COST 5",
        "RL.TOKEN k 1000 0.3",
        "RL.TOKEN k 1000 1/366d",
    ],
)
def test_lifetime_after_allowed_calls(r, command):
    line = command.split()
    for _ in range(20):
        assert_lifetime(r, line)
    r.persist("k")
    assert_lifetime(r, line)  # a lifetime lost is given back by the next change
    r.pexpire("k", 5_000)
    reset = assert_lifetime(r, line)[4]  # and one cut short is made whole
    for percent in (90, 110, 140, 160, 190, 300):
        r.pexpire("k", max(1, reset * percent // 100))
        assert_lifetime(r, line)


def test_lifetime_follows_changed_arguments(r):
    for quota in ("10/m", "10/h", "10/s", "10/d", "1000/s"):
        assert_lifetime(r, ["RL.TOKEN", "t", 100, quota])
        assert_lifetime(r, ["RL.LEAKY", "l", 100, quota])
    for window in ("1m", "1h", "10s", "1d"):
        assert_lifetime(r, ["RL.FIXED", "f", window, 100])
        for buckets in (10, 1, 256):
            assert_lifetime(r, ["RL.COUNTER", "c", window, 100, "BUCKETS", buckets])


def test_lifetime_is_cut_when_the_rate_rises(r):
    """In steps around the half that a lifetime may be too long."""
    assert_lifetime(r, ["RL.TOKEN", "k", 10_000, "100/m", "COST", 1_000])
    for quota in ("120/m", "145/m", "190/m", "250/m", "330/m", "430/m", "560/m"):
        assert_lifetime(r, ["RL.TOKEN", "k", 10_000, quota])


def test_sliding_log_lives_as_long_as_its_longest_call_needs(r):
    """A shorter window asked in between must not cost the longer one its log."""
    longest = 0
    for seconds in (1, 60, 3600, 10, 86_400, 1):
        longest = max(longest, seconds * 1000)
        assert_lifetime(r, ["RL.SLIDING", "k", seconds, 100], at_least=longest)


@pytest.mark.parametrize("at", [0, 1_000, 1_699_999_200_123, 9_007_199_254_740_991])
def test_lifetime_with_at_counts_from_the_servers_clock(r, limiter, at):
    """A replayed time says nothing about when the key may go: that runs on the server's clock."""
    assert_lifetime(r, limiter.call("k", 10, at=at), at_least=1_000)


@pytest.mark.parametrize(
    ("quota", "reset"),
    [
        ("RL.FIXED k 1ms 5", 1),
        ("RL.SLIDING k 1ms 5", 1),
        ("RL.COUNTER k 1ms 5 BUCKETS 1", 2),
        ("RL.TOKEN k 5 1/ms", 1),
        ("RL.LEAKY k 5 1/ms", 1),
    ],
)
def test_lifetime_with_at_is_a_second_at_least(r, quota, reset):
    """Or a replay of a busy millisecond would lose its state while it is still being replayed."""
    reply = assert_lifetime(r, f"{quota} AT 1000".split(), at_least=1_000)
    assert reply == [1, 5, 4, 0, reset]


@pytest.mark.parametrize("at", [None, 1_699_999_200_000])
def test_denied_call_touches_no_ttl(r, limiter, at):
    call = limiter.call("k", 1, seconds="1h", at=at)
    assert r.execute_command(*call)[0] == 1
    before = held(r, "k")
    assert r.execute_command(*call)[0] == 0
    assert held(r, "k") == before
    for touch in (lambda: r.persist("k"), lambda: r.pexpire("k", 86_400_000)):
        touch()
        before = held(r, "k")
        assert r.execute_command(*call)[0] == 0
        assert held(r, "k") == before


def test_denied_call_makes_no_key(r, limiter):
    assert r.execute_command(*limiter.call("k", 0))[:4] == [0, 0, 0, -1]
    assert r.execute_command(*limiter.call("k", 5, cost=6))[:4] == [0, 5, 5, -1]
    assert r.exists("k") == 0


@pytest.mark.parametrize(
    "command",
    [
        f"RL.FIXED k {SHORT}ms 5",
        f"RL.SLIDING k {SHORT}ms 5",
        f"RL.COUNTER k {SHORT}ms 5",
        f"RL.TOKEN k 5 1/{SHORT}ms",
        f"RL.LEAKY k 5 1/{SHORT}ms",
    ],
)
def test_key_really_vanishes(r, command):
    assert_lifetime(r, command.split())
    deadline = time.monotonic() + VANISH_DEADLINE
    while r.exists("k"):
        assert time.monotonic() < deadline, f"still there, PTTL {r.pttl('k')}"
        time.sleep(0.005)
