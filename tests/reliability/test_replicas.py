"""Two replicas, one without the module: they hold what the primary holds, and can take its place.

Issue 4, point 1.
"""

import os
import random
import re
import signal
import threading
from collections import Counter

import pytest

from forms import form
from limiters import five_integers
from replication import PRIMARY, changes, differences, follows, is_in_step, replication
from servers import MODULE
from waiting import until
from wire import Failure
from workload import ULID, Replay, Traffic, contents, everything, quotas, with_module

# What a replica logs when the primary sends something that it cannot do.
COMPLAINT = re.compile(
    r"\bERR\b|CRITICAL|WRONGTYPE|unknown command|not able to|desync|protocol error|corrupt",
    re.IGNORECASE,
)
DATABASES = (0, 9)


class Trio:
    """A primary, a replica with the module, and one that has never heard of it."""

    def __init__(self, spawn, storage="compact"):
        line = with_module(f"sliding-storage {storage}")
        self.primary = spawn(*PRIMARY, line, module=False)
        self.replica = spawn(*PRIMARY, line, module=False)
        self.bare = spawn(*PRIMARY, module=False)
        self.replicas = (self.replica, self.bare)
        for replica in self.replicas:
            with replica.client() as client:
                client.replicaof("127.0.0.1", self.primary.port)
        for replica in self.replicas:
            until(lambda of=replica: is_in_step(self.primary, of), "the replica does not come up")
        with self.primary.client() as client:
            client.set("first", "one")  # so that the SELECT before the first write is behind us
        self.settle()

    def settle(self) -> None:
        for replica in self.replicas:
            until(lambda of=replica: is_in_step(self.primary, of), "the replica stays behind")

    def assert_equal(self) -> int:
        """Every key of every side, value and expiry. Returns how many there are."""
        for db in DATABASES:
            assert differences(self.primary, self.replicas, db) == {}
        return sum(len(everything(self.primary, db)) for db in DATABASES)

    def assert_no_complaints(self) -> None:
        """Neither in a replica's log nor in its count of errors, to which no test here adds."""
        for replica in self.replicas:
            log = replica.log_text().splitlines()
            assert not [line for line in log if COMPLAINT.search(line)]
            with replica.client() as client:
                assert client.info("errorstats") == {}


@pytest.mark.parametrize("storage", ["compact", "sorted-set"])
def test_random_traffic_leaves_three_equal(spawn, count, storage):
    """Every command in every wrapping, on two databases; compared on the way, too."""
    trio = Trio(spawn, storage)
    for turn in range(form(3, 60)):
        for db in DATABASES:
            traffic = Traffic(f"{storage} {turn} {db}")
            with trio.primary.wire() as wire:
                wire("SELECT", db)
                traffic.run(wire, form(500, 2_500))
            count("replicas", commands=traffic.commands)
        count("replicas", keys_compared=trio.assert_equal())
    trio.assert_no_complaints()
    with trio.bare.wire() as wire:
        assert wire("COMMAND", "INFO", "RL.TOKEN") == [None]


def test_a_complaint_would_be_seen(spawn):
    """What the test above looks for is there when a primary does send what a replica cannot do."""
    trio = Trio(spawn)
    with trio.primary.client() as primary, trio.bare.client() as bare:
        primary.xadd("stream", {"a": 1}, id="5-0")
        trio.settle()
        bare.config_set("replica-read-only", "no")
        bare.delete("stream")
        bare.lpush("stream", "not a stream")
        primary.xadd("stream", {"a": 1}, id="6-0")
        trio.settle()
    with pytest.raises(AssertionError):
        trio.assert_no_complaints()
    with pytest.raises(AssertionError):
        trio.assert_equal()


