"""RL.ALL: all or nothing over several limiters of any kind."""

import random
from itertools import permutations

import pytest

from limiters import COUNTER, FIXED, LEAKY, LIMITERS, SLIDING, TOKEN, changes, commands_run, held
from refusals import assert_error, assert_wrong_type
from replicas import AROUND, CORE_WRITES
from wire import Failure

NOW = 1_699_999_200_000  # begins a minute
KEYS = [limiter.word for limiter in LIMITERS]


def ask(*clauses, at=NOW) -> list:
    line = ["RL.ALL", *(word for clause in clauses for word in clause)]
    return line if at is None else [*line, "AT", at]


def single(clause, at=NOW) -> list:
    """The command that one clause stands for."""
    return [f"RL.{clause[0]}", *clause[1:], "AT", at]


def look(clause, at=NOW) -> list:
    return ["RL.PEEK", *clause, "AT", at]


def one_of_each(limit=5) -> list:
    return [limiter.clause(limiter.word, limit) for limiter in LIMITERS]


TAKEN = [
    [1, 5, 4, 0, 60_000],
    [1, 5, 4, 0, 60_000],
    [1, 5, 4, 0, 66_000],
    [1, 5, 4, 0, 12_000],
    [1, 5, 4, 0, 12_000],
]


@pytest.mark.parametrize("protocol", [2, 3])
def test_taken_from_all(server, protocol):
    """Integers and arrays in both protocols; each array as the clause's own command answers."""
    with server.wire(protocol) as wire:
        assert wire(*ask(*one_of_each())) == [1, -1, *TAKEN]
        for clause, first in zip(one_of_each(), TAKEN, strict=True):
            assert wire(*look(clause))[:3] == [1, 5, 4]
            wire("DEL", clause[1])
            assert wire(*single(clause)) == first


def test_one_denies_and_none_is_taken(r, wire, limiter):
    """Whichever it is: the others stay as they are, also those that do not exist."""
    index = LIMITERS.index(limiter)
    clauses = one_of_each()
    wire(*limiter.call(limiter.word, 5, cost=5, at=NOW))
    live = LIMITERS[(index + 1) % 5].word
    wire(*single(clauses[(index + 1) % 5]))
    before = {key: held(r, key) for key in KEYS}
    assert sum(state.dump is not None for state in before.values()) == 2
    reply = wire(*ask(*clauses))
    assert reply[:2] == [0, index]
    assert reply[2 + index] == wire(*single(clauses[index]))
    assert reply[2 + index][0] == 0
    for key, clause, each in zip(KEYS, clauses, reply[2:], strict=True):
        assert each == wire(*look(clause))
        if key not in (limiter.word, live):
            assert each == [1, 5, 5, 0, 0]
    assert {key: held(r, key) for key in KEYS} == before


def test_denied_index_is_the_first(wire):
    for full in (FIXED, TOKEN, LEAKY):
        wire(*full.call(full.word, 5, cost=5, at=NOW))
    names = {limiter.word: limiter for limiter in LIMITERS}
    for order in permutations(names, 3):
        reply = wire(*ask(*(names[word].clause(word, 5) for word in order)))
        first = next(i for i, word in enumerate(order) if word in ("fixed", "token", "leaky"))
        assert reply[:2] == [0, first]


@pytest.mark.parametrize("cost", [1, 3], ids=["all allow", "two deny"])
def test_every_order_gives_the_same(wire, cost):
    """120 orders of the clauses: each key gets the same verdict, and what is stored is the same."""
    seen = set()
    for order in permutations(LIMITERS):
        wire("FLUSHALL")
        for full in (SLIDING, TOKEN):
            wire(*full.call(full.word, 5, cost=3, at=NOW))
        reply = wire(*ask(*(limiter.clause(limiter.word, 5, cost=cost) for limiter in order)))
        each = dict(zip((limiter.word for limiter in order), map(tuple, reply[2:]), strict=True))
        denied = [i for i, limiter in enumerate(order) if limiter in (SLIDING, TOKEN)]
        assert reply[:2] == ([1, -1] if cost == 1 else [0, denied[0]])
        values = tuple(wire("GET", key) for key in KEYS)
        seen.add((tuple(each[key] for key in KEYS), values))
    assert len(seen) == 1


QUOTAS = {  # long enough that no key expires while the test runs
    "fixed": ["FIXED {} 1h {}", "FIXED {} 1h {} OFFSET 17m"],
    "sliding": ["SLIDING {} 1h {}", "SLIDING {} 1h {} 10m 4", "SLIDING {} 10m 3 1h {}"],
    "counter": ["COUNTER {} 1h {}"],
    "fine": ["COUNTER {} 1h {} BUCKETS 60"],
    "token": ["TOKEN {} {} 5/h", "TOKEN {} {} 7/h"],
    "leaky": ["LEAKY {} {} 5/h", "LEAKY {} {} 6/h"],
}


