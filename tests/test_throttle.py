"""RL.THROTTLE: grammar and reply of redis-cell's CL.THROTTLE, over the state of RL.TOKEN."""

import random
import time

import pytest

from hostile import HOSTILE
from limiters import TOKEN, as_map, changes, commands_run, held, registered
from refusals import assert_error, assert_wrong_type, refuses
from replicas import CORE_WRITES
from wire import Failure

LARGEST = 9_007_199_254_740_991

# Lines of a transaction on one key, with what redis-cell documents: limited, limit (max_burst + 1),
# remaining, retry_after (seconds, -1 when allowed), reset_after. Periods are long, so that the
# seconds are the same however slow the machine is. (A quantity of 0 is ours: SPEC.md.)
TABLES = {
    "burst and one more": [
        ("2 1 1000", [0, 3, 2, -1, 1000]),
        ("2 1 1000", [0, 3, 1, -1, 2000]),
        ("2 1 1000 1", [0, 3, 0, -1, 3000]),
        ("2 1 1000", [1, 3, 0, 1000, 3000]),
        ("2 1 1000 1", [1, 3, 0, 1000, 3000]),
    ],
    "no burst": [
        ("0 1 1000", [0, 1, 0, -1, 1000]),
        ("0 1 1000", [1, 1, 0, 1000, 1000]),
    ],
    "quantities": [
        ("9 1 1000 4", [0, 10, 6, -1, 4000]),
        ("9 1 1000 7", [1, 10, 6, 1000, 4000]),
        ("9 1 1000 10", [1, 10, 6, 4000, 4000]),
        ("9 1 1000 6", [0, 10, 0, -1, 10_000]),
        ("9 1 1000 10", [1, 10, 0, 10_000, 10_000]),
    ],
    "a quantity above the limit never fits": [
        ("2 1 1000 4", [1, 3, 3, -1, 0]),
        ("2 1 1000 3", [0, 3, 0, -1, 3000]),
        ("2 1 1000 4", [1, 3, 0, -1, 3000]),
        (f"2 1 1000 {LARGEST}", [1, 3, 0, -1, 3000]),
    ],
    "a quantity of 0 looks": [
        ("1 1 1000 0", [0, 2, 2, -1, 0]),
        ("1 1 1000", [0, 2, 1, -1, 1000]),
        ("1 1 1000 0", [0, 2, 1, -1, 1000]),
        ("1 1 1000 0", [0, 2, 1, -1, 1000]),
        ("1 1 1000", [0, 2, 0, -1, 2000]),
        ("1 1 1000 0", [1, 2, 0, 1000, 2000]),
    ],
    "seconds are rounded up": [
        ("1 3 1000", [0, 2, 1, -1, 334]),
        ("1 3 1000", [0, 2, 0, -1, 667]),
        ("1 3 1000", [1, 2, 0, 334, 667]),
    ],
    "changed arguments": [
        ("9 1 1000 10", [0, 10, 0, -1, 10_000]),
        ("19 1 1000 5", [0, 20, 5, -1, 15_000]),
        ("4 1 1000", [1, 5, 0, 11_000, 15_000]),
        ("4 2 1000", [1, 5, 0, 5_500, 7_500]),
    ],
    "the largest": [
        (f"{LARGEST - 1} {LARGEST} 31622400 {LARGEST}", [0, LARGEST, 0, -1, 31_622_400]),
        (f"{LARGEST - 1} 1 31622400", [1, LARGEST, 0, 31_622_400, 9_007_199_254_741]),
    ],
    "from the README of redis-cell": [("15 30 60 1", [0, 16, 15, -1, 2])],
}


@pytest.mark.parametrize("title", TABLES)
def test_reply(wire, title):
    lines = [["RL.THROTTLE", "k", *line.split()] for line, _ in TABLES[title]]
    assert wire.transaction(lines) == [right for _, right in TABLES[title]]


def test_what_has_come_back(wire):
    """A bucket used up so many seconds ago, as RL.TOKEN can say with AT."""
    for ago, line, right in (
        (1_500_500, "2 1 1000", [0, 3, 0, -1, 2500]),
        (990_500, "2 1 1000", [1, 3, 0, 10, 2010]),
        (1_990_500, "2 1 1000 2", [1, 3, 1, 10, 1010]),
        (2_990_500, "2 1 1000 0", [0, 3, 2, -1, 10]),
        (3_000_000, "2 1 1000", [0, 3, 2, -1, 1000]),
    ):
        seconds, micros = wire("TIME")
        now = int(seconds) * 1000 + int(micros) // 1000
        wire("DEL", "k")
        assert wire("RL.TOKEN", "k", 3, "1/1000", "COST", 3, "AT", now - ago)[0] == 1
        assert wire("RL.THROTTLE", "k", *line.split()) == right


