"""Draws the pictures of README.md and docs/strategies.md: python docs/pictures/draw.py

Every dot and bar is an answer of the module.
"""

import random

from module import START, allowed, decide, denied, done, most_in_any, server
from style import (
    GREY,
    MONO,
    PALE,
    PASSES,
    REFUSED,
    TEXT,
    bare,
    headline,
    note,
    panels,
    save,
    seconds,
)
from traffic import evenly, poisson


def in_seconds(times: list[int]) -> list[float]:
    return [at / 1000 for at in times]


def counts(times: list[int], bin_ms: int, end_ms: int) -> list[int]:
    """How many of `times` fall into each bin."""
    bins = [0] * (end_ms // bin_ms)
    for at in times:
        if at < end_ms:
            bins[at // bin_ms] += 1
    return bins


def bars(axis, bin_ms: int, end_ms: int, *layers: tuple[list[int], str]) -> None:
    """Layers of (times, colour), one on top of the other."""
    places = [i * bin_ms / 1000 for i in range(end_ms // bin_ms)]
    base = [0] * len(places)
    for times, colour in layers:
        heights = counts(times, bin_ms, end_ms)
        seen = [i for i, height in enumerate(heights) if height]
        axis.bar(
            [places[i] for i in seen],
            [heights[i] for i in seen],
            bin_ms / 1000 * 0.84,
            [base[i] for i in seen],
            align="edge",
            color=colour,
        )
        base = [low + high for low, high in zip(base, heights, strict=True)]


def counted(times: list[int], window: int, end: int) -> tuple[list[float], list[int]]:
    """How many of `times` lie in the window before each moment, as corners of a staircase."""
    changes = sorted([(at, 1) for at in times] + [(at + window, -1) for at in times])
    x, y, count = [0.0], [0], 0
    for at, step in changes:
        if at >= end:
            break
        count += step
        x.append(at / 1000)
        y.append(count)
    return [*x, end / 1000], [*y, count]


def overview(client) -> None:
    """The front door: a user who asks for more than he may have."""
    dice, end = random.Random(7), 200_000
    times = sorted(
        poisson(dice, 0, 200, 1.1) + poisson(dice, 62, 102, 4.5) + poisson(dice, 80, 90, 3)
    )
    replies = decide(client, "SLIDING 60 100", times)
    figure, (top, low) = panels(4.1, [1.25, 1], left=0.06, top=0.88, bottom=0.11, hspace=0.28)

    bars(top, 2000, end, (allowed(times, replies), PASSES), (denied(times, replies), REFUSED))
    bare(top)
    headline(top, "RL.SLIDING user:42 60 100", "at most 100 requests in any 60 seconds")
    note(top, 104, 14, "denied", REFUSED, fontsize=11, fontweight="bold")
    note(top, 26, 8.5, "allowed", PASSES, fontsize=11, fontweight="bold")

    x, y = counted(allowed(times, replies), 60_000, end)
    low.fill_between(x, y, step="post", color=PASSES, alpha=0.15, linewidth=0)
    low.step(x, y, where="post", color=PASSES, linewidth=1.6)
    low.axhline(100, color=REFUSED, linewidth=1, linestyle=(0, (5, 3)), zorder=0)
    note(low, 0.5, 109, "the limit, 100", REFUSED)
    note(low, 199, 12, "allowed in the last 60 seconds", PASSES, ha="right")
    low.set(ylim=(0, 122), xlim=(0, 200), yticks=[0, 50, 100])
    seconds(low)
    save(figure, "overview")


BURST = [
    ("SLIDING", "SLIDING 10 10"),
    ("SLIDING, two tiers", "SLIDING 1 3 10 10"),
    ("FIXED", "FIXED 10 10"),
    ("COUNTER", "COUNTER 10 10"),
    ("TOKEN", "TOKEN 10 1"),
    ("LEAKY", "LEAKY 10 1"),
]


def burst(client) -> None:
    """The same burst through all six."""
    end = 32_000
    times = evenly(0.7, 8.8, 0.5) + evenly(8.9, 11.1, 14) + evenly(11.6, 30, 2)
    figure, axes = panels(7.6, [1] * 7, left=0.25, right=0.83, top=0.95, bottom=0.065, hspace=0.32)
    bars(axes[0], 500, end, (times, GREY))
    labels(axes[0], "the requests", "", f"{len(times)} in 30 s", "")
    for axis, (name, limiter) in zip(axes[1:], BURST, strict=True):
        replies = decide(client, limiter, times)
        passes, waiting = allowed(times, replies), []
        if limiter.startswith("LEAKY"):
            waiting = [
                at for at, reply in zip(times, replies, strict=True) if reply[0] and reply[3]
            ]
            passes = done(times, replies)
        bars(axis, 500, end, (passes, PASSES), (waiting, GREY), (denied(times, replies), REFUSED))
        command = "RL." + limiter.replace(" ", " k ", 1)
        most = f"at most {most_in_any(10_000, passes)} in 10 s"
        labels(axis, name, command, f"{len(passes)} allowed,", most)
    for axis in axes:
        bare(axis)
        axis.set(xlim=(0, 32), ylim=(0, 9.5), xticks=range(0, 31, 5))
        axis.tick_params(bottom=axis is axes[-1])
        for edge in (10, 20, 30):
            axis.axvline(edge, color=GREY, linewidth=0.6, linestyle=(0, (2, 3)), zorder=0)
    note(axes[0], 10, 10.6, "a window on the clock ends", ha="center")
    note(axes[1], 12.6, 7, "denied", REFUSED, fontweight="bold")
    note(axes[1], 12.6, 4.4, "allowed", PASSES, fontweight="bold")
    note(axes[6], 12.6, 5.6, "grey: allowed, waits for its turn")
    seconds(axes[-1])
    save(figure, "burst")


def labels(axis, name: str, command: str, first: str, second: str) -> None:
    """Left of a row what it is, right of it what came out."""
    place = {"transform": axis.transAxes}
    note(axis, -0.02, 0.62, name, TEXT, fontsize=10, fontweight="bold", ha="right", **place)
    note(axis, -0.02, 0.28, command, family=MONO, fontsize=8.5, ha="right", **place)
    note(axis, 1.02, 0.62, first, TEXT, **place)
    note(axis, 1.02, 0.28, second, TEXT, **place)


def dots(axis, height: float, times: list[int], colour: str, marker: str = "o") -> None:
    style = {"markersize": 6, "markeredgewidth": 1.6, "linestyle": "none", "clip_on": False}
    axis.plot(in_seconds(times), [height] * len(times), marker, color=colour, **style)


def edge(client) -> None:
    """The double burst at a fixed window's edge, and what a sliding window makes of it."""
    times = evenly(51, 61, 0.5) + evenly(61, 71, 0.5)
    figure, (top, low) = panels(4.6, [1, 1.3], left=0.17, top=0.95, bottom=0.1, hspace=0.15)
    for height, algorithm, colour in ((1, "FIXED", REFUSED), (0, "SLIDING", PASSES)):
        replies = decide(client, f"{algorithm} 60 5", times)
        dots(top, height, allowed(times, replies), PASSES)
        dots(top, height, denied(times, replies), REFUSED, "x")
        note(top, 38.5, height, f"RL.{algorithm}\nk 60 5", TEXT, family=MONO, ha="right")
        x, y = counted(allowed(times, replies), 60_000, 140_000)
        low.step(x, y, where="post", color=colour, linewidth=2)
    note(top, 59.3, 1.35, "5 before the full minute,", PASSES, ha="right")
    note(top, 60.7, 1.35, "5 more right after it", PASSES)
    note(top, 60.7, 0.35, "denied: five are still in the window", REFUSED)
    bare(top)
    top.spines["bottom"].set_visible(False)
    top.tick_params(bottom=False)
    top.set(ylim=(-0.4, 1.7))
    for axis in (top, low):
        axis.axvline(60, color=GREY, linewidth=1, linestyle=(0, (2, 3)), zorder=0)
    low.axhline(5, color=GREY, linewidth=1, linestyle=(0, (5, 3)), zorder=0)
    note(low, 40.5, 5.6, "the limit, 5")
    note(low, 90, 10.6, "fixed: twice the limit in 20 seconds", REFUSED, ha="center")
    note(low, 90, 4.3, "sliding: never more than the limit", PASSES, ha="center")
    note(low, 38.5, 7.5, "allowed in the\nlast 60 seconds", ha="right")
    low.set(xlim=(40, 130), ylim=(0, 11.8), yticks=[0, 5, 10])
    seconds(low, "seconds; the window on the clock ends at 60")
    save(figure, "edge")


def queue(client) -> None:
    """The even output of the queue: arrivals in heaps against what comes out."""
    times = evenly(0.2, 1.6, 5) + evenly(5, 5.6, 5) + evenly(6.6, 9.2, 5)
    replies = decide(client, "LEAKY 8 2", times)
    figure, (axis,) = panels(2.7, [1], left=0.12, top=0.88, bottom=0.2)
    joined, work = allowed(times, replies), done(times, replies)
    for arrival, departure in zip(in_seconds(joined), in_seconds(work), strict=True):
        axis.plot([arrival, departure], [1, 0], color=GREY, linewidth=0.9, zorder=0)
    dots(axis, 1, joined, PASSES)
    dots(axis, 1, denied(times, replies), REFUSED, "x")
    dots(axis, 0, work, PASSES)
    headline(axis, "RL.LEAKY jobs 8 2", "a queue of 8 that drains at 2 a second")
    note(axis, -0.45, 1, "they arrive", TEXT, ha="right", fontsize=10)
    note(axis, -0.45, 0, "they go on", TEXT, ha="right", fontsize=10)
    note(axis, 9.5, 1, "denied: the queue is full", REFUSED)
    note(axis, 11, 0.5, "held for wait_ms")
    bare(axis)
    axis.set(xlim=(-0.3, 13.3), ylim=(-0.25, 1.3), xticks=range(14))
    seconds(axis)
    save(figure, "queue")


def counter(client) -> None:
    """The estimate of the counter against the exact log, over the same requests."""
    dice, end = random.Random(4), 180_000
    bursts = ((20, 24, 20), (95, 98, 18), (104, 110, 12))
    times = poisson(dice, 0, 180, 0.7)
    times = sorted(times + [at for args in bursts for at in poisson(dice, *args)])
    looks = range(0, end, 250)
    exact, ten, one = (
        estimates(client, limiter, times, looks)
        for limiter in ("SLIDING 60", "COUNTER 60", "COUNTER 60 BUCKETS 1")
    )
    figure, (axis,) = panels(3.6, [1], left=0.06, top=0.9, bottom=0.15)
    x = in_seconds(looks)
    axis.fill_between(x, exact, step="post", color=PALE, linewidth=0)
    axis.plot(x, one, color=REFUSED, linewidth=1.3, linestyle=(0, (4, 2)))
    axis.plot(x, ten, color=PASSES, linewidth=2)
    headline(axis, "RL.COUNTER k 60 max", "requests in the last 60 seconds: estimated and exact")
    note(axis, 45, 20, "grey: exact (RL.SLIDING)")
    note(axis, 26, 128, f"10 sub-windows: off by {worst(ten, exact)} at worst", PASSES)
    note(axis, 112, 184, f"BUCKETS 1: off by {worst(one, exact)} at worst", REFUSED)
    axis.set(xlim=(0, 180), ylim=(0, 200), yticks=[0, 50, 100, 150])
    seconds(axis)
    save(figure, "counter")


def worst(estimate: list[int], exact: list[int]) -> int:
    return max(abs(a - b) for a, b in zip(estimate, exact, strict=True))


def estimates(client, limiter: str, times: list[int], looks: range) -> list[int]:
    """What a limiter that lets all of `times` pass counts at each of `looks`."""
    algorithm, window, *options = limiter.split()
    plenty = 1_000_000
    client.delete("key")
    pipeline = client.pipeline(transaction=True)
    # At the same millisecond the request comes first.
    steps = sorted([(at, False) for at in times] + [(at, True) for at in looks])
    for at, look in steps:
        verb = ["RL.PEEK", algorithm] if look else [f"RL.{algorithm}"]
        pipeline.execute_command(*verb, "key", window, plenty, *options, "AT", START + at)
    replies = pipeline.execute()
    return [plenty - reply[2] for (_, look), reply in zip(steps, replies, strict=True) if look]


if __name__ == "__main__":
    with server() as client:
        for picture in (overview, burst, edge, queue, counter):
            picture(client)
