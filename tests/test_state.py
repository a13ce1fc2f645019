"""The state is a plain string: it survives what strings survive, and foreign values are refused."""

import random

import pytest

from limiters import LIMITERS, five_integers, held
from refusals import assert_wrong_type
from wire import Failure

NOW = 1_699_999_200_000
TEN_YEARS = 3653 * 86_400_000

# Every type of value: how it is made, and the word by which the refusal calls it.
FOREIGN = {
    "text": (["SET", "k", "hello"], "string"),
    "integer": (["SET", "k", "12345"], "string"),
    "embstr of a blob's size": (["SET", "k", "x" * 32], "string"),
    "long text": (["SET", "k", "x" * 1000], "string"),
    "huge text": (["SETRANGE", "k", 2_000_000, "x"], "string"),
    "empty string": (["SET", "k", ""], "string"),
    "zero bytes": (["SET", "k", bytes(40)], "string"),
    "0xff bytes": (["SET", "k", b"\xff" * 40], "string"),
    "bitmap": (["SETBIT", "k", 500, 1], "string"),
    "hyperloglog": (["PFADD", "k", "a", "b"], "string"),
    "list": (["RPUSH", "k", "a", "b"], "list"),
    "hash": (["HSET", "k", "f", "v"], "hash"),
    "set": (["SADD", "k", "a", "b"], "set"),
    "set of integers": (["SADD", "k", 1, 2], "set"),
    "sorted set": (["ZADD", "k", 1, "a"], "sorted set"),
    "geo": (["GEOADD", "k", 13.4, 52.5, "Berlin"], "sorted set"),
    "stream": (["XADD", "k", "*", "f", "v"], "stream"),
}


@pytest.mark.parametrize("make", FOREIGN)
@pytest.mark.parametrize("lifetime", [None, 3_600_000], ids=["persistent", "with TTL"])
def test_foreign_value_is_refused_and_kept(r, wire, limiter, make, lifetime):
    command, word = FOREIGN[make]
    wire(*command)
    if lifetime:
        wire("PEXPIRE", "k", lifetime)
    before, encoding = held(r, "k"), wire("OBJECT", "ENCODING", "k")
    may_be_looked_at = wire("STRLEN", "k") >= 16 if word == "string" else False
    assert_wrong_type(wire(*limiter.call("k", 10)), word)
    assert_wrong_type(wire(*limiter.call("k", 10, at=NOW)), word)
    assert held(r, "k") == before
    if not may_be_looked_at:  # a look at a string makes it a raw one; its length alone told enough
        assert wire("OBJECT", "ENCODING", "k") == encoding


@pytest.mark.parametrize("other", LIMITERS, ids=lambda other: f"holds {other.word}")
def test_another_algorithms_state_is_refused_and_kept(r, wire, limiter, other):
    wire(*other.call("k", 10, at=NOW))
    before = held(r, "k")
    reply = wire(*limiter.call("k", 10, at=NOW))
    if limiter is other:
        assert reply[:3] == [1, 10, 8]
    else:
        assert_wrong_type(reply, other.word)
        assert held(r, "k") == before


def make_state(wire, limiter, calls=3) -> bytes:
    """A live key's value, some milliseconds between its requests."""
    wire("DEL", "k")
    for i in range(calls):
        assert wire(*limiter.call("k", 10, at=NOW + 7 * i))[0] == 1
    return wire("GET", "k")


def test_value_of_another_length_is_refused(r, wire, limiter):
    """Every shorter and some longer ones: a length that no state has is no state."""
    blob = make_state(wire, limiter)
    others = [blob[:length] for length in range(len(blob))]
    others += [blob + bytes(1), blob + b"\xff", blob + bytes(3), blob + bytes(7), b"\0" + blob]
    for other in others:
        wire("SET", "k", other)
        before = held(r, "k")
        reply = wire(*limiter.call("k", 10, at=NOW))
        if five_integers(reply) and limiter.word == "sliding" and (len(blob) - len(other)) % 8 == 0:
            continue  # a log with fewer slots may well be a log
        assert_wrong_type(reply, "string")
        assert held(r, "k") == before


def sane(reply) -> bool:
    """What a limiter may say of a value that it takes for its own."""
    if isinstance(reply, Failure):
        return reply.startswith("WRONGTYPE ")
    return five_integers(reply) and reply[0] in (0, 1) and 0 <= reply[2] <= reply[1] == 10