def test_offsets_stand_still_under_denials(spawn, count):
    """Calls that are denied, only look or are wrong, by the thousand."""
    trio = Trio(spawn)
    denied, others = [], []
    with trio.primary.wire() as wire:
        for quota in quotas(20):
            quota.seed(wire, quota.name)
            take = quota.take(quota.name, 18)
            assert quota.allowed(take, wire(*take))
            denied += [quota.take(quota.name, cost) for cost in (3, 20, 21, 1_000)]
            denied.append(["RL.ALL", "FIXED", "fresh", 60, 5, *quota.clause(quota.name, 3)])
            denied.append(quota.peek(quota.name, 3))
            others += [quota.peek(quota.name), ["RL.INSPECT", quota.name]]
            others.append([*quota.take(quota.name), "wrong"])
        denied += [["RL.THROTTLE", "throttle", 19, 1, 31_622_400, 3]]
        trio.settle()
        before = [changes(server) for server in (trio.primary, *trio.replicas)]
        flood = (denied + others) * form(20, 500)
        random.Random(1).shuffle(flood)
        for start in range(0, len(flood), 500):
            wire.pipeline(flood[start : start + 500])
        replies = wire.transaction(denied)
        calls = len(flood) + len(denied)
        if trio.primary.binary.version >= (7, 0):
            # (6.2 itself sends an empty MULTI EXEC for a script that calls any `write` command.)
            script = "return redis.call(unpack(ARGV))"
            for line in denied:
                reply = wire("EVAL", script, 1, line[1], *line)
                assert isinstance(reply, list), reply
            calls += len(denied)
    for line, reply in zip(denied, replies, strict=True):
        assert reply[0] == (1 if line[0] == "RL.THROTTLE" else 0), (line, reply)
    after = [changes(server) for server in (trio.primary, *trio.replicas)]
    assert after == before
    count("replicas", denials_and_looks=calls)


class Patient(Replay):
    """No key of this traffic expires within the second that a test takes for a batch."""

    WINDOWS = ("60", "600", "600", "1d")
    RATES = ("1/1m", "3/10m", "0.000001")


def without_expiry(wire, lines) -> list:
    """Runs them in one transaction, where time stands still, and makes every key stay."""
    keys = sorted({word for line in lines for word in line if ":" in str(word)})
    queued = wire.pipeline([["MULTI"], *lines, *(["PERSIST", key] for key in keys), ["EXEC"]])
    assert set(queued[1:-1]) == {"QUEUED"}
    return queued[-1][: len(lines)]


