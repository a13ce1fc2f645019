"""Command lines for every command of the module, and what their keys are then."""

import json
import random
import time
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from limiters import Held, held
from servers import MODULE, Server
from wire import Failure, Wire, encode

DAY = 86_400_000  # ms
ULID = "01EJ3PX000000000AJ9G000001"  # a member as the module makes them, of a window of 1 ms
YEAR = 31_622_400  # 366 days in seconds, the longest period of RL.THROTTLE


def now_ms() -> int:
    return int(time.time() * 1000)


# --- Limits that give nothing back -------------------------------------------------------------


@dataclass(frozen=True)
class Quota:
    """What one key is asked for by `RL.<word> key *arguments`, and how much of it there is.

    No window ends and nothing drains while a test runs, so what was taken is a sum.
    """

    name: str
    word: str
    arguments: tuple
    limit: int

    def take(self, key, cost=1, at=None) -> list:
        if self.word == "THROTTLE":
            return ["RL.THROTTLE", key, *self.arguments, cost]
        return [f"RL.{self.word}", key, *self.arguments, "COST", cost, *_as_of(at)]

    def clause(self, key, cost=1) -> list:
        return [self._limiter, key, *self._quota, "COST", cost]

    def peek(self, key, cost=1, at=None) -> list:
        return ["RL.PEEK", *self.clause(key, cost), *_as_of(at)]

    @property
    def _limiter(self) -> str:
        return "TOKEN" if self.word == "THROTTLE" else self.word

    @property
    def _quota(self) -> tuple:
        return (self.limit, "1/366d") if self.word == "THROTTLE" else self.arguments

    def seed(self, wire, key) -> None:
        """Makes the key a sorted set where this quota is about one: a request of long ago."""
        if self.name == "sorted-set":
            assert wire("ZADD", key, now_ms() - 60 * DAY, ULID) == 1

    def used(self, wire, key, at=None) -> int:
        reply = wire(*self.peek(key, at=at))
        assert isinstance(reply, list), (key, reply)
        return self.limit - reply[2]

    @staticmethod
    def allowed(line, reply) -> bool:
        assert isinstance(reply, list), (line, reply)
        return reply[0] == (0 if line[0] == "RL.THROTTLE" else 1)


def _as_of(at) -> list:
    return [] if at is None else ["AT", at]


def quotas(limit: int) -> list[Quota]:
    """One for each algorithm, storage and command that takes from one key."""
    return [
        Quota("fixed", "FIXED", ("366d", limit), limit),
        Quota("sliding", "SLIDING", ("31d", limit), limit),
        Quota("tiers", "SLIDING", ("20d", limit, "31d", 2 * limit), limit),
        Quota("sorted-set", "SLIDING", ("31d", limit), limit),
        Quota("counter", "COUNTER", ("366d", limit), limit),
        Quota("token", "TOKEN", (limit, "1/366d"), limit),
        Quota("leaky", "LEAKY", (limit, "1/366d"), limit),
        Quota("throttle", "THROTTLE", (limit - 1, 1, YEAR), limit),
    ]


# --- Random traffic ----------------------------------------------------------------------------

# How a key becomes a log in a sorted set without a setting: the classic script was here first.
CLASSIC = """
    if redis.call('EXISTS', KEYS[1]) == 0 then
        redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
        redis.call('PEXPIREAT', KEYS[1], ARGV[3])
    end
"""
RUN_ALL = """
    local replies = {}
    for i, line in ipairs(cjson.decode(ARGV[1])) do
        replies[i] = redis.pcall(unpack(line))
    end
    return replies
"""
# The same twice in one script, with a command of the server's own on the same key in between.
AND_BETWEEN = """
    local line = cjson.decode(ARGV[1])
    redis.pcall(unpack(line))
    redis.pcall(ARGV[2], KEYS[1])
    redis.pcall(unpack(line))
"""


def as_json(value) -> str:
    return json.dumps(value, default=str)


