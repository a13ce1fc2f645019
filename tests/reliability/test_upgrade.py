"""Another build takes over while the server runs: no crash, no lost key, no wrong answer.

Issue 4, point 9: `tools/swap-module.sh`, again and again, under load of every kind.
"""

import contextlib
import random
import shutil
import subprocess
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from forms import form
from servers import MODULE, REPOSITORY
from waiting import until
from wire import Failure, Push
from workload import RUN_ALL, Pipe, as_json, everything, quotas

SCRIPT = REPOSITORY / "tools" / "swap-module.sh"
SWAPS = form(50, 1000)
QUIET = form(6, 20)  # further ones, without load
ARGUMENTS = "sliding-storage sorted-set cl-throttle yes"
LIMIT = 40
ROUND = 60  # seconds a run of the script may take
LEAK = 2_000_000  # bytes
PAUSE = 0.004  # seconds between two rounds of a client, or nothing would be left for the script


@pytest.fixture
def builds(tmp_path) -> list[Path]:
    """Two files with the module, as an old and a new build."""
    paths = [tmp_path / "libredis_rl-1.so", tmp_path / "libredis_rl-2.so"]
    for path in paths:
        shutil.copy(MODULE, path)
        path.chmod(0o755)
    return paths


def swap(server, new, *options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [SCRIPT, new, *options, "--", "-p", str(server.port)],
        capture_output=True,
        text=True,
        timeout=ROUND,
    )


def module(server) -> dict:
    """What MODULE LIST says of ours; Redis 6.2 tells no path and no arguments."""
    with server.wire() as wire:
        for entry in wire("MODULE", "LIST"):
            fields = dict(zip(entry[::2], entry[1::2], strict=True))
            if fields[b"name"] == b"rl":
                return fields
    return {}


def told(server, arguments) -> list:
    """How the script is told the arguments where the server does not tell them."""
    return ["--args", arguments] if server.binary.version < (7, 0) else []


