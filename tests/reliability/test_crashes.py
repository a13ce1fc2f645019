"""Killed with -9 at random moments: what was acknowledged counts, and nothing is half done.

A killed process, that is; the machine stays up. Whether a disk keeps through a power cut what
fsync said it has is between the server and the disk.

Issue 4, point 2.
"""

import os
import random
import signal
import threading
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from audit import over_bucket, over_counter, over_fixed, over_sliding
from forms import form
from waiting import until
from wire import Failure
from workload import DAY, ULID, Pipe, Quota, Replay, Traffic, contents, now_ms, quotas

AOF = ("appendonly yes", "appendfsync always")


# --- Killing ------------------------------------------------------------------------------------


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def is_ours(pid: int, server) -> bool:
    """Does this process still run, in the server's own directory?"""
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd")) == server.directory
    except OSError:
        return False


def kill(server, dice) -> None:
    """The server first. A child that was saving dies with it, or ends its work, as it happens."""
    saving = children(server.process.pid)
    server.process.kill()
    server.process.wait()
    for child in saving:
        if dice.random() < 0.5 and is_ours(child, server):
            os.kill(child, signal.SIGKILL)
        until(lambda child=child: not is_ours(child, server), "a child goes on saving")
    server.process = None


# --- Nothing acknowledged is forgotten -----------------------------------------------------------


class Taker(threading.Thread):
    """Sends takes in small pipelines until the server dies. Knows what was sent and answered."""

    def __init__(self, server, limits, seed):
        super().__init__()
        self.server, self.limits = server, limits
        self.dice = random.Random(seed)
        self.sent, self.taken, self.denied = Counter(), Counter(), Counter()
        self.calls = 0
        self.failure = None

    def run(self):
        try:
            with Pipe(self.server.port) as pipe:
                while True:
                    self.some(pipe)
        except OSError:
            pass  # killed, as was to be
        except Exception as failure:  # reported by the main thread, which must see it
            self.failure = failure

    def some(self, pipe) -> None:
        steps = [self.step() for _ in range(self.dice.choice([1, 1, 5, 20]))]
        for _, takes in steps:
            self.sent.update(takes)
        pipe.send_all([line for lines, _ in steps for line in lines])
        for lines, takes in steps:
            replies = [pipe.read() for _ in lines]
            reply, line = replies[-1], lines[-1]
            if line[0] in ("EXEC", "EVAL"):
                verdicts = [each[0] for each in reply]
            else:
                verdicts = [int(Quota.allowed(line, reply))] * len(takes)
            for (key, cost), verdict in zip(takes.items(), verdicts, strict=True):
                (self.taken if verdict == 1 else self.denied)[key] += cost
            self.calls += 1

    def step(self):
        """Command lines with one answer at their end, and what they take from which keys."""
        cost = self.dice.randint(1, 3)
        quota = self.dice.choice(self.limits)
        way = self.dice.choice(["one"] * 8 + list(PAIRS))
        if way == "one":
            return [quota.take(quota.name, cost)], {quota.name: cost}
        # Two keys that always are taken from together, in one of the ways that there are.
        keys = [f"{way}:{end}" for end in "ab"]
        lines = [PAIRED.take(key, cost) for key in keys]
        takes = dict.fromkeys(keys, cost)
        if way == "all":
            clauses = [word for key in keys for word in PAIRED.clause(key, cost)]
            return [["RL.ALL", *clauses]], takes
        if way == "multi":
            return [["MULTI"], *lines, ["EXEC"]], takes
        return [["EVAL", PAIR, 2, *keys, *lines[0], *lines[1]]], takes


PAIRS = ("all", "multi", "script")
PAIRED_KEYS = [f"{pair}:{end}" for pair in PAIRS for end in "ab"]
PAIRED = Quota("pair", "FIXED", ("366d", 10**9), 10**9)
PAIR = """
    local half = #ARGV / 2
    local first = redis.call(unpack(ARGV, 1, half))
    return {first, redis.call(unpack(ARGV, half + 1))}
"""


