"""Waiting for a state, never for a time."""

import time


def until(condition, what: str, seconds: float = 60, pause: float = 0.005) -> None:
    """Waits; the deadline is there to end, not to measure."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(pause)
