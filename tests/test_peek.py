"""RL.PEEK: the verdict that the call itself would get, and nothing else happens."""

import random
from itertools import islice

import pytest

from hostile import ARGUMENTS, HOSTILE
from limiters import FIXED, LIMITERS, TOKEN, changes, five_integers, held, peek
from refusals import assert_error, assert_wrong_type
from replicas import Pair, until
from sequences import SEQUENCES
from wire import Failure

NOW = 1_699_999_200_000  # begins a minute


@pytest.mark.parametrize("seed", range(12))
def test_foretells_every_call(wire, limiter, seed):
    """Changed arguments and clocks included, after which a look stores no move either."""
    sequence = SEQUENCES[limiter.command](random.Random(f"peek {limiter.command} {seed}"))
    calls = [[limiter.command, "k", *line, "AT", now] for line, now, _ in islice(sequence, 300)]
    steps = [step for call in calls for step in (["GET", "k"], peek(call), ["GET", "k"], call)]
    got = iter(wire.transaction(steps))
    for call, (before, look, after, reply) in zip(calls, zip(*[got] * 4, strict=True), strict=True):
        assert before == after, call
        allowed, limit, remaining, wait, _ = reply
        cost = call[call.index("COST") + 1]
        assert look[:2] == [allowed, limit], call
        assert look[3] == wait, call
        if allowed:
            assert look[2] == remaining + cost, call
        else:
            assert look == reply, call


def test_reset_is_when_it_is_as_new(wire, limiter):
    """At reset_ms from now all is free again, and a millisecond before it is not."""
    dice, now = random.Random(4), NOW
    for _ in range(150):
        now += dice.randrange(12_000)
        wire(*limiter.call("k", 7, cost=dice.randint(1, 4), at=now))
        *_, reset = wire(*limiter.peek("k", 7, at=now))
        assert reset > 0
        assert wire(*limiter.peek("k", 7, at=now + reset)) == [1, 7, 7, 0, 0]
        assert wire(*limiter.peek("k", 7, at=now + reset - 1))[4] == 1


def test_a_look_may_ask_with_other_arguments(r, wire):
    """Also such that the call would be a move to other sub-windows: worked out, not stored."""
    assert wire(*"RL.COUNTER k 10 5 COST 5 AT 1000000".split()) == [1, 5, 0, 0, 11_000]
    before = held(r, "k")
    for _ in range(2):
        look = wire(*"RL.PEEK COUNTER k 20 5 AT 1005000".split())
        assert look == [0, 5, 0, 19_400, 21_000]
    assert held(r, "k") == before
    assert wire(*"RL.PEEK COUNTER k 10 9 AT 1010500".split()) == [1, 9, 6, 0, 500]


def test_stores_no_move_after_a_changed_clock(r, wire, limiter):
    assert wire(*limiter.call("k", 1, at=NOW + 10**9))[0] == 1
    before = held(r, "k")
    looks = [wire(*limiter.peek("k", 1, at=NOW)) for _ in range(3)]
    assert held(r, "k") == before
    assert looks == [wire(*limiter.call("k", 1, at=NOW))] * 3
    assert held(r, "k") != before


@pytest.mark.parametrize("protocol", [2, 3])
def test_reply_is_five_integers(server, limiter, protocol):
    with server.wire(protocol) as wire:
        for _ in range(3):
            assert five_integers(wire(*limiter.peek("k", 2, at=NOW)))
            wire(*limiter.call("k", 2, at=NOW))


def test_missing_key_stays_missing(wire, limiter):
    assert wire(*limiter.peek("k", 5, at=NOW)) == [1, 5, 5, 0, 0]
    assert wire(*limiter.peek("k", 5)) == [1, 5, 5, 0, 0]
    assert wire(*limiter.peek("k", 5, cost=6)) == [0, 5, 5, -1, 0]
    assert wire(*limiter.peek("k", 0)) == [0, 0, 0, -1, 0]
    assert wire("DBSIZE") == 0


def all_looks(limiter) -> list:
    """Allowed, denied, never, and such that a call would move the state back."""
    return [
        limiter.peek("k", 5, at=NOW),
        limiter.peek("k", 5, cost=5, at=NOW),
        limiter.peek("k", 5, cost=6, at=NOW),
        limiter.peek("k", 1, at=NOW - 10**9),
        limiter.peek("k", 5),
    ]


