"""The commands inside everything that Redis wraps around a command."""

import pytest
import redis

from limiters import LIMITERS, five_integers, held
from wire import Failure, Push

NOW = 1_699_999_200_000  # begins a minute

FIRST = {  # of two per minute, at NOW
    "RL.FIXED": [1, 2, 1, 0, 60_000],
    "RL.SLIDING": [1, 2, 1, 0, 60_000],
    "RL.COUNTER": [1, 2, 1, 0, 66_000],
    "RL.TOKEN": [1, 2, 1, 0, 30_000],
    "RL.LEAKY": [1, 2, 1, 0, 30_000],
}
THIRD = {
    "RL.FIXED": [0, 2, 0, 60_000, 60_000],
    "RL.SLIDING": [0, 2, 0, 60_000, 60_000],
    "RL.COUNTER": [0, 2, 0, 63_000, 66_000],
    "RL.TOKEN": [0, 2, 0, 30_000, 60_000],
    "RL.LEAKY": [0, 2, 0, 30_000, 60_000],
}


@pytest.mark.parametrize("protocol", [2, 3])
def test_reply_is_five_integers_on_the_wire(server, limiter, protocol):
    """Both protocols: an array of five integers, not strings, booleans or a map."""
    with server.wire(protocol) as wire:
        for right in (FIRST, None, THIRD):
            reply = wire(*limiter.call("k", 2, at=NOW))
            assert five_integers(reply)
            if right:
                assert reply == right[limiter.command]


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_on_both_protocols(server, limiter, protocol):
    with server.client(protocol=protocol) as client:
        assert client.execute_command(*limiter.call("k", 2, at=NOW)) == FIRST[limiter.command]
        with pytest.raises(redis.ResponseError, match="COST"):
            client.execute_command(*limiter.call("k", 2, cost=0))
        client.lpush("list", "x")
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            client.execute_command(*limiter.call("list", 2))


def test_inside_multi(wire, limiter):
    call = limiter.call("k", 2, at=NOW)
    replies = wire.transaction([call, ["SET", "other", "1"], call, call])
    assert replies[0] == FIRST[limiter.command]
    assert replies[1] == "OK"
    assert replies[3] == THIRD[limiter.command]


def test_error_inside_multi_stops_nothing_else(wire, limiter):
    bad = limiter.call("k", 2, cost=0)
    replies = wire.transaction([["SET", "a", "1"], bad, limiter.call("k", 2, at=NOW)])
    assert replies[0] == "OK"
    assert isinstance(replies[1], Failure)
    assert replies[1].startswith("ERR ")
    assert replies[2] == FIRST[limiter.command]


def test_wrong_number_of_arguments_inside_multi(wire, limiter):
    """Refused while queueing where the server counts (7.0 on), inside EXEC where we do (6.2)."""
    wire("MULTI")
    queued = wire(limiter.command, "k")
    result = wire("EXEC")
    refusal = queued if isinstance(queued, Failure) else result[0]
    assert "wrong number of arguments" in refusal
    assert wire("EXISTS", "k") == 0


def test_server_clock_inside_multi(wire, limiter):
    """Without AT: all calls of a transaction draw on one limit."""
    replies = wire.transaction([limiter.call("k", 2, seconds="31d")] * 4)
    assert [reply[:3] for reply in replies] == [[1, 2, 1], [1, 2, 0], [0, 2, 0], [0, 2, 0]]


def test_inside_eval(wire, limiter):
    """The five integers arrive as a Lua table of five numbers."""
    script = "local d = redis.call(unpack(ARGV)); return {#d, d[1] == 1, d[3] + 1, d}"
    argv = limiter.call("k", 2, at=NOW)
    assert wire("EVAL", script, 1, "k", *argv) == [5, 1, 2, FIRST[limiter.command]]
    wire(*argv)
    assert wire("EVAL", "return redis.call(unpack(ARGV))", 1, "k", *argv) == THIRD[limiter.command]


