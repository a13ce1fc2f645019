"""Random calls of each algorithm, endless, with the reply that the slow model gives to each.

A sequence yields what stands behind the key, the time to ask at, and the five integers.
"""

import random
from fractions import Fraction
from functools import cache

import pytest

import model

CALLS = 300
MILLISECOND, SECOND, MINUTE, HOUR = 1, 1_000, 60_000, 3_600_000


class Clock:
    """Mostly goes forward, sometimes stands, steps back, or is set to somewhere far away."""

    def __init__(self, dice: random.Random, horizon: int):
        self.dice = dice
        self.horizon = horizon
        self.now = dice.choice(
            [0, 1_699_999_200_000, dice.randrange(2**42), model.LARGEST - horizon]
        )

    def tick(self) -> int:
        dice, horizon = self.dice, self.horizon
        step = dice.choices(
            [
                lambda: 0,
                lambda: dice.randint(0, max(1, horizon // 50)),
                lambda: dice.randint(0, horizon),
                lambda: dice.choice([horizon - 1, horizon, horizon + 1]),
                lambda: dice.randint(horizon, 10 * horizon),
                lambda: -dice.randint(0, horizon),
                lambda: -dice.choice([horizon - 1, horizon, horizon + 1]),
                lambda: -dice.randint(horizon, 5 * horizon),
                lambda: dice.choice([-1, 1]) * dice.randrange(2**40),
                lambda: -self.now + dice.choice([0, 1, model.LARGEST]),
            ],
            weights=[25, 40, 10, 4, 2, 8, 3, 2, 1, 0.3],
        )[0]()
        self.now = min(max(self.now + step, 0), model.LARGEST)
        return self.now


def fixed_sequence(dice):
    """RL.FIXED with windows, offsets and limits that change under a live key."""
    window = dice.choice([1, 7, SECOND, 1_500, MINUTE, HOUR, 24 * HOUR])
    clock, state, limit = Clock(dice, window), model.Fixed(), dice.choice([1, 3, 20])
    windows = [window, max(1, window // 3), window * 2]
    offsets = [0, 0, max(1, window // 4), 8 * HOUR]
    while True:
        now, cost = clock.tick(), dice.choice([1, 1, 1, 2, limit, limit + 1])
        width = window if dice.random() < 0.9 else dice.choice(windows)
        offset = offsets[0] if dice.random() < 0.9 else dice.choice(offsets)
        most = limit if dice.random() < 0.9 else dice.choice([0, 1, limit * 2, 2**53 - 1])
        line = [f"{width}ms", most, "COST", cost]
        line += ["OFFSET", f"{offset}ms"] if offset else []
        yield line, now, state.call(now, width, most, cost, offset)


def sliding_sequence(dice, limits=(1, 3, 20, 2**32 - 1)):
    """RL.SLIDING with one to eight tiers; limits, costs and the shorter tiers change.

    The longest window may shrink, never grow: only so does SPEC.md fix what the log still holds.
    """
    longest = dice.choice([1, 10, SECOND, 1_500, MINUTE, HOUR, 31 * 24 * HOUR])
    shorter = [max(1, longest // part) for part in (2, 3, 10, 60, 1000)]
    clock, state = Clock(dice, longest), model.Sliding()
    limit = dice.choice(limits)
    tiers = [(longest, limit)]
    while True:
        if dice.random() < 0.05:
            longest = dice.choices([longest, shorter[0]], [9, 1])[0]
            tiers = [(longest, dice.choice([limit, limit, 1, limit // 2]))]
            narrower = [window for window in shorter if window <= longest]
            for _ in range(dice.choice([0, 0, 1, 2, 7])):
                tiers.append((dice.choice([longest, *narrower]), dice.randint(0, min(limit, 30))))
            dice.shuffle(tiers)
        now = clock.tick()
        cost = dice.choice([1, 1, 1, 2, limit, max(1, limit // 3), min(limit + 1, 2**32 - 1)])
        line = [word for window, most in tiers for word in (f"{window}ms", most)]
        yield [*line, "COST", cost], now, state.call(now, tiers, cost)


def sorted_set_sequence(dice):
    """The same with costs that a log in a sorted set can hold, a member for each unit."""
    return sliding_sequence(dice, limits=(1, 3, 20, 300))


def counter_sequence(dice):
    """RL.COUNTER with windows, sub-windows and limits that change under a live key."""
    window = dice.choice([1, 7, 999, SECOND, 1_500, MINUTE, HOUR, 366 * 24 * HOUR])
    parts = dice.choice([1, 2, 3, 7, 10, 10, 60, 256])
    clock, state = Clock(dice, window), model.Counter()
    limit = dice.choice([1, 3, 20, 20, 1000, 2**33])
    windows = [max(1, window // 3), window, min(window * 2, 366 * 24 * HOUR)]
    width, cuts = window, parts
    while True:
        if dice.random() < 0.05:
            width, cuts = dice.choice(windows), dice.choice([parts, 1, 4, 10])
        elif dice.random() < 0.1:
            width, cuts = window, parts
        now = clock.tick()
        cost = dice.choice([1, 1, 1, 2, limit, max(1, limit // 3), limit + 1])
        most = (
            limit if dice.random() < 0.9 else dice.choice([0, 1, limit // 2, limit * 2, 2**53 - 1])
        )
        line = [f"{width}ms", most, "COST", cost]
        line += [] if cuts == 10 and dice.random() < 0.5 else ["BUCKETS", cuts]
        yield line, now, state.call(now, width, most, cost, cuts)


# A key draws its rates from one family: multiples of each other, or nothing in common.
RATES = [
    {
        "1": Fraction(1, SECOND),
        "1/3": Fraction(1, 3 * SECOND),
        "16.666667": Fraction(16_666_667, 1_000_000 * SECOND),
        "7/11h": Fraction(7, 11 * HOUR),
        "100/m": Fraction(100, MINUTE),
        "6000": Fraction(6),
    },
    {"1": Fraction(1, SECOND), "3": Fraction(3, SECOND), "7/s": Fraction(7, SECOND)},
    {"16.666667": Fraction(16_666_667, 1_000_000 * SECOND)},
    {"1/3": Fraction(1, 3 * SECOND), "5/3s": Fraction(5, 3 * SECOND)},
    {"100/m": Fraction(100, MINUTE), "600/m": Fraction(600, MINUTE)},
    {"6000": Fraction(6), "1000/s": Fraction(1), "12/2ms": Fraction(6)},
    {"7/11h": Fraction(7, 11 * HOUR), "14/11h": Fraction(14, 11 * HOUR)},
]


def token_sequence(dice):
    return bucket_sequence(dice, model.Token())


def leaky_sequence(dice):
    return bucket_sequence(dice, model.Leaky())


def bucket_sequence(dice, state):
    """Either bucket with capacities, costs and rates that change under a live key."""
    rates = dice.choice(RATES)
    capacity = dice.choice([1, 3, 20, 1000, 2**40])
    slowest = min(rates.values())
    clock = Clock(dice, max(1, int(capacity / slowest)))
    text = next(iter(rates))
    while True:
        if dice.random() < 0.1:
            text = dice.choice(list(rates))
        now = clock.tick()
        most = capacity if dice.random() < 0.9 else dice.choice([0, 1, capacity * 2, 2**53 - 1])
        cost = dice.choice([1, 1, 1, 2, capacity, max(1, capacity // 3), capacity + 1])
        yield [most, text, "COST", cost], now, state.call(now, most, rates[text], cost)


SEQUENCES = {
    "RL.FIXED": fixed_sequence,
    "RL.SLIDING": sliding_sequence,
    "RL.COUNTER": counter_sequence,
    "RL.TOKEN": token_sequence,
    "RL.LEAKY": leaky_sequence,
}


@cache
def script(command, sequence, seed):
    """The commands to send and the replies to expect, probes of each wait included."""
    commands, expected = [], []
    calls = sequence(random.Random(f"{command} {seed}"))
    for _, (line, now, reply) in zip(range(CALLS), calls, strict=False):
        commands.append([command, "k", *line, "AT", now])
        expected.append(reply)
        wait = 0 if reply[0] else reply[3]
        if wait > 0 and now + wait < model.LARGEST:
            for time, verdict in ((now + wait - 1, 0), (now + wait, 1)):
                commands += [
                    ["COPY", "k", "probe", "REPLACE"],
                    [command, "probe", *line, "AT", time],
                ]
                expected += [1, ("verdict", verdict)]
    return commands, expected


def agrees(got, right) -> bool:
    if isinstance(right, tuple):
        return isinstance(got, list) and got[0] == right[1]
    return got == right


def agreement(wire, command, sequence, seed) -> int:
    """Every reply is the model's; how many were asked for."""
    commands, expected = script(command, sequence, seed)
    got = wire.transaction(commands)
    for i, (reply, right) in enumerate(zip(got, expected, strict=True)):
        if not agrees(reply, right):
            first = max(0, i - 24)
            shown = "\n".join(
                f"{' '.join(map(str, line))}  -> {reply}"
                for line, reply in zip(commands[first : i + 1], got[first : i + 1], strict=True)
            )
            pytest.fail(
                f"{command} seed {seed}, call {i}: expected {right}\n{shown}", pytrace=False
            )
    return sum(line[0] == command for line in commands)
