"""The groups of runs: what each measures, in the order of a whole run."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from servers import Server

from . import contenders, logs, memory
from .contenders import ENTRIES, Contender
from .rounds import DEPTH, MANY, Bench, Row, note

CHURN_KEYS = 1000


@dataclass
class Group:
    title: str
    measure: Callable[[Bench, Sequence[Contender]], dict]
    """Told the server and the contenders that the caller named; returns what goes into the JSON."""


def rows(found: list[Row], keys: int = MANY, depth: int = DEPTH, rounds: int | None = None) -> dict:
    done = rounds or max(len(row.runs) for row in found)
    return {
        "keys": keys,
        "depth": depth,
        "rounds": done,
        "rows": [row.as_json() for row in found],
    }


def plain(who: Sequence[Contender], keys: int = MANY, depth: int = DEPTH, major: bool = False):
    """A group that is nothing but rounds. The major ones get more of them."""

    def measure(bench: Bench, others: Sequence[Contender]) -> dict:
        rounds = bench.effort.rounds if major else bench.effort.minor_rounds
        return rows(bench.measure([*who, *others], keys, depth, rounds), keys, depth)

    return measure


def layers(bench: Bench, others: Sequence[Contender]) -> dict:
    return rows(bench.measure(contenders.layers(), rounds=bench.effort.minor_rounds))


def churn(bench: Bench, others: Sequence[Contender]) -> dict:
    """Logs near their limit: the window is chosen so that a call comes as often as an entry goes.

    That depends on how fast a contender is, so a first try says how long its window has to be.
    """
    chosen = []
    for name in ("sliding", "lua-sliding"):
        tried = contenders.churning(name, 250, ENTRIES)
        speed = bench.trial(tried, CHURN_KEYS)
        window_ms = round(ENTRIES * CHURN_KEYS / speed * 1000)
        chosen.append(contenders.churning(name, window_ms, ENTRIES))
    who = [*contenders.BASELINE, *chosen]
    found = bench.measure(who, CHURN_KEYS, rounds=bench.effort.minor_rounds)
    return rows(found, CHURN_KEYS)


def long_logs(bench: Bench, others: Sequence[Contender]) -> dict:
    return {"keys": 1, "depth": DEPTH} | logs.measure(bench, bench.effort.minor_rounds)


def sizes(bench: Bench, others: Sequence[Contender]) -> dict:
    return memory.measure(bench)


def replicated(bench: Bench, others: Sequence[Contender]) -> dict:
    """With an AOF and a replica, which needs no module."""
    bench.client.flushall(asynchronous=False)
    bench.client.config_set("auto-aof-rewrite-percentage", 0)
    bench.client.config_set("appendfsync", "everysec")
    bench.client.config_set("appendonly", "yes")
    replica = Server(bench.server.binary, [f"replicaof 127.0.0.1 {bench.port}"], module=False)
    try:
        follower = replica.client()
        wait(lambda: follower.info("replication")["master_link_status"] == "up")
        wait(lambda: not bench.client.info("persistence")["aof_rewrite_in_progress"])
        return rows(bench.measure(contenders.REPLICA, rounds=bench.effort.minor_rounds))
    finally:
        replica.remove()
        bench.client.config_set("appendonly", "no")


def wait(ready: Callable[[], bool], seconds: int = 30) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError("the replica or the AOF was not ready in time")
        time.sleep(0.1)


def listed() -> dict[str, Group]:
    many = f"{MANY:,} keys, pipeline {DEPTH}"
    return {
        "allowed": Group(f"{many}, allowed", plain(contenders.ALLOWED, major=True)),
        "denied": Group(f"{many}, denied", plain(contenders.refusing(1), major=True)),
        "half": Group(f"{many}, half denied", plain(contenders.refusing(0.5))),
        "depth-1": Group(f"{MANY:,} keys, no pipeline", plain(contenders.DEPTHS, depth=1)),
        "depth-16": Group(f"{MANY:,} keys, pipeline 16", plain(contenders.DEPTHS, depth=16)),
        "depth-64": Group(f"{MANY:,} keys, pipeline 64", plain(contenders.DEPTHS, depth=64)),
        "hot": Group(f"one key, pipeline {DEPTH}, allowed", plain(contenders.HOT, keys=1)),
        "layers": Group(f"{many}, three limiters at once", layers),
        "churn": Group(
            f"{CHURN_KEYS:,} keys, pipeline {DEPTH}, logs of {ENTRIES}: one in, one out", churn
        ),
        "logs": Group(f"long logs, one key each, pipeline {DEPTH}", long_logs),
        "memory": Group("bytes", sizes),
        # Last: a server that had a replica goes on as if it had one for a while.
        "replica": Group(f"{many}, a replica, AOF everysec, allowed", replicated),
    }


def run(bench: Bench, names: Sequence[str], others: Sequence[Contender]) -> dict:
    """The named groups, by name."""
    results = {}
    for name, group in listed().items():
        if name in names:
            note(f"  {name}: {group.title}")
            extra = others if name in ("allowed", "hot") or name.startswith("depth") else ()
            results[name] = {"title": group.title} | group.measure(bench, extra)
    return results
