"""Hostile arguments: an error that names the argument, the key untouched, the server alive.

Errors are read from the wire, since what is promised is the whole line: `ERR ...` and one line.
"""

import pytest

from hostile import ARGUMENT_IDS, ARGUMENTS, HOSTILE
from limiters import five_integers
from refusals import refuses

NOW = 1_699_999_200_000

NO_CAPACITY = {"max", "capacity"}  # where 0 is a right value that denies everything


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(("line", "position", "name"), ARGUMENTS, ids=ARGUMENT_IDS)
def test_hostile_value(r, wire, line, position, name, value):
    command = line.split()
    command[position] = value
    if value == "0" and name in NO_CAPACITY:
        assert wire(*command) == [0, 0, 0, -1, 0]
        assert wire("EXISTS", "k") == 0
    elif value == "0" and name == "AT":
        assert five_integers(wire(*command))
        assert wire("EXISTS", "k") == 1
    else:
        refuses(r, wire, command, name)


@pytest.mark.parametrize("key", [b"", b"\x00\r\n\xff", b"k" * 1_000_000], ids=["", "binary", "1MB"])
def test_any_bytes_are_a_key(wire, limiter, key):
    assert wire(*limiter.call(key, 2, at=NOW))[:3] == [1, 2, 1]
    assert wire(*limiter.call(key, 2, at=NOW))[:3] == [1, 2, 0]
    assert wire(*limiter.call(key, 2, at=NOW))[:3] == [0, 2, 0]
    assert wire("DEL", key) == 1


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_arguments(wire, limiter, count):
    """Worded as Redis words it, whether the server (7.0 on) or the module (6.2) counted."""
    line = limiter.call("k", 10)[: 1 + count]
    said = f"ERR wrong number of arguments for '{limiter.command}' command"
    assert wire(*line).lower() == said.lower()
    assert wire("EXISTS", "k") == 0


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("RL.FIXED k 60 10 5", "option"),
        ("RL.FIXED k 60 10 60 10", "option"),
        ("RL.FIXED k 60 10 LIMIT 5", "OFFSET"),
        ("RL.FIXED k 60 10 BUCKETS 5", "COST"),
        ("RL.FIXED k 60 10 COST", "COST"),
        ("RL.FIXED k 60 10 AT", "AT"),
        ("RL.FIXED k 60 10 OFFSET", "OFFSET"),
        ("RL.FIXED k 60 10 COST 1 OFFSET", "OFFSET"),
        ("RL.FIXED k 60 10 COST AT 5", "COST"),
        ("RL.FIXED k 60 10 COST 1 COST 1", "COST"),
        ("RL.FIXED k 60 10 COST 1 AT 5 cost 1", "COST"),
        ("RL.FIXED k 60 10 AT 5 AT 5", "AT"),
        ("RL.FIXED k 60 10 OFFSET 1h OFFSET 1h", "OFFSET"),
        ("RL.FIXED k 60 10 COST 1 extra", "option"),
        ("RL.SLIDING k 60 10 5", "max"),
        ("RL.SLIDING k 60 10 COST", "COST"),
        ("RL.SLIDING k 60 10 60 10 AT", "AT"),
        ("RL.SLIDING k 60 10 60 COST 1", "max"),
        ("RL.SLIDING k 60 COST 1", "max"),
        ("RL.SLIDING k COST 1", "window"),
        ("RL.SLIDING k 60 10 OFFSET 1h", "option"),
        ("RL.SLIDING k 60 10 COST 1 60 10", "option"),
        ("RL.SLIDING k 60 10 COST 1 COST 2", "COST"),
        ("RL.SLIDING k 60 10 AT 1 COST 2 AT 1", "AT"),
        ("RL.SLIDING k" + " 60 10" * 9, "8"),
        ("RL.SLIDING k" + " 60 10" * 1000, "8"),
        ("RL.COUNTER k 60 10 5", "option"),
        ("RL.COUNTER k 60 10 60 10", "option"),
        ("RL.COUNTER k 60 10 OFFSET 1h", "BUCKETS"),
        ("RL.COUNTER k 60 10 BUCKETS", "BUCKETS"),
        ("RL.COUNTER k 60 10 BUCKETS 257", "256"),
        ("RL.COUNTER k 60 10 BUCKETS COST 1", "BUCKETS"),
        ("RL.COUNTER k 60 10 BUCKETS 5 BUCKETS 5", "BUCKETS"),
        ("RL.COUNTER k 60 10 COST 1 buckets 5 COST 1", "COST"),
        ("RL.COUNTER k 60 10 AT 5 BUCKETS 5 AT 5", "AT"),
        ("RL.COUNTER k BUCKETS 5 AT 5", "window"),
        ("RL.TOKEN k 10 2 5", "option"),
        ("RL.TOKEN k 10 2 OFFSET 1h", "option"),
        ("RL.TOKEN k 10 2 COST", "COST"),
        ("RL.TOKEN k 10 2 AT", "AT"),
        ("RL.TOKEN k 10 2 COST 1 COST 1", "COST"),
        ("RL.TOKEN k 10 2 AT 1 at 1", "AT"),
        ("RL.TOKEN k COST 1 AT 5", "capacity"),
        ("RL.LEAKY k 10 2 5", "option"),
        ("RL.LEAKY k 10 2 BUCKETS 5", "option"),
        ("RL.LEAKY k 10 2 COST", "COST"),
        ("RL.LEAKY k 10 2 AT", "AT"),
        ("RL.LEAKY k 10 2 COST 1 COST 1", "COST"),
        ("RL.LEAKY k 10 2 AT 1 at 1", "AT"),
        ("RL.LEAKY k COST 1 AT 5", "capacity"),
    ],
)
def test_wrong_grammar(r, wire, line, named):
    """The error names the argument, or where no such argument is known, those that are."""
    refuses(r, wire, line.split(), named)


