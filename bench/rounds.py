"""Short runs in rounds: each contender once a round, in turning order, so that a machine that is
slow for a while is slow for all. figures.py takes ratios within a round.
"""

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from servers import Server

from . import load
from .contenders import KEY, SCRIPTS, Contender
from .load import Command, Run

MANY = 100_000
DEPTH = 32
NAME = "key:%012d"
PROBES = 64
FEWEST = 5_000
TRIAL = 20_000


@dataclass
class Row:
    """A contender's runs, one a round; None where one could not be used."""

    id: str
    label: str
    runs: list[Run | None] = field(default_factory=list)
    remark: str = ""

    def as_json(self) -> dict:
        runs = [run and run.as_json() for run in self.runs]
        return {"id": self.id, "label": self.label, "runs": runs, "remark": self.remark}


@dataclass
class Effort:
    """How long to measure."""

    rounds: int
    minor_rounds: int
    seconds: float


class Bench:
    """One server to be measured, alone on the first processor where there are two."""

    def __init__(self, server: Server, effort: Effort):
        self.server = server
        self.port = server.port
        self.client = server.client()
        self.effort = effort
        for text in SCRIPTS.values():
            self.client.script_load(text)
        self.copies = self.client.register_script(SCRIPTS["copies"])

    def measure(
        self,
        contenders: Sequence[Contender],
        keys: int = MANY,
        depth: int = DEPTH,
        rounds: int | None = None,
        fresh: bool = True,
    ) -> list[Row]:
        """Run all contenders in rounds. `fresh`: on an empty server, with keys made from seeds."""
        rows = [Row(c.id, c.label) for c in contenders]
        turns = list(zip(contenders, rows, strict=True))
        requests: dict[str, int] = {}
        for contender, row in turns[:]:
            try:
                rps = self.trial(contender, keys, depth, fresh)
                requests[contender.id] = max(FEWEST, int(rps * self.effort.seconds))
            except load.Refused as refused:
                row.remark = str(refused)
                turns.remove((contender, row))
        for number in range(rounds or self.effort.rounds):
            note(f"    round {number + 1}")
            start = number % len(turns)
            for contender, row in turns[start:] + turns[:start]:
                run = self._run(contender, keys, depth, requests[contender.id], fresh)
                wrong = self._wrong(contender, keys)
                row.runs.append(None if wrong else run)
                row.remark = row.remark or wrong
        return rows

    def trial(
        self, contender: Contender, keys: int, depth: int = DEPTH, fresh: bool = True
    ) -> float:
        """About how many requests a second it does."""
        requests = TRIAL if depth > 1 else FEWEST
        return self._run(contender, keys, depth, requests, fresh).rps

    def _run(self, contender: Contender, keys: int, depth: int, requests: int, fresh: bool) -> Run:
        keys = min(keys, contender.keys or keys)
        if fresh:
            self.prepare(contender, keys)
        command = named(contender.command, f"key:{load.RANDOM}")
        before = self._account(command[0])
        run = load.benchmark(self.port, command, requests, depth, keys)
        after = self._account(command[0])
        calls = after["calls"] - before["calls"]
        cpu = after["cpu"] - before["cpu"]
        run.cpu_us = cpu / calls * 1e6
        run.busy = cpu / (calls / run.rps)
        if self.client.info("replication")["connected_slaves"]:
            run.sent = (after["offset"] - before["offset"]) / calls
        return run

    def cpu(self) -> float:
        """Seconds of processor time that the server has used."""
        info = self.client.info("cpu")
        return info["used_cpu_sys"] + info["used_cpu_user"]

    def _account(self, command: str) -> dict:
        # A module's commands stand there as they were registered, the server's own in lower case.
        calls = {
            name.removeprefix("cmdstat_").lower(): counts["calls"]
            for name, counts in self.client.info("commandstats").items()
        }
        return {
            "cpu": self.cpu(),
            "calls": calls.get(command.lower(), 0),
            "offset": self.client.info("replication")["master_repl_offset"],
        }

    def prepare(self, contender: Contender, keys: int) -> None:
        """Empty the server and make the contender's keys."""
        self.client.flushall(asynchronous=False)
        now = int(time.time() * 1000)
        sources: dict[str, list[str]] = {}
        commands: list[Command] = []
        for number, seed in enumerate(contender.seeds):
            if seed.each:
                made = list(seed.commands(now))
                commands += [named(c, NAME % place) for place in range(keys) for c in made]
                continue
            source = f"seed:{number}"
            sources.setdefault(seed.key, []).append(source)
            commands += [named(command, source) for command in seed.commands(now)]
        if commands:
            load.pipe(self.port, commands)
        for key, names in sources.items():
            self.copies(keys=names, args=[keys, key.replace(KEY, NAME)])
        if sources:
            self.client.delete(*(name for names in sources.values() for name in names))
        if self.client.info("replication")["connected_slaves"]:
            self.client.wait(1, 30_000)

    def _wrong(self, contender: Contender, keys: int) -> str:
        """Whether as many calls are allowed as this contender stands for, asked of some keys."""
        if contender.allowed is None:
            return ""
        keys = min(keys, contender.keys or keys)
        # Neighbours, so that of keys which are used up by turns exactly half are.
        first = random.randrange(max(1, keys - PROBES))
        pipeline = self.client.pipeline(transaction=False)
        for probe in range(PROBES):
            command = named(contender.command, NAME % ((first + probe) % keys))
            pipeline.execute_command(*command)
        share = sum(map(allows, pipeline.execute())) / PROBES
        if share == contender.allowed:
            return ""
        return f"{share:.0%} of calls were allowed instead of {contender.allowed:.0%}"


def allows(reply: object) -> bool:
    """Whether a limiter said yes: scripts answer 1, commands begin with it."""
    return (reply[0] if isinstance(reply, list) else reply) == 1


def named(command: Command, key: str) -> list[str]:
    return [str(part).replace(KEY, key) for part in command]


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
