"""Bytes: of a live request in a sliding log, and of a key of everything else."""

import time
from collections.abc import Iterable

from . import load
from .contenders import COUNTER, FIXED, INCR, LEAKY, LUA_FIXED, LUA_TOKEN, SET, TOKEN, sorted_set
from .load import Command
from .logs import LONG
from .rounds import Bench, named, note

# Requests, and the milliseconds that they are spread over, which are the window.
LOGS = ((100, 100), (LONG, 60_000), (600_000, 60_000))
SMALL = (SET, INCR, FIXED, TOKEN, LEAKY, COUNTER, LUA_FIXED, LUA_TOKEN)
KEY = "user:42"


def measure(bench: Bench) -> dict:
    note("    memory")
    logs = [of_log(bench, *log) for log in LOGS]
    keys = [
        {"label": contender.label, "bytes": of_key(bench, contender.command)} for contender in SMALL
    ]
    bench.client.flushall(asynchronous=False)
    return {"logs": logs, "keys": keys}


def of_log(bench: Bench, requests: int, window: int) -> dict:
    """Bytes per live request when the window is full for the first time, and a window later."""
    bench.client.flushall(asynchronous=False)
    # In the past by two windows, so that no call is made in the future.
    first = int(time.time() * 1000) - 2 * window
    load.pipe(bench.port, calls(requests, window, first))
    filled = usage(bench, KEY)
    load.pipe(bench.port, calls(requests, window, first + window))
    later = usage(bench, KEY)
    members = sorted_set(window, requests, window).commands(int(time.time() * 1000))
    load.pipe(bench.port, (named(command, "lua") for command in members))
    return {
        "requests": requests,
        "window_ms": window,
        "filled": round(filled / requests, 3),
        "later": round(later / requests, 3),
        "lua": round(usage(bench, "lua") / requests, 3),
    }


def calls(requests: int, window: int, first: int) -> Iterable[Command]:
    for number in range(requests):
        at = first + number * window // requests
        yield ("RL.SLIDING", KEY, f"{window}ms", requests, "AT", at)


def of_key(bench: Bench, command: Command) -> int:
    bench.client.delete(KEY)
    bench.client.execute_command(*named(command, KEY))
    return usage(bench, KEY)


def usage(bench: Bench, key: str) -> int:
    return bench.client.memory_usage(key, samples=0)
