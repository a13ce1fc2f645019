"""What a refused call answers, and that the key does not notice."""

import re

from limiters import LIMITERS, TOKEN, held
from wire import Failure


def assert_error(reply, *named: str) -> None:
    """An `ERR`, one readable line however long or binary the argument was, naming it."""
    assert isinstance(reply, Failure), reply
    assert reply.startswith("ERR "), reply
    assert reply.isprintable(), reply
    assert len(reply) < 300, f"{len(reply)} characters"
    for name in named:
        assert re.search(rf"\b{name}\b", reply), reply


def refuses(r, wire, line, *named: str) -> None:
    """The line is refused on a fresh key and on a live one, and neither key notices."""
    wire("DEL", "k")
    assert_error(wire(*line), *named)
    assert wire("EXISTS", "k") == 0
    limiter = next((limiter for limiter in LIMITERS if limiter.command == line[0]), TOKEN)
    assert wire(*limiter.call("k", 5))[:3] == [1, 5, 4]
    wire("PEXPIRE", "k", 86_400_000)  # a lifetime that no call here would give it
    before = held(r, "k")
    assert_error(wire(*line), *named)
    assert held(r, "k") == before
    assert wire("PING") == "PONG"


def assert_wrong_type(reply, word: str) -> None:
    assert isinstance(reply, Failure), reply
    assert reply.startswith("WRONGTYPE "), reply
    assert word in reply.lower(), reply
    assert reply.isprintable(), reply
