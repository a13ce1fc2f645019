"""Measures accuracy and size for docs/strategies.md: python docs/pictures/accuracy.py

Every decision is held against an exact list of what the same limiter let through before.
"""

import random
from collections import deque
from dataclasses import dataclass

from module import START, allowed, decide, done, most_in_any, server
from page import replace, table
from servers import REPOSITORY
from traffic import evenly, on_and_off, poisson

PAGE = REPOSITORY / "docs" / "strategies.md"
WINDOW, MAX = 60_000, 100
REQUESTS = 20_000

LIMITERS = [
    "SLIDING 60 100",
    "COUNTER 60 100 BUCKETS 60",
    "COUNTER 60 100",
    "COUNTER 60 100 BUCKETS 1",
    "FIXED 60 100",
    "TOKEN 100 100/60",
    "TOKEN 50 50/60",
    "LEAKY 100 100/60",
]


def traffics() -> dict[str, list[int]]:
    """Each about 20,000 requests, where 100 in 60 s may pass."""
    dice = random.Random(1)
    fair = MAX / WINDOW * 1000  # a second
    made = {
        f"random, {share:g} x limit": poisson(dice, 0, REQUESTS / fair / share, fair * share)
        for share in (0.9, 1.5, 4)
    }
    # Bursts of 5 s on average at 15 times the limit's rate; 25 a second, a sixth of the time.
    made["bursts"] = on_and_off(dice, REQUESTS / fair / 2.5, fair * 15, on=5, off=25)
    # Every 97 s, 200 requests within 3 s.
    made["heaps"] = [
        97_000 * i + at for i in range(REQUESTS // 200) for at in evenly(0, 3, 200 / 3)
    ]
    return made


@dataclass
class Verdicts:
    """Of one limiter, over all traffic."""

    asked: int = 0
    allowed: int = 0
    wrongly_allowed: int = 0
    wrongly_denied: int = 0

    def add(self, times: list[int], replies: list[list[int]]) -> None:
        live: deque[int] = deque()  # what it let through and still lies in the window
        for at, reply in zip(times, replies, strict=True):
            while live and live[0] <= at - WINDOW:
                live.popleft()
            self.wrongly_allowed += reply[0] and len(live) >= MAX
            self.wrongly_denied += not reply[0] and len(live) < MAX
            if reply[0]:
                live.append(at)
                self.allowed += 1
        self.asked += len(times)

    def share(self, count: int) -> str:
        return f"{100 * count / self.asked:.1f} %" if count else "0"


def accuracy(client) -> tuple[str, str]:
    """How often decisions were wrong, and the most that passed in any window."""
    traffic, shares, most, exact = traffics(), [], [], None
    for limiter in LIMITERS:
        verdicts, peaks = Verdicts(), []
        holds = limiter.startswith("LEAKY")
        for times in traffic.values():
            replies = decide(client, limiter, times)
            verdicts.add(times, replies)
            peaks.append(most_in_any(WINDOW, (done if holds else allowed)(times, replies)))
        exact = exact or verdicts
        name = f"`RL.{limiter.replace(' ', ' k ', 1)}`"
        wrong = verdicts.share(verdicts.wrongly_allowed), verdicts.share(verdicts.wrongly_denied)
        through = f"{100 * verdicts.allowed / exact.allowed:.1f} %"
        if not holds:  # decides as TOKEN does, and means something else by it
            shares.append([name, *wrong, through, str(max(peaks))])
        most.append([name, *map(str, peaks)])
    head = ["limiter", "wrongly allowed", "wrongly denied", "allowed in all", "most in any 60 s"]
    shares_table = table(head, shares) + f"\nEach was asked {verdicts.asked:,} times.\n"
    return shares_table, table(["most in any 60 s", *traffic], most)


SIZES = [
    ("FIXED", "60 100000", 1),
    ("TOKEN", "100000 100", 1),
    ("LEAKY", "100000 100", 1),
    ("COUNTER", "60 100000", 1),
    ("COUNTER", "60 100000 BUCKETS 60", 1),
    ("COUNTER", "60 100000 BUCKETS 256", 1),
    ("SLIDING", "60 100000", 1),
    ("SLIDING", "60 100", 100),
    ("SLIDING", "60 1000", 1000),
    ("SLIDING", "60 60000", 60_000),
]


def sizes(client) -> str:
    rows = []
    for algorithm, arguments, requests in SIZES:
        client.delete("user:42")
        pipeline = client.pipeline(transaction=True)
        for i in range(requests):
            at = START + i * WINDOW // requests
            pipeline.execute_command(f"RL.{algorithm}", "user:42", *arguments.split(), "AT", at)
        pipeline.strlen("user:42")
        pipeline.memory_usage("user:42", samples=0)
        state, memory = pipeline.execute()[-2:]
        apart = f", {WINDOW // requests} ms apart" if requests > 1 else ""
        spread = f"{requests:,}{apart}"
        whatever = spread if algorithm == "SLIDING" else "any"
        rows.append(
            [f"`RL.{algorithm} user:42 {arguments}`", whatever, f"{state:,}", f"{memory:,}"]
        )
    version = client.info("server")["redis_version"]
    text = table(["limiter", "requests in the window", "state", "`MEMORY USAGE`"], rows)
    return text + f"\nMeasured on Redis {version}.\n"


if __name__ == "__main__":
    with server() as client:
        shares, most = accuracy(client)
        replace(PAGE, "accuracy", shares)
        replace(PAGE, "most", most)
        replace(PAGE, "sizes", sizes(client))