def test_no_acknowledged_admission_is_forgotten(spawn, count):
    """Kill, restart, go on: what is used is all that was acknowledged, and no more than was sent.

    Keys that are taken from together, by RL.ALL, MULTI/EXEC or a script, never differ. Now and
    then the log is being rewritten at the moment.
    """
    server = spawn(*AOF)
    dice = random.Random(form(21, time.time_ns()))
    limit = form(1_500, 4_000)
    limits = quotas(limit)
    acknowledged = Counter()
    for turn in range(form(3, 150)):
        if turn % 5 == 0:  # new keys; at the end of five kills they are used up, or nearly
            with server.wire() as wire:
                wire("FLUSHALL")
                for quota in limits:
                    quota.seed(wire, quota.name)
            acknowledged.clear()
            used = Counter()
        takers = [Taker(server, limits, f"{turn} {i}") for i in range(5)]
        for taker in takers:
            taker.start()
        time.sleep(dice.uniform(0.02, 0.25))
        if dice.random() < 0.5:
            with server.wire() as wire:
                wire("BGREWRITEAOF")
            time.sleep(dice.uniform(0, 0.03))
        kill(server, dice)
        for taker in takers:
            taker.join(60)
        assert [taker.failure for taker in takers] == [None] * len(takers)
        taken = sum((taker.taken for taker in takers), Counter())
        sent = sum((taker.sent for taker in takers), Counter())
        denied = sum((taker.denied for taker in takers), Counter())
        acknowledged += taken
        server.start()
        with server.wire() as wire:
            now = {quota.name: quota.used(wire, quota.name) for quota in limits}
            for pair in PAIRS:
                ends = [PAIRED.used(wire, f"{pair}:{end}") for end in "ab"]
                assert ends[0] == ends[1], pair
                now |= {f"{pair}:{end}": ends[0] for end in "ab"}
        for key, amount in now.items():
            unknown = sent[key] - taken[key] - denied[key]
            assert used[key] + taken[key] <= amount <= used[key] + taken[key] + unknown, key
            assert acknowledged[key] <= (PAIRED.limit if key in PAIRED_KEYS else limit)
        used = Counter(now)
        count("crashes", kills=1, commands=sum(taker.calls for taker in takers))
        count("crashes", acknowledged_admissions=sum(taken.values()))
    with server.wire() as wire:
        for quota in limits:  # the rest is there to be taken, no more
            while (left := limit - quota.used(wire, quota.name)) > 0:
                line = quota.take(quota.name, min(left, 1_000))
                assert quota.allowed(line, wire(*line))
            line = quota.take(quota.name)
            assert not quota.allowed(line, wire(*line))


WINDOW = 600_000  # ms on the clock of the calls; far longer than the test on the server's
MAX = 300


class Moving:
    """One key whose window goes on: how it is called, and how its admissions are looked through."""

    def __init__(self, name, line, audit, *known):
        self.name, self.line = name, line
        self.audit, self.known = audit, known
        self.admitted = []

    def over(self) -> list:
        return self.audit(self.admitted, *self.known)


def moving() -> list[Moving]:
    rate = Fraction(MAX, WINDOW)
    bucket = [MAX, f"{MAX}/10m"]
    return [
        Moving("fixed", ["RL.FIXED", "fixed", "10m", MAX], over_fixed, WINDOW, MAX),
        Moving("sliding", ["RL.SLIDING", "sliding", "10m", MAX], over_sliding, WINDOW, MAX),
        Moving(
            "tiers",
            ["RL.SLIDING", "tiers", "1m", 60, "10m", MAX],
            lambda log: over_sliding(log, 60_000, 60) + over_sliding(log, WINDOW, MAX),
        ),
        Moving("set", ["RL.SLIDING", "set", "10m", MAX], over_sliding, WINDOW, MAX),
        Moving("counter", ["RL.COUNTER", "counter", "10m", MAX], over_counter, WINDOW, MAX),
        Moving("token", ["RL.TOKEN", "token", *bucket], over_bucket, MAX, rate),
        Moving("leaky", ["RL.LEAKY", "leaky", *bucket], over_bucket, MAX, rate),
    ]