@pytest.mark.parametrize("seed", range(6))
def test_random_calls(server, r, wire, seed):
    """After a refusal each key's value and expiry are what they were; after an admission each
    holds what single calls leave in a twin of it. Every reply is foretold by looks and by these.
    """
    dice, now = random.Random(seed), NOW
    outcomes = {0: 0, 1: 0}
    frozen = server.binary.version >= (7, 2)  # the clock stands still in a transaction
    for _ in range(100):
        now += dice.choice([0, 0, 1, 60_000, 400_000, 2_000_000])
        names = dice.sample(list(QUOTAS), dice.randint(1, len(QUOTAS)))
        clauses = [
            f"{dice.choice(QUOTAS[name])} COST {{}}".format(
                name, dice.choice([5, 5, 8, 1]), dice.choice([1, 1, 2, 3])
            ).split()
            for name in names
        ]
        looks = wire.pipeline(look(clause, now) for clause in clauses)
        denied = [i for i, reply in enumerate(looks) if reply[0] == 0]
        before = {name: held(r, name) for name in QUOTAS}
        if denied:
            assert wire(*ask(*clauses, at=now)) == [0, denied[0], *looks]
            assert {name: held(r, name) for name in QUOTAS} == before
        else:
            twins = [[clause[0], f"twin:{clause[1]}", *clause[2:]] for clause in clauses]
            both = [ask(*clauses, at=now), *(single(twin, now) for twin in twins)]
            reply, *right = wire.transaction(both)
            assert reply == [1, -1, *right]
            for name in QUOTAS:
                key, twin = held(r, name), held(r, f"twin:{name}")
                assert key.dump == twin.dump
                if frozen:
                    assert key == twin
                if name not in names:
                    assert key == before[name]
                if name in names:
                    reset = reply[2 + names.index(name)][4]
                    left = key.expires_at - r.time()[0] * 1000
                    assert reset - 60_000 < left < reset * 3 // 2 + 60_000
        outcomes[0 if denied else 1] += 1
    assert min(outcomes.values()) > 15


def test_keys_named_like_algorithms(wire):
    """A word behind an algorithm is a key, whatever it says."""
    assert wire(*"RL.ALL TOKEN TOKEN 5 1 SLIDING COST 60 1 AT 1000000".split()) == [
        1, -1, [1, 5, 4, 0, 1000], [1, 1, 0, 0, 60_000],
    ]  # fmt: skip
    assert sorted(wire("KEYS", "*")) == [b"COST", b"TOKEN"]
    assert wire(*"RL.ALL fixed AT 1h 1 leaky Fixed 5 1 counter LEAKY 10 2 AT 0".split()) == [
        1, -1, [1, 1, 0, 0, 3_600_000], [1, 5, 4, 0, 1000], [1, 2, 1, 0, 11_000],
    ]  # fmt: skip
    assert sorted(wire("KEYS", "*")) == [b"AT", b"COST", b"Fixed", b"LEAKY", b"TOKEN"]
    assert wire(*"RL.ALL TOKEN RL.ALL 5 1 TOKEN MULTI 5 1 TOKEN".split(), "", 1, 1)[0] == 1
    assert wire("EXISTS", "RL.ALL", "MULTI", "") == 3


def test_thirty_two_clauses(wire):
    clauses = [LIMITERS[i % 5].clause(f"k{i}", 9) for i in range(33)]
    reply = wire(*ask(*clauses[:32]))
    assert reply[:2] == [1, -1]
    assert [each[:3] for each in reply[2:]] == [[1, 9, 8]] * 32
    assert_error(wire(*ask(*clauses)), "32")
    assert wire("EXISTS", "k32") == 0
    assert wire(*look(clauses[0]))[:3] == [1, 9, 8]


@pytest.mark.parametrize("second", LIMITERS, ids=lambda second: second.word)
def test_the_same_key_twice_is_refused(r, wire, limiter, second):
    """In any two places, of any two algorithms; another database or case is another key."""
    between = FIXED.clause("other", 5)
    for clauses in (
        [limiter.clause("k", 5), second.clause("k", 5)],
        [limiter.clause("k", 5), between, second.clause("k", 9, seconds=1)],
    ):
        assert_error(wire(*ask(*clauses)), "key", "once")
        assert wire("EXISTS", "k", "other") == 0
    reply = wire(*ask(limiter.clause("k", 5), second.clause("K", 5), second.clause("k ", 5)))
    assert reply[:2] == [1, -1]


