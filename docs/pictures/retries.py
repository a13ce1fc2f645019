"""What denied clients should do, for docs/layers.md: python docs/pictures/retries.py

A thousand clients call at the same moment, and go on until each was allowed once. The module
decides; only when a client comes back is made up here, by its rule.
"""

import heapq
import random
from collections.abc import Callable

from draw import bars
from module import START, most_in_any, server
from page import replace, table
from servers import REPOSITORY
from style import PASSES, REFUSED, TEXT, note, panels, save, seconds

CLIENTS = 1000
LIMIT = ["SLIDING", "key", "10", "100"]
BASE, CAP = 1_000, 60_000  # of the backoff, in milliseconds

Rule = Callable[[random.Random, int, int], float]


def backoff(base: int, attempt: int) -> int:
    return min(CAP, base * 2**attempt)


# What a client waits: told the milliseconds of Retry-After, after its attempt number ... from 0.
RULES: dict[str, Rule] = {
    "once a second": lambda dice, told, attempt: 1_000,
    "1 s, 2 s, 4 s ... 60 s": lambda dice, told, attempt: backoff(BASE, attempt),
    "the same with full jitter": lambda dice, told, attempt: dice.uniform(
        0, backoff(BASE, attempt)
    ),
    "after `Retry-After`": lambda dice, told, attempt: told,
    "after `Retry-After` and jitter": lambda dice, told, attempt: (
        told + dice.uniform(0, backoff(told, attempt))
    ),
}


def run(client, rule: Rule) -> tuple[list[int], list[int]]:
    """When calls were allowed, and when denied."""
    dice = random.Random(1)
    calls = [(0, number, 0) for number in range(CLIENTS)]
    let_through, turned_away = [], []
    client.delete("key")
    while calls:
        now = calls[0][0]
        pipeline, due = client.pipeline(transaction=True), []
        while calls and calls[0][0] == now:
            due.append(heapq.heappop(calls))
            pipeline.execute_command(f"RL.{LIMIT[0]}", *LIMIT[1:], "AT", START + now)
        pipeline.persist("key")  # or it might expire while a slow machine is busy here
        for (_, number, attempt), reply in zip(due, pipeline.execute()[:-1], strict=True):
            if reply[0]:
                let_through.append(now)
                continue
            turned_away.append(now)
            retry_after = -(-reply[3] // 1000) * 1000  # whole seconds, as in the header
            later = now + round(rule(dice, retry_after, attempt))
            heapq.heappush(calls, (later, number, attempt + 1))
    return let_through, turned_away


def picture(results: dict[str, tuple[list[int], list[int]]]) -> None:
    shown = ["after `Retry-After`", "after `Retry-After` and jitter"]
    end = 130_000
    figure, axes = panels(3.9, [1, 1], left=0.07, top=0.92, bottom=0.12, hspace=0.4)
    for axis, name in zip(axes, shown, strict=True):
        let_through, turned_away = results[name]
        bars(axis, 1000, end, (let_through, PASSES), (turned_away, REFUSED))
        text = f"again {name.replace('`', '')}: {len(let_through) + len(turned_away):,} calls"
        note(axis, 130, 900, text, TEXT, fontsize=10, fontweight="bold", ha="right")
        axis.set(xlim=(-1, 130), ylim=(0, 1050), yticks=[0, 500, 1000])
    note(axes[0], 92.5, 190, "denied", REFUSED, fontweight="bold")
    note(axes[0], 92.5, 60, "allowed", PASSES, fontweight="bold")
    note(axes[0], -1, 1130, "calls in each second")
    seconds(axes[-1])
    save(figure, "retries")


def summary(results: dict[str, tuple[list[int], list[int]]]) -> str:
    rows = []
    for name, (let_through, turned_away) in results.items():
        later = sorted(at for at in let_through + turned_away if at)
        calls = len(let_through) + len(turned_away)
        rows.append(
            [
                name,
                f"{calls:,}",
                f"{most_in_any(1000, later):,}",
                f"{max(let_through) / 1000:.0f} s",
            ]
        )
    head = ["a denied client comes back", "calls in all", "most in any second after the first"]
    return table([*head, "last one allowed after"], rows)


if __name__ == "__main__":
    with server() as client:
        results = {name: run(client, rule) for name, rule in RULES.items()}
    picture(results)
    replace(REPOSITORY / "docs" / "layers.md", "retries", summary(results))