def test_no_window_is_ever_overdrawn(spawn, count):
    """The clock of the calls goes on through all crashes, and with it every window.

    Every admission that was acknowledged, before and after, in one list: no window of it holds
    more than the maximum, whatever became of the calls that were never answered.
    """
    server = spawn(*AOF)
    dice = random.Random(form(22, time.time_ns()))
    limiters = moving()
    at = now_ms()
    with server.wire() as wire:
        wire("ZADD", "set", at - 2 * WINDOW, ULID)
    verdicts = Counter()
    for _ in range(form(3, 150)):
        killer = threading.Timer(dice.uniform(0.05, 0.3), kill, (server, dice))
        killer.start()
        try:
            with Pipe(server.port) as pipe:
                while True:
                    calls = []
                    for _ in range(dice.choice([1, 5, 30])):
                        at += dice.choice([0, 0, 1, 200, 800])
                        calls.append((dice.choice(limiters), at, dice.choice([1, 1, 2])))
                    pipe.send_all([[*one.line, "COST", cost, "AT", at] for one, at, cost in calls])
                    for one, at, cost in calls:
                        reply = pipe.read()
                        assert not isinstance(reply, Failure), reply
                        verdicts[reply[0]] += 1
                        if reply[0] == 1:
                            one.admitted.append((at, cost))
        except OSError:
            pass  # killed, as was to be
        at = calls[-1][1]
        killer.join(60)
        server.start()
        count("crashes", kills=1)
    for one in limiters:
        assert one.over() == [], one.name
    assert min(verdicts[0], verdicts[1]) > 100
    count("crashes", commands=sum(verdicts.values()), acknowledged_admissions=verdicts[1])


# --- With snapshots only: the state is one that was ---------------------------------------------


class Script:
    """An endless, repeatable list of takes, all allowed; each leaves a sum of its own."""

    def __init__(self, limits, start):
        self.limits, self.start = limits, start
        self.lines, self.sums = [], [(0,) * len(limits)]
        self.dice = random.Random(5)

    def extend(self, number) -> list:
        for _ in range(number):
            at = self.start + len(self.lines) // 4
            sums = list(self.sums[-1])
            if self.dice.random() < 0.3:
                cost, line = self.dice.randint(1, 3), ["RL.ALL"]
                for i in sorted(self.dice.sample(range(len(self.limits)), 2)):
                    line += self.limits[i].clause(self.limits[i].name, cost)
                    sums[i] += cost
                line += ["AT", at]
            else:
                i, cost = self.dice.randrange(len(self.limits)), self.dice.randint(1, 3)
                line = self.limits[i].take(self.limits[i].name, cost, at=at)
                sums[i] += cost
            self.lines.append(line)
            self.sums.append(tuple(sums))
        return self.lines[-number:]


def values(server) -> dict:
    """What the keys hold; of a sorted set the scores, as the members are random."""
    found = {}
    for key, content in contents(server).items():
        value = content.value
        found[key] = value if isinstance(value, bytes) else [score for _, score in value]
    return found


def test_a_snapshot_is_a_state_that_was(spawn, count):
    """With RDB only: after the kill all keys are as they were at one moment, the same for all.

    Not before the last snapshot that ended. A second server that is told the calls up to that
    moment holds the same bytes.
    """
    server, twin = spawn("rdb-key-save-delay 500"), spawn()
    dice = random.Random(form(23, time.time_ns()))
    limits = [quota for quota in quotas(10**6) if quota.word != "THROTTLE"]
    for _ in range(form(3, 100)):
        start = now_ms()
        for each in (server, twin):
            with each.wire() as wire:
                wire("FLUSHALL")
                assert wire("ZADD", "sorted-set", start - 60 * DAY, ULID) == 1
        with server.wire() as wire:
            wire("SAVE")
        script = Script(limits, start)
        state = {"answered": 0, "failure": None}
        caller = threading.Thread(target=play, args=(server, script, state))
        caller.start()
        saved = 0
        for _ in range(dice.choice([0, 1, 2])):
            time.sleep(dice.uniform(0, 0.03))
            answered = state["answered"]
            with server.wire() as wire:
                if isinstance(wire("BGSAVE"), Failure):
                    continue
                until(lambda w=wire: b"rdb_bgsave_in_progress:0" in w("INFO", "persistence"), "")
            saved = answered
        if dice.random() < 0.7:  # in the middle of one
            with server.wire() as wire:
                wire("BGSAVE")
        time.sleep(dice.uniform(0, 0.02))
        kill(server, dice)
        caller.join(60)
        assert state["failure"] is None
        server.start()
        with server.wire() as wire:
            found = tuple(quota.used(wire, quota.name, at=start) for quota in limits)
        assert found in script.sums
        moment = script.sums.index(found)
        assert moment >= saved
        with twin.wire() as wire:
            replies = wire.pipeline(script.lines[:moment])
        assert all(reply[0] == 1 for reply in replies)
        assert values(server) == values(twin)
        count("crashes", kills=1, commands=state["answered"], snapshots_found_whole=1)


