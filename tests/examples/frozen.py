"""A Redis whose clock stands still until a test moves it, so that every header is exact."""

from datetime import datetime

from faketime import Clocked
from servers import Binary

# A full hour: windows of FIXED and sub-windows of COUNTER start here.
START = datetime.fromisoformat("2030-01-01T12:00:00+00:00").timestamp()


class Frozen(Clocked):
    """`set_clock(ms)` moves the clock to that many milliseconds behind the start."""

    def __init__(self, binary: Binary, module: bool = True):
        self.ms = 0
        super().__init__(binary, module=module)

    def _write(self) -> None:
        # An absolute time does not pass. It is read as local, and into a float, which must not fall
        # short of the millisecond: half a microsecond more.
        seconds, ms = divmod(self.ms, 1000)
        now = datetime.fromtimestamp(START + seconds)
        new = self.directory / "clock.new"
        new.write_text(f"{now:%Y-%m-%d %H:%M:%S}.{ms:03}0005\n")
        new.replace(self._file)

    def set_clock(self, ms: int) -> None:
        self.ms = ms
        self._write()
        with self.wire() as wire:
            seconds, micros = wire("TIME")
        told = (int(seconds) - START) * 1_000_000 + int(micros)
        assert told == ms * 1000, f"the clock is at {told} us, not {ms} ms"

    def revive(self, module: bool = True) -> None:
        """Start again on the same port: clients come back by themselves."""
        self._launch(module)
        assert self._ready(), self.log_tail()
