"""Random commands at keys of every kind: a whole answer each, and no key changed by an error.

The keys hold every Redis type, our own states, and these cut short, spliced, with bits flipped or
with garbage behind a sound beginning. The dice are seeded: a find can be run again.
"""

import random

import pytest

from servers import MODULE
from wire import Failure

NOW = 1_699_999_200_000
LARGEST = 9_007_199_254_740_991
KEYS = [f"k{i}" for i in range(12)]
FINDS = 5  # shown, before it is enough

FOREIGN = [
    ["RPUSH", "a", "b"],
    ["HSET", "f", "v"],
    ["SADD", "a", "b"],
    ["ZADD", 1, "a"],
    ["ZADD", NOW, "a", NOW + 1, "b"],
    ["ZADD", "inf", "a"],
    ["ZADD", NOW + 0.5, "a", "-inf", "b"],
    ["GEOADD", 13.4, 52.5, "Berlin"],
    ["XADD", "*", "f", "v"],
    ["SET", "text"],
    ["SET", 12345],
    ["SET", ""],
    ["SETBIT", 400, 1],
    ["PFADD", "a"],
]

ODD = [
    "",
    "0",
    "-1",
    "-0",
    "01",
    "1e309",
    "nan",
    "inf",
    "0.0000001",
    "1ms",
    "366d",
    "31d",
    "1/0",
    "COST",
    "AT",
    "TOKEN",
    b"\0\r\n\xff",
    "9" * 500,
    2**32 - 1,
    2**32,
    2**53 - 1,
    2**53,
    2**63,
    2**64,
]