ERRORS = {
    "FIXED bad nought 5": ("window",),
    "FIXED bad 60 -1": ("max",),
    "FIXED bad 60 5 COST 0": ("COST",),
    "FIXED bad 60 5 COST": ("COST",),
    "FIXED bad 60 5 OFFSET never": ("OFFSET",),
    "FIXED bad 60 5 BUCKETS 3": ("option",),
    "SLIDING bad 60 5 3600": ("max",),
    "SLIDING bad 32d 5": ("window",),
    "COUNTER bad 60 5 BUCKETS 257": ("BUCKETS",),
    "TOKEN bad 5 0": ("rate",),
    "TOKEN bad five 1": ("capacity",),
    "LEAKY bad 5 1 COST 1 COST 1": ("COST",),
    "TOKEN bad": ("capacity",),
    "FIXED bad 60": ("max",),
    "FIXED list 60 5": ("list",),
    "SLIDING text 60 5": ("string",),
    "COUNTER held 60 5": ("RL.TOKEN",),
}


@pytest.mark.parametrize("bad", ERRORS)
@pytest.mark.parametrize("position", range(4))
def test_an_error_in_any_clause_takes_from_none(r, wire, bad, position):
    wire("RPUSH", "list", "a")
    wire("SET", "text", "hello")
    wire(*TOKEN.call("held", 5, at=NOW))
    wire(*COUNTER.call("b", 5, at=NOW))
    clauses = [SLIDING.clause("a", 5), COUNTER.clause("b", 5), LEAKY.clause("c", 5)]
    clauses.insert(position, bad.split())
    before = {key: held(r, key) for key in ("list", "text", "held", "a", "b", "c")}
    reply = wire(*ask(*clauses, at=None))
    if reply.startswith("WRONGTYPE"):
        assert_wrong_type(reply, ERRORS[bad][0].lower())
    else:
        assert_error(reply, *ERRORS[bad])
    assert {key: held(r, key) for key in before} == before
    assert wire("EXISTS", "bad") == 0


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("FIXED a 60 5 AT 1000 TOKEN b 5 1", "AT"),
        ("FIXED a 60 5 AT 1000 TOKEN b 5 1 AT 1000", "AT"),
        ("FIXED a 60 5 TOKEN b 5 1 AT 1000 AT 1000", "AT"),
        ("FIXED a 60 5 TOKEN b 5 1 AT", "AT"),
        ("FIXED a 60 5 TOKEN b 5 1 AT -1", "AT"),
        ("AT 1000 FIXED a 60 5", "algorithm"),
        ("THROTTLE a 5 1 60 FIXED b 60 5", "algorithm"),
        ("FIXD a 60 5", "algorithm"),
        ("FIXED a 60 5 TOKN b 5 1", "option"),
        ("FIXED a 60 5 ALL TOKEN b 5 1", "option"),
        ("RL.FIXED a 60 5", "algorithm"),
        ("FIXED a 60 5 TOKEN", "key"),
        ("FIXED a 60 5 TOKEN b", "capacity"),
        ("FIXED a 60 5 TOKEN b 5", "rate"),
    ],
)
def test_wrong_grammar(wire, line, named):
    assert_error(wire("RL.ALL", *line.split()), named)
    assert wire("DBSIZE") == 0


@pytest.mark.parametrize("line", ["", "FIXED", "FIXED a", "FIXED a 60"])
def test_too_few_arguments(wire, line):
    said = "ERR wrong number of arguments for 'RL.ALL' command"
    assert wire("RL.ALL", *line.split()).lower() == said.lower()
    assert wire("DBSIZE") == 0


def test_getkeys(wire):
    """Pure: from the arguments alone, also where a clause is wrong, and keys of any bytes."""
    line = ask(*one_of_each(), ["SLIDING", b"\x00\r\n\xff", 1, 5, 60, 100, "COST", 2])
    assert wire("COMMAND", "GETKEYS", *line) == [*(k.encode() for k in KEYS), b"\x00\r\n\xff"]
    named = "RL.ALL TOKEN TOKEN 5 1 sliding COST 60 1 FIXED FIXED 60 1 AT 5".split()
    assert wire("COMMAND", "GETKEYS", *named) == [b"TOKEN", b"COST", b"FIXED"]
    many = ask(*(FIXED.clause(f"k{i}", 5) for i in range(100)))
    assert wire("COMMAND", "GETKEYS", *many) == [b"k%d" % i for i in range(100)]
    wrong = "RL.ALL FIXED a 60 nonsense LEAKY b".split()
    assert wire("COMMAND", "GETKEYS", *wrong) == [b"a", b"b"]


