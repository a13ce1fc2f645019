"""Another module acts on other keys in the middle of our commands: on every event, at once."""

import pytest

from limiters import FIXED, LIMITERS, TOKEN
from servers import REPOSITORY

MEDDLER = REPOSITORY / "target" / "debug" / "examples" / "libmeddler.so"
NOW = 1_699_999_200_000


@pytest.fixture
def meddled(spawn):
    """A server where `victim` is deleted whenever a key expires or a sorted set gets a member."""
    server = spawn(arguments="sliding-storage sorted-set")
    with server.wire() as wire:
        assert wire("MODULE", "LOAD", str(MEDDLER)) == "OK", f"`make test` builds {MEDDLER}"
        yield wire


def gone(wire) -> str:
    """A key that is expired, and found to be so by the next command that opens it."""
    wire("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    reply = wire.transaction([FIXED.call("gone", 5, at=NOW), ["PEXPIRE", "gone", 1]])
    assert reply[0][0] == 1
    while wire("PTTL", "gone") > 0:
        pass
    return "gone"


@pytest.mark.parametrize("victim", LIMITERS, ids=[limiter.command for limiter in LIMITERS])
@pytest.mark.parametrize("cause", ["expired", "zadd"])
def test_a_key_goes_while_several_are_asked(meddled, victim, cause):
    """Before its clause, after it, between the look and the taking: no answer lies."""
    wire = meddled
    wire("CONFIG", "SET", "rl.sliding-storage", "compact")
    long = ["SLIDING", "log", 3600, 1000]
    if cause == "zadd":
        wire("ZADD", "log", NOW, "a")
        wire("EXPIRE", "log", 3600)
    for order in range(2):
        for time in range(50):
            assert wire(*victim.call("victim", 1000, at=NOW + time))[0] == 1
        other = FIXED.clause(gone(wire), 5) if cause == "expired" else long
        clauses = [victim.clause("victim", 1000), other][:: 1 if order else -1]
        words = [word for clause in clauses for word in clause]
        reply = wire("RL.ALL", *words, *TOKEN.clause("t", 1000), "AT", NOW + 50)
        assert reply[:2] == [1, -1]
        assert all(each[0] == 1 for each in reply[2:])
    assert wire("PING") == "PONG"


def test_a_key_goes_while_it_is_asked(meddled, limiter):
    """The one that expires is the one that is asked."""
    meddled("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    for _ in range(3):
        assert meddled(*limiter.call("victim", 5, at=NOW))[0] == 1
        meddled("PEXPIRE", "victim", 1)
        while meddled("PTTL", "victim") > 0:
            pass
    assert meddled("PING") == "PONG"
