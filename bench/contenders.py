"""Who runs against whom: the command of each contender, and the keys it finds.

In commands and seeds `__key__` stands for the key.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from .load import Command

KEY = "__key__"

SCRIPTS = {path.stem: path.read_text() for path in Path(__file__).parent.glob("scripts/*.lua")}

DAY = 86_400
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
ENTRIES = 100
LONG = 60_000
PLENTY = 1_000_000


@dataclass(frozen=True)
class Seed:
    """The commands that make one key, which is then copied; told the time in milliseconds."""

    commands: Callable[[int], Iterable[Command]]
    key: str = KEY
    each: bool = False
    """Make every key so and copy none: the types of some modules cannot be copied."""


@dataclass(frozen=True)
class Contender:
    id: str
    label: str
    command: Command
    seeds: tuple[Seed, ...] = ()
    """Key i begins as a copy of one of these, by turns."""
    allowed: float | None = None
    """The share of calls that must be allowed, which is checked after each run."""
    keys: int | None = None
    """How many keys, where that is not what the others have."""


def seed(*command: str | int) -> Seed:
    return Seed(lambda now: [command])


def log(maximum: int, window_ms: int, entries: int, spread_ms: int) -> Seed:
    """A log of RL.SLIDING whose entries lie evenly in the last `spread_ms`."""

    def commands(now: int) -> Iterable[Command]:
        for at in times(now, entries, spread_ms):
            yield ("RL.SLIDING", KEY, f"{window_ms}ms", maximum, "AT", at)

    return Seed(commands)


def sorted_set(window_ms: int, entries: int, spread_ms: int) -> Seed:
    """The same as the script has it."""

    def commands(now: int) -> Iterable[Command]:
        for number, at in enumerate(times(now, entries, spread_ms)):
            yield ("ZADD", KEY, at, f"{at // 1000}{at % 1000 * 1000 + number % 1000:06}")
        yield ("EXPIRE", KEY, -(-window_ms // 1000))

    return Seed(commands)


def times(now: int, entries: int, spread_ms: int) -> Iterable[int]:
    return (now - spread_ms + spread_ms * (n + 1) // entries for n in range(entries))


def sha(script: str) -> str:
    return hashlib.sha1(SCRIPTS[script].encode()).hexdigest()


def script(name: str, *arguments: str | int) -> Command:
    return ("EVALSHA", sha(name), 1, KEY, *arguments)


GET = Contender("get", "GET", ("GET", KEY), (seed("SET", KEY, "v"),))
INCR = Contender("incr", "INCR", ("INCR", KEY), (seed("SET", KEY, 1),))
SET = Contender(
    "set",
    "SET k v PX 60000",
    ("SET", KEY, "v", "PX", 60_000),
    (seed("SET", KEY, "v", "PX", 60_000),),
)
BASELINE = (GET, SET)


def allowing(identity: str, label: str, command: Command) -> Contender:
    """A command that allows every call, on keys that it was called on once."""
    return Contender(identity, label, command, (seed(*command),), 1)


def in_use(identity: str, name: str) -> Contender:
    command = (name, KEY, 100_000, 1)
    return Contender(
        identity, f"{name} k 100000 1, 20 used", command, (seed(*command, "COST", 20),), 1
    )


FIXED = allowing("fixed", "RL.FIXED k 60 1000000", ("RL.FIXED", KEY, 60, PLENTY))
# Buckets in use: 20 calls have come of late. (A key that a single call has made expires a second
# later, and the next ones would all move that.)
TOKEN = in_use("token", "RL.TOKEN")
LEAKY = in_use("leaky", "RL.LEAKY")
# Its bucket is full again, and its key gone, a tenth of a second after a call: most calls make one.
TOKEN_NEW = allowing("token-new", "RL.TOKEN k 1000 10, key made anew", ("RL.TOKEN", KEY, 1000, 10))
COUNTER = allowing("counter", "RL.COUNTER k 60 1000000", ("RL.COUNTER", KEY, 60, PLENTY))
SLIDING = Contender(
    "sliding",
    "RL.SLIDING k 60 1000, 100 entries",
    ("RL.SLIDING", KEY, 60, 1000),
    (log(1000, MINUTE_MS, ENTRIES, MINUTE_MS),),
    1,
)
SLIDING_LONG = Contender(
    "sliding-long",
    "RL.SLIDING k 60 1000000, 60,000 entries, 300 keys",
    ("RL.SLIDING", KEY, 60, PLENTY),
    (log(PLENTY, MINUTE_MS, LONG, MINUTE_MS),),
    1,
    keys=300,
)
LUA_FIXED = allowing("lua-fixed", "Lua fixed window", script("fixed", 60, PLENTY))
LUA_TOKEN = allowing("lua-token", "Lua token bucket", script("token", 100_000, 1))
LUA_SLIDING = Contender(
    "lua-sliding",
    "Lua sliding log, 100 entries",
    script("sliding", MINUTE_MS, 1000),
    (sorted_set(MINUTE_MS, ENTRIES, MINUTE_MS),),
    1,
)
# Five keys only: 60,000 members are 6 MB.
LUA_SLIDING_LONG = Contender(
    "lua-sliding-long",
    "Lua sliding log, 60,000 entries, 5 keys",
    script("sliding", MINUTE_MS, PLENTY),
    (sorted_set(MINUTE_MS, LONG, MINUTE_MS),),
    1,
    keys=5,
)

ALLOWED = (
    *BASELINE,
    INCR,
    FIXED,
    TOKEN,
    TOKEN_NEW,
    LEAKY,
    COUNTER,
    SLIDING,
    SLIDING_LONG,
    LUA_FIXED,
    LUA_TOKEN,
    LUA_SLIDING,
    LUA_SLIDING_LONG,
)
DEPTHS = (*BASELINE, FIXED, TOKEN, SLIDING, LUA_FIXED, LUA_TOKEN, LUA_SLIDING)
HOT = (*BASELINE, INCR, FIXED, TOKEN, LEAKY, COUNTER, LUA_FIXED, LUA_TOKEN)
REPLICA = (SET, INCR, FIXED, TOKEN, LEAKY, COUNTER, SLIDING, LUA_FIXED, LUA_TOKEN, LUA_SLIDING)


def limiter(identity: str, *command: str | int) -> tuple:
    """A row of USED_UP: one call takes all 100."""
    return (identity, spoken(command), command, seed(*command, "COST", ENTRIES), seed(*command))


def spoken(command: Command) -> str:
    return " ".join(str(part) for part in command).replace(KEY, "k")


# One token in a day: none comes during a run.
LUA_BUCKET = script("token", ENTRIES, f"{1 / DAY:.6f}")

# Identity, label, command, how a key is made that is used up, and one that has enough left.
USED_UP = (
    limiter("fixed", "RL.FIXED", KEY, "1d", ENTRIES),
    limiter("token", "RL.TOKEN", KEY, ENTRIES, "1/d"),
    limiter("leaky", "RL.LEAKY", KEY, ENTRIES, "1/d"),
    limiter("counter", "RL.COUNTER", KEY, "1d", ENTRIES),
    (
        "sliding",
        f"RL.SLIDING k 1h {ENTRIES}",
        ("RL.SLIDING", KEY, "1h", ENTRIES),
        log(ENTRIES, HOUR_MS, ENTRIES, MINUTE_MS),
        log(ENTRIES, HOUR_MS, ENTRIES // 2, MINUTE_MS),
    ),
    (
        "lua-fixed",
        "Lua fixed window",
        script("fixed", DAY, ENTRIES),
        seed("SET", KEY, ENTRIES, "EX", DAY),
        seed("SET", KEY, 1, "EX", DAY),
    ),
    (
        "lua-token",
        "Lua token bucket",
        LUA_BUCKET,
        Seed(lambda now: [("HSET", KEY, "tokens", 0, "time", now / 1000)]),
        seed(*LUA_BUCKET),
    ),
    (
        "lua-sliding",
        f"Lua sliding log, {ENTRIES} entries",
        script("sliding", HOUR_MS, ENTRIES),
        sorted_set(HOUR_MS, ENTRIES, MINUTE_MS),
        sorted_set(HOUR_MS, ENTRIES // 2, MINUTE_MS),
    ),
)


def refusing(share: float) -> tuple[Contender, ...]:
    """Contenders on keys all of which (1) or half of which (0.5) are used up for the whole run."""
    return BASELINE + tuple(
        Contender(identity, label, command, (used,) if share == 1 else (used, fresh), 1 - share)
        for identity, label, command, used, fresh in USED_UP
    )


def layers() -> tuple[Contender, ...]:
    """Three limiters in one call, and the same three by themselves."""
    clauses = (FIXED.command, TOKEN.command, SLIDING.command)
    command: list[str | int] = ["RL.ALL"]
    seeds = []
    for clause, prefix, source in zip(clauses, "abc", (FIXED, TOKEN, SLIDING), strict=True):
        name, key, *arguments = clause
        own = f"{prefix}:{key}"
        command += [name.removeprefix("RL."), own, *arguments]
        seeds.append(Seed(source.seeds[0].commands, own))
    everything = Contender(
        "all", "RL.ALL with FIXED, TOKEN and SLIDING", tuple(command), tuple(seeds), 1
    )
    return (*BASELINE, FIXED, TOKEN, SLIDING, everything)


def churning(name: str, window_ms: int, entries: int) -> Contender:
    """A log four fifths full, in whose window about `entries` calls come."""
    limit = entries * 5 // 4
    if name == "lua-sliding":
        return Contender(
            name,
            "Lua sliding log",
            script("sliding", window_ms, limit),
            (sorted_set(window_ms, entries, window_ms),),
        )
    return Contender(
        name,
        "RL.SLIDING",
        ("RL.SLIDING", KEY, f"{window_ms}ms", limit),
        (log(limit, window_ms, entries, window_ms),),
    )


def other(command: str) -> Contender:
    """Any other command, which the caller names."""
    words = tuple(command.split())
    return Contender("other", spoken(words), words, (Seed(lambda now: [words], each=True),))
