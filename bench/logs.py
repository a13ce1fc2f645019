"""Long sliding logs, each on one key: throughput, what a call costs the server when a slot comes
and a slot goes, and the worst single call.
"""

import time
from collections.abc import Iterable

from . import load
from .contenders import LONG, Contender, script, sorted_set
from .load import Command
from .rounds import Bench, named, note

HUGE = 1_000_000
SIZES = (100, LONG, HUGE)
LIMIT = 4_000_000_000
STEPS = 20_000
SLOW_US = 100

# One request a millisecond, so a log of n entries has a window of n ms.
LUA_LOG = script("sliding", HUGE, LIMIT)


def key(entries: int) -> str:
    return f"log:{entries}"


def calls(entries: int, first: int, count: int) -> Iterable[Command]:
    for at in range(first, first + count):
        yield ("RL.SLIDING", key(entries), f"{entries}ms", LIMIT, "AT", at)


def measure(bench: Bench, rounds: int) -> dict:
    """The whole group. Nothing is emptied in between: a log of 1,000,000 is too long to remake."""
    bench.client.flushall(asynchronous=False)
    worst = Worst(bench, key(HUGE))
    worst.found["building it"] = build(bench, worst)
    for entries in SIZES[:-1]:
        load.pipe(bench.port, calls(entries, now() - entries, entries))
    load.pipe(bench.port, lua_log())
    rows = bench.measure(contenders(), keys=1, rounds=rounds, fresh=False)
    worst.of("at full speed")
    steps = step(bench, rounds)
    worst.of("a slot in, a slot out")
    at_odd_times(bench)
    worst.of("after silences, and a clock set back")
    lua = lua_worst(bench)
    return {
        "rows": [row.as_json() for row in rows],
        "step_us": steps,
        "worst_ms": worst.found,
        "lua_worst_ms": lua,
    }


def build(bench: Bench, worst: "Worst") -> float:
    """Make the longest log; milliseconds of the slowest call that did so.

    It is made twice, and each call counts by the faster of its two times: what is slow both times
    is slow by what it does, not by what else the machine did.
    """
    first = now() - HUGE
    times = []
    for _ in range(2):
        bench.client.delete(key(HUGE))
        load.pipe(bench.port, calls(HUGE, first, HUGE))
        times.append(worst.slow())
    twice = [min(times[0][call], times[1][call]) for call in times[0].keys() & times[1].keys()]
    return max(twice, default=SLOW_US / 1000)


def contenders() -> tuple[Contender, ...]:
    logs = tuple(
        Contender(
            f"sliding-{entries}",
            f"RL.SLIDING, {entries:,} entries",
            ("RL.SLIDING", key(entries), f"{entries}ms", LIMIT),
        )
        for entries in SIZES
    )
    return (
        Contender("get", "GET", ("GET", "plain")),
        Contender("set", "SET k v PX 60000", ("SET", "plain", "v", "PX", 60_000)),
        *logs,
        Contender(
            "sliding-denied",
            f"RL.SLIDING, {HUGE:,} entries, denied",
            ("RL.SLIDING", key(HUGE), f"{HUGE}ms", 100),
        ),
        Contender(
            "lua-sliding", f"Lua sliding log, {HUGE:,} entries", tuple(named(LUA_LOG, "lua"))
        ),
    )


def lua_log() -> Iterable[Command]:
    for command in sorted_set(HUGE, HUGE, HUGE).commands(now()):
        yield named(command, "lua")


def step(bench: Bench, rounds: int) -> dict[int, list[float]]:
    """Server time for a call, in microseconds, where each call comes a millisecond after the last:
    it opens a slot and drops one.
    """
    note("    slots in and out")
    spent: dict[int, list[float]] = {entries: [] for entries in SIZES}
    first = now() + 1
    for number in range(rounds):
        turn = number % len(SIZES)
        for entries in SIZES[turn:] + SIZES[:turn]:
            before = bench.cpu()
            load.pipe(bench.port, calls(entries, first, STEPS))
            spent[entries].append(round((bench.cpu() - before) / STEPS * 1e6, 4))
        first += STEPS
    return spent


def at_odd_times(bench: Bench) -> None:
    """Calls after silences of most of the window and of three, then on a clock set far back."""
    start = now() + HUGE
    for entries, first in ((HUGE, start), (HUGE, start + 3 * HUGE), (HUGE, start - 9 * HUGE)):
        load.pipe(bench.port, calls(entries, first, 2000))


def lua_worst(bench: Bench) -> float:
    """The script when all of its log is gone at once: asked with a window of a millisecond."""
    worst = Worst(bench, "EVALSHA")
    bench.client.execute_command(*named(script("sliding", 1, LIMIT), "lua"))
    worst.of("all of it gone at once")
    return worst.found["all of it gone at once"]


class Worst:
    """The slowest call that mentions a word, by the server's own slow log."""

    def __init__(self, bench: Bench, word: str):
        self.client = bench.client
        self.word = word.encode()
        self.found: dict[str, float] = {}
        self.client.config_set("slowlog-log-slower-than", SLOW_US)
        self.client.config_set("slowlog-max-len", 100_000)
        self.client.slowlog_reset()

    def of(self, phase: str) -> None:
        """Note the slowest call since the last phase: 0.1 ms if none took more."""
        self.found[phase] = max(self.slow().values(), default=SLOW_US / 1000)

    def slow(self) -> dict[bytes, float]:
        """The slow calls since the last time, and the most milliseconds that each took."""
        calls: dict[bytes, float] = {}
        for entry in self.client.slowlog_get(100_000):
            call, took = entry["command"], entry["duration"] / 1000
            if self.word in call:
                calls[call] = max(took, calls.get(call, 0))
        self.client.slowlog_reset()
        return calls


def now() -> int:
    return int(time.time() * 1000)