class Traffic:
    """Endless random lines over all nine commands that have keys, on a few keys of each kind.

    Limits, windows, costs and the clock change; many calls are denied, some are errors.
    """

    WINDOWS = ("50ms", "1", "60", "60", "60", "600", "0.7", "1d")
    RATES = ("0.5", "10", "100/1m", "3/7", "1/s", "0.000001")

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.now = now_ms()
        self.commands = 0

    def key(self, kind) -> str:
        # Now and then a key of another kind.
        kind = kind if self.dice.random() < 0.98 else self.dice.choice(list(self.CLAUSES))
        return f"{kind}:{self.dice.randrange(4)}"

    def cost(self) -> list:
        return self.dice.choice([[], [], ["COST", 1], ["COST", 2], ["cost", 9], ["COST", 40]])

    def window(self) -> str:
        return self.dice.choice(self.WINDOWS)

    def limit(self) -> int:
        return self.dice.choice([0, 1, 10, 10, 10, 50, 500, 5_000])

    def rate(self) -> str:
        return self.dice.choice(self.RATES)

    def fixed(self) -> list:
        offset = self.dice.choice([[], [], ["OFFSET", "8h"], ["OFFSET", "13ms"]])
        return ["FIXED", self.key("fixed"), self.window(), self.limit(), *offset, *self.cost()]

    def sliding(self, kind="sliding") -> list:
        tiers = []
        for _ in range(self.dice.choice([1, 1, 1, 2, 3])):
            tiers += [self.window(), self.limit()]
        return ["SLIDING", self.key(kind), *tiers, *self.cost()]

    def counter(self) -> list:
        buckets = self.dice.choice([[], [], [], ["BUCKETS", 3], ["BUCKETS", 256]])
        return ["COUNTER", self.key("counter"), self.window(), self.limit(), *buckets, *self.cost()]

    def token(self) -> list:
        return ["TOKEN", self.key("token"), self.limit(), self.rate(), *self.cost()]

    def leaky(self) -> list:
        return ["LEAKY", self.key("leaky"), self.limit(), self.rate(), *self.cost()]

    CLAUSES: ClassVar = {
        "fixed": fixed,
        "sliding": sliding,
        "sorted-set": lambda self: self.sliding("sorted-set"),
        "counter": counter,
        "token": token,
        "leaky": leaky,
    }

    def clause(self) -> list:
        return self.dice.choice(list(self.CLAUSES.values()))(self)

    def at(self) -> list:
        steps = [0, 1, 20, 1_000, 61_000, -5_000, -150_000]
        self.now += self.dice.choices(steps, [9, 9, 9, 9, 2, 2, 1])[0]
        return ["AT", self.now] if self.dice.random() < 0.6 else []

    def throttle(self) -> list:
        quantity = self.dice.choice([[], [1], [5], [0]])
        return ["RL.THROTTLE", self.key("token"), self.limit(), 10, 60, *quantity]

    def all(self) -> list:
        clauses = {}
        for _ in range(self.dice.choice([1, 2, 3, 5])):
            clause = self.clause()
            clauses[clause[1]] = clause
        return ["RL.ALL", *[word for clause in clauses.values() for word in clause], *self.at()]

    def peek(self) -> list:
        return ["RL.PEEK", *self.clause(), *self.at()]

    def inspect(self) -> list:
        return ["RL.INSPECT", self.clause()[1]]

    def wrong(self) -> list:
        clause = self.clause()
        name = f"RL.{clause[0]}"
        return self.dice.choice(
            [
                [name, *clause[1:], "COST", 0],
                [name, *clause[1:], "NEVER"],
                [name, clause[1], "-1", "x", "y"],
                ["RL.ALL", *clause, "FIXED", "else", 60, -1],
                ["RL.PEEK", "NOTHING", *clause[1:]],
                ["RL.THROTTLE", clause[1], 1, 0, 0],
            ]
        )

    def own(self) -> list:
        """The server's own commands on the same keys."""
        key, other = self.clause()[1], self.clause()[1]
        return self.dice.choice(
            [
                ["DEL", key],
                ["PERSIST", key],
                ["RENAME", key, other],
                ["COPY", key, other, "REPLACE"],
                ["PEXPIREAT", key, now_ms() + self.dice.choice([30, 90_000])],
                ["SETRANGE", key, 3, "x"],
            ]
        )

    def classic(self) -> list:
        key = f"sorted-set:{self.dice.randrange(4)}"
        member = f"{self.dice.getrandbits(64):x}"
        expiry = now_ms() + self.dice.choice([900, 600_000])  # (6.2 sends PEXPIRE as relative)
        return ["EVAL", CLASSIC, 1, key, self.now, member, expiry]

    def burst(self) -> list[list]:
        """A log grows long, and with the next call of that window it is let shrink again."""
        key, lines = self.clause()[1], []
        for _ in range(200):
            self.now += self.dice.choice([0, 1, 1, 300])
            lines.append(["RL.SLIDING", key, 60, 5_000, "AT", self.now])
        self.commands += len(lines)
        return lines

    def line(self) -> list:
        """One command, of which `commands` keeps count where it is one of the module's."""
        single = [f"RL.{(clause := self.clause())[0]}", *clause[1:], *self.at()]
        kinds = [lambda: single, self.all, self.throttle, self.peek, self.inspect]
        kinds += [self.wrong, self.own, self.classic]
        line = self.dice.choices(kinds, [60, 12, 8, 5, 3, 3, 3, 6])[0]()
        self.commands += line[0].startswith("RL.")
        return line

    def lines(self, number) -> list[list]:
        return [self.line() for _ in range(number)]

    def run(self, wire: Wire, number: int) -> None:
        """About as many commands: direct, in pipelines, in MULTI/EXEC, in scripts."""
        until = self.commands + number
        while self.commands < until:
            ways = ["direct", "pipeline", "multi", "script", "between", "burst"]
            way = self.dice.choices(ways, [6, 6, 6, 6, 6, 1])[0]
            if way == "direct":
                replies = [wire(*self.line())]
            elif way == "pipeline":
                replies = wire.pipeline(self.lines(40))
            elif way == "multi":
                replies = wire.pipeline([["MULTI"], *self.lines(8), ["EXEC"]])
            elif way == "script":
                lines = [line for line in self.lines(8) if line[0] != "EVAL"]
                keys = sorted({str(word) for line in lines for word in line[1:]})
                replies = [wire("EVAL", RUN_ALL, len(keys), *keys, as_json(lines))]
            elif way == "burst":
                replies = wire.pipeline(self.burst())
            else:
                clause = self.clause()
                line = [f"RL.{clause[0]}", *clause[1:]]
                self.commands += 2
                between = self.dice.choice(["DEL", "PERSIST", "TTL"])
                replies = [wire("EVAL", AND_BETWEEN, 1, clause[1], as_json(line), between)]
            if way in ("script", "between"):
                assert not isinstance(replies[0], Failure), replies


