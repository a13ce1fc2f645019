"""What a limit is: an algorithm and its arguments, and for whom it counts."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from starlette.requests import Request

Key = str | bytes
Argument = Key | int
KeyFunction = Callable[[Request], Key | None]

NAME = re.compile(r"[A-Za-z0-9_.-]+")
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|)")
BRACES = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})
UNITS = {"ms": 1, "s": 1000, "": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}  # in ms


class Reply(NamedTuple):
    """The five integers that every limiter answers."""

    allowed: int
    limit: int
    remaining: int
    wait_ms: int
    reset_ms: int


@dataclass(frozen=True)
class Limit:
    """`Limit("login", "FIXED 3600 3", key=header("X-Api-Key"))`

    A request for which `key` returns None is not limited. `cost` is an integer above 0, or a
    function from the request to one.
    """

    name: str
    rule: str
    key: KeyFunction
    cost: int | Callable[[Request], int] = 1
    windows: dict[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A colon would let two limits meet in one key; quotes would have to be escaped in headers.
        if not NAME.fullmatch(self.name):
            raise ValueError(f"a limit's name is letters, digits and _ . -, not {self.name!r}")
        object.__setattr__(self, "windows", windows(self.rule))

    @property
    def algorithm(self) -> str:
        return self.rule.split()[0].upper()

    def arguments(self, request: Request, hash_tag: str | None) -> list[Argument] | None:
        """What stands behind the algorithm for this request; None where it does not apply."""
        key = self.key(request)
        if key is None:
            return None
        # A brace would end the hash tag, or make it empty.
        tag = f"{{{hash_tag.translate(BRACES)}}}:" if hash_tag else ""
        prefix = f"rl:{tag}{self.name}:"
        raw = key if isinstance(key, bytes) else key.encode()
        cost = self.cost if isinstance(self.cost, int) else self.cost(request)
        return [prefix.encode() + raw, *self.rule.split()[1:], "COST", cost]

    def policy(self, reply: Reply) -> str:
        return f'"{self.name}";q={field_integer(reply.limit)};w={self._window(reply)}'

    def _window(self, reply: Reply) -> int:
        return field_integer(self.windows[reply.limit])

    def state(self, reply: Reply) -> str:
        return f'"{self.name}";r={field_integer(reply.remaining)};t={seconds(reply.reset_ms)}'


def field_integer(value: int) -> int:
    """As a structured field can hold it: 15 digits (RFC 9651)."""
    return min(value, 999_999_999_999_999)


def seconds(ms: int) -> int:
    """Rounded up."""
    return -(-ms // 1000)


def windows(rule: str) -> dict[int, int]:
    """The window in seconds of each maximum in a rule. A rule that makes no sense is refused."""
    match rule.upper().split():
        case ["SLIDING", *pairs] if pairs and len(pairs) % 2 == 0:
            # Where two tiers have the same maximum, the first one speaks.
            tiers = zip(pairs[1::2], pairs[::2], strict=True)
            return {int(most): _window(window) for most, window in reversed(list(tiers))}
        case (
            ["FIXED" | "COUNTER", window, most]
            | ["FIXED", window, most, "OFFSET", _]
            | ["COUNTER", window, most, "BUCKETS", _]
        ):
            return {int(most): _window(window)}
        case ["TOKEN" | "LEAKY", capacity, rate]:
            return {int(capacity): math.ceil(int(capacity) / _rate(rate))}
    raise ValueError(f"not a rule of redis-rl: {rule!r}")


def _window(duration: str) -> int:
    return math.ceil(_duration(duration))


def _duration(text: str) -> Fraction:
    match = DURATION.fullmatch(text.lower())
    if match is None:
        raise ValueError(f"not a duration like 60, 0.25, 500ms or 15m: {text!r}")
    return Fraction(match[1]) * UNITS[match[2]] / 1000


def _rate(text: str) -> Fraction:
    """Units per second, from `0.5`, `100/60` or `5/m`."""
    units, slash, period = text.partition("/")
    if period[:1].isalpha():
        period = "1" + period
    rate = Fraction(units) / (_duration(period) if slash else 1)
    if rate <= 0:
        raise ValueError(f"a rate is above 0: {text!r}")
    return rate


def address(trusted_proxies: int = 0) -> KeyFunction:
    """The client's address: of the connection, or what the n-th proxy from here has seen."""

    def key(request: Request) -> Key:
        lines = ",".join(request.headers.getlist("X-Forwarded-For"))
        entries = [entry.strip(" \t") for entry in lines.split(",") if entry.strip(" \t")]
        if 0 < trusted_proxies <= len(entries):
            return entries[-trusted_proxies].encode("latin-1")
        # No address behind a Unix socket: all of its clients share a limit.
        return request.client.host if request.client else "local"

    return key


def header(name: str) -> KeyFunction:
    """A header's value, byte for byte. Without the header the limit does not apply."""

    def key(request: Request) -> Key | None:
        value = request.headers.get(name)
        return None if value is None else value.encode("latin-1")

    return key


def constant(key: Key) -> KeyFunction:
    """One key for all requests."""
    return lambda _: key