@pytest.mark.parametrize("storage", ["compact", "sorted-set"])
def test_promoted_replicas_decide_alike(spawn, count, storage):
    """After REPLICAOF NO ONE old and new primary answer the same calls as of the same times.

    So does the one without the module, once it has been given it.
    """
    trio = Trio(spawn, storage)
    traffic = Patient(storage)
    servers = (trio.primary, *trio.replicas)
    with trio.primary.wire() as wire:
        for key in range(4):
            wire("ZADD", f"sorted-set:{key}", traffic.now, ULID)
        for _ in range(form(15, 200)):
            without_expiry(wire, traffic.lines(50))
    trio.assert_equal()
    for server in trio.replicas:
        with server.client() as client:
            client.replicaof("NO", "ONE")
    with trio.bare.wire() as wire:
        assert wire("MODULE", "LOAD", str(MODULE), "sliding-storage", storage) == "OK"
    seen = set()
    for _ in range(form(15, 200)):
        lines = traffic.lines(50)
        replies = []
        for server in servers:
            with server.wire() as wire:
                replies.append(without_expiry(wire, lines))
        for line, old, *new in zip(lines, *replies, strict=True):
            assert new == [old, old], line
            seen.add((line[0], old[0] if isinstance(old, list) else old.split()[0]))
    names = ("FIXED", "SLIDING", "COUNTER", "TOKEN", "LEAKY", "PEEK", "ALL")
    assert {(f"RL.{name}", verdict) for name in names for verdict in (0, 1)} <= seen
    count("replicas", promotions=2, decisions_compared=traffic.commands // 2)


class Caller(threading.Thread):
    """Takes one after the other from every limiter, wherever the primary is, until told to stop."""

    SCRIPT = "return redis.call(unpack(ARGV))"

    def __init__(self, number, servers, limits, stop):
        super().__init__()
        self.dice = random.Random(number)
        self.servers, self.limits, self.stop = servers, limits, stop
        self.taken = Counter()
        self.calls = self.moves = 0
        self.failure = None

    def run(self):
        try:
            while not self.stop.is_set():
                with self.servers[self.moves % 2].wire() as wire:
                    while not self.stop.is_set() and self.call(wire):
                        self.calls += 1
                self.moves += 1
        except Exception as failure:  # reported by the main thread, which must see it
            self.failure = failure

    def call(self, wire) -> bool:
        """False where this server is the primary no longer."""
        quota = self.dice.choice(self.limits)
        cost = self.dice.randint(1, 3)
        line = quota.take(quota.name, cost)
        takes = [quota.name]
        way = self.dice.choice(["direct", "script", "all"])
        if way == "script":
            reply = wire("EVAL", self.SCRIPT, 1, quota.name, *line)
        elif way == "all":
            line = ["RL.ALL"]
            takes = [each.name for each in self.dice.sample(self.limits, 2)]
            for each in self.limits:
                if each.name in takes:
                    line += each.clause(each.name, cost)
            reply = wire(*line)
        else:
            reply = wire(*line)
        if isinstance(reply, Failure):
            assert "READONLY" in reply or reply.startswith("UNBLOCKED"), reply
            return False
        if quota.allowed(line, reply):
            for name in takes:
                self.taken[name] += cost
        return True


def fail_over(primary, replica) -> None:
    until(lambda: follows(primary, replica), "the replica is not there yet")
    with primary.wire() as wire:
        assert wire("FAILOVER", "TO", "127.0.0.1", replica.port) == "OK"
    until(lambda: replication(replica)["role"] == "master", "nobody takes over")
    until(lambda: replication(primary)["role"] == "slave", "the old primary stays one")


def test_failover_under_load(spawn, count):
    """FAILOVER there and back while callers take: it forgets nothing, and adds nothing."""
    limit = form(4_000, 40_000)
    trio = Trio(spawn)
    limits = quotas(limit)
    with trio.primary.wire() as wire:
        for quota in limits:
            quota.seed(wire, quota.name)
    trio.settle()
    stop = threading.Event()
    primary, replica = trio.primary, trio.replica
    callers = [Caller(i, (primary, replica), limits, stop) for i in range(6)]
    for caller in callers:
        caller.start()
    failovers = form(2, 40)
    try:
        for _ in range(failovers):
            begun = sum(caller.calls for caller in callers)
            until(
                lambda begun=begun: (
                    sum(caller.calls for caller in callers) >= begun + 150
                    or any(caller.failure for caller in callers)
                ),
                "the callers do not get on",
            )
            fail_over(primary, replica)
            primary, replica = replica, primary
    finally:
        stop.set()
        for caller in callers:
            caller.join(60)
    assert [caller.failure for caller in callers] == [None] * len(callers)
    assert all(caller.moves > 0 for caller in callers)
    taken = sum((caller.taken for caller in callers), Counter())
    with primary.wire() as wire:
        assert {quota.name: quota.used(wire, quota.name) for quota in limits} == taken
        for quota in limits:  # and the rest is there for the new primary to give, no more
            while (left := limit - quota.used(wire, quota.name)) > 0:
                line = quota.take(quota.name, min(left, 1_000))
                assert quota.allowed(line, wire(*line))
            line = quota.take(quota.name)
            assert not quota.allowed(line, wire(*line))
    assert max(taken.values()) <= limit
    for db in DATABASES:
        assert differences(primary, (replica, trio.bare), db, contents) == {}
    count("replicas", failovers=failovers, calls_across_failovers=sum(c.calls for c in callers))


def full_loads(primary) -> int:
    """How often a replica had to be sent everything."""
    with primary.client() as client:
        return client.info("stats")["sync_full"]


def load_state(server) -> dict:
    with server.client() as client:
        return client.info("persistence")


def test_diskless_swapdb_loading(spawn, count):
    """A replica loads the primary's data from the socket, beside its own, while traffic goes on.

    From 7.0 on it goes on answering from the old data in the meantime, if every module can live
    with that. It is asked everything.
    """
    keys = form(800, 2_400)
    primary = spawn(*PRIMARY, "repl-diskless-sync yes", "repl-backlog-size 16kb")
    replica = spawn(*PRIMARY, "repl-diskless-load swapdb")
    with replica.client() as client, primary.wire() as wire:
        client.replicaof("127.0.0.1", primary.port)
        until(lambda: is_in_step(primary, replica), "the first synchronisation does not end")
        client.config_set("key-load-delay", 200)  # microseconds for each key
        if replica.binary.version >= (7, 0):  # 6.2 looks at its clients after each 2 MB
            client.config_set("loading-process-events-interval-bytes", 1024)
        wire("SET", "large", os.urandom(4_000_000))
        limits = quotas(10)
        for lines in [[q.take(f"{q.name} {i}", 4) for q in limits] for i in range(keys // 8)]:
            wire.pipeline(lines)
    for turn in range(form(1, 12)):
        is_async = resynchronise(primary, replica, limits, turn, count)
        assert is_async == (replica.binary.version >= (7, 0))
        assert differences(primary, [replica], 0, contents) == {}
    assert "to parser" in replica.log_text()  # and not to disk


def resynchronise(primary, replica, limits, turn, count) -> bool:
    """Makes the replica load everything anew, under traffic. Was it serving in the meantime?"""
    until(lambda: is_in_step(primary, replica), "the replica does not catch up")
    stop = threading.Event()
    traffic = Traffic(f"swapdb {turn}")

    def run():
        with primary.wire() as wire:
            while not stop.is_set():
                traffic.run(wire, 50)

    loads = full_loads(primary)
    os.kill(replica.process.pid, signal.SIGSTOP)
    try:
        with primary.client() as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "replica")
            for i in range(40):  # more than the backlog holds: it cannot just go on
                client.set("padding", f"{i}" * 4_000)
    finally:
        os.kill(replica.process.pid, signal.SIGCONT)
    lines = []
    for quota in limits:
        key = f"{quota.name} 0"
        lines += [quota.peek(key), ["RL.INSPECT", key], quota.take(key)]
        lines += [["RL.ALL", *quota.clause(key)], ["RL.THROTTLE", key, 5, 1, 60, 0]]
    lines += [["RL.PEEK", "FIXED", "nobody", 60, 1], ["RL.NOTHING"]]
    caller = threading.Thread(target=run)
    caller.start()
    asked, is_async, is_done = 0, False, False
    try:
        with replica.wire() as wire:
            while not is_done:
                is_done = full_loads(primary) > loads and follows(primary, replica)
                is_loading = load_state(replica).get("async_loading") == 1
                *replies, after = wire.pipeline([*lines, ["INFO", "persistence"]])
                asked += len(lines)
                if is_loading and b"async_loading:1" in after:
                    is_async = True
                    assert_answers_from_old_data(lines, replies)
    finally:
        stop.set()
        caller.join(60)
    until(lambda: is_in_step(primary, replica), "the replica does not catch up")
    assert full_loads(primary) == loads + 1
    count("replicas", swapdb_loads=1, calls_while_loading=asked, commands=traffic.commands)
    return is_async


def assert_answers_from_old_data(lines, replies) -> None:
    for line, reply in zip(lines, replies, strict=True):
        if line[0] == "RL.PEEK":
            assert five_integers(reply), (line, reply)
            assert reply[2] == (1 if "nobody" in line else 6), (line, reply)
        else:
            looks = line[0] == "RL.INSPECT"
            assert isinstance(reply, list if looks else Failure), (line, reply)
