"""A server with a clock of its own, by Debian's libfaketime, that a test can step while it runs."""

import os
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from servers import Binary, Server
from waiting import until

NAME = "libfaketime.so.1"


def find() -> Path | None:
    """Where the package `faketime` has put its library."""
    listed = subprocess.run(
        ["dpkg", "-L", "libfaketime"], capture_output=True, text=True, check=False
    ).stdout.split()
    places = [Path(line) for line in listed if line.endswith("/" + NAME)]
    places += sorted(Path("/usr/lib").glob(f"*/faketime/{NAME}"))
    return next((place for place in places if place.is_file()), None)


LIBRARY = find()


def environment(offset_file: Path) -> dict[str, str]:
    """What makes a program tell the time of the clock in this file.

    - libc comes behind libfaketime: Debian's Redis is linked to jemalloc as a library, which asks
      for the time while libfaketime looks for the function that tells it, and both give up. With
      libc's own `malloc` found first there is no such circle. The other servers have their jemalloc
      built in, before which nothing can be put, and which starts later.
    - NO_CACHE: the file is read at every look at the clock, so a step is seen at once.
    - The monotonic clock stays true, as it does when a real clock is stepped.
    """
    return {
        "LD_PRELOAD": f"{LIBRARY}:libc.so.6",
        "FAKETIME_TIMESTAMP_FILE": str(offset_file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


class Clocked(Server):
    """`step(seconds)` moves its clock from one command to the next."""

    def __init__(self, binary: Binary, config: Iterable[str] = (), module=True, offset: float = 0):
        self.offset = offset  # seconds ahead of the machine's clock
        super().__init__(binary, config, module)

    def _launch(self, module: bool) -> None:
        self._write()
        wanted = environment(self._file)
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            super()._launch(module)
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    @property
    def _file(self) -> Path:
        return self.directory / "clock"

    def _write(self) -> None:
        new = self.directory / "clock.new"
        new.write_text(f"{self.offset:+.6f}\n")
        new.replace(self._file)

    def step(self, seconds: float) -> None:
        """Returns when the server tells the new time. (Valkey looks at its clock now and then.)"""
        self.offset += seconds
        self._write()
        with self.wire() as wire:
            for _ in range(10):  # a step this small cannot be told from what passes on the way
                time.sleep(0.002)
                wire("TIME")
            if abs(seconds) > 0.1:
                until(lambda: abs(lead(wire) - self.offset) < abs(seconds) / 2, "no step", 30)


def clock(answer) -> float:
    """TIME in milliseconds."""
    seconds, micros = answer
    return int(seconds) * 1000 + int(micros) / 1000


def lead(wire) -> float:
    """How many seconds a server's clock is ahead of the machine's."""
    return clock(wire("TIME")) / 1000 - time.time()
