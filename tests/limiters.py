"""The five algorithms in one shape, and how to look at what a key holds."""

from dataclasses import dataclass
from typing import NamedTuple

import redis


@dataclass(frozen=True)
class Limiter:
    """One command, asked in terms that all of them share: so much cost in so many seconds."""

    command: str
    word: str  # how an error and RL.INSPECT name this algorithm
    bucket: bool = False

    def clause(self, key, limit, seconds=60, cost=None) -> list:
        """`limit` per `seconds`, as a clause of RL.ALL; a bucket drains in full in `seconds`."""
        quota = [limit, f"{max(limit, 1)}/{seconds}"] if self.bucket else [seconds, limit]
        line = [self.word.upper(), key, *quota]
        if cost is not None:
            line += ["COST", cost]
        return line

    def call(self, key, limit, seconds=60, cost=None, at=None) -> list:
        """The command line for the same."""
        line = [self.command, *self.clause(key, limit, seconds, cost)[1:]]
        return line if at is None else [*line, "AT", at]

    def peek(self, key, limit, seconds=60, cost=None, at=None) -> list:
        """What asks whether that call would be allowed."""
        return peek(self.call(key, limit, seconds, cost, at))


FIXED = Limiter("RL.FIXED", "fixed")
SLIDING = Limiter("RL.SLIDING", "sliding")
COUNTER = Limiter("RL.COUNTER", "counter")
TOKEN = Limiter("RL.TOKEN", "token", bucket=True)
LEAKY = Limiter("RL.LEAKY", "leaky", bucket=True)
LIMITERS = [FIXED, SLIDING, COUNTER, TOKEN, LEAKY]


def peek(line) -> list:
    """The look that belongs to a limiter's command line: RL.PEEK TOKEN k ... for RL.TOKEN k ..."""
    return ["RL.PEEK", line[0].removeprefix("RL."), *line[1:]]


class Held(NamedTuple):
    """All that a key is: its value as DUMP tells it, and when it expires."""

    dump: bytes | None
    expires_at: int | None


def held(r: redis.Redis, key) -> Held:
    """The value and the absolute expiry (Unix milliseconds, None without one), read as one.

    Exact on every server, also on 6.2 which lacks PEXPIRETIME: a PTTL between two TIMEs that fall
    in the same millisecond was measured in that millisecond.
    """
    while True:
        transaction = r.pipeline(transaction=True).time().pttl(key).time().dump(key)
        before, ttl, after, dump = transaction.execute()
        if ttl < 0:
            return Held(dump, None)
        milliseconds = [seconds * 1000 + micros // 1000 for seconds, micros in (before, after)]
        if milliseconds[0] == milliseconds[1]:
            return Held(dump, milliseconds[0] + ttl)


def registered(wire, command: str) -> bool:
    """Does the server know this command?"""
    return wire("COMMAND", "INFO", command)[0] is not None


def as_map(flat) -> dict:
    """A flat list of names and values, as RESP2 has it."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def five_integers(reply) -> bool:
    return isinstance(reply, list) and len(reply) == 5 and all(type(n) is int for n in reply)


def commands_run(client) -> dict[str, int]:
    """How often each command ran on this server since CONFIG RESETSTAT."""
    stats = client.info("commandstats")
    return {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in stats.items()}


def changes(client) -> tuple[int, int]:
    """The replication offset, and the count of changes that leads to the next save."""
    return (
        client.info("replication")["master_repl_offset"],
        client.info("persistence")["rdb_changes_since_last_save"],
    )