@pytest.mark.parametrize("lifetime", [None, 3_600_000], ids=["persistent", "with TTL"])
@pytest.mark.parametrize("encoding", ["raw", "as loaded"])
def test_leaves_value_expiry_and_encoding(r, wire, limiter, lifetime, encoding):
    """A string that was set or loaded whole may be `embstr`. The one way a module has to its bytes
    makes a raw string of it, and nothing else changes. A raw one, as a call leaves it, stays."""
    wire(*limiter.call("k", 5, at=NOW))
    if encoding == "as loaded":
        wire("SET", "k", wire("GET", "k"), "KEEPTTL")
    wire("PEXPIRE", "k", lifetime) if lifetime else wire("PERSIST", "k")
    before, kind = held(r, "k"), wire("OBJECT", "ENCODING", "k")
    for look in all_looks(limiter) * 2:
        assert five_integers(wire(*look))
    assert held(r, "k") == before
    assert wire("OBJECT", "ENCODING", "k") in (kind, b"raw")


def test_is_no_use_of_the_key(server, r, wire, limiter):
    """Neither counted by LFU nor, where the server can leave it out (7.2 on), in the statistics."""
    settings = {"maxmemory-policy": "allkeys-lfu", "lfu-log-factor": "0", "lfu-decay-time": "0"}
    before = {name: r.config_get(name)[name] for name in settings}
    try:
        for name, value in settings.items():
            r.config_set(name, value)
        wire(*limiter.call("k", 5, at=NOW))
        frequency = r.object("freq", "k")
        hits = counted(r)
        for look in all_looks(limiter) * 3:
            wire(*look)
        if server.binary.version >= (7, 2):
            assert counted(r) == hits
        assert r.object("freq", "k") == frequency
        wire("GET", "k")
        assert r.object("freq", "k") > frequency
        assert counted(r) != hits
    finally:
        for name, value in before.items():
            r.config_set(name, value)


def counted(r) -> tuple[int, int]:
    stats = r.info("stats")
    return stats["keyspace_hits"], stats["keyspace_misses"]


def test_sends_nothing(pair, limiter):
    """Nothing to replicas, nothing towards the next save, nothing to a watcher."""
    pair.p.execute_command(*limiter.call("k", 5, at=NOW))
    before = changes(pair.p)
    with pair.primary.wire() as wire, pair.primary.wire() as watcher:
        watcher("WATCH", "k", "none")
        replies = wire.pipeline([*all_looks(limiter), limiter.peek("none", 5)] * 20)
        assert all(map(five_integers, replies))
        assert changes(pair.p) == before
        assert watcher.transaction([["PING"]]) == ["PONG"]


def test_on_a_replica(spawn):
    """The same answers as on the primary, from a replica that refuses the calls themselves."""
    pair = Pair(spawn, module_on_replica=True)
    for limiter in LIMITERS:
        for cost in (1, 1, 2):
            pair.p.execute_command(*limiter.call(limiter.word, 5, cost=cost, at=NOW))
    pair.settle()
    with pair.primary.wire() as primary, pair.replica.wire() as replica:
        for limiter in LIMITERS:
            for at in (NOW, NOW + 1, NOW + 20_000, NOW - 10**9, NOW + 10**9):
                for cost in (1, 2, 5, 6):
                    look = limiter.peek(limiter.word, 5, cost=cost, at=at)
                    assert replica(*look) == primary(*look)
            refused = replica(*limiter.call(limiter.word, 5, at=NOW))
            assert refused.startswith("READONLY ")
    pair.assert_equal()
    pair.close()


def test_on_a_replica_that_holds_an_expired_key(spawn, limiter):
    """Its primary has yet to delete it: as good as new all the same."""
    pair = Pair(spawn, module_on_replica=True)
    pair.p.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    pair.p.execute_command(*limiter.call("k", 2, seconds="1h", cost=2))
    pair.p.pexpire("k", 20)
    look = limiter.peek("k", 2, seconds="1h")
    pair.settle()
    until(lambda: pair.q.execute_command(*look) == [1, 2, 2, 0, 0], "the key does not expire")
    assert pair.q.dbsize() == pair.p.dbsize() == 2  # the other one is the pair's own
    assert pair.p.execute_command(*look) == [1, 2, 2, 0, 0]
    pair.close()


