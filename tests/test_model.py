"""Random sequences against the slow model: every reply must be the same, to the millisecond.

The seeds are fixed. A sequence runs inside one MULTI/EXEC, so that no key can expire while a slow
machine takes its time. After a denial, copies of the key are asked once more: a millisecond before
the wait is over (still denied), and when it is (allowed).
"""

import heapq
import random
from fractions import Fraction
from itertools import count
from math import ceil

import pytest

from sequences import MINUTE, SECOND, SEQUENCES, agreement, script

SEEDS = range(40)


@pytest.mark.parametrize("command", SEQUENCES)
@pytest.mark.parametrize("seed", SEEDS)
def test_module_answers_as_the_model(wire, command, seed, record_property):
    agreed = agreement(wire, command, SEQUENCES[command], seed)
    record_property(f"agreed {command.removeprefix('RL.')}", agreed)


@pytest.mark.parametrize("command", SEQUENCES)
def test_sequences_reach_every_kind_of_reply(command):
    """The model test is worth what its sequences visit: allowed, denied, never, and both clocks."""
    seen, probes, held = set(), 0, 0
    for seed in SEEDS:
        _, expected = script(command, SEQUENCES[command], seed)
        replies = [right for right in expected if isinstance(right, list)]
        seen |= {
            "allowed" if right[0] else "never" if right[3] < 0 else "denied" for right in replies
        }
        held += sum(right[0] == 1 and right[3] > 0 for right in replies)
        probes += sum(isinstance(right, tuple) for right in expected)
    assert seen == {"allowed", "denied", "never"}
    assert probes > 200
    assert held > 200 if command == "RL.LEAKY" else held == 0


PER_MILLISECOND = {
    "7": Fraction(7, SECOND),
    "1000/m": Fraction(1000, MINUTE),
    "3/s": Fraction(3, SECOND),
    "2500": Fraction(5, 2),
}
WORKERS, REQUESTS = 25, 1_000


@pytest.mark.parametrize("rate", PER_MILLISECOND)
@pytest.mark.parametrize("largest", [1, 5], ids=["cost 1", "costs 1 to 5"])
def test_a_leaky_queue_spaces_the_work(wire, rate, largest):
    """A thousand requests of 25 workers in faked time, each sleeping the wait_ms that it is told.

    An allowed worker sleeps, works and asks for its next request; a denied one sleeps and asks
    again. The queue is too short for all of them and never runs dry: so the work comes out in the
    order in which it was let in, and each piece when all the cost before it has drained.
    """
    dice = random.Random(rate)
    start, tickets = 1_699_999_200_000, count()
    awake = [(start, next(tickets), dice.randint(1, largest)) for _ in range(WORKERS)]
    work, denied = [], 0
    while len(work) < REQUESTS:
        now, _, cost = heapq.heappop(awake)
        line = ["RL.LEAKY", "k", 10 * largest, rate, "COST", cost, "AT", now]
        allowed, *_, wait, _ = wire(*line)
        if allowed:
            work.append((now + wait, cost))
            cost = dice.randint(1, largest)
        denied += not allowed
        heapq.heappush(awake, (now + wait, next(tickets), cost))
    before = 0
    for time, cost in work:
        assert time == start + ceil(before / PER_MILLISECOND[rate])
        before += cost
    assert {cost for _, cost in work} == set(range(1, largest + 1))
    assert denied > REQUESTS // 10
