"""Every test that asks for a server runs on each of the four, and leaves it alive and quiet."""

from collections import Counter

import pytest

import servers
from limiters import LIMITERS
from servers import Server, check_health

# Helpers that assert explain themselves as tests do. (Registered before a test imports them.)
pytest.register_assert_rewrite("lifetimes", "refusals", "replicas", "sequences")


def pytest_addoption(parser):
    parser.addoption(
        "--server",
        action="append",
        metavar="NAME",
        help="run on this server only, such as redis-7.0 (repeatable; default: all four)",
    )


def pytest_configure(config):
    """A missing server or module ends the run: a promise not tested is not kept."""
    try:
        config.binaries = servers.find(config.getoption("--server"))
        if not servers.MODULE.is_file():
            raise servers.Missing(f"no module at {servers.MODULE}; `make build` builds it")
    except servers.Missing as missing:
        raise pytest.UsageError(str(missing)) from None


def pytest_generate_tests(metafunc):
    if "binary" in metafunc.fixturenames:
        binaries = metafunc.config.binaries
        metafunc.parametrize("binary", binaries, ids=[b.name for b in binaries], scope="session")
    if "limiter" in metafunc.fixturenames:
        metafunc.parametrize("limiter", LIMITERS, ids=[limiter.command for limiter in LIMITERS])


@pytest.fixture(scope="session")
def shared(binary):
    """The server that all tests of one session use, one after the other."""
    running = Server(binary)
    yield running
    running.remove()


@pytest.fixture
def server(shared):
    """The shared server with an empty database; it must outlive the test without a complaint."""
    if not shared.alive():  # a test before this one killed it, and has failed for that
        shared.start()
    with shared.wire() as wire:
        wire("FLUSHALL")
    process, position = shared.process, shared.log.stat().st_size
    yield shared
    check_health(shared, process, position)


@pytest.fixture
def spawn(binary):
    """Start further servers of the same kind: `spawn("appendonly yes", module=False)`."""
    started = []

    def start(*config: str, module: bool = True, arguments: str = "") -> Server:
        started.append(Server(binary, config, module, arguments))
        return started[-1]

    yield start
    complaints = [line for running in started for line in running.trouble()]
    for running in reversed(started):  # a replica first: a primary waits for those that it has
        running.remove()
    assert not complaints


@pytest.fixture(scope="session")
def shared_pair(binary):
    """The pair that all tests of one session use; like `shared`."""
    from replicas import Pair

    running = Pair(lambda *config, **options: Server(binary, config, **options))
    yield running
    running.close()
    running.replica.remove()  # first: a primary waits for those that it has
    running.primary.remove()


@pytest.fixture
def pair(shared_pair):
    """A primary with the module and a replica without it, both empty but for `first`."""
    shared_pair.empty()
    both = [shared_pair.primary, shared_pair.replica]
    before = [(server, server.process, server.log.stat().st_size) for server in both]
    yield shared_pair
    for server, process, position in before:
        check_health(server, process, position)


@pytest.fixture
def r(server):
    """A redis-py client on the shared server."""
    with server.client() as client:
        yield client


@pytest.fixture
def wire(server):
    """A bare connection to the shared server."""
    with server.wire() as connection:
        yield connection


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Server):
                report.sections.append((f"log of {value.name}", value.log_tail()))
    return report


def pytest_terminal_summary(terminalreporter, config):
    """What each server saw: the counts, and how many random operations agreed with the model."""
    counts = {binary.name: Counter() for binary in config.binaries}
    agreed = {binary.name: Counter() for binary in config.binaries}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, counter in counts.items():
                if f"[{name}" in report.nodeid or f"-{name}" in report.nodeid:
                    counter[outcome] += 1
                    for key, value in report.user_properties:
                        if key.startswith("agreed "):
                            agreed[name][key.removeprefix("agreed ")] += value
    terminalreporter.section("per server")
    for name, counter in counts.items():
        line = f"{name:13}" + "".join(
            f"  {counter[outcome]:5} {outcome}" for outcome in ("passed", "failed", "skipped")
        )
        if counter["error"]:
            line += f"  {counter['error']:5} error"
        terminalreporter.write_line(line)
    for name, operations in agreed.items():
        if operations:
            told = "  ".join(f"{what} {count}" for what, count in sorted(operations.items()))
            terminalreporter.write_line(f"{name:13}  agreed with the model: {told}")