def test_while_writes_are_paused(server, wire, limiter):
    """The look answers at once, a call waits for the pause to end."""
    with server.wire() as caller:
        try:
            assert wire("CLIENT", "PAUSE", 100_000, "WRITE") == "OK"
            caller.send(*limiter.call("k", 2, at=NOW))
            assert wire(*limiter.peek("k", 2, at=NOW)) == [1, 2, 2, 0, 0]
            assert wire("RL.INSPECT", "k") is None
        finally:
            assert wire("CLIENT", "UNPAUSE") == "OK"
        assert caller.read()[:3] == [1, 2, 1]


def test_in_scripts_that_may_not_write(server, wire, limiter):
    if server.binary.version < (7, 0):
        pytest.skip("this server has no flags for scripts")
    wire(*limiter.call("k", 2, at=NOW))
    look, call = limiter.peek("k", 2, at=NOW), limiter.call("k", 2, at=NOW)
    script = "return redis.call(unpack(ARGV))"
    for how in (("EVAL_RO", script), ("EVAL", "#!lua flags=no-writes\n" + script)):
        assert wire(*how, 1, "k", *look)[:3] == [1, 2, 1]
        refused = wire(*how, 1, "k", *call)
        assert isinstance(refused, Failure)
        assert "rite" in refused
    assert wire(*look)[:3] == [1, 2, 1]


def test_inside_multi_and_eval(wire, limiter):
    look, call = limiter.peek("k", 2, at=NOW), limiter.call("k", 2, at=NOW)
    replies = wire.transaction([look, call, look, call, look])
    assert [reply[0] for reply in replies] == [1, 1, 1, 1, 0]
    assert [reply[2] for reply in replies] == [2, 1, 1, 0, 0]
    assert wire("EVAL", "return redis.call(unpack(ARGV))", 1, "k", *look) == replies[-1]


@pytest.mark.parametrize(
    "make",
    [["SET", "k", "hello"], ["RPUSH", "k", "a"], ["HSET", "k", "f", 1], ["SADD", "k", "a"]],
    ids=lambda make: make[0],
)
def test_foreign_value_is_refused_and_kept(r, wire, limiter, make):
    wire(*make)
    before = held(r, "k")
    refused = wire(*limiter.peek("k", 5))
    assert_wrong_type(refused, "key holds")
    assert refused == wire(*limiter.call("k", 5))
    assert held(r, "k") == before


def test_another_algorithms_state_is_refused(r, wire, limiter):
    for other in LIMITERS:
        wire("DEL", "k")
        wire(*other.call("k", 5, at=NOW))
        before = held(r, "k")
        if other is not limiter:
            assert_wrong_type(wire(*limiter.peek("k", 5)), other.word)
            assert held(r, "k") == before


@pytest.mark.parametrize(
    "word", ["THROTTLE", "ALL", "PEEK", "RL.FIXED", "", "FIXE", "FIXEDD", b"\xff\x00", "x" * 99_999]
)
def test_unknown_algorithm(wire, word):
    assert_error(wire("RL.PEEK", word, "k", 60, 5), *(w.word.upper() for w in LIMITERS))


@pytest.mark.parametrize("line", ["", "TOKEN", "TOKEN k", "TOKEN k 5", "FIXED k 60"])
def test_too_few_arguments(wire, line):
    said = "ERR wrong number of arguments for 'RL.PEEK' command"
    assert wire("RL.PEEK", *line.split()).lower() == said.lower()


def test_wrong_arguments_are_refused_as_by_the_call(wire):
    """In the same words, whatever the argument and the value."""
    for line, position, _ in ARGUMENTS:
        for value in HOSTILE.values():
            command = line.split()
            command[position] = value
            refusal = wire(*command)
            if isinstance(refusal, Failure):
                assert wire(*peek(command)) == refusal
            else:
                wire("DEL", "k")


def test_peek_of_a_throttle_is_that_of_its_bucket(wire):
    for _ in range(3):
        wire("RL.THROTTLE", "k", 4, 5, 1000)
    assert wire(*TOKEN.peek("k", 5, seconds=1000))[:3] == [1, 5, 2]
    assert_wrong_type(wire(*FIXED.peek("k", 5)), "token")
