"""A redis-server of our own with the module, and calls to it as of told times.

All that is drawn or measured here was decided by the module. Each call has an AT, so that every run
gives the same.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

# The tests know how a server is started, and with which module.
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
from servers import Server, find

# 00:00 UTC of some day, so that windows on the clock start here.
START = 1_700_006_400_000


@contextmanager
def server() -> Iterator[redis.Redis]:
    """A client of a Redis 7.0 that lives as long as the context."""
    (binary,) = find(["redis-7.0"])
    running = Server(binary)
    try:
        with running.client(decode_responses=True) as client:
            yield client
    finally:
        running.remove()


def decide(client: redis.Redis, limiter: str, times: Iterable[int]) -> list[list[int]]:
    """What the limiter ("FIXED 60 100") answers, on a key of its own, to a call at each of `times`.

    Times are milliseconds from START. All calls are one transaction: the server's clock stands
    still in it, so that no key can expire on the way on a slow machine.
    """
    algorithm, *arguments = limiter.split()
    pipeline = client.pipeline(transaction=True)
    pipeline.delete("key")
    for at in times:
        pipeline.execute_command(f"RL.{algorithm}", "key", *arguments, "AT", START + at)
    return pipeline.execute()[1:]


def allowed(times: list[int], replies: list[list[int]]) -> list[int]:
    return [at for at, reply in zip(times, replies, strict=True) if reply[0]]


def denied(times: list[int], replies: list[list[int]]) -> list[int]:
    return [at for at, reply in zip(times, replies, strict=True) if not reply[0]]


def done(times: list[int], replies: list[list[int]]) -> list[int]:
    """When the work of what RL.LEAKY allowed is done: after the hold it asks for."""
    return [at + reply[3] for at, reply in zip(times, replies, strict=True) if reply[0]]


def most_in_any(window: int, times: list[int]) -> int:
    """The largest number of `times` (sorted) in any window of this length."""
    most = first = 0
    for last, at in enumerate(times):
        while times[first] <= at - window:
            first += 1
        most = max(most, last - first + 1)
    return most