def test_value_with_a_flipped_bit_never_crashes(wire, limiter):
    blob = make_state(wire, limiter)
    for bit in range(8 * len(blob)):
        flipped = bytearray(blob)
        flipped[bit // 8] ^= 1 << bit % 8
        replies = wire.pipeline(
            [
                ["SET", "k", bytes(flipped)],
                limiter.call("k", 10, at=NOW),
                limiter.call("k", 10, cost=10, at=NOW + 30_000),
                limiter.call("k", 10, at=0),
                limiter.call("k", 10),
                ["PING"],
            ]
        )
        assert all(map(sane, replies[1:-1])), (bit, replies)
        assert replies[-1] == "PONG"


def test_random_bytes_behind_a_right_tag_never_crash(wire, limiter):
    """As above with any bytes, extreme ones among them, and with a log of any length."""
    blob = make_state(wire, limiter)
    dice = random.Random(20240607)
    for _ in range(500):
        length = len(blob)
        if limiter.word == "sliding":
            length += 8 * dice.choice([-2, -1, 0, 0, 1, 5, 200])
        palette = dice.choice(
            [b"\xff", b"\0", b"\0\xff", b"\x7f\xff", b"\0\x80", bytes(range(256))]
        )
        start = dice.choice([2, 2, 4, 10, 12, 18, 20, 26])
        value = (blob[:start] + bytes(dice.choices(palette, k=length)))[:length]
        replies = wire.pipeline(
            [
                ["SET", "k", value],
                limiter.call("k", 10, at=NOW),
                limiter.call("k", 10, at=9_007_199_254_740_991),
                limiter.call("k", 10, at=0),
                limiter.call("k", 10),
                ["PING"],
            ]
        )
        assert all(map(sane, replies[1:-1])), (value, replies)
        assert replies[-1] == "PONG"


def survivors(wire):
    """Each way a value may travel, ending at the key `k`."""
    yield "as it is", lambda: None
    yield "COPY", lambda: (wire("COPY", "k", "c"), wire("RENAME", "c", "k"))
    yield "RENAME", lambda: (wire("RENAME", "k", "other"), wire("RENAME", "other", "k"))
    yield (
        "DUMP and RESTORE",
        lambda: wire("RESTORE", "k", 0, wire("DUMP", "k"), "REPLACE"),
    )
    yield "GET and SET", lambda: wire("SET", "k", wire("GET", "k"))
    yield "PERSIST", lambda: wire("PERSIST", "k")
    yield "EXPIRE", lambda: wire("EXPIRE", "k", 10_000_000)


def test_state_survives_what_strings_survive(wire, limiter):
    """The same decisions whichever way the value came here, at once and after ten idle years."""
    later = [NOW + 20_000, NOW + 20_001, NOW + 70_000, NOW + TEN_YEARS]
    decisions = {}
    for name, travel in survivors(wire):
        wire("DEL", "k")
        assert wire(*limiter.call("k", 3, at=NOW))[:3] == [1, 3, 2]
        assert wire(*limiter.call("k", 3, at=NOW + 10))[:3] == [1, 3, 1]
        travel()
        decisions[name] = [wire(*limiter.call("k", 3, cost=2, at=at)) for at in later]
        assert wire(*limiter.call("k", 3, at=NOW + TEN_YEARS + 1))[0] == 1
    expected = {
        "RL.FIXED": [
            [0, 3, 1, 40_000, 40_000],
            [0, 3, 1, 39_999, 39_999],
            [1, 3, 1, 0, 50_000],
            [1, 3, 1, 0, 60_000],
        ],
        "RL.SLIDING": [
            [0, 3, 1, 40_000, 40_010],
            [0, 3, 1, 39_999, 40_009],
            [1, 3, 1, 0, 60_000],
            [1, 3, 1, 0, 60_000],
        ],
        "RL.COUNTER": [
            [0, 3, 1, 43_000, 46_000],
            [0, 3, 1, 42_999, 45_999],
            [1, 3, 1, 0, 62_000],
            [1, 3, 1, 0, 66_000],
        ],
        "RL.TOKEN": [
            [1, 3, 0, 0, 60_000],
            [0, 3, 0, 39_999, 59_999],
            [1, 3, 0, 0, 50_000],
            [1, 3, 1, 0, 40_000],
        ],
        "RL.LEAKY": [
            [1, 3, 0, 20_000, 60_000],
            [0, 3, 0, 39_999, 59_999],
            [1, 3, 0, 10_000, 50_000],
            [1, 3, 1, 0, 40_000],
        ],
    }[limiter.command]
    for name, got in decisions.items():
        assert got == expected, name


def test_del_resets_and_type_is_string(wire, limiter):
    for _ in range(2):
        assert wire(*limiter.call("k", 1, at=NOW))[:3] == [1, 1, 0]
        assert wire(*limiter.call("k", 1, at=NOW))[:3] == [0, 1, 0]
        assert wire("TYPE", "k") == "string"
        assert wire("DEL", "k") == 1


def test_keys_do_not_share_anything(wire, limiter):
    for key in ("a", "b", "{a}:b"):
        assert wire(*limiter.call(key, 1, at=NOW))[:3] == [1, 1, 0]
    wire("SELECT", 1)
    assert wire(*limiter.call("a", 1, at=NOW))[:3] == [1, 1, 0]
