"""Made-up traffic: when requests arrive, in whole milliseconds from 0, sorted."""

import random


def poisson(dice: random.Random, start: float, end: float, per_second: float) -> list[int]:
    """Requests that know nothing of each other, at this rate on average. Times in seconds."""
    times, now = [], start
    while (now := now + dice.expovariate(per_second)) < end:
        times.append(int(now * 1000))
    return times


def evenly(start: float, end: float, per_second: float) -> list[int]:
    count = round((end - start) * per_second)
    return [round((start + i / per_second) * 1000) for i in range(count)]


def on_and_off(
    dice: random.Random, end: float, per_second: float, on: float, off: float
) -> list[int]:
    """Bursts and pauses, `on` and `off` seconds long on average; `per_second` within a burst."""
    times, now = [], 0.0
    while now < end:
        pause = now + dice.expovariate(1 / on)
        times += poisson(dice, now, min(pause, end), per_second)
        now = pause + dice.expovariate(1 / off)
    return times
