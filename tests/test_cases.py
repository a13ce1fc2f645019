"""The public examples: every line of cases.tsv, SPEC's worked examples, and the option grammar."""

import json
from itertools import permutations
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("cases.tsv")

WORKED_EXAMPLES = """\
RL.SLIDING a 10 3 AT 1000000   -> 1 3 2 0 10000
RL.SLIDING a 10 3 AT 1001000   -> 1 3 1 0 10000
RL.SLIDING a 10 3 AT 1002000   -> 1 3 0 0 10000
RL.SLIDING a 10 3 AT 1003000   -> 0 3 0 7000 9000
RL.SLIDING a 10 3 AT 1009999   -> 0 3 0 1 2001
RL.SLIDING a 10 3 AT 1010000   -> 1 3 0 0 10000
RL.FIXED   b 60 2 AT 90000     -> 1 2 1 0 30000
RL.TOKEN   c 5 2 COST 5 AT 1000000 -> 1 5 0 0 2500
RL.TOKEN   c 5 2 AT 1000499    -> 0 5 0 1 2001
RL.TOKEN   c 5 2 AT 1000500    -> 1 5 0 0 2500
RL.LEAKY   d 3 2 AT 1000000    -> 1 3 2 0 500
RL.LEAKY   d 3 2 AT 1000000    -> 1 3 1 500 1000
RL.LEAKY   d 3 2 AT 1000000    -> 1 3 0 1000 1500
RL.LEAKY   d 3 2 AT 1000000    -> 0 3 0 500 1500
RL.COUNTER e 10 10 COST 10 AT 1000000 -> 1 10 0 0 11000
RL.COUNTER e 10 10 AT 1010000  -> 0 10 0 100 1000
RL.COUNTER e 10 10 AT 1010500  -> 1 10 4 0 10500
"""


def read_cases() -> dict[str, list[tuple[list[str], list]]]:
    """The titled blocks: each a list of (command line, right reply)."""
    blocks = {}
    for line in CASES.read_text().splitlines():
        if line.startswith("# ") and line[2].isdigit():
            block = blocks.setdefault(line[2:], [])
        elif line and not line.startswith("#"):
            command, right = line.split("\t")
            block.append((command.split(), json.loads(right)))
    return blocks


BLOCKS = read_cases()


def test_cases_file_is_whole():
    """A truncated copy, or a parser that overlooks lines, must not pass for a green run."""
    assert len(BLOCKS) == 28
    assert sum(map(len, BLOCKS.values())) == 207


@pytest.mark.parametrize("title", BLOCKS)
def test_case(wire, title):
    for command, right in BLOCKS[title]:
        assert wire(*command) == right, " ".join(command)


def test_worked_examples_of_the_spec(wire):
    for line in WORKED_EXAMPLES.splitlines():
        command, right = line.split("->")
        assert wire(*command.split()) == [int(n) for n in right.split()], command


@pytest.mark.parametrize(
    ("command", "options", "right"),
    [
        ("RL.FIXED k 1d 9", ["COST 2", "OFFSET 8h", "AT 1699999200000"], [1, 9, 7, 0, 64800000]),
        ("RL.SLIDING k 10 9", ["COST 2", "AT 1699999200000"], [1, 9, 7, 0, 10000]),
        ("RL.SLIDING k 10 9 60 11", ["COST 2", "AT 1699999200000"], [1, 9, 7, 0, 60000]),
        (
            "RL.COUNTER k 10 9",
            ["COST 2", "BUCKETS 5", "AT 1699999200000"],
            [1, 9, 7, 0, 12000],
        ),
        ("RL.TOKEN k 9 2/1m", ["COST 2", "AT 1699999200000"], [1, 9, 7, 0, 60000]),
        ("RL.LEAKY k 9 2/1m", ["COST 2", "AT 1699999200000"], [1, 9, 7, 0, 60000]),
        ("RL.PEEK COUNTER k 10 9", ["COST 2", "BUCKETS 5", "AT 1699999200000"], [1, 9, 9, 0, 0]),
        ("RL.PEEK Fixed k 1d 9", ["COST 2", "OFFSET 8h", "AT 1699999200000"], [1, 9, 9, 0, 0]),
    ],
)
def test_options_in_any_order_and_any_case(wire, command, options, right):
    def swapped(text):
        return f"{text.split()[0].capitalize()} {text.split()[1]}"

    for order in permutations(options):
        lower = [f"{name.lower()} {value}" for name, value in (o.split() for o in order)]
        for spelled in (order, lower, map(swapped, order)):
            line = f"{command} {' '.join(spelled)}".split()
            wire("DEL", "k")
            assert wire(*line) == right, line


def test_command_names_in_any_case(wire):
    assert wire("rl.Fixed", "a", 60, 2, "AT", 90000) == [1, 2, 1, 0, 30000]
    assert wire("rl.sliding", "b", 60, 2, "AT", 90000) == [1, 2, 1, 0, 60000]
    assert wire("Rl.ToKeN", "c", 2, "2/m", "AT", 90000) == [1, 2, 1, 0, 30000]
    assert wire("RL.leaky", "d", 2, "2/m", "AT", 90000) == [1, 2, 1, 0, 30000]
    assert wire("rl.COUNTER", "e", 60, 2, "AT", 90000) == [1, 2, 1, 0, 66000]
    assert wire("rl.Throttle", "f", 1, 1, 1000) == [0, 2, 1, -1, 1000]
    assert wire("rl.peek", "tOkEn", "c", 2, "2/m", "AT", 90000) == [1, 2, 1, 0, 30000]
    every = wire("rl.all", "Fixed", "a", 60, 2, "leaky", "d", 2, "2/m", "aT", 90000)
    assert every == [1, -1, [1, 2, 0, 0, 30000], [1, 2, 0, 30000, 60000]]
    assert wire("rl.inspect", "none") is None
