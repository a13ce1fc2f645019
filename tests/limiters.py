"""The three algorithms in one shape, and how to look at what a key holds."""

from dataclasses import dataclass
from typing import NamedTuple

import redis


@dataclass(frozen=True)
class Limiter:
    """One command, asked in terms that all of them share: so much cost in so many seconds."""

    command: str
    word: str  # how an error names this algorithm's state
    bucket: bool = False

    def call(self, key, limit, seconds=60, cost=None, at=None) -> list:
        """The command line for `limit` per `seconds`; a bucket drains in full in `seconds`."""
        quota = [limit, f"{max(limit, 1)}/{seconds}"] if self.bucket else [seconds, limit]
        line = [self.command, key, *quota]
        if cost is not None:
            line += ["COST", cost]
        if at is not None:
            line += ["AT", at]
        return line


FIXED = Limiter("RL.FIXED", "fixed")
SLIDING = Limiter("RL.SLIDING", "sliding")
TOKEN = Limiter("RL.TOKEN", "token", bucket=True)
LIMITERS = [FIXED, SLIDING, TOKEN]


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
    """Does the server know this command? (What comes with a later issue joins by itself.)"""
    return wire("COMMAND", "INFO", command)[0] is not None


def five_integers(reply) -> bool:
    return isinstance(reply, list) and len(reply) == 5 and all(type(n) is int for n in reply)