def test_inside_multi_and_eval(wire):
    call = ask(FIXED.clause("a", 2), LEAKY.clause("b", 2))
    replies = wire.transaction([call, ["SET", "x", 1], call, call])
    assert [replies[i][:2] for i in (0, 2, 3)] == [[1, -1], [1, -1], [0, 0]]
    wire("DEL", "a", "b")
    script = "local r = redis.call(unpack(ARGV)) return {r[1], r[2], r[4][3], #r}"
    assert wire("EVAL", script, 2, "a", "b", *call) == [1, -1, 1, 4]
    wire(*call)
    assert wire("EVAL", script, 2, "a", "b", *call) == [0, 0, 0, 4]


def test_the_servers_clock(wire):
    """Without AT: one moment for all clauses, and lifetimes on the server's clock."""
    call = ask(FIXED.clause("a", 2, "366d"), SLIDING.clause("b", 2, "31d"), at=None)
    assert [wire(*call)[:2] for _ in range(3)] == [[1, -1], [1, -1], [0, 0]]
    assert 31 * 86_400_000 - 60_000 < wire("PTTL", "b") <= 31 * 86_400_000 * 3 // 2


def test_a_move_is_written_by_the_clauses_that_deny(r, wire):
    """After a changed clock. Those that allow are not taken, so their move is not written."""
    far = NOW + 10**9
    for limiter in LIMITERS:
        wire(*limiter.call(f"{limiter.word}:denies", 1, at=far))
        wire(*limiter.call(f"{limiter.word}:allows", 5, at=far))
    denies = [limiter.clause(f"{limiter.word}:denies", 1) for limiter in LIMITERS]
    allows = [limiter.clause(f"{limiter.word}:allows", 5) for limiter in LIMITERS]
    keys = [clause[1] for clause in denies + allows]
    before = {key: held(r, key) for key in keys}
    reply = wire(*ask(*allows, *denies))
    assert reply[:2] == [0, 5]
    waits = [each[3] for each in reply[7:]]
    assert waits == [60_000, 60_000, 66_000, 60_000, 60_000]
    for clause in allows:
        assert held(r, clause[1]) == before[clause[1]]
    moved = {clause[1]: held(r, clause[1]) for clause in denies}
    for key, state in moved.items():
        assert state.dump != before[key].dump
    for clause, wait in zip(denies, waits, strict=True):  # so their waits shrink
        assert wire(*ask(clause, at=NOW + wait - 1))[2][3] == 1
        assert wire(*ask(clause, at=NOW + wait))[:2] == [1, -1]


def test_new_sub_windows_are_written_by_a_clause_that_denies(r, wire):
    wire(*"RL.COUNTER a 10 5 COST 5 AT 1000000".split())
    wire(*"RL.COUNTER b 10 5 COST 2 AT 1000000".split())
    before = held(r, "a"), held(r, "b")
    reply = wire(*"RL.ALL COUNTER a 20 5 COUNTER b 20 5 AT 1005000".split())
    assert reply == [0, 0, [0, 5, 0, 19_400, 21_000], [1, 5, 3, 0, 21_000]]
    assert held(r, "a") != before[0]
    assert held(r, "b") == before[1]


def test_a_refusal_sends_nothing(pair):
    """Neither to replicas nor towards the next save; nor is a watcher disturbed."""
    for clause in one_of_each():
        pair.p.execute_command(*single(clause))
    full = FIXED.clause("full", 1)
    pair.p.execute_command(*single(full))
    bad = [full, full], [*one_of_each(), ["FIXED", "x", 60, "y"]], [*one_of_each(), full]
    before = changes(pair.p)
    with pair.primary.wire() as wire, pair.primary.wire() as watcher:
        watcher("WATCH", "full", *KEYS)
        for clauses in (*bad, [full, *one_of_each()], [FIXED.clause("fresh", 0), full]):
            replies = wire.pipeline([ask(*clauses)] * 20)
            assert all(isinstance(reply, Failure) or reply[0] == 0 for reply in replies)
        assert changes(pair.p) == before
        assert watcher.transaction([["PING"]]) == ["PONG"]


def test_an_admission_sends_one_core_command_for_each_clause(pair):
    """And these in one transaction: a replica sees all of them or none."""
    calls = 50
    pair.settle()
    pair.q.config_resetstat()
    with pair.primary.wire() as wire:
        lines = [ask(*one_of_each(10_000), at=NOW + i * 700) for i in range(calls)]
        assert all(reply[0] == 1 for reply in wire.pipeline(lines))
    pair.settle()
    ran = commands_run(pair.q)
    core = {name: count for name, count in ran.items() if name in CORE_WRITES}
    assert sum(core.values()) == calls * len(LIMITERS)
    assert (ran["multi"], ran["exec"]) == (calls, calls)
    assert set(ran) <= CORE_WRITES | AROUND
    pair.assert_equal()
