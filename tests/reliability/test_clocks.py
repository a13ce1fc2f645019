"""A running server's clock is stepped: nothing is forgotten, and nobody is blocked for long.

Issue 4, point 5. No `AT`: decisions and expiry go by the server's own clock, which libfaketime
moves. What is checked holds at any speed: each call lies between two TIMEs of the server.
"""

import contextlib
import random
import threading
import time
from dataclasses import dataclass, field

import pytest

import faketime
from faketime import Clocked, clock
from forms import form
from limiters import held
from waiting import until
from wire import Failure
from workload import MODULE

pytestmark = pytest.mark.skipif(
    faketime.LIBRARY is None, reason="no libfaketime.so.1; `apt-get install faketime`"
)

LIMIT = 6
SHORT, MIDDLE, LONG = 1_200, 120_000, 12 * 3_600_000  # horizons in ms
HOUR = 3_600.0
STEPS = [-0.001, -1.0, -HOUR, HOUR]  # seconds
ROUNDS = form(1, 12)
PAUSE = 0.006  # between two rounds of calls: clients are not to keep the machine busy
BUCKETS = 10


@dataclass(frozen=True)
class Kind:
    """A limit of six in `horizon` milliseconds, in one of the module's ways."""

    name: str
    horizon: int
    start: int = 0  # of one of the fixed windows, which lie on the clock

    @property
    def drains(self) -> bool:
        return self.name in ("token", "leaky", "throttle")

    @property
    def offset(self) -> int:
        return self.horizon - self.start % self.horizon

    @property
    def longest_wait(self) -> int:
        """Twice the horizon, as it is told: by RL.THROTTLE in seconds.

        For RL.COUNTER a sub-window comes on top: one more than the window counts, if by its share.
        """
        more = {"throttle": 999, "counter": -(-self.horizon // BUCKETS)}
        return 2 * self.horizon + more.get(self.name, 0)

    @property
    def limits(self) -> tuple:
        """For which the reply may speak; that of the shortest window comes last."""
        return (LIMIT, LIMIT // 2) if self.name == "tiers" else (LIMIT,)

    @property
    def arguments(self) -> list:
        window = f"{self.horizon}ms"
        return {
            "fixed": ["FIXED", window, LIMIT, "OFFSET", f"{self.offset}ms"],
            "sliding": ["SLIDING", window, LIMIT],
            "tiers": ["SLIDING", f"{self.horizon // 3}ms", LIMIT // 2, window, LIMIT],
            "counter": ["COUNTER", window, LIMIT, "BUCKETS", BUCKETS],
            "token": ["TOKEN", LIMIT, f"{LIMIT}/{window}"],
            "leaky": ["LEAKY", LIMIT, f"{LIMIT}/{window}"],
        }[self.name]

    def key(self, prefix="live") -> str:
        return f"{prefix}:{self.name}:{self.horizon}"

    def take(self, prefix="live") -> list:
        if self.name == "throttle":  # its period is in whole seconds
            return ["RL.THROTTLE", self.key(prefix), LIMIT - 1, LIMIT, self.horizon // 1000]
        word, *rest = self.arguments
        return [f"RL.{word}", self.key(prefix), *rest]

    def peek(self, prefix="live") -> list:
        if self.name == "throttle":
            return [*self.take(prefix), 0]
        word, *rest = self.arguments
        return ["RL.PEEK", word, self.key(prefix), *rest]

    def read(self, reply) -> tuple[bool, int, int]:
        """Allowed, how long to wait and until it is as new, in ms (of RL.THROTTLE rounded up)."""
        assert isinstance(reply, list), (self, reply)
        assert len(reply) == 5, (self, reply)
        assert reply[1] in self.limits, (self, reply)
        assert 0 <= reply[2] <= LIMIT, (self, reply)
        if self.name == "throttle":
            return reply[0] == 0, reply[3] * 1000, reply[4] * 1000
        return reply[0] == 1, reply[3], reply[4]


NAMES = ("fixed", "sliding", "tiers", "counter", "token", "leaky", "throttle")


def kinds(horizon, names=NAMES, start=0) -> list[Kind]:
    """One of each; RL.THROTTLE in whole seconds."""
    seconds = -(-horizon // 1000) * 1000
    return [Kind(name, seconds if name == "throttle" else horizon, start) for name in names]


@dataclass
class Call:
    """A call that was made between two moments of the server's clock."""

    first: float  # ms by the server's clock
    last: float
    early: float  # the same, counting what has passed: a step back counts as no time
    late: float
    allowed: bool
    is_look: bool = False  # nobody called; the clock went on from here to there


@dataclass
class Diary:
    """All that happened to one key, and whether that is what SPEC.md allows."""

    kind: Kind
    calls: list[Call] = field(default_factory=list)
    denial: tuple | None = None  # the latest call that was told to wait
    blocked_since: float | None = None  # of the server's clock, at its latest step

    def stepped(self, at: float) -> None:
        self.denial, self.blocked_since = None, at

    def note(self, call: Call, wait: int, reset: int, ttl: int) -> None:
        kind, story = self.kind, (self.kind, call, wait, reset, ttl, self.denial)
        second = 1000 if kind.name == "throttle" else 1  # the rounding of what is told
        if not call.allowed:
            assert 0 < wait <= kind.longest_wait, story
        self._is_kept_word(call, wait, story)
        # The key lives while it matters; not for ever, and not for long when it no longer does.
        if reset:
            assert ttl >= reset - second - (call.last - call.first) - 1, story
            assert ttl <= 4 * kind.horizon + second, story
        self.calls.append(call)

    def _is_kept_word(self, call, wait, story) -> None:
        """A call that waits as long as it was told is let through, and one that does not is not."""
        if self.denial and not call.allowed:
            first, last, told = self.denial
            assert call.first < last + told + 1, story
        if self.denial and call.allowed and self.kind.name != "throttle":
            first, last, told = self.denial
            assert call.last >= first + told - 1, story
        if call.allowed:
            self.denial = self.blocked_since = None
        else:
            self.denial = (call.first, call.last, wait)
            if self.blocked_since is not None:
                assert call.first <= self.blocked_since + self.kind.longest_wait + 1, story

    @property
    def admissions(self) -> list[Call]:
        return [call for call in self.calls if call.allowed]

    def check(self) -> None:
        """Never more than the limit in any window of the time that passed on the server's clock."""
        if self.kind.name == "fixed":
            self._check_fixed()
        elif self.kind.drains:
            self._check_bucket()
        else:
            # Sub-windows lie on the clock: after a move the count of one of them may leave early.
            early = 2 * -(-self.kind.horizon // BUCKETS) if self.kind.name == "counter" else 0
            self._check_window(LIMIT, self.kind.horizon - early)
        if self.kind.name == "tiers":
            self._check_window(LIMIT // 2, self.kind.horizon // 3)

    def _check_window(self, limit, window) -> None:
        passed = self.admissions
        for one, other in zip(passed, passed[limit:], strict=False):
            # Both count as made in a whole millisecond.
            assert other.late - one.early > window - 1, (self.kind, one, other)

    def _check_bucket(self) -> None:
        rate = LIMIT / self.kind.horizon
        passed = self.admissions
        for i, one in enumerate(passed):
            for number, other in enumerate(passed[i:], 1):
                room = LIMIT + rate * (other.late - one.early + 0.01)
                assert number <= room, (self.kind, one, other)

    def _check_fixed(self) -> None:
        """Windows lie on the clock; when that is set back their counts go with it."""
        window, latest, count = self.kind.horizon, None, 0
        for call in self.calls:
            index, other = call.first // window, call.last // window
            is_moved = latest is not None and latest * window - call.first > window
            if call.is_look:
                if latest is not None and other > latest:
                    latest, count = other, 0  # the window may be over, and the key gone
            elif index != other:  # on the edge: in one of the two
                if call.allowed or is_moved:
                    latest, count = other, 0
            elif latest is None or index > latest:
                if call.allowed:
                    latest, count = index, 1
            else:
                if is_moved:
                    latest = index
                count += call.allowed
            assert count <= LIMIT, (self.kind, call)


class Chronicle:
    """Calls to some keys of one server, one after the other, with the clock read around them."""

    def __init__(self, server, kinds):
        self.server = server
        self.diaries = {kind: Diary(kind) for kind in kinds}
        self.now: float | None = None  # the server's clock when it was last looked at
        self.passed = 0.0
        self.looked = 0.0  # when that was, by the machine's monotonic clock
        self.commands = 0

    def ask(self, wire) -> None:
        """Each key once."""
        kinds = list(self.diaries)
        lines = [kind.take() for kind in kinds] + [["PTTL", kind.key()] for kind in kinds]
        before, *replies, after = wire.pipeline([["TIME"], *lines, ["TIME"]])
        first, last = clock(before), clock(after)
        early = self.passed + max(0.0, first - (self.now or first))
        late = early + max(0.0, last - first)
        self.now, self.passed, self.looked = last, late, time.monotonic()
        self.commands += len(kinds)
        for kind, reply, ttl in zip(kinds, replies, replies[len(kinds) :], strict=False):
            allowed, wait, reset = kind.read(reply)
            self.diaries[kind].note(Call(first, last, early, late, allowed), wait, reset, ttl)

    def stepped(self, wire) -> None:
        """The clock is another one now. Until it was, the old one had gone on."""
        gap = (time.monotonic() - self.looked) * 1000
        unseen = [self.now, self.now + gap, self.passed, self.passed + gap]
        before, self.now = self.now, clock(wire("TIME"))
        self.passed += max(gap, self.now - before)
        for diary in self.diaries.values():
            diary.calls.append(Call(*unseen, allowed=False, is_look=True))
            diary.stepped(self.now)

    def is_open_again(self, horizon) -> bool:
        """Has every limiter of this horizon let somebody through since the step?"""
        return all(
            diary.blocked_since is None
            for kind, diary in self.diaries.items()
            if kind.horizon in (horizon, -(-horizon // 1000) * 1000)
        )

    def check(self) -> None:
        for diary in self.diaries.values():
            assert diary.admissions, diary.kind
            diary.check()


class Noise:
    """Another client, who keeps the server busy while its clock is stepped."""

    def __init__(self, server):
        self.server = server
        self.stopped = threading.Event()
        self.failures = []
        self.commands = 0
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()

    def run(self) -> None:
        asked = kinds(SHORT) + kinds(LONG)
        try:
            with self.server.wire() as wire:
                while not self.stopped.wait(0.002):
                    lines = [kind.take("noise") for kind in asked]
                    # In one transaction and one by one: the time stands still in the first only.
                    for replies in (wire.transaction(lines), wire.pipeline(lines)):
                        self.commands += len(lines)
                        for kind, reply in zip(asked, replies, strict=True):
                            allowed, wait, _ = kind.read(reply)
                            assert allowed or 0 < wait <= kind.longest_wait, (kind, reply)
        except Exception as failure:  # reported by the main thread, which must see it
            self.failures.append(failure)


@pytest.fixture
def clocked(binary):
    """Start servers with clocks of their own."""
    started = []

    def start(*config, module=True, offset=0.0) -> Clocked:
        started.append(Clocked(binary, config, module, offset))
        return started[-1]

    yield start
    complaints = [line for server in started for line in server.trouble()]
    for server in reversed(started):
        server.remove()
    assert not complaints


def fill_idle(wire) -> list[Kind]:
    """Used up, and then left alone. Windows begin now, so none of them ends soon."""
    start = int(clock(wire("TIME")))
    idle = kinds(MIDDLE, start=start) + kinds(LONG, start=start)
    for kind in idle:
        wire("DEL", kind.key("idle"))
        for _ in range(kind.limits[-1]):
            assert kind.read(wire(*kind.take("idle")))[0], kind
    return idle


def check_idle(server, idle, seconds) -> None:
    """What the step did to keys that nobody had asked since."""
    with server.wire() as wire, server.client() as client:
        for kind in idle:
            key = kind.key("idle")
            if seconds > 0 and kind.horizon < seconds * 1000:
                # By this clock its time is up; nobody has to ask for that.
                until(lambda key=key: wire("EXISTS", key) == 0, f"{key} does not expire")
                continue
            before = held(client, key)
            assert before.expires_at is not None, kind
            for _ in range(2):  # a look says the same, and writes nothing
                allowed, wait, _ = kind.read(wire(*kind.peek("idle")))
                assert not allowed, (kind, "forgotten")
                assert 0 < wait <= kind.longest_wait or kind.name == "throttle", kind
            assert held(client, key) == before
            allowed, wait, reset = kind.read(wire(*kind.take("idle")))
            assert not allowed, (kind, "forgotten")
            assert 0 < wait <= kind.longest_wait, kind
            if kind.horizon < -seconds * 1000:  # moved, its expiry with it
                assert held(client, key) != before
                assert 0 < wire("PTTL", key) <= reset * 3 // 2 + 1_000
            else:
                assert held(client, key) == before


def test_stepped_clocks(binary, clocked, count):
    """-1 ms, -1 s, -1 h and +1 h under traffic, every algorithm, both ways to store a log."""
    compact = clocked()
    sorted_set = clocked(f'loadmodule "{MODULE}" sliding-storage sorted-set', module=False)
    with contextlib.ExitStack() as stack:
        logs = ("sliding", "tiers")
        chronicles = [
            Chronicle(compact, kinds(SHORT) + kinds(LONG)),
            Chronicle(sorted_set, kinds(SHORT, logs) + kinds(LONG, logs)),
        ]
        wires = [stack.enter_context(one.server.wire()) for one in chronicles]
        noises = [stack.enter_context(Noise(one.server)) for one in chronicles]
        dice = random.Random(binary.name)
        pause = threading.Event()
        for turn in range(ROUNDS):
            steps = dice.sample(STEPS, len(STEPS)) if turn else STEPS
            for seconds in steps:
                idle = fill_idle(wires[0])
                for _ in range(30):  # used up and asked for more when the step comes
                    for one, wire in zip(chronicles, wires, strict=True):
                        one.ask(wire)
                    pause.wait(PAUSE)
                for one, wire in zip(chronicles, wires, strict=True):
                    one.server.step(seconds)
                    one.stepped(wire)
                    one.ask(wire)
                check_idle(compact, idle, seconds)
                # No deadline of ours: the diary knows when each has to be open again.
                while not all(one.is_open_again(SHORT) for one in chronicles):
                    for one, wire in zip(chronicles, wires, strict=True):
                        one.ask(wire)
                    pause.wait(PAUSE)
        for one in chronicles:
            one.check()
        for noise in noises:
            noise.stopped.set()
            noise.thread.join()
            assert not noise.failures, noise.failures
        wires[0]("DEL", *[kind.key("idle") for kind in idle])
        for wire in wires:
            # Left alone they all go, but for those that matter for half a day yet.
            until(
                lambda wire=wire: not [k for k in wire("KEYS", "*") if not k.endswith(b"00000")],
                "short-lived keys stay",
            )
            for key in wire("KEYS", "*"):
                assert 0 < wire("PTTL", key) <= 4 * LONG
            assert wire("DBSIZE") > 0
        count(
            "clocks",
            steps=len(STEPS) * ROUNDS * len(chronicles),
            commands=sum(one.commands for one in (*chronicles, *noises)),
        )


@pytest.mark.parametrize("behind", form([5.0], [5.0, -5.0]))
def test_a_replica_with_another_clock_is_promoted(clocked, count, behind):
    """Five seconds behind: what the primary took is not forgotten, and blocks nobody for long.

    (And in the long form five seconds ahead: a step forwards, by which windows end earlier.)
    """
    quiet = "repl-diskless-sync-delay 0"
    primary, replica = clocked(quiet), clocked(quiet, offset=-behind)
    with (
        primary.wire() as p,
        replica.wire() as q,
        primary.client() as pc,
        replica.client() as qc,
    ):
        assert q("REPLICAOF", "127.0.0.1", primary.port) == "OK"
        until(lambda: q("ROLE")[3] == b"connected", "no replica")
        chronicle = Chronicle(primary, kinds(SHORT) + kinds(LONG))
        idle = fill_idle(p)
        pause = threading.Event()
        for _ in range(60):
            chronicle.ask(p)
            pause.wait(PAUSE)
        until(lambda: q("ROLE")[4] == p("ROLE")[1], "the replica does not catch up")
        for kind in idle:  # the expiry is a time, which is the same by whatever clock it is read
            assert held(qc, kind.key("idle")) == held(pc, kind.key("idle"))
            if kind.name != "throttle":  # (which is a command that writes, even to look)
                assert not kind.read(q(*kind.peek("idle")))[0]
            assert isinstance(reply := q(*kind.take("idle")), Failure)
            assert reply.startswith("READONLY")
        assert q("REPLICAOF", "NO", "ONE") == "OK"
        primary.stop()
        chronicle.server = replica
        chronicle.stepped(q)
        chronicle.ask(q)
        for kind in idle:
            allowed, wait, _ = kind.read(q(*kind.take("idle")))
            assert not allowed, (kind, "forgotten")
            assert 0 < wait <= kind.longest_wait, kind
        while not chronicle.is_open_again(SHORT):
            chronicle.ask(q)
            pause.wait(PAUSE)
        chronicle.check()
        until(
            lambda: not [k for k in q("KEYS", "live:*") if not k.endswith(b"00000")],
            "short-lived keys stay",
        )
        count("clocks", promotions=1, commands=chronicle.commands)


@pytest.mark.parametrize("all_of_it", [False, True], ids=["one", "all"])
@pytest.mark.parametrize(
    "name",
    ["fixed", "sliding", "tiers", "counter", "token", "leaky"],
)
def test_the_longest_wait_is_twice_the_horizon(wire, name, all_of_it):
    """At the worst moment: used up, and then the clock goes back by a whole horizon."""
    kind = Kind(name, SHORT)
    start = 1_700_000_000_000 // SHORT * SHORT  # begins windows and sub-windows
    for _ in range(kind.limits[-1]):
        assert kind.read(wire(*kind.take(), "AT", start))[0]
    cost = kind.limits[-1] if all_of_it else 1
    for back in (SHORT // 2, SHORT - 1, SHORT, SHORT + 1, 10 * SHORT):
        peek = [*kind.peek(), "COST", cost, "AT", start - back]
        allowed, wait, _ = kind.read(wire(*peek))
        assert not allowed
        assert 0 < wait <= kind.longest_wait, f"{wait} ms, {back} ms back"
