"""The same tests for each demo application, all of them on Redis 7.0 with a frozen clock.

`-k python`, `-k node` and `-k rust` select one application.
"""

from collections import Counter

import pytest

import faketime
import servers

pytest.register_assert_rewrite("expect", "frozen")

import apps  # noqa: E402
from frozen import Frozen  # noqa: E402


@pytest.fixture(scope="session", params=apps.DEMOS)
def demo(request) -> apps.Demo:
    """One of the applications, installed or built. One that cannot be is a failure."""
    if not any(binary.name.startswith("redis-7.0") for binary in request.config.binaries):
        pytest.skip("the examples run on Redis 7.0, which was not asked for")
    return apps.DEMOS[request.param]()


@pytest.fixture(scope="session")
def new_server():
    """Start a Redis 7.0 with a frozen clock: `new_server(module=False)`."""
    assert faketime.LIBRARY, "Debian's package `faketime` is not installed; `make test` does it"
    (binary,) = servers.find(["redis-7.0"])
    started = []

    def start(module: bool = True) -> Frozen:
        started.append(Frozen(binary, module))
        return started[-1]

    yield start
    for server in started:
        server.remove()


@pytest.fixture(scope="session")
def shared_server(new_server):
    return new_server()


@pytest.fixture
def server(shared_server):
    """Redis with an empty database, at the start of an hour."""
    shared_server.set_clock(0)
    with shared_server.wire() as wire:
        wire("FLUSHALL")
    process, position = shared_server.process, shared_server.log.stat().st_size
    yield shared_server
    servers.check_health(shared_server, process, position)


@pytest.fixture
def own_server(new_server):
    """A Redis that the test may stop, kill and replace."""
    server = new_server()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def running(demo):
    """The applications that run already, by their settings."""
    started = {}
    yield started
    for app in started.values():
        app.stop()


@pytest.fixture
def app(demo, server, running):
    """The application on the shared server: `app(LEGACY_HEADERS=1)`.

    Its timeout is long: a busy machine must not make a Redis that is well look slow.
    """

    def start(**settings) -> apps.App:
        told = apps.environment(server, {"TIMEOUT_MS": 30_000} | settings)
        key = frozenset(told.items())
        if key not in running:
            running[key] = apps.App(demo, told)
        return running[key]

    return start


@pytest.fixture
def own_app(demo):
    """An application of the test's own, on a server of its own: `own_app(server, ON_ERROR=...)`."""
    started = []

    def start(server, **settings) -> apps.App:
        started.append(apps.App(demo, apps.environment(server, settings)))
        return started[-1]

    yield start
    for app in started:
        app.stop()


def pytest_terminal_summary(terminalreporter):
    """What became of each application."""
    counts = {name: Counter() for name in apps.DEMOS}
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, counter in counts.items():
                if "examples/test_" in report.nodeid and f"[{name}" in report.nodeid:
                    counter[outcome] += 1
    terminalreporter.section("per example")
    for name, counter in counts.items():
        told = "".join(f"  {counter[outcome]:5} {outcome}" for outcome in ("passed", "failed"))
        if counter["error"]:
            told += f"  {counter['error']:5} error"
        terminalreporter.write_line(f"{name:13}{told}")
