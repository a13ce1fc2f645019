"""What the reliability tests share: two forms, and a line of counts for each point at the end."""

import pytest

from forms import COUNTS, LONG


@pytest.fixture(scope="session")
def long() -> bool:
    """Whether this is the long form, which `RL_LONG=1` asks for."""
    return LONG


@pytest.fixture
def count():
    """Add to what the summary tells of a point: `count("crashes", kills=1, commands=500)`."""

    def add(point: str, **what: int) -> None:
        COUNTS[point].update(what)

    return add


def pytest_terminal_summary(terminalreporter, config):
    if not COUNTS:
        return
    names = ", ".join(binary.name for binary in config.binaries)
    terminalreporter.section(f"reliability, {'long' if LONG else 'short'} form: {names}")
    for point, counter in sorted(COUNTS.items()):
        counts = (f"{number:,} {what.replace('_', ' ')}" for what, number in counter.items())
        terminalreporter.write_line(f"{point}: {', '.join(counts)}")
