"""A cluster of one server: all keys of RL.ALL have to lie in one slot, or nothing is taken."""

import pytest

from limiters import COUNTER, FIXED, LEAKY, LIMITERS, SLIDING, TOKEN
from servers import Server
from waiting import until
from wire import Failure

NOW = 1_699_999_200_000
SLOTS = 16_384


def take_all_slots(server) -> None:
    with server.wire() as wire:
        assert wire("CLUSTER", "ADDSLOTS", *range(SLOTS)) == "OK"
        until(lambda: b"cluster_state:ok" in wire("CLUSTER", "INFO"), "no cluster")


@pytest.fixture(scope="module")
def owner(binary):
    """The server that has all slots. (It takes two seconds to believe that.)"""
    server = Server(binary, ["cluster-enabled yes"])
    take_all_slots(server)
    yield server
    server.remove()


@pytest.fixture
def cluster(owner):
    """A connection to it while it is empty."""
    with owner.wire() as wire:
        wire("FLUSHALL")
        yield wire
        assert wire("PING") == "PONG"
    assert not owner.trouble()


def ask(*clauses) -> list:
    return ["RL.ALL", *(word for clause in clauses for word in clause), "AT", NOW]


def assert_cross_slot(reply) -> None:
    assert isinstance(reply, Failure), reply
    assert reply.startswith("CROSSSLOT "), reply


def test_cross_slot_before_anything_is_taken(cluster):
    """And before anything is looked at: what would deny or is wrong is not even noticed."""
    clauses = [limiter.clause(limiter.word, 5) for limiter in LIMITERS]
    assert_cross_slot(cluster(*ask(*clauses)))
    for one in range(1, 5):
        tagged = [limiter.clause("{one}" + limiter.word, 5) for limiter in LIMITERS]
        tagged[one][1] = "{other}"
        assert_cross_slot(cluster(*ask(*tagged)))
    assert_cross_slot(cluster(*ask(FIXED.clause("a", 0), TOKEN.clause("b", 5))))
    assert_cross_slot(cluster(*ask(FIXED.clause("a", "wrong"), TOKEN.clause("b", 5))))
    assert cluster("DBSIZE") == 0


def test_one_slot_passes(cluster):
    clauses = [limiter.clause("{user42}:" + limiter.word, 5) for limiter in LIMITERS]
    assert [each[:3] for each in cluster(*ask(*clauses))[2:]] == [[1, 5, 4]] * 5
    many = [FIXED.clause(f"{i}{{user42}}", 5) for i in range(32)]
    assert cluster(*ask(*many))[:2] == [1, -1]
    assert cluster(*ask(COUNTER.clause("a", 1)))[:2] == [1, -1]
    assert cluster(*ask(COUNTER.clause("a", 1)))[:2] == [0, 0]
    assert cluster("DBSIZE") == 5 + 32 + 1


def test_inside_multi(cluster):
    """Refused while it is queued, and EXEC refuses the whole transaction."""
    fine = ask(SLIDING.clause("{u}a", 5), LEAKY.clause("{u}b", 5))
    assert [reply[:2] for reply in cluster.transaction([fine, fine])] == [[1, -1]] * 2
    assert cluster("MULTI") == "OK"
    assert cluster("SET", "{u}c", 1) == "QUEUED"
    assert_cross_slot(cluster(*ask(SLIDING.clause("a", 5), LEAKY.clause("b", 5))))
    assert cluster("EXEC").startswith("EXECABORT ")
    assert cluster("EXISTS", "{u}c") == 0
    assert cluster("DBSIZE") == 2


def test_inside_eval_with_its_keys_declared(cluster):
    script = "return redis.call(unpack(ARGV))"
    fine = ask(SLIDING.clause("{u}a", 5), LEAKY.clause("{u}b", 5))
    assert cluster("EVAL", script, 2, "{u}a", "{u}b", *fine)[:2] == [1, -1]
    cross = ask(SLIDING.clause("a", 5), LEAKY.clause("b", 5))
    assert_cross_slot(cluster("EVAL", script, 2, "a", "b", *cross))
    assert cluster("DBSIZE") == 2


def test_inside_eval_with_keys_undeclared(spawn):
    """The script itself is let in, its call is not.

    On a server of its own: Valkey 9.1 refuses every later script after such a call.
    """
    server = spawn("cluster-enabled yes")
    take_all_slots(server)
    cross = ask(SLIDING.clause("a", 5), LEAKY.clause("b", 5))
    with server.wire() as wire:
        assert isinstance(wire("EVAL", "return redis.call(unpack(ARGV))", 0, *cross), Failure)
        assert wire("DBSIZE") == 0


def test_commands_of_one_key(cluster):
    for limiter in LIMITERS:
        assert cluster(*limiter.call(limiter.word, 5, at=NOW))[:3] == [1, 5, 4]
        assert cluster(*limiter.peek(limiter.word, 5, at=NOW))[:3] == [1, 5, 4]
        assert cluster("RL.INSPECT", limiter.word)
    assert cluster("RL.THROTTLE", "t", 5, 5, 1000) == [0, 6, 5, -1, 200]
    cluster("ZADD", "z", NOW, "a")
    cluster("EXPIRE", "z", 60)
    assert cluster("RL.SLIDING", "z", 60, 5, "AT", NOW) == [1, 5, 3, 0, 60_000]
    for limiter in LIMITERS:
        inside = cluster.transaction([limiter.call(limiter.word, 5, at=NOW)] * 2)
        assert [reply[:3] for reply in inside] == [[1, 5, 3], [1, 5, 2]]