class Replay(Traffic):
    """Only what decides by its `AT` alone, so that several servers can be asked the same."""

    def at(self) -> list:
        super().at()
        return ["AT", self.now]

    def line(self) -> list:
        clause = self.clause()
        single = [f"RL.{clause[0]}", *clause[1:], *self.at()]
        self.commands += 1
        return self.dice.choices([single, self.all(), self.peek()], [6, 2, 1])[0]


# --- What a key is -----------------------------------------------------------------------------


def everything(server: Server, db: int = 0) -> dict[bytes, Held]:
    """Every key: its DUMP and when it expires."""
    with server.client(db=db) as client:
        found = {key: held(client, key) for key in client.scan_iter(count=1000)}
    return {key: one for key, one in found.items() if one.dump is not None}


class Content(NamedTuple):
    """What a key holds whatever it is encoded as: a server encodes a set it loads anew."""

    value: object
    expires_at: int | None


def contents(server: Server, db: int = 0) -> dict[bytes, Content]:
    """Every key: the bytes of a string, the members and scores of a sorted set; the expiry."""
    found = {}
    with server.client(db=db) as client:
        for key in client.scan_iter(count=1000):
            expires_at = held(client, key).expires_at
            if client.type(key) == b"zset":
                value = client.zrange(key, 0, -1, withscores=True)
            else:
                value = client.dump(key)
            if value:
                found[key] = Content(value, expires_at)
    return found


def with_module(arguments: str = "") -> str:
    """The configuration line that loads the module with arguments; `spawn(..., module=False)`."""
    return f'loadmodule "{MODULE}" {arguments}'


class Pipe(Wire):
    """A connection whose replies are read one by one, to know which came before it broke."""

    def send_all(self, commands) -> None:
        self._socket.sendall(b"".join(map(encode, commands)))
