"""Clocks that run backwards: time stands still within the horizon, beyond it the state is moved."""

import time

import pytest

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


@pytest.mark.parametrize("command", ["RL.TOKEN", "RL.LEAKY"])
def test_buckets_count_the_microseconds_of_the_servers_clock(wire, command):
    """A bucket of 1 at 5000/s: a clock of milliseconds would let one pass in each, not five."""
    deadline = time.monotonic() + DEADLINE
    calls = [[command, "k", 1, 5000]] * 2_000
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


def test_counter_stands_still_within_a_window(wire):
    """At the start of its latest sub-window, here 1005000, while waits count from the real time."""
    assert replies(
        wire,
        "RL.COUNTER k 10 4 AT 1005400",
        "RL.COUNTER k 10 4 AT 1005100",
        "RL.COUNTER k 10 4 AT 1000000",
        "RL.COUNTER k 10 4 AT 995000",
        "RL.COUNTER k 10 4 AT 995000",
        "RL.COUNTER k 10 4 AT 1015249",
        "RL.COUNTER k 10 4 AT 1015250",
    ) == [
        [1, 4, 3, 0, 10_600],
        [1, 4, 2, 0, 10_900],
        [1, 4, 1, 0, 16_000],
        [1, 4, 0, 0, 21_000],
        [0, 4, 0, 20_250, 21_000],
        [0, 4, 0, 1, 751],
        [1, 4, 0, 0, 10_750],
    ]


def test_counter_is_moved_from_further_ahead(wire):
    """All counts, ages kept: the older one still leaves two sub-windows before the other."""
    assert replies(
        wire,
        "RL.COUNTER k 10 4 COST 2 AT 1003000",
        "RL.COUNTER k 10 4 COST 2 AT 1005000",
        "RL.COUNTER k 10 4 AT 994999",
        "RL.COUNTER k 10 4 AT 1002499",
        "RL.COUNTER k 10 4 AT 1002500",
        "RL.COUNTER k 10 4 COST 3 AT 1004333",
        "RL.COUNTER k 10 4 COST 2 AT 1003000",
    ) == [
        [1, 4, 2, 0, 11_000],
        [1, 4, 0, 0, 11_000],
        [0, 4, 0, 7_501, 10_001],
        [0, 4, 0, 1, 2_501],
        [1, 4, 0, 0, 10_500],
        [0, 4, 1, 667, 8_667],
        [0, 4, 1, 1_500, 10_000],
    ]


def test_counter_moved_to_new_sub_windows_by_a_denied_call(r, wire):
    """Its estimate, rounded up; written, or each denied call would begin the wait anew."""
    assert wire(*"RL.COUNTER k 10 5 COST 5 AT 1000000".split()) == [1, 5, 0, 0, 11_000]
    before = held(r, "k")
    moved = "RL.COUNTER k 20 3 COST 2 BUCKETS 5 AT".split()
    assert wire(*moved, 1_010_700) == [0, 3, 1, 19_300, 21_300]
    assert held(r, "k") != before
    r.persist("k")
    before = held(r, "k")
    assert wire(*moved, 1_029_999) == [0, 3, 1, 1, 2_001]
    assert held(r, "k") == before
    assert wire(*moved, 1_030_000) == [1, 3, 0, 0, 22_000]


def test_counter_stays_readable_whatever_it_is_moved_to(wire):
    """A clock within the sub-window raises the estimate above all maxima; it has to be stored."""
    largest = 2**53 - 1
    line = ["RL.COUNTER", "k", 10, largest, "BUCKETS"]
    assert wire(*line, 1, "COST", largest, "AT", 0)[0] == 1
    assert wire(*line, 1, "COST", largest - 10**12, "AT", 19_999)[0] == 1
    assert wire(*line, 2, "AT", 12_000)[:3] == [0, largest, 0]
    assert wire(*line, 2, "AT", 12_000)[:3] == [0, largest, 0]
    assert wire(*line, 2, "AT", 35_000)[0] == 1


def test_leaky_stands_still_and_holds_for_the_real_time(wire):
    assert replies(
        wire,
        "RL.LEAKY k 4 2 COST 3 AT 1000000",
        "RL.LEAKY k 4 2 AT 998500",
        "RL.LEAKY k 4 2 AT 998000",
        "RL.LEAKY k 4 2 AT 1000499",
        "RL.LEAKY k 4 2 AT 1000500",
    ) == [
        [1, 4, 1, 0, 1500],
        [1, 4, 0, 3000, 3500],
        [0, 4, 0, 2500, 4000],
        [0, 4, 0, 1, 1501],
        [1, 4, 0, 1500, 2000],
    ]


def test_leaky_is_moved_from_further_ahead(wire):
    assert replies(
        wire,
        "RL.LEAKY k 4 2 COST 3 AT 1000000",
        "RL.LEAKY k 4 2 COST 2 AT 998499",
        "RL.LEAKY k 4 2 COST 2 AT 998998",
        "RL.LEAKY k 4 2 COST 2 AT 998999",
    ) == [
        [1, 4, 1, 0, 1500],
        [0, 4, 1, 500, 1500],
        [0, 4, 1, 1, 1001],
        [1, 4, 0, 1000, 2000],
    ]


def test_only_a_move_is_written_by_a_denied_call(r, wire, limiter):
    """Standing still changes nothing; a move is kept, or each call would begin the wait anew."""
    start = 1_700_000_040_000  # begins a minute
    assert wire(*limiter.call("k", 1, at=start))[0] == 1
    before = held(r, "k")
    still = {"RL.COUNTER": 126_000}.get(limiter.command, 120_000)
    assert wire(*limiter.call("k", 1, at=start - 60_000)) == [0, 1, 0, still, still]
    assert held(r, "k") == before
    moved_to = start - 60_001
    denied = wire(*limiter.call("k", 1, at=moved_to))
    assert denied[:3] == [0, 1, 0]
    assert r.dump("k") != before.dump
    wait = denied[3]
    assert wait == {"RL.FIXED": 1, "RL.COUNTER": 60_001}.get(limiter.command, 60_000)
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
    horizon = 66_000 if limiter.command == "RL.COUNTER" else 60_000
    assert 0 < denied[3] <= horizon
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
