"""Fifty connections, every command, the same keys: exactly the limit gets through, to the unit.

Issue 4, point 4.
"""

import random
import threading
from collections import Counter, defaultdict

import pytest

from forms import form
from limiters import five_integers
from wire import Failure
from workload import quotas

CONNECTIONS = 50
LIMIT = form(400, 4_000)
CALLS = form(140, 1_400)  # of each connection; together more than all limits hold


def io_threads(server_version) -> list[tuple[str, ...]]:
    """One thread, and reading and parsing on three."""
    threads = ["io-threads 3"]
    if server_version < (8, 0):  # later it is always so
        threads.append("io-threads-do-reads yes")
    return [(), tuple(threads)]


class Connection(threading.Thread):
    """Asks in pipelines of random length; keeps what it was answered."""

    SCRIPT = "return redis.call(unpack(ARGV))"

    def __init__(self, number, server, limits, costs, start):
        super().__init__()
        self.dice = random.Random(number)
        self.server, self.limits, self.costs, self.start_line = server, limits, costs, start
        self.taken, self.rooms = Counter(), defaultdict(list)
        self.smallest_denied = {}
        self.last = {}
        self.calls = 0
        self.failure = None

    def run(self):
        try:
            with self.server.wire() as wire:
                wire("PING")
                self.start_line.wait(60)
                while self.calls < CALLS:
                    steps = [self.step() for _ in range(self.dice.randint(1, 12))]
                    replies = wire.pipeline([line for line, _, _ in steps])
                    for step, reply in zip(steps, replies, strict=True):
                        self.note(*step, reply)
                    self.calls += len(steps)
        except Exception as failure:  # reported by the main thread, which must see it
            self.failure = failure

    def step(self):
        """A command line, what it takes at what cost, and how its reply is read."""
        quota = self.dice.choice(self.limits)
        cost = self.dice.choice(self.costs)
        way = self.dice.choices(["one", "script", "all", "peek", "inspect"], [10, 2, 4, 1, 1])[0]
        if way == "one":
            return quota.take(quota.name, cost), ([quota], cost), "one"
        if way == "script":
            line = quota.take(quota.name, cost)
            return ["EVAL", self.SCRIPT, 1, quota.name, *line], ([quota], cost), "one"
        if way == "all":
            both = self.dice.sample(self.limits, 2)
            line = ["RL.ALL", *(word for each in both for word in each.clause(each.name, cost))]
            return line, (both, cost), "all"
        if way == "peek":
            return quota.peek(quota.name, cost), ([quota], cost), "peek"
        return ["RL.INSPECT", quota.name], ([quota], cost), "inspect"

    def note(self, line, asked, way, reply) -> None:
        assert not isinstance(reply, Failure), (line, reply)
        limits, cost = asked
        if way == "inspect":
            return
        decisions = [reply] if way != "all" else reply[2:]
        for quota, decision in zip(limits, decisions, strict=True):
            assert five_integers(decision), (line, reply)
            # What one connection sees never goes up again: nothing is given back here.
            room = decision[2]
            assert 0 <= room <= self.last.get(quota.name, LIMIT), (line, reply)
            self.last[quota.name] = room
        if way == "peek":
            return
        quota, decision = limits[0], decisions[0]
        is_throttle = quota.word == "THROTTLE" and way == "one"
        allowed = decision[0] == (0 if is_throttle else 1) if way == "one" else reply[0] == 1
        for quota, decision in zip(limits, decisions, strict=True):
            if allowed:
                self.taken[quota.name] += cost
                self.rooms[quota.name].append((cost, decision[2]))
            elif way == "one" or decision[0] == 0:
                least = self.smallest_denied.get(quota.name, cost)
                self.smallest_denied[quota.name] = min(least, cost)


def all_at_once(server, limits, costs) -> list[Connection]:
    with server.wire() as wire:
        for quota in limits:
            quota.seed(wire, quota.name)
    start = threading.Barrier(CONNECTIONS)
    connections = [Connection(i, server, limits, costs, start) for i in range(CONNECTIONS)]
    for connection in connections:
        connection.start()
    for connection in connections:
        connection.join()
    assert [connection.failure for connection in connections] == [None] * CONNECTIONS
    return connections


@pytest.mark.parametrize("threads", [0, 1], ids=["one thread", "io-threads"])
@pytest.mark.parametrize("costs", [[1], [1, 2, 3, 7]], ids=["cost 1", "mixed costs"])
def test_exactly_the_limit_from_every_key(spawn, binary, count, threads, costs):
    """Every unit of every key is given once, whichever command gave it.

    What was left after each admission tells its place in the order: the units are used one after
    the other, without a gap and none twice.
    """
    server = spawn(*io_threads(binary.version)[threads])
    limits = quotas(LIMIT)
    connections = all_at_once(server, limits, costs)
    taken = sum((connection.taken for connection in connections), Counter())
    with server.wire() as wire:
        for quota in limits:
            name = quota.name
            used = quota.used(wire, name)
            assert used == taken[name] <= LIMIT, name
            rooms = [pair for connection in connections for pair in connection.rooms[name]]
            spans = sorted((LIMIT - room - cost, LIMIT - room) for cost, room in rooms)
            ends = [0, *(end for _, end in spans)]
            assert [start for start, _ in spans] == ends[:-1], name
            assert ends[-1] == used, name
            denied = [
                one.smallest_denied[name] for one in connections if name in one.smallest_denied
            ]
            assert denied, f"{name}: the limit was not reached"
            assert min(denied) > LIMIT - used, f"{name}: denied what would have fitted"
            if costs == [1]:
                assert used == LIMIT, name
    count("concurrency", commands=sum(one.calls for one in connections))
    count("concurrency", admissions=sum(len(r) for one in connections for r in one.rooms.values()))