class Fuzzer:
    """Makes up command lines: mostly sensible ones, often with something wrong in them."""

    def __init__(self, seed: int):
        self.dice = random.Random(seed)
        self.now = NOW
        self.blobs = [b"\xa1\x01", b"\xa2\x02", b"\xa3\x01", b"\xa4\x01", b"\xa5\x01"]

    def one(self, *of):
        return self.dice.choice(of)

    def key(self) -> str:
        return self.dice.choice(KEYS)

    def duration(self):
        return self.one("1", "60", "0.25", "500ms", "1ms", "15m", "1d", "31d", "7ms")

    def amount(self):
        return self.one(0, 1, 1, 2, 3, 10, 100, 10**6, 2**32 - 1, LARGEST)

    def rate(self):
        return self.one("1", "0.5", "5000", "100/60", "7/13ms", "16.666667", "1/d", LARGEST)

    def clause(self) -> list:
        algorithm = self.one("FIXED", "SLIDING", "COUNTER", "TOKEN", "LEAKY")
        line = [algorithm, self.key()]
        if algorithm in ("TOKEN", "LEAKY"):
            line += [self.amount(), self.rate()]
        else:
            line += [self.duration(), self.amount()]
        if algorithm == "SLIDING":
            for _ in range(self.one(0, 0, 1, 3, 7, 8)):
                line += [self.duration(), self.amount()]
        if algorithm == "COUNTER" and self.dice.random() < 0.5:
            line += ["BUCKETS", self.one(1, 2, 10, 256)]
        if algorithm == "FIXED" and self.dice.random() < 0.3:
            line += ["OFFSET", self.duration()]
        if self.dice.random() < 0.6:
            line += ["COST", self.one(1, 1, 2, 5, 1000, 1001, 2**32 - 1, LARGEST)]
        return line

    def at(self) -> list:
        self.now += self.one(0, 1, 20, 1000, 61_000, -1, -1000, -(10**7), 10**7)
        self.now = min(max(self.now, 0), LARGEST)
        return self.one([], ["AT", self.now], ["AT", self.now], ["AT", self.one(0, 1, LARGEST)])

    def call(self) -> list:
        kind = self.dice.random()
        if kind < 0.6:
            algorithm, *rest = self.clause()
            line = [f"RL.{algorithm}", *rest, *self.at()]
        elif kind < 0.7:
            line = ["RL.PEEK", *self.clause(), *self.at()]
        elif kind < 0.85:
            clauses = [word for _ in range(self.one(1, 2, 3)) for word in self.clause()]
            line = ["RL.ALL", *clauses, *self.at()]
        elif kind < 0.92:
            line = ["RL.INSPECT", self.key()]
        else:
            line = ["RL.THROTTLE", self.key(), self.amount(), self.amount(), self.one(1, 60, 1000)]
            line += self.one([], [0], [1], [self.amount()])
        if self.dice.random() < 0.15:
            place = self.dice.randrange(1, len(line) + 1)
            line[place : place + self.one(0, 1)] = [self.dice.choice(ODD)]
        return line

    def planted(self) -> list:
        """A command that puts something odd into a key."""
        key = self.key()
        if self.dice.random() < 0.4:
            command, *rest = self.dice.choice(FOREIGN)
            return [command, key, *rest]
        return ["SET", key, self.damaged(self.dice.choice(self.blobs))]

    def damaged(self, blob: bytes) -> bytes:
        kind = self.dice.randrange(6)
        value = bytearray(blob)
        if kind == 0 and value:
            value[self.dice.randrange(len(value))] ^= 1 << self.dice.randrange(8)
        elif kind == 1:
            del value[self.dice.randrange(len(value) + 1) :]
        elif kind == 2:
            value += self.dice.randbytes(self.dice.randrange(64))
        elif kind == 3:
            other = self.dice.choice(self.blobs)
            value = value[: len(value) // 2] + other[len(other) // 2 :]
        elif kind == 4:
            keep = self.one(2, 10, 18, 22)
            value[keep:] = self.one(b"\0", b"\xff", b"\x7f")[:1] * max(0, len(value) - keep)
        return bytes(value)


def is_five(reply) -> bool:
    return isinstance(reply, list) and len(reply) == 5 and all(type(n) is int for n in reply)


def is_whole(line, reply) -> bool:
    """A reply of the form that the command promises."""
    if isinstance(reply, Failure):
        return reply.isprintable() and reply.split()[0] in ("ERR", "WRONGTYPE")
    command = str(line[0])
    if command == "RL.INSPECT":
        return reply is None or isinstance(reply, list)
    if command != "RL.ALL":
        return is_five(reply)
    allowed, denied, *inner = reply
    verdicts = [decision[0] for decision in inner]
    first = verdicts.index(0) if 0 in verdicts else -1
    return all(map(is_five, inner)) and allowed == (first < 0) and denied == first


@pytest.mark.parametrize("storage", ["compact", "sorted-set"])
def test_every_answer_is_whole_and_errors_change_nothing(spawn, long, count, storage):
    server = spawn()
    calls = 500_000 if long else 3_000
    batch = 50
    fuzzer = Fuzzer(20241130)
    finds = []
    with server.wire() as wire:
        if isinstance(wire("CONFIG", "SET", "rl.sliding-storage", storage), Failure):
            # A server without settings for modules: as an argument, then.
            assert wire("MODULE", "UNLOAD", "rl") == "OK"
            assert wire("MODULE", "LOAD", MODULE, "sliding-storage", storage) == "OK"
        wire("CONFIG", "SET", "slowlog-log-slower-than", 50_000)
        for _ in range(calls // batch):
            steps = []
            for _ in range(batch):
                if fuzzer.dice.random() < 0.1:
                    steps.append((None, [["DEL", fuzzer.key()], fuzzer.planted()]))
                line = fuzzer.call()
                dumps = [["DUMP", key] for key in KEYS if key in map(str, line)]
                steps.append((line, [["MULTI"], *dumps, line, *dumps, ["EXEC"]]))
            replies = iter(wire.pipeline(command for _, commands in steps for command in commands))
            for line, commands in steps:
                got = [next(replies) for _ in commands]
                if line is None:
                    continue
                half = (len(commands) - 3) // 2
                queued, executed = got[half + 1], got[-1]
                if isinstance(executed, Failure):
                    # Refused by the server when it was queued: for its number of arguments.
                    if "number of arguments" not in queued:
                        finds.append((line, got))
                    continue
                before, reply, after = executed[:half], executed[half], executed[half + 1 :]
                if not is_whole(line, reply) or (isinstance(reply, Failure) and before != after):
                    finds.append((line, reply, before, after))
            assert len(finds) < FINDS, finds
            values = wire.pipeline([["GET", key] for key in KEYS])
            fuzzer.blobs = fuzzer.blobs[-200:] + [v for v in values if isinstance(v, bytes)]
        slow = [entry for entry in wire("SLOWLOG", "GET", 100) if entry[3][0].startswith(b"RL.")]
        assert wire("PING") == "PONG"
    assert not finds, finds
    # A busy machine stops a server for that long now and then; a slow command would do so often.
    assert len(slow) <= 1 + calls // 100_000, slow
    count("hostile input", commands=calls // batch * batch, over_50_ms=len(slow))