class Load:
    """Clients that go on whatever happens to their connections, and keep books.

    A reply is an answer of the module: five integers. A connection may break at any time, which
    leaves open what became of the calls under way; all else is a failure.
    """

    def __init__(self, server, ways):
        self.server = server
        self.stopped = threading.Event()
        self.lock = threading.Lock()
        self.remaining = defaultdict(list)  # key: `remaining` of every call that was let through
        self.unknown = defaultdict(int)  # key: calls without an answer
        self.quota = {}
        self.commands = self.breaks = 0
        self.failures = []
        self.threads = [threading.Thread(target=self.run, args=[i]) for i in enumerate(ways)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()

    def run(self, numbered) -> None:
        number, way = numbered
        dice = random.Random(number)
        try:
            while not self.stopped.is_set():
                with (
                    contextlib.suppress(OSError),
                    contextlib.closing(Pipe(self.server.port, 3 if way == "pubsub" else 2)) as pipe,
                ):
                    if way == "pubsub":
                        pipe("SUBSCRIBE", "news")
                    while not self.stopped.wait(PAUSE):
                        self.ask(pipe, way, self.lines(dice))
                with self.lock:
                    self.breaks += 1
        except Exception as failure:  # reported by the main thread, which must see it
            self.failures.append(failure)

    def lines(self, dice) -> list:
        """(key, line) pairs; keys are used up one after the other, each by several clients."""
        chosen = []
        with self.lock:
            self.commands += 16
            generation = self.commands // 4_000
            for _ in range(16):
                quota = dice.choice(quotas(LIMIT))
                key = f"{quota.name}:{generation}:{dice.randrange(4)}"
                self.quota[key] = quota
                chosen.append((key, quota.take(key)))
        return chosen

    def ask(self, pipe, way, lines) -> None:
        """Sends them in one of the ways and books every reply as it comes."""
        commands = [line for _, line in lines]
        before = after = 0
        if way == "multi":
            commands, before, after = [["MULTI"], *commands, ["EXEC"]], 1 + len(lines), 0
        elif way == "script":
            keys = sorted({key for key, _ in lines})
            commands = [["EVAL", RUN_ALL, len(keys), *keys, as_json(commands)]]
        waiting = list(lines)
        try:
            pipe.send_all(commands)
            for _ in range(before):
                reply = self.read(pipe)
                assert reply in ("OK", "QUEUED"), reply
            replies = self.read(pipe) if way in ("multi", "script") else None
            assert not isinstance(replies, Failure), replies
            while waiting:
                reply = replies.pop(0) if replies is not None else self.read(pipe)
                self.book(*waiting.pop(0), reply)
            for _ in range(after):
                self.read(pipe)
        finally:
            with self.lock:
                for key, _ in waiting:
                    self.unknown[key] += 1

    @staticmethod
    def read(pipe):
        while isinstance(reply := pipe.read(), Push):
            pass
        return reply

    def book(self, key, line, reply) -> None:
        assert isinstance(reply, list), (line, reply)
        assert len(reply) == 5, (line, reply)
        if self.quota[key].allowed(line, reply):
            with self.lock:
                self.remaining[key].append(reply[2])

    def check(self, wire) -> None:
        """Every key: nothing let through twice, all that was let through is counted."""
        assert not self.failures, self.failures
        assert sum(map(len, self.remaining.values())) > len(self.quota) * LIMIT // 4
        for key, quota in self.quota.items():
            seen, used = self.remaining[key], quota.used(wire, key)
            assert len(set(seen)) == len(seen), (key, "one place given away twice")
            assert len(seen) <= used <= min(LIMIT, len(seen) + self.unknown[key]), key


WAYS = ["pipeline", "multi", "script", "pubsub"]


def mapped(server) -> set[str]:
    """Builds of the module that the process still has in memory."""
    maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    return {line.split()[5] for line in maps.splitlines() if "libredis_rl" in line}


def fill(server) -> None:
    """Keys that nobody asks while modules come and go."""
    with server.wire() as wire:
        for quota in quotas(LIMIT):
            for i in range(20):
                wire(*quota.take(f"idle:{quota.name}:{i}", cost=1 + i))


def check_idle(server, before) -> None:
    held = everything(server)
    assert {key: held.get(key) for key in before} == before
    with server.wire() as wire:
        for quota in quotas(LIMIT):
            for i in range(20):
                assert quota.used(wire, f"idle:{quota.name}:{i}") == 1 + i


@pytest.mark.parametrize(
    ("threads", "swaps"), [(1, SWAPS), (3, SWAPS // 5)], ids=["io-threads 1", "io-threads 3"]
)
def test_swaps_under_load(spawn, builds, count, threads, swaps):
    """The arguments stay, the old build is really gone, and so is its memory."""
    server = spawn(f"io-threads {threads}", f'loadmodule "{builds[0]}" {ARGUMENTS}', module=False)
    process = server.process
    fill(server)
    idle = everything(server)
    with server.client() as client:
        with Load(server, WAYS) as load:
            for i in range(swaps):
                new = builds[(i + 1) % 2]
                done = swap(server, new, *told(server, ARGUMENTS))
                assert done.returncode == 0, done.stderr + server.log_tail()
                assert mapped(server) == {str(new)}
                if server.binary.version >= (7, 0):
                    assert module(server)[b"path"] == str(new).encode()
                    assert module(server)[b"args"] == ARGUMENTS.encode().split()
                if load.failures:
                    break
        assert server.process is process
        assert server.alive()
        with server.wire() as wire:
            load.check(wire)
            assert wire("CL.THROTTLE", "fresh", 4, 1, 60) == [0, 5, 4, -1, 60]
            assert wire("RL.SLIDING", "sorted", "31d", 9)[0] == 1
            assert wire("TYPE", "sorted") == "zset"
        check_idle(server, idle)
        assert load.breaks >= swaps  # it was load that the swaps had to interrupt
        client.flushall()
        until(lambda: client.dbsize() == 0, "keys are left")
        baseline = client.info("memory")["used_memory"]
        for i in range(QUIET):  # and nothing of the swaps stays in memory, now that it is quiet
            assert swap(server, builds[i % 2], *told(server, ARGUMENTS)).returncode == 0
    with server.client() as client:
        until(
            lambda: client.info("memory")["used_memory"] < baseline + LEAK,
            f"memory grows: {baseline} bytes before {QUIET} swaps",
        )
    count(
        "upgrade",
        swaps=swaps + QUIET,
        commands_under_swaps=load.commands,
        broken_connections=load.breaks,
    )


def test_what_config_set_changed_is_kept(spawn, builds):
    """Not only the arguments: with the script the settings of the moment survive, too."""
    server = spawn(f'loadmodule "{builds[0]}" cl-throttle yes', module=False)
    if server.binary.version < (7, 0):
        pytest.skip("Redis 6.2 has no CONFIG for modules")
    with server.wire() as wire:
        assert wire("CONFIG", "SET", "rl.sliding-storage", "sorted-set") == "OK"
    assert swap(server, builds[1]).returncode == 0
    with server.wire() as wire:
        assert wire("CONFIG", "GET", "rl.sliding-storage") == [b"rl.sliding-storage", b"sorted-set"]
        assert wire("CL.THROTTLE", "fresh", 4, 1, 60)[1] == 5
    # Arguments of its own say how all is to be.
    assert swap(server, builds[0], "--args", "sliding-storage compact").returncode == 0
    with server.wire() as wire:
        assert wire("CONFIG", "GET", "rl.sliding-storage")[1] == b"compact"
        assert wire("CL.THROTTLE", "fresh", 4, 1, 60).startswith("ERR unknown command")


def test_refusals_change_nothing(spawn, builds, tmp_path):
    server = spawn(f'loadmodule "{builds[0]}"', module=False)
    fill(server)
    before, loaded = everything(server), module(server)
    text, still = tmp_path / "text.so", tmp_path / "no-exec-bit.so"
    text.write_text("no library")
    text.chmod(0o755)
    shutil.copy(MODULE, still)
    still.chmod(0o644)
    libm = tmp_path / "libm.so"
    shutil.copy(Path("/proc/self/exe").resolve(), libm)
    libm.chmod(0o755)
    with server.wire() as wire:  # who is not interrupted
        for new, why in [
            (tmp_path / "missing.so", "there is no file"),
            (tmp_path, "is not a file"),
            (text, "is no shared library"),
            (still, "has no exec bit"),
            (libm, "is no module"),
        ]:
            done = swap(server, new, *told(server, ""))
            assert done.returncode == 1
            assert done.stderr.startswith("Refused, nothing was changed: ")
            assert why in done.stderr
        if server.binary.version < (7, 0):
            done = swap(server, builds[1])
            assert done.returncode == 1
            assert "does not tell the module's arguments" in done.stderr
        assert wire("PING") == "PONG"
    assert module(server) == loaded
    check_idle(server, before)
    with server.wire() as wire:
        assert wire("MODULE", "UNLOAD", "rl") == "OK"
    done = swap(server, builds[1], *told(server, ""))
    assert done.returncode == 1
    assert "has no module rl to swap" in done.stderr
    server.stop()
    done = swap(server, builds[1], *told(server, ""))
    assert done.returncode == 1
    assert "does not answer PING" in done.stderr


def test_build_that_does_not_load(spawn, builds):
    """It says so. Where the server tells what it had loaded, that comes back; no key is lost."""
    server = spawn(f'loadmodule "{builds[0]}" cl-throttle yes', module=False)
    fill(server)
    before = everything(server)
    # The right file, whose arguments the module refuses.
    done = swap(server, builds[1], "--args", "cl-throttle perhaps")
    assert "did NOT load" in done.stderr
    if server.binary.version >= (7, 0):
        assert done.returncode == 2, done.stderr
        assert f"The old one was loaded again: {builds[0]} with cl-throttle yes" in done.stderr
        assert module(server)[b"path"] == str(builds[0]).encode()
    else:
        assert done.returncode == 3, done.stderr
        assert "NO MODULE IS LOADED" in done.stderr
        assert module(server) == {}
        held = everything(server)
        assert {key: held.get(key) for key in before} == before
        with server.wire() as wire:
            assert wire("MODULE", "LOAD", builds[0], "cl-throttle", "yes") == "OK"
    check_idle(server, before)
    with server.wire() as wire:
        assert wire("CL.THROTTLE", "fresh", 4, 1, 60)[1] == 5


def test_server_that_does_not_allow_it(spawn, builds):
    """Redis 7 and Valkey forbid MODULE by default: a refusal, for which nobody is hung up on."""
    if spawn().binary.version < (7, 0):
        pytest.skip("Redis 6.2 always allows MODULE")
    server = spawn("enable-module-command no", f'loadmodule "{builds[0]}"', module=False)
    with server.wire() as wire:
        done = swap(server, builds[1])
        assert done.returncode == 1
        assert "Refused, nothing was changed" in done.stderr
        assert wire("RL.TOKEN", "k", 5, 1)[:3] == [1, 5, 4]


def test_users_with_rules_by_name(spawn, builds):
    """Unloading a command that an ACL user has by name aborts Redis 8.2.3: a refusal there."""
    server = spawn(f'loadmodule "{builds[0]}"', module=False)
    with server.wire() as wire:
        assert wire("ACL", "SETUSER", "ann", "on", "nopass", "~a*", "+rl.token") == "OK"
        done = swap(server, builds[1], *told(server, ""))
        if server.binary.version < (7, 2):
            assert done.returncode == 0, done.stderr
            return
        assert done.returncode == 1
        assert "ACL users name RL commands" in done.stderr
        assert done.stderr.strip().splitlines()[0].split()[-1] == "ann"
        assert wire("RL.TOKEN", "k", 5, 1)[:3] == [1, 5, 4]
        wire("ACL", "SETUSER", "ann", "reset", "on", "nopass", "~a*", "+@rate_limit")
    done = swap(server, builds[1])
    assert done.returncode == 0, done.stderr
    with server.wire() as wire:
        assert wire("AUTH", "ann", "any") == "OK"
        assert wire("RL.TOKEN", "a", 5, 1)[:3] == [1, 5, 4]
