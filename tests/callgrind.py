"""A server under callgrind: how many instructions calls take, and which functions they go through.

No clock is looked at: the same calls on the same keys execute the same instructions of ours.
"""

import re
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from servers import MODULE, Binary, Missing, Server

PROGRAMS = {name: shutil.which(name) for name in ("valgrind", "vgdb")}


class Profile:
    """What a stretch of calls cost, out of one dump of callgrind."""

    def __init__(self, dump: str):
        self.instructions = 0  # of the whole server
        self.ours = 0  # of the module's own code
        self.entered = 0  # calls from the server into the module
        self.called: Counter[str] = Counter()  # calls out of the module, by the function called
        self._read(dump)

    def _read(self, dump: str) -> None:
        """The format is described in valgrind's manual, "Callgrind Format Specification"."""
        # `ob` and `fn` are where costs arise, `cob` and `cfn` what is called from there.
        named = re.compile(r"(ob|cob|fn|cfn)=(\(\d+\))(?: (.+))?")
        names: dict[tuple[str, str], str] = {}  # told only where a number is new
        at = dict.fromkeys(("ob", "cob", "fn", "cfn"), "")
        lines = iter(dump.splitlines())
        for line in lines:
            if match := named.fullmatch(line):
                where, number, name = match.groups()
                known = where.removeprefix("c"), number
                if name:
                    names[known] = name
                at[where] = names[known]
            elif line.startswith("calls="):
                count = int(line.removeprefix("calls=").split()[0])
                # Without a `cob` the caller's object is the callee's.
                self._count_calls(count, at["ob"], at["cob"] or at["ob"], at["cfn"])
                at["cob"] = ""
                next(lines)  # what the callee cost, which is told where it arises
            elif line[:1] and line[0] in "+-*0123456789":
                cost = int(line.split()[1])
                self.instructions += cost
                self.ours += cost if is_ours(at["ob"]) else 0

    def _count_calls(self, count: int, caller: str, callee: str, function: str) -> None:
        if is_ours(callee) and not is_ours(caller):
            self.entered += count
        elif is_ours(caller) and not is_ours(callee):
            self.called[function] += count


def is_ours(path: str) -> bool:
    return Path(path).name == MODULE.name


class Profiled(Server):
    """A server under callgrind. It is not slowed down much but within `profile`."""

    def __init__(self, binary: Binary, directory: Path):
        missing = [name for name, path in PROGRAMS.items() if path is None]
        if missing:
            raise Missing(f"{', '.join(missing)} not found; `make test` installs valgrind")
        self._dumps = directory / "dump"
        self._prefix = f"--vgdb-prefix={directory / 'vgdb'}"
        command = [PROGRAMS["valgrind"], "--tool=callgrind", "--instr-atstart=no"]
        command += [f"--callgrind-out-file={self._dumps}", self._prefix, str(binary.path)]
        wrapper = directory / "server-under-callgrind"
        wrapper.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        wrapper.chmod(0o755)
        # Nothing but our calls is to be seen: as few rounds of the server's own work as it can do.
        super().__init__(Binary(binary.name, wrapper, binary.version), ["hz 1"])
        with self.wire() as wire:
            wire("DEBUG", "SET-ACTIVE-EXPIRE", 0)

    def profile(self, calls: Callable[[], None]) -> Profile:
        """What `calls` costs the server."""
        self._control("zero", "instrumentation on")
        calls()
        self._control("instrumentation off", "dump")
        dumps = self._dumps.parent.glob(self._dumps.name + ".*")
        dump = max(dumps, key=lambda path: int(path.suffix[1:]))
        return Profile(dump.read_text())

    def _control(self, *orders: str) -> None:
        arguments = [word for order in orders for word in ("-c", *order.split())]
        vgdb = [PROGRAMS["vgdb"], self._prefix, f"--pid={self.process.pid}", *arguments]
        subprocess.run(vgdb, check=True, capture_output=True, timeout=60)