def test_one_key_asked_both_ways(server, wire):
    """Every other call by RL.TOKEN, against a twin that knows RL.TOKEN only."""
    dice, commands, quantities = random.Random(9), [], []
    for _ in range(200):
        burst, count = dice.choice([3, 3, 9]), dice.choice([1, 1, 7])
        quantities.append(dice.choice([1, 1, 2, burst + 2]))
        token = ["RL.TOKEN", "twin", burst + 1, f"{count}/1000000", "COST", quantities[-1]]
        asked = ["RL.THROTTLE", "k", burst, count, 1_000_000, quantities[-1]]
        if dice.random() < 0.5:
            asked = ["RL.TOKEN", "k", *token[2:]]
        commands += [token, asked]
        if dice.random() < 0.03:
            commands += [["DEL", "k"], ["DEL", "twin"]]
    *replies, mine, twin = wire.transaction([*commands, ["GET", "k"], ["GET", "twin"]])
    seen = set()
    for (token, *_), right, (name, *_), reply in zip(
        commands[::2], replies[::2], commands[1::2], replies[1::2], strict=True
    ):
        if token == "DEL":
            continue
        if name == "RL.THROTTLE":
            allowed, limit, remaining, wait, reset = right
            retry = -1 if allowed or wait < 0 else -(-wait // 1000)
            assert reply == [1 - allowed, limit, remaining, retry, -(-reset // 1000)]
        else:
            assert reply[:3] == right[:3]
        seen.add((name, reply[0]))
    assert len(seen) == 4
    if server.binary.version >= (7, 2):  # where the clock stands still in a transaction
        assert mine == twin


@pytest.mark.parametrize("protocol", [2, 3])
def test_reply_is_five_integers(server, protocol):
    with server.wire(protocol) as wire:
        reply = wire("RL.THROTTLE", "k", 2, 1, 1000)
        assert reply == [0, 3, 2, -1, 1000]
        assert all(type(n) is int for n in reply)


def test_a_limited_call_and_a_look_touch_nothing(r, wire):
    assert wire("RL.THROTTLE", "k", 0, 1, 1000)[0] == 0
    for touch in (lambda: None, lambda: r.persist("k"), lambda: r.pexpire("k", 86_400_000)):
        touch()
        before = held(r, "k")
        for quantity in (0, 1, 2):
            assert wire("RL.THROTTLE", "k", 0, 1, 1000, quantity)[0] == 1
        assert wire("RL.THROTTLE", "k", 9, 1, 1000, 0)[0] == 0
        assert held(r, "k") == before
    assert wire("RL.THROTTLE", "none", 9, 1, 1000, 0)[0] == 0
    assert wire("RL.THROTTLE", "none", 9, 1, 1000, 11)[0] == 1
    assert wire("EXISTS", "none") == 0


def test_lifetime(wire):
    """As long as the bucket takes to fill, at most half as long again."""
    for quantity in (1, 3, 5):
        reply, ttl = wire.transaction([["RL.THROTTLE", "k", 99, 1, 100, quantity], ["PTTL", "k"]])
        needed = reply[4] * 1000
        assert needed - 2_000 <= ttl <= needed * 3 // 2


def test_really_refills(wire):
    """On the server's own clock: one every 20 ms comes back without anybody waiting for it."""
    assert wire("RL.THROTTLE", "k", 0, 50, 1)[0] == 0
    deadline = time.monotonic() + 30
    while wire("RL.THROTTLE", "k", 0, 50, 1)[0] == 1:
        assert time.monotonic() < deadline
    assert wire("RL.THROTTLE", "k", 0, 50, 1, 2) == [1, 1, 0, -1, 1]


NAMES = {2: "max_burst", 3: "count", 4: "period", 5: "quantity"}


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("position", NAMES, ids=NAMES.values())
def test_hostile_value(r, wire, position, value):
    line = ["RL.THROTTLE", "k", 15, 30, 60_000, 1]
    line[position] = value
    if value == "0" and NAMES[position] in ("max_burst", "quantity"):
        assert wire(*line)[0] == 0
    else:
        refuses(r, wire, line, NAMES[position])


@pytest.mark.parametrize(
    "value", ["+5", "05", "5.0", " 5", "5 ", "1m", "60s", "5e0", "0x5", "30/60"]
)
@pytest.mark.parametrize("position", NAMES, ids=NAMES.values())
def test_integers_are_plain_digits(r, wire, position, value):
    line = ["RL.THROTTLE", "k", 15, 30, 60, 1]
    line[position] = value
    refuses(r, wire, line, NAMES[position])


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"{LARGEST} 30 60", "max_burst"),
        (f"15 {LARGEST + 1} 60", "count"),
        ("15 30 31622401", "period"),
        (f"15 30 60 {LARGEST + 1}", "quantity"),
        ("15 30 60 COST", "quantity"),
    ],
)
def test_one_more_than_the_largest(r, wire, line, name):
    refuses(r, wire, ["RL.THROTTLE", "k", *line.split()], name)