def play(server, script, state) -> None:
    try:
        with Pipe(server.port) as pipe:
            while True:
                lines = script.extend(10)
                pipe.send_all(lines)
                for line in lines:
                    reply = pipe.read()
                    assert reply[0] == 1, (line, reply)
                    state["answered"] += 1
    except OSError:
        pass  # killed, as was to be
    except Exception as failure:
        state["failure"] = failure


# --- Files load anywhere -------------------------------------------------------------------------


FAR = 4_000_000_000_000  # ms since 1970


def ask(server, questions) -> list:
    """What the keys decide from here on. Asked of copies, which are gone afterwards."""
    replies = []
    with server.wire() as wire:
        names = wire("KEYS", "*")
        for line in questions:
            original = line[2].encode()
            if original in names:
                copies = [["COPY", original, "probe", "REPLACE"], ["PEXPIREAT", "probe", FAR]]
                asked = [*line[:1], line[1], "probe", *line[3:]]
                replies.append(wire.transaction([["DEL", "probe"], *copies, asked])[-1])
        wire("DEL", "probe")
    return replies


class Asked(Replay):
    """Single questions that take, in the form of an RL.ALL with one clause."""

    def line(self) -> list:
        clause = self.clause()
        return ["RL.ALL", *clause, "AT", self.now + self.dice.choice([0, 1_000, 100_000, 10**6])]


def rewrite(server) -> None:
    with server.client() as client:
        client.bgrewriteaof()

        def is_done():
            state = client.info("persistence")
            return not (state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"])

        until(is_done, "BGREWRITEAOF does not end")
        assert client.info("persistence")["aof_last_bgrewrite_status"] == "ok"


@pytest.mark.parametrize("kind", ["rdb", "aof", "rewritten to rdb", "rewritten to commands"])
def test_files_load_with_and_without_the_module(spawn, count, kind):
    """All kinds of state after random traffic; the AOF is rewritten under it, and written on."""
    if kind == "rdb":
        server = spawn("save 3600 1")
    else:
        preamble = "no" if kind.endswith("commands") else "yes"
        # (Nothing is written late with `no`, as it can be with `everysec`.)
        server = spawn("appendonly yes", "appendfsync no", f"aof-use-rdb-preamble {preamble}")
    dice = random.Random(kind)
    for turn in range(form(1, 20)):
        traffic = Traffic(f"{kind} {turn}")
        with server.wire() as wire:
            traffic.run(wire, 600)
            if kind.startswith("rewritten"):
                rewrite(server)
                traffic.run(wire, 200)
            # Comparing takes longer than some of these keys live.
            for key in wire("KEYS", "*"):
                if wire("PTTL", key) < 600_000 * dice.random():
                    if dice.random() < 0.3:
                        wire("DEL", key)
                    else:
                        wire("PEXPIREAT", key, now_ms() + 3_600_000)
            if kind == "rdb":
                assert wire("SAVE") == "OK"
        questions = Asked(turn).lines(300)
        before, expected = lasting(server), ask(server, questions)
        assert len(before) > 10
        assert {0, 1} <= {reply[0] for reply in expected}
        for module in (False, True, False, True):
            if kind == "rdb":
                server.stop()
            else:
                kill(server, dice)
            server.start(module=module)
            assert lasting(server) == before
            if module:
                assert ask(server, questions) == expected
            count("crashes", restarts_compared=1)
        count("crashes", commands=traffic.commands)


def lasting(server) -> dict:
    """Every key that will not expire while the test looks."""
    soon = now_ms() + 120_000
    return {
        key: content
        for key, content in contents(server).items()
        if content.expires_at is None or content.expires_at > soon
    }
