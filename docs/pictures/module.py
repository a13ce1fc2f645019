"""A redis-server of our own with the module, and calls to it as of told times.

All that is drawn or measured here was decided by the module. Each call has an AT, so that every run
gives the same.
"""

import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen

import redis

REPOSITORY = Path(__file__).resolve().parents[2]
REDIS = "/usr/bin/redis-server"  # Debian's, which `make` installs

# 00:00 UTC of some day, so that windows on the clock start here.
START = 1_700_006_400_000


def module_path() -> Path:
    """The module named on the command line, or the one that `make build` built."""
    named = sys.argv[1] if len(sys.argv) > 1 else "target/release/libredis_rl.so"
    path = (REPOSITORY / named).resolve()
    if not path.exists():
        sys.exit(f"{path} does not exist; `make build` builds it")
    return path


@contextmanager
def server() -> Iterator[redis.Redis]:
    """A client of a server that lives as long as the context; reached by a socket, not a port."""
    module = module_path()
    with tempfile.TemporaryDirectory() as folder:
        socket = f"{folder}/redis.sock"
        settings = ["--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder]
        process = Popen([REDIS, *settings, "--loadmodule", str(module)], stdout=DEVNULL)
        try:
            yield connected(socket, process)
        finally:
            process.terminate()
            process.wait()


def connected(socket: str, process: Popen) -> redis.Redis:
    client = redis.Redis(unix_socket_path=socket, decode_responses=True)
    for _ in range(200):
        if process.poll() is not None:
            break
        try:
            client.ping()
            return client
        except redis.ConnectionError:
            time.sleep(0.05)
    sys.exit("redis-server did not start with the module")


def decide(client: redis.Redis, limiter: str, times: Iterable[int]) -> list[list[int]]:
    """What the limiter ("FIXED 60 100") answers, on a key of its own, to a call at each of `times`.

    Times are milliseconds from START. All calls are one transaction: the server's clock stands
    still in it, so that no key can expire on the way on a slow machine.
    """
    algorithm, *arguments = limiter.split()
    pipeline = client.pipeline(transaction=True)
    pipeline.delete("key")
    for at in times:
        pipeline.execute_command(f"RL.{algorithm}", "key", *arguments, "AT", START + at)
    return pipeline.execute()[1:]


def allowed(times: list[int], replies: list[list[int]]) -> list[int]:
    return [at for at, reply in zip(times, replies, strict=True) if reply[0]]


def denied(times: list[int], replies: list[list[int]]) -> list[int]:
    return [at for at, reply in zip(times, replies, strict=True) if not reply[0]]


def done(times: list[int], replies: list[list[int]]) -> list[int]:
    """When the work of what RL.LEAKY allowed is done: after the hold it asks for."""
    return [at + reply[3] for at, reply in zip(times, replies, strict=True) if reply[0]]


def most_in_any(window: int, times: list[int]) -> int:
    """The largest number of `times` (sorted) in any window of this length."""
    most = first = 0
    for last, at in enumerate(times):
        while times[first] <= at - window:
            first += 1
        most = max(most, last - first + 1)
    return most