@pytest.mark.parametrize("line", ["", "15", "15 30", "15 30 60 1 1", "15 30 60 1 COST"])
def test_wrong_number_of_arguments(wire, line):
    said = "ERR wrong number of arguments for 'RL.THROTTLE' command"
    assert wire("RL.THROTTLE", "k", *line.split()).lower() == said.lower()
    assert wire("EXISTS", "k") == 0


def test_the_key_of_redis_cell_is_refused_and_kept(r, wire):
    """It keeps a bare number there."""
    wire("SET", "k", 1_700_000_000_000_000_000)
    before, encoding = held(r, "k"), wire("OBJECT", "ENCODING", "k")
    assert_wrong_type(wire("RL.THROTTLE", "k", 15, 30, 60), "string")
    assert_wrong_type(wire("RL.THROTTLE", "k", 15, 30, 60, 0), "string")
    assert (held(r, "k"), wire("OBJECT", "ENCODING", "k")) == (before, encoding)
    wire("RL.LEAKY", "leaky", 5, 1)
    assert_wrong_type(wire("RL.THROTTLE", "leaky", 15, 30, 60), "leaky")


def test_replicated_as_one_core_command(pair):
    pair.q.config_resetstat()
    with pair.primary.wire() as wire:
        allowed = wire.pipeline([["RL.THROTTLE", "k", 49, 1, 1000]] * 50)
        assert {reply[0] for reply in allowed} == {0}
        pair.settle()
        ran = commands_run(pair.q)
        assert sum(count for name, count in ran.items() if name in CORE_WRITES) == 50
        before = changes(pair.p)
        limited = wire.pipeline([["RL.THROTTLE", "k", 49, 1, 1000, q] for q in (1, 50, 99, 0)])
        assert {reply[0] for reply in limited} == {1}
        assert changes(pair.p) == before
    pair.assert_equal()


def test_cl_throttle_is_absent_by_default(wire):
    assert not registered(wire, "CL.THROTTLE")
    assert_error(wire("CL.THROTTLE", "k", 15, 30, 60), "unknown command")


@pytest.mark.parametrize("arguments", ["cl-throttle yes", "CL-THROTTLE YES"])
def test_cl_throttle_is_the_same_command(spawn, arguments):
    """The same bucket under both names, in redis-cell's words; and it says the same of itself."""
    with spawn(arguments=arguments).wire() as wire:
        assert wire("TYPE", "k") == "none"
        for title, table in TABLES.items():
            both = [
                ["CL.THROTTLE" if i % 2 else "RL.THROTTLE", title, *line.split()]
                for i, (line, _) in enumerate(table)
            ]
            assert wire.transaction(both) == [right for _, right in table]
        for line in ("x 30 60", "15 0 60", "15 30 0", "15 30 60 -1"):
            named = [wire(f"{name}.THROTTLE", "k", *line.split()) for name in ("CL", "RL")]
            assert isinstance(named[0], Failure)
            assert named[0] == named[1]
        cl, rl = wire("COMMAND", "INFO", "CL.THROTTLE", "RL.THROTTLE")
        assert cl[0].upper() == b"CL.THROTTLE"
        assert cl[1:6] == rl[1:6]
        assert set(cl[2]) == set(rl[2])
        assert wire("COMMAND", "GETKEYS", "CL.THROTTLE", "k", 15, 30, 60) == [b"k"]
        assert as_map(wire("RL.INSPECT", "no burst"))[b"algorithm"] == b"token"
        assert wire(*TOKEN.peek("no burst", 1, seconds=1000))[:3] == [0, 1, 0]


def test_cl_throttle_no(spawn):
    with spawn(arguments="cl-throttle no").wire() as wire:
        assert not registered(wire, "CL.THROTTLE")
        assert registered(wire, "RL.THROTTLE")
