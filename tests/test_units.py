"""Durations and rates: what is a right one, what it comes to, and what is refused."""

from fractions import Fraction
from math import ceil, floor

import pytest

from refusals import refuses

DURATIONS = {
    "1": 1_000,
    "60": 60_000,
    "0.25": 250,
    "0.001": 1,
    "1.50": 1_500,
    "1.0000": 1_000,
    "1ms": 1,
    "500ms": 500,
    "2.0ms": 2,
    "1s": 1_000,
    "1.5s": 1_500,
    "15m": 900_000,
    "0.5m": 30_000,
    "1h": 3_600_000,
    "0.25h": 900_000,
    "1d": 86_400_000,
    "31d": 2_678_400_000,
}
LONG_DURATIONS = {
    "366d": 31_622_400_000,
    "8784h": 31_622_400_000,
    "31622400": 31_622_400_000,
    "31622400000ms": 31_622_400_000,
}
NO_DURATIONS = ["5 s", " 5", "5 ", "5\n", "5\0"]
NO_DURATIONS += (
    "0ms 0.0 0.0001 0.0005 0.5ms 1.0001 0.00001m 1.2.3 . s ms 5S 5MS 5M 5H 5D 1w 1y 5sec 5mss 5sm "
    "+5 -5s 5e3 0x10 5_000 1,5 \uff15 1m30s 5s5 --5 0.0000000000000000000001 "
    "99999999999999999999d 1e309s nans infd"
).split()
TOO_LONG = "366.5d 367d 8785h 31622400.001 31622401 31622400001ms".split()
TOO_LONG_TO_SLIDE = "31.5d 32d 745h 2678400.001 2678400001ms 366d".split()


@pytest.mark.parametrize(("text", "milliseconds"), (DURATIONS | LONG_DURATIONS).items())
def test_duration(wire, text, milliseconds):
    assert wire("RL.FIXED", "k", text, 9, "AT", 0) == [1, 9, 8, 0, milliseconds]
    offset = wire("RL.FIXED", "o", "366d", 9, "OFFSET", text, "AT", 31_622_399_999)
    assert offset == [1, 9, 8, 0, 31_622_400_001 - milliseconds]
    counter = wire("RL.COUNTER", "c", text, 9, "BUCKETS", 1, "AT", 0)
    assert counter == [1, 9, 8, 0, 2 * milliseconds]


@pytest.mark.parametrize(("text", "milliseconds"), DURATIONS.items())
def test_sliding_duration(wire, text, milliseconds):
    assert wire("RL.SLIDING", "k", text, 9, "AT", 0) == [1, 9, 8, 0, milliseconds]


@pytest.mark.parametrize("text", NO_DURATIONS + TOO_LONG)
def test_no_duration(r, wire, text):
    refuses(r, wire, ["RL.FIXED", "k", text, 9], "window")
    refuses(r, wire, ["RL.FIXED", "k", 60, 9, "OFFSET", text], "OFFSET")
    refuses(r, wire, ["RL.SLIDING", "k", text, 9], "window")
    refuses(r, wire, ["RL.COUNTER", "k", text, 9], "window")
    if text not in {"ms", "s"}:  # of a rate, a bare unit is one of it
        refuses(r, wire, ["RL.TOKEN", "k", 9, f"1/{text}"], "rate")
        refuses(r, wire, ["RL.LEAKY", "k", 9, f"1/{text}"], "rate")


@pytest.mark.parametrize("text", TOO_LONG_TO_SLIDE)
def test_a_sliding_window_is_31_days_at_most(r, wire, text):
    refuses(r, wire, ["RL.SLIDING", "k", text, 9], "window")
    refuses(r, wire, ["RL.SLIDING", "k", 60, 9, text, 9], "window")


SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
RATES = {
    "10": Fraction(10, SECOND),
    "0.5": Fraction(1, 2 * SECOND),
    "16.666667": Fraction(16_666_667, 1_000_000 * SECOND),
    "0.000001": Fraction(1, 1_000_000 * SECOND),
    "2.500000": Fraction(5, 2 * SECOND),
    "100/60": Fraction(100, MINUTE),
    "100/1m": Fraction(100, MINUTE),
    "100/m": Fraction(100, MINUTE),
    "5/s": Fraction(5, SECOND),
    "7/ms": Fraction(7),
    "3/h": Fraction(3, HOUR),
    "1000/d": Fraction(1000, DAY),
    "1/366d": Fraction(1, 366 * DAY),
    "7/250ms": Fraction(7, 250),
    "7/0.25": Fraction(7, 250),
    "100/1.5h": Fraction(100, 90 * MINUTE),
    "600/60": Fraction(600, MINUTE),
}
NO_RATES = ["5 /s", "5/ s", " 5", "5 ", "5\n", "5/s\0"]
NO_RATES += (
    "0.0 0.000000 0/60 0/s 1/0 1/0s /s / 1/ 1// 1//2 1/2/3 0.0000001 1.0000001 10/S 10/M 10/w "
    "-1/60 1/-60 +1 +1/60 nan/1 1/nan 1e3 1e3/60 0x1 10s 10m 5/s5 1/0.0001 1/0.5ms 1/367d "
    "18446744073709551616/s 9223372036854775808/60 1/18446744073709551616 \uff15 1,5 1_0 . s"
).split()


@pytest.mark.parametrize(("text", "per_millisecond"), RATES.items())
@pytest.mark.parametrize("cost", [1, 600, 1000])
@pytest.mark.parametrize("command", ["RL.TOKEN", "RL.LEAKY"])
def test_rate(wire, command, text, per_millisecond, cost):
    """The time to drain what was taken shows the rate, exactly."""
    drained = ceil(cost / per_millisecond)
    taken = wire(command, "k", 1000, text, "COST", cost, "AT", 0)
    assert taken == [1, 1000, 1000 - cost, 0, drained]
    line = [command, "k", cost, text, "COST", cost, "AT"]
    if drained > 1:
        room = floor(per_millisecond * (drained - 1))
        assert wire(*line, drained - 1) == [0, cost, room, 1, 1]
    assert wire(*line, drained) == [1, cost, 0, 0, drained]


@pytest.mark.parametrize("text", NO_RATES)
def test_no_rate(r, wire, text):
    refuses(r, wire, ["RL.TOKEN", "k", 9, text], "rate")
    refuses(r, wire, ["RL.LEAKY", "k", 9, text], "rate")


@pytest.mark.parametrize(
    ("window", "buckets", "sub_window"),
    [
        ("10", 10, 1_000),
        ("1", 7, 143),
        ("1000ms", 256, 4),
        ("1ms", 1, 1),
        ("1ms", 256, 1),
        ("366d", 256, 123_525_000),
        ("366d", 1, 31_622_400_000),
        ("999ms", 10, 100),
        ("1001ms", 10, 101),
    ],
)
def test_sub_windows_are_rounded_up(wire, window, buckets, sub_window):
    """Seen by the reset: a request leaves with the end of the last sub-window that it counts in."""
    line = ["RL.COUNTER", "k", window, 2, "BUCKETS", buckets, "AT"]
    assert wire(*line, 0) == [1, 2, 1, 0, (buckets + 1) * sub_window]
    if buckets > 1:
        assert wire(*line, sub_window - 1) == [1, 2, 0, 0, buckets * sub_window + 1]
