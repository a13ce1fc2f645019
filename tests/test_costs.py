"""What a call costs as far as no clock is needed to tell: functions of the server that it calls,
memory that it allocates, instructions, and bytes for replicas.

How many calls a machine gets through in a second is for `make bench` to tell.
"""

import platform
import re
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import servers
from callgrind import Profile, Profiled
from servers import check_health
from wire import encode

NOW = 1_699_920_000_000  # a day begins
MINUTE = 60_000
DEPTH = 50  # of a pipeline


class Case(NamedTuple):
    """Calls that all cost the same, on limiters that stay in the state they were brought into.

    No expiry has to move, which would hang on the clock: what the calls use up takes hours to come
    back, and what AT says is far ahead of the time that really passes.
    """

    line: str
    allowed: bool = True
    fill: int = 1  # how many calls there are on each key before those that are looked at
    cost: int = 1  # of each of these
    every: int = 1  # milliseconds from one of these to the next
    start: int = 10 * MINUTE  # from the last of these to the first that is looked at
    step: int = 1  # milliseconds from one of those to the next
    keys: int = 20
    clock: bool = False  # decided by the server's clock instead of AT

    def _call(self, key: int, after: int, *options) -> list:
        at = [] if self.clock else ["AT", NOW + after]
        return [*self.line.format(key=f"k{key:02}").split(), *options, *at]

    def filling(self) -> list[list]:
        """The calls before."""
        return [
            self._call(key, i * self.every, "COST", self.cost)
            for i in range(self.fill)
            for key in range(self.keys)
        ]

    def calls(self, count: int) -> list[list]:
        """Those that are looked at, on one key after the other."""
        start = (self.fill - 1) * self.every + self.start
        return [self._call(i % self.keys, start + i // self.keys * self.step) for i in range(count)]


# A bucket with hours to drain, and a little more in it after each call.
BUCKET = {"cost": 100_000, "step": 500}
# A full log, in which each call drops one request and adds one.
LOG_100 = {"fill": 150, "every": 864_000, "start": 864_000, "step": 864_000}
LOG_60_000 = {"fill": 60_100, "every": 1_000, "start": 1_000, "step": 1_000, "keys": 1}
# Nothing has left it since.
DENIED = {"allowed": False, "start": 1, "step": 0}

CASES = {
    "fixed allowed": Case("RL.FIXED {key} 1d 1000000"),
    "fixed denied": Case("RL.FIXED {key} 1d 1", allowed=False),
    "fixed by the clock": Case("RL.FIXED {key} 366d 1000000", clock=True),
    "token allowed": Case("RL.TOKEN {key} 1000000 1", **BUCKET),
    "token denied": Case("RL.TOKEN {key} 1 1/1d", allowed=False),
    "token by the clock": Case("RL.TOKEN {key} 1000000 1", clock=True, **BUCKET),
    "leaky allowed": Case("RL.LEAKY {key} 1000000 1", **BUCKET),
    "leaky denied": Case("RL.LEAKY {key} 1 1/1d", allowed=False),
    "counter allowed": Case("RL.COUNTER {key} 1d 1000000"),
    "counter denied": Case("RL.COUNTER {key} 1d 1", allowed=False),
    "counter of 256": Case("RL.COUNTER {key} 1d 1000000 BUCKETS 256", start=1),
    "sliding grows": Case("RL.SLIDING {key} 1d 1000000"),
    "sliding 100 allowed": Case("RL.SLIDING {key} 1d 100", **LOG_100),
    "sliding 100 denied": Case("RL.SLIDING {key} 1d 100", **(LOG_100 | DENIED)),
    "sliding 60,000 allowed": Case("RL.SLIDING {key} 60000 60000", **LOG_60_000),
    "sliding 60,000 denied": Case("RL.SLIDING {key} 60000 60000", **(LOG_60_000 | DENIED)),
    "sliding, three windows": Case("RL.SLIDING {key} 1d 100 1h 50 1m 2", **LOG_100),
}


def run(wire, lines: list[list]) -> list:
    return [r for i in range(0, len(lines), DEPTH) for r in wire.pipeline(lines[i : i + DEPTH])]


# --- Under callgrind ---------------------------------------------------------------------------

CALLS = 1_000
# A compiler may do a little better or worse; less than half would mean that nothing was measured.
MARGIN, MARGIN_BY_THE_CLOCK, LEAST = 1.15, 1.3, 0.5

RECORDED_ON = "redis-7.0"
# Each call: our own instructions, all of the server's beside those of a `SET key v PX 60000`, and
# how often each of these functions of the server is called. (Redis 7.0.15, Rust 1.95, x86-64.)
# To record it anew: `make build`, then `.venv/bin/python tests/test_costs.py` prints it.
RECORDED = """
case                      ours  of SET  StringPtrLen  ValueLength  StringDMA  StringTruncate
fixed allowed             1157    1.37             6            2          1               0
fixed denied              1054    0.97             7            1          1               0
fixed by the clock         950    1.22             3            2          1               0
token allowed             1337    1.38             6            2          1               0
token denied              1325    0.99             7            1          1               0
token by the clock        1110    1.23             3            2          1               0
leaky allowed             1354    1.40             6            2          1               0
leaky denied              1342    1.00             7            1          1               0
counter allowed           1999    1.46             6            3          1               0
counter denied            1714    1.06             7            2          1               0
counter of 256           11080    2.95             9            2          1               0
sliding grows             1826    1.50             7            1       1.14            0.28
sliding 100 allowed       1754    1.43             7            1          1               0
sliding 100 denied        1599    1.04             8            1          1               0
sliding 60,000 allowed    1804    1.43             7            1          1               0
sliding 60,000 denied     1638    1.05             8            1          1               0
sliding, three windows    2750    1.78            13            1          1               0
"""
# Those that are called the same number of times by every call, by every call that is allowed, and
# by every one that is denied: for the event and for RL.TOP.
BY_EVERY_CALL = {"OpenKey": 1, "KeyType": 1, "CloseKey": 1}
BY_EVERY_CALL |= {"ReplyWithArray": 1, "ReplyWithLongLong": 5}
BY_ALLOWED_CALLS = {"GetAbsExpire": 1, "Replicate": 1, "SignalModifiedKey": 1}
BY_DENIED_CALLS = {"NotifyKeyspaceEvent": 1, "GetSelectedDb": 1}

ALLOCATES = re.compile("alloc|free|strdup|CreateString", re.IGNORECASE)


class Cost:
    """What one call costs on average, out of the profile of all."""

    def __init__(self, profile: Profile, of_sets: int):
        self.ours = profile.ours / CALLS
        self.of_set = profile.instructions / of_sets
        self.entered = profile.entered / CALLS
        self.called = {name: count / CALLS for name, count in profile.called.items()}

    def api(self) -> dict[str, float]:
        """Calls of the server's functions for modules, by the names in its documentation."""
        return {
            name.removeprefix("RM_"): count
            for name, count in self.called.items()
            if name.startswith("RM_")
        }


def table() -> tuple[list[str], dict[str, list[float]]]:
    """The head of `RECORDED`, and its figures by case."""
    head, *rows = [re.split(" {2,}", line) for line in RECORDED.strip().splitlines()]
    return head[1:], {name: [float(figure) for figure in figures] for name, *figures in rows}


def measuring(server: Profiled) -> Callable[[str], Cost]:
    """A function that tells the cost of a case, and measures each once."""

    def measure(lines: list[list], filling: list[list], check) -> Profile:
        with server.wire() as wire:
            assert wire("FLUSHALL") == "OK"
            run(wire, filling)
            replies = []
            profile = server.profile(lambda: replies.extend(run(wire, lines)))
        assert all(map(check, replies))
        return profile

    sets = [["SET", f"k{i % 20:02}", "v", "PX", 60_000] for i in range(CALLS)]
    of_sets = measure(sets, sets, lambda reply: reply == "OK").instructions

    @cache
    def cost(name: str) -> Cost:
        case = CASES[name]
        decided = measure(case.calls(CALLS), case.filling(), lambda reply: reply[0] == case.allowed)
        return Cost(decided, of_sets)

    return cost


@pytest.fixture(scope="module")
def cost_of(request, tmp_path_factory):
    """The cost of a case on Debian's Redis, whose functions have names that callgrind can tell."""
    binary = next((b for b in request.config.binaries if b.name.startswith(RECORDED_ON)), None)
    if binary is None:
        pytest.skip(f"recorded on {RECORDED_ON}")
    server = Profiled(binary, tmp_path_factory.mktemp("callgrind"))
    try:
        yield measuring(server)
        check_health(server, server.process, 0)
    finally:
        server.remove()


@pytest.mark.parametrize("name", CASES)
def test_replicates_once_if_allowed_and_never_if_denied(cost_of, name):
    cost = cost_of(name)
    assert cost.entered == 1
    assert cost.called.get("RM_Replicate", 0) == CASES[name].allowed


@pytest.mark.parametrize("name", CASES)
def test_allocates_nothing(cost_of, name):
    """Nor frees anything, of the server's or of libc's. (The server does, for the key's value.)"""
    assert [function for function in cost_of(name).called if ALLOCATES.search(function)] == []


@pytest.mark.parametrize("name", CASES)
def test_calls_the_server_as_often_as_recorded(cost_of, name):
    head, rows = table()
    recorded = dict(zip(head[2:], rows[name][2:], strict=True)) | BY_EVERY_CALL
    recorded |= BY_ALLOWED_CALLS if CASES[name].allowed else BY_DENIED_CALLS
    assert cost_of(name).api() == {function: count for function, count in recorded.items() if count}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="recorded for another processor")
@pytest.mark.parametrize("name", CASES)
def test_instructions_are_as_recorded(cost_of, name):
    cost, (ours, of_set, *_) = cost_of(name), table()[1][name]
    margin = MARGIN_BY_THE_CLOCK if CASES[name].clock else MARGIN
    assert LEAST * ours <= cost.ours <= margin * ours
    assert LEAST * of_set <= cost.of_set <= margin * of_set


@pytest.mark.parametrize("decided", ["allowed", "denied"])
def test_a_long_log_takes_hardly_more_instructions_than_a_short_one(cost_of, decided):
    short, long = cost_of(f"sliding 100 {decided}"), cost_of(f"sliding 60,000 {decided}")
    assert long.ours <= 1.1 * short.ours


# --- Bytes for replicas ------------------------------------------------------------------------

# What an allowed call writes of its key: from where on, how many bytes. A denied one sends nothing,
# see test_replication.py.
WRITTEN = {
    "fixed allowed": (18, 8),
    "token allowed": (2, 32),
    "leaky allowed": (2, 32),
    "counter allowed": (20, 4),
    "counter of 256": (20, 4),
}
LOG_HEADER, LOG_SLOT = 14, 8


def bytes_of(pair, commands: list[list]) -> int:
    """How much these commands are in the stream to replicas, each on its own."""
    around = [["MULTI"], ["EXEC"]] if pair.primary.binary.version < (7, 0) else []
    return sum(len(encode(part)) for command in commands for part in [command, *around])


def bytes_sent(pair, wire, lines: list[list]) -> int:
    """How much calls send that must all be allowed."""
    before = pair.offset()
    assert all(reply[0] == 1 for reply in run(wire, lines))
    return pair.offset() - before


@pytest.mark.parametrize("name", [*WRITTEN, "sliding 100 allowed"])
def test_the_first_call_sends_the_whole_state(pair, name):
    (first, *_) = CASES[name].filling()
    with pair.primary.wire() as wire:
        sent = bytes_sent(pair, wire, [first])
        expiry = 10**12  # in milliseconds: all since 2001 are as long
        assert sent == bytes_of(pair, [["SET", "k00", wire("GET", "k00"), "PXAT", expiry]])


@pytest.mark.parametrize("name", WRITTEN)
def test_a_call_sends_what_it_changes(pair, name):
    case, (start, length) = CASES[name]._replace(keys=1), WRITTEN[name]
    with pair.primary.wire() as wire:
        run(wire, case.filling())
        sent = bytes_sent(pair, wire, case.calls(200))
    assert sent == bytes_of(pair, [["SETRANGE", "k00", start, bytes(length)]] * 200)


def test_a_call_sends_one_slot_of_a_log(pair):
    """All around the ring: where a slot lies is sent in decimal digits."""
    case = CASES["sliding 100 allowed"]._replace(keys=1)
    with pair.primary.wire() as wire:
        run(wire, case.filling())
        places = range(LOG_HEADER, wire("STRLEN", "k00"), LOG_SLOT)
        assert len(places) == 101  # one of which marks where the sum of costs starts
        sent = bytes_sent(pair, wire, case.calls(len(places)))
    expected = [["SETRANGE", "k00", place, bytes(LOG_SLOT)] for place in places]
    assert sent == bytes_of(pair, expected)


# --- To record anew ----------------------------------------------------------------------------


def record() -> None:
    """Prints `RECORDED` as it would have to be now."""
    head, _ = table()
    with tempfile.TemporaryDirectory() as directory:
        (binary,) = servers.find([RECORDED_ON])
        server = Profiled(binary, Path(directory))
        try:
            cost_of = measuring(server)
            print(f"{'case':22}", *(f"{title:>6}" for title in head), sep="  ")
            for name in CASES:
                cost = cost_of(name)
                called = [cost.api().get(function, 0) for function in head[2:]]
                figures = [f"{cost.ours:.0f}", f"{cost.of_set:.2f}", *(f"{n:g}" for n in called)]
                cells = [
                    figure.rjust(max(len(title), 6))
                    for figure, title in zip(figures, head, strict=True)
                ]
                print(f"{name:22}", *cells, sep="  ")
        finally:
            server.remove()


if __name__ == "__main__":
    record()
