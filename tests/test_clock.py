"""Clocks that run backwards: time stands still within the horizon, beyond it the state is moved."""

import time

from limiters import held

DAY = 86_400_000
DEADLINE = 30  # seconds


def replies(wire, *lines):
    return [wire(*line.split()) for line in lines]


def micros(answer) -> int:
    seconds, rest = answer
    return int(seconds) * 1_000_000 + int(rest)


def test_without_at_it_is_the_servers_clock(wire):
    """The window ends where the server's own TIME, read just before and after, says it does."""
    before, reply, after = wire.pipeline([["TIME"], ["RL.FIXED", "k", "1h", 9], ["TIME"]])
    possible = range(micros(before) // 1000, micros(after) // 1000 + 1)
    assert reply[4] in {3_600_000 - now % 3_600_000 for now in possible}


def test_token_counts_the_microseconds_of_the_servers_clock(wire):
    """A bucket of 1 at 5000/s: a clock of milliseconds would let one pass in each, not five."""
    deadline = time.monotonic() + DEADLINE
    calls = [["RL.TOKEN", "k", 1, 5000]] * 2_000
    while True:
        before, *replies, after = wire.pipeline([["TIME"], *calls, ["TIME"]])
        passed = micros(after) - micros(before)
        allowed = sum(reply[0] for reply in replies)
        assert allowed <= 2 + passed // 200
        if allowed > 2 + passed // 1_000:
            break
        assert time.monotonic() < deadline


def test_fixed_stands_still_within_a_window(wire):
    """Deciding as of the window's start, while the wait counts from the real time."""
    assert replies(
        wire,
        "RL.FIXED k 60 3 AT 130000",
        "RL.FIXED k 60 3 AT 119999",
        "RL.FIXED k 60 3 AT 60000",
        "RL.FIXED k 60 3 AT 60000",
        "RL.FIXED k 60 3 AT 179999",
        "RL.FIXED k 60 3 AT 180000",
    ) == [
        [1, 3, 2, 0, 50000],
        [1, 3, 1, 0, 60001],
        [1, 3, 0, 0, 120000],
        [0, 3, 0, 120000, 120000],
        [0, 3, 0, 1, 1],
        [1, 3, 2, 0, 60000],
    ]


def test_fixed_is_moved_from_further_ahead(wire):
    assert replies(
        wire,
        "RL.FIXED k 60 2 AT 130000",
        "RL.FIXED k 60 2 AT 130000",
        "RL.FIXED k 60 2 AT 59999",
        "RL.FIXED k 60 2 AT 60000",
    ) == [
        [1, 2, 1, 0, 50000],
        [1, 2, 0, 0, 50000],
        [0, 2, 0, 1, 1],
        [1, 2, 1, 0, 60000],
    ]


def test_sliding_stands_still_within_a_window(wire):
    assert replies(
        wire,
        "RL.SLIDING k 10 3 AT 1000000",
        "RL.SLIDING k 10 3 AT 1000500",
        "RL.SLIDING k 10 3 AT 999000",
        "RL.SLIDING k 10 3 AT 990500",
        "RL.SLIDING k 10 3 AT 1009999",
        "RL.SLIDING k 10 3 AT 1010000",
        "RL.SLIDING k 10 3 AT 1010499",
        "RL.SLIDING k 10 3 COST 2 AT 1010500",
    ) == [
        [1, 3, 2, 0, 10000],
        [1, 3, 1, 0, 10000],
        [1, 3, 0, 0, 11500],
        [0, 3, 0, 19500, 20000],
        [0, 3, 0, 1, 501],
        [1, 3, 0, 0, 10000],
        [0, 3, 0, 1, 9501],
        [1, 3, 0, 0, 10000],
    ]


def test_sliding_is_moved_from_further_ahead(wire):
    """The log as a whole, ages kept: the older request still leaves half a second earlier."""
    assert replies(
        wire,
        "RL.SLIDING k 10 2 AT 1000000",
        "RL.SLIDING k 10 2 AT 1000500",
        "RL.SLIDING k 10 2 AT 990499",
        "RL.SLIDING k 10 2 AT 999998",
        "RL.SLIDING k 10 2 AT 999999",
        "RL.SLIDING k 10 2 AT 1000498",
        "RL.SLIDING k 10 2 AT 1000499",
    ) == [
        [1, 2, 1, 0, 10000],
        [1, 2, 0, 0, 10000],
        [0, 2, 0, 9500, 10000],
        [0, 2, 0, 1, 501],
        [1, 2, 0, 0, 10000],
        [0, 2, 0, 1, 9501],
        [1, 2, 0, 0, 10000],
    ]


def test_the_longest_window_is_the_horizon(wire):
    """One log, two tiers: 60 s ahead is within the longer window, so time stands still."""
    assert replies(
        wire,
        "RL.SLIDING k 1 1 60 9 AT 1000000",
        "RL.SLIDING k 1 1 60 9 AT 940000",
        "RL.SLIDING k 1 1 60 9 AT 939999",
    ) == [
        [1, 1, 0, 0, 60000],
        [0, 1, 0, 61000, 120000],
        [0, 1, 0, 1000, 60000],
    ]


def test_token_stands_still_until_it_would_be_empty(wire):
    assert replies(
        wire,
        "RL.TOKEN k 4 2 COST 3 AT 1000000",
        "RL.TOKEN k 4 2 AT 998500",
        "RL.TOKEN k 4 2 AT 998000",
        "RL.TOKEN k 4 2 AT 1000499",
        "RL.TOKEN k 4 2 AT 1000500",
    ) == [
        [1, 4, 1, 0, 1500],
        [1, 4, 0, 0, 3500],
        [0, 4, 0, 2500, 4000],
        [0, 4, 0, 1, 1501],
        [1, 4, 0, 0, 2000],
    ]


def test_token_is_moved_from_further_ahead(wire):
    assert replies(
        wire,
        "RL.TOKEN k 4 2 COST 4 AT 1000000",
        "RL.TOKEN k 4 2 AT 997999",
        "RL.TOKEN k 4 2 AT 998498",
        "RL.TOKEN k 4 2 AT 998499",
    ) == [
        [1, 4, 0, 0, 2000],
        [0, 4, 0, 500, 2000],
        [0, 4, 0, 1, 1501],
        [1, 4, 0, 0, 2000],
    ]


def test_only_a_move_is_written_by_a_denied_call(r, wire, limiter):
    """Standing still changes nothing; a move is kept, or each call would begin the wait anew."""
    start = 1_700_000_040_000  # begins a minute
    assert wire(*limiter.call("k", 1, at=start))[0] == 1
    before = held(r, "k")
    assert wire(*limiter.call("k", 1, at=start - 60_000)) == [0, 1, 0, 120_000, 120_000]
    assert held(r, "k") == before
    moved_to = start - 60_001
    denied = wire(*limiter.call("k", 1, at=moved_to))
    assert denied[:3] == [0, 1, 0]
    assert r.dump("k") != before.dump
    wait = denied[3]
    assert wait == (1 if limiter.command == "RL.FIXED" else 60_000)
    r.persist("k")
    moved = held(r, "k")
    assert wire(*limiter.call("k", 1, at=moved_to + wait - 1))[3] == 1
    assert held(r, "k") == moved
    assert wire(*limiter.call("k", 1, at=moved_to + wait))[0] == 1


def test_a_far_future_does_not_block(wire, limiter):
    """A clock set a thousand years ahead and back again: nobody waits longer than the horizon."""
    today = 1_700_000_040_000
    assert wire(*limiter.call("k", 1, at=today + 365_000 * DAY))[0] == 1
    denied = wire(*limiter.call("k", 1, at=today))
    assert denied[0] == 0
    assert 0 < denied[3] <= 60_000
    assert wire(*limiter.call("k", 1, at=today + denied[3]))[0] == 1


def test_the_dawn_of_time(wire, limiter):
    """AT 0 and the largest AT, on one key, in both directions."""
    largest = 9_007_199_254_740_991
    assert wire(*limiter.call("k", 2, at=0))[:3] == [1, 2, 1]
    assert wire(*limiter.call("k", 2, at=largest))[:3] == [1, 2, 1]
    assert wire(*limiter.call("k", 2, at=0))[:3] == [1, 2, 0]
    assert wire(*limiter.call("k", 2, at=0))[:3] == [0, 2, 0]


def test_a_window_may_have_begun_before_the_epoch(wire):
    assert replies(
        wire,
        "RL.FIXED k 1d 2 OFFSET 8h AT 0",
        "RL.FIXED k 1d 2 OFFSET 8h AT 57599999",
        "RL.FIXED k 1d 2 OFFSET 8h AT 57600000",
    ) == [[1, 2, 1, 0, 57_600_000], [1, 2, 0, 0, 1], [1, 2, 1, 0, 86_400_000]]
