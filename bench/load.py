"""The two load generators, both of redis-tools: redis-benchmark for what is timed, and
`redis-cli --pipe` for calls that differ from one another, such as those that fill a log.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from wire import encode

CLIENTS = 50
TIMEOUT = 120
PIPE_BATCH = 100_000

# What redis-benchmark replaces by twelve random digits, below its -r.
RANDOM = "__rand_int__"

Command = Sequence[str | int]


class Refused(Exception):
    """The server answered a command with an error."""


@dataclass
class Run:
    """One run of redis-benchmark. Latencies in milliseconds, as its 50 clients saw them."""

    rps: float
    p50: float
    p99: float
    p999: float
    worst: float
    cpu_us: float = 0.0
    """What a call cost the server, in microseconds of processor time."""
    busy: float = 0.0
    """The part of the run that the server was busy, a little over 1 as connecting is not timed.
    Well below 1 the client was the limit, or others had the processor."""
    sent: float | None = None
    """Bytes that a call sent to replicas."""

    def as_json(self) -> dict:
        return {key: value and round(value, 4) for key, value in asdict(self).items()}


def program(name: str) -> str:
    """A program of redis-tools; Debian's before one that a Python package brought along."""
    found = shutil.which(name, path="/usr/bin:/usr/local/bin:/bin")
    if found is None:
        raise FileNotFoundError(f"{name} is not installed; it is in Debian's redis-tools")
    return found


def version() -> str:
    said = subprocess.run(
        [program("redis-benchmark"), "--version"], capture_output=True, text=True, check=True
    )
    return said.stdout.strip()


def benchmark(port: int, command: Command, requests: int, depth: int, keys: int) -> Run:
    """Send one command `requests` times, `depth` at once, on random ones of `keys` keys."""
    options = {"-p": port, "-n": requests, "-c": CLIENTS, "-P": depth, "-r": keys}
    line = [program("redis-benchmark"), "--precision", "3"]
    for option, value in options.items():
        line += [option, str(value)]
    line += map(str, command)
    done = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode != 0 or "throughput summary" not in done.stdout:
        why = (done.stderr or done.stdout).strip().splitlines()
        raise Refused(f"{' '.join(map(str, command))}: {why[-1] if why else 'no output'}")
    return parse(done.stdout)


def parse(output: str) -> Run:
    """What redis-benchmark prints for people: its csv has no percentile beyond 99."""
    rps = float(re.search(r"throughput summary: ([\d.]+)", output)[1])
    summary = re.search(r"avg +min +p50 +p95 +p99 +max\n([\d. ]+)", output)[1]
    _avg, _min, p50, _p95, p99, worst = map(float, summary.split())
    percentiles = output.split("Latency by percentile distribution:")[1].split("\n\n")[0]
    steps = re.findall(r"([\d.]+)% <= ([\d.]+) milliseconds", percentiles)
    p999 = next(float(latency) for share, latency in steps if float(share) >= 99.9)
    return Run(rps, p50, p99, p999, worst)


def pipe(port: int, commands: Iterable[Command]) -> int:
    """Send commands in order through `redis-cli --pipe`; returns how many. None may fail."""
    line = [program("redis-cli"), "-p", str(port), "--pipe"]
    total = 0
    batch: list[bytes] = []

    def flush() -> None:
        nonlocal total
        done = subprocess.run(line, input=b"".join(batch), capture_output=True, timeout=TIMEOUT)
        replies = re.search(rb"errors: (\d+), replies: (\d+)", done.stdout)
        if replies is None or (int(replies[1]), int(replies[2])) != (0, len(batch)):
            said = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise Refused(f"{' '.join(map(str, command))}: {said.splitlines()[0]}")
        total += len(batch)
        batch.clear()

    for command in commands:
        batch.append(encode(command))
        if len(batch) == PIPE_BATCH:
            flush()
    if batch:
        flush()
    return total