def test_eight_pairs_are_allowed(wire):
    assert wire("RL.SLIDING", "k", *[60, 10] * 8, "AT", NOW) == [1, 10, 9, 0, 60000]


INTEGERS = [
    pytest.param(*argument, id=id)
    for argument, id in zip(ARGUMENTS, ARGUMENT_IDS, strict=True)
    if argument[2] in {"max", "capacity", "BUCKETS", "COST", "AT"}
]


@pytest.mark.parametrize("value", "+5|05|5.0|5 | 5|5e0|0x5|5_0|\uff15|five".split("|"))
@pytest.mark.parametrize(("line", "position", "name"), INTEGERS)
def test_integers_are_plain_digits(r, wire, line, position, name, value):
    command = line.split()
    command[position] = value
    refuses(r, wire, command, name)


LARGEST = 9_007_199_254_740_991
LARGEST_SLIDING = 4_294_967_295


@pytest.mark.parametrize(
    ("line", "right"),
    [
        (f"RL.FIXED k 60 {LARGEST} COST {LARGEST} AT 0", [1, LARGEST, 0, 0, 60000]),
        (f"RL.FIXED k 60 {LARGEST} AT {LARGEST}", [1, LARGEST, LARGEST - 1, 0, 59009]),
        (f"RL.SLIDING k 60 {LARGEST_SLIDING} COST {LARGEST_SLIDING} AT {LARGEST}",
         [1, LARGEST_SLIDING, 0, 0, 60000]),
        (f"RL.COUNTER k 60 {LARGEST} COST {LARGEST} AT 0", [1, LARGEST, 0, 0, 66000]),
        (f"RL.COUNTER k 60 {LARGEST} AT {LARGEST}", [1, LARGEST, LARGEST - 1, 0, 65009]),
        (f"RL.COUNTER k 256 {LARGEST} BUCKETS 256 COST {LARGEST} AT 0",
         [1, LARGEST, 0, 0, 257000]),
        (f"RL.TOKEN k {LARGEST} {LARGEST} COST {LARGEST} AT {LARGEST}", [1, LARGEST, 0, 0, 1000]),
        (f"RL.LEAKY k {LARGEST} {LARGEST} COST {LARGEST} AT {LARGEST}", [1, LARGEST, 0, 0, 1000]),
    ],
)  # fmt: skip
def test_largest_numbers(wire, line, right):
    assert wire(*line.split()) == right
    assert wire("EXISTS", "k") == 1


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"RL.FIXED k 60 {LARGEST + 1}", "max"),
        (f"RL.FIXED k 60 10 COST {LARGEST + 1}", "COST"),
        (f"RL.FIXED k 60 10 AT {LARGEST + 1}", "AT"),
        (f"RL.SLIDING k 60 {LARGEST_SLIDING + 1}", "max"),
        (f"RL.SLIDING k 60 10 COST {LARGEST_SLIDING + 1}", "COST"),
        (f"RL.SLIDING k 60 10 AT {LARGEST + 1}", "AT"),
        (f"RL.COUNTER k 60 {LARGEST + 1}", "max"),
        (f"RL.COUNTER k 60 10 COST {LARGEST + 1}", "COST"),
        (f"RL.COUNTER k 60 10 AT {LARGEST + 1}", "AT"),
        (f"RL.LEAKY k {LARGEST + 1} 2", "capacity"),
        (f"RL.LEAKY k 10 {LARGEST + 1}", "rate"),
        (f"RL.LEAKY k 10 2 COST {LARGEST + 1}", "COST"),
        (f"RL.LEAKY k 10 2 AT {LARGEST + 1}", "AT"),
        (f"RL.TOKEN k {LARGEST + 1} 2", "capacity"),
        (f"RL.TOKEN k 10 {LARGEST + 1}", "rate"),
        (f"RL.TOKEN k 10 2 COST {LARGEST + 1}", "COST"),
        (f"RL.TOKEN k 10 2 AT {LARGEST + 1}", "AT"),
    ],
)
def test_one_more_than_the_largest(r, wire, line, name):
    refuses(r, wire, line.split(), name)


@pytest.mark.parametrize("command", ["RL.TOKEN", "RL.LEAKY"])
def test_a_bucket_that_drains_in_ages_stays(wire, command):
    """2^53 at one per 366 d: a time beyond all numbers is the largest, and the key stays."""
    line = [command, "k", LARGEST, "1/366d", "COST", LARGEST]
    assert wire(*line) == [1, LARGEST, 0, 0, LARGEST]
    assert wire(*line) == [0, LARGEST, 0, LARGEST, LARGEST]
    assert wire("EXISTS", "k") == 1
    assert wire("PTTL", "k") > 366 * 86_400_000