def test_error_inside_eval(wire, limiter):
    """redis.call raises our error and ends the script, redis.pcall hands it over."""
    argv = limiter.call("k", 2, cost=0)
    script = "redis.call(unpack(ARGV)); return redis.call('SET', 'after', '1')"
    raised = wire("EVAL", script, 1, "k", *argv)
    assert isinstance(raised, Failure)
    assert "COST" in raised
    assert wire("EXISTS", "k", "after") == 0
    caught = wire("EVAL", "return redis.pcall(unpack(ARGV))['err']", 1, "k", *argv)
    assert b"COST" in caught
    wire("LPUSH", "list", "x")
    wrong = limiter.call("list", 2)
    caught = wire("EVAL", "return redis.pcall(unpack(ARGV))['err']", 1, "list", *wrong)
    assert caught.startswith(b"WRONGTYPE ")


def test_loop_inside_eval(wire, limiter):
    """A script may ask thousands of times; each call sees what the one before it took."""
    script = """
        local allowed = 0
        for i = 1, 5000 do allowed = allowed + redis.call(unpack(ARGV))[1] end
        return allowed
    """
    assert wire("EVAL", script, 1, "k", *limiter.call("k", 1234, seconds="31d")) == 1234


def test_inside_a_pipeline(wire, limiter):
    calls = [limiter.call(f"k{i % 7}", 10, at=NOW) for i in range(700)]
    replies = wire.pipeline(calls)
    assert [reply[0] for reply in replies] == [1] * 70 + [0] * 630
    assert [reply[2] for reply in replies[:70]] == [9 - i // 7 for i in range(70)]


def test_watch_sees_allowed_calls_only(server, r, limiter):
    """A denied call changes nothing, so it must not abort a transaction that watches the key."""
    call = limiter.call("k", 1, at=NOW)
    with server.client() as other:

        def exec_after(disturb):
            with r.pipeline(transaction=True) as transaction:
                transaction.watch("k")
                reply = other.execute_command(*disturb)
                transaction.multi()
                transaction.ping()
                try:
                    return reply[0], transaction.execute()
                except redis.WatchError:
                    return reply[0], "aborted"

        assert exec_after(call) == (1, "aborted")
        assert exec_after(call) == (0, [True])
        assert exec_after(limiter.call("k", 3, at=NOW)) == (1, "aborted")


def test_client_side_caching_hears_of_allowed_calls_only(server, limiter):
    """Tracking clients are told to drop the key when it changed, and only then."""
    call = limiter.call("k", 1, at=NOW)
    with server.wire(protocol=3) as tracker, server.wire() as caller:
        assert tracker("CLIENT", "TRACKING", "ON") == "OK"
        tracker("GET", "k")
        assert caller(*call)[0] == 1
        assert tracker("PING") == Push([b"invalidate", [b"k"]])
        assert tracker.read() == "PONG"
        tracker("GET", "k")
        assert caller(*call)[0] == 0
        assert tracker("PING") == "PONG"


def test_blocked_by_maxmemory_like_a_core_write(spawn, limiter):
    """deny-oom: with the memory full and nothing to evict, the server refuses before we decide."""
    server = spawn("maxmemory-policy noeviction")
    with server.client() as client:
        assert client.execute_command(*limiter.call("k", 5, at=NOW))[0] == 1
        before = held(client, "k")
        client.config_set("maxmemory", 1)
        with pytest.raises(redis.OutOfMemoryError):
            client.execute_command(*limiter.call("k", 5, at=NOW))
        client.config_set("maxmemory", 0)
        assert held(client, "k") == before
        assert client.execute_command(*limiter.call("k", 5, at=NOW))[0] == 1


def test_every_database_has_its_own_keys(server):
    for limiter in LIMITERS:
        for database in (0, 5):
            with server.client(db=database) as client:
                key = f"k:{limiter.word}"
                assert client.execute_command(*limiter.call(key, 2, at=NOW))[2] == 1
