"""Limits hold while keys are spread over nodes, slots move and a primary dies.

Issue 4, point 3: three primaries and three replicas, on every server from Redis 7.0 on.
"""

import contextlib
import random
import threading
from collections import defaultdict

import pytest
from redis.crc import key_slot
from redis.exceptions import ClusterError, TryAgainError

from cluster import SLOTS, Cluster, Router, single, tags
from forms import form
from waiting import until
from wire import Failure
from workload import RUN_ALL, as_json, everything, quotas

KEYS = form(1_000, 10_000)
MOVED_SLOTS = form(24, 160)
TAGS = form(24, 100)
ROUNDS = form(1, 3)  # there and back again
KILLS = form(1, 9)
LIMITS = (15, 100_000)


@pytest.fixture(scope="module")
def built(binary):
    """One cluster for all tests of a server."""
    if binary.version < (7, 0):
        yield None
        return
    cluster = Cluster(binary)
    yield cluster
    cluster.remove()


@pytest.fixture
def cluster(built):
    """The cluster, empty and in good order; so it must be afterwards."""
    if built is None:
        pytest.skip("issue 4 asks for clusters of Redis 7.0, 8.2 and Valkey 9.1")
    built.settle()
    for node in built.primaries():
        assert node.ask("FLUSHALL") == "OK"
    yield built
    built.settle()
    assert not built.trouble()


@pytest.fixture
def router(cluster):
    with contextlib.closing(Router(cluster)) as router:
        yield router


def asker(router, key):
    """The router as something that is called like a connection."""
    return lambda *command: router(key, *command)


def assert_replicas_are_equal(cluster) -> int:
    """Every replica holds what its primary holds; the number of keys in all."""
    cluster.settle()
    keys = 0
    for primary in cluster.primaries():
        truth = primary.holds()
        keys += len(truth)
        for replica in cluster.replicas_of(primary):
            assert replica.holds() == truth
    return keys


# --- What a cluster refuses --------------------------------------------------------------------

ACROSS = ["RL.ALL", "TOKEN", "a", 5, 1, "FIXED", "b", "366d", 5, "SLIDING", "{a}:c", 60, 5]
WITHIN = ["RL.ALL", "TOKEN", "{a}:a", 5, 1, "FIXED", "{a}:b", "366d", 5, "SLIDING", "a", 60, 5]


def test_all_across_slots_takes_nothing(binary):
    """Refused before anything is decided: alone, in MULTI, in a script, whatever it was told."""
    script = "return redis.call(unpack(ARGV))"
    with single(binary) as node, node.wire() as wire:
        assert wire(*ACROSS) == "CROSSSLOT Keys in request don't hash to the same slot"
        queued = wire.pipeline([["MULTI"], ["RL.TOKEN", "a", 5, 1], ACROSS, ["EXEC"]])
        assert queued[2].startswith("CROSSSLOT")
        assert queued[3].startswith("EXECABORT")
        # Of two commands on two slots Redis finds out when it comes to EXEC.
        queued = [["MULTI"], ["RL.TOKEN", "a", 5, 1], ["RL.TOKEN", "b", 5, 1], ["EXEC"]]
        assert wire.pipeline(queued)[-1].startswith("CROSSSLOT")
        assert wire("DBSIZE") == 0
        peek = ["RL.PEEK", "TOKEN", "a", 5, 1]
        assert wire("EVAL", script, 1, "a", *peek)[:3] == [1, 5, 5]
        assert wire("DBSIZE") == 0
        assert wire(*WITHIN)[:2] == [1, -1]
        assert wire("EVAL", script, 1, "a", *WITHIN)[:2] == [1, -1]
        assert wire("DBSIZE") == 3
        # Scripts come last: after the first of these Valkey 9.1 refuses every script on this node.
        before = everything(node)
        for keys in (["a"], ["a", "b"], []):
            reply = wire("EVAL", script, len(keys), *keys, *ACROSS)
            assert isinstance(reply, Failure), reply
            assert any(word in reply for word in ("slot", "non local key")), reply
        assert everything(node) == before


# --- Many keys ---------------------------------------------------------------------------------


def test_a_cluster_client_over_many_keys(cluster, count):
    """redis-py, one call after the other and in pipelines: of four calls each key allows three."""
    kinds = quotas(3)
    keys = {f"user:{i}": kinds[i % len(kinds)] for i in range(KEYS)}
    taken = defaultdict(int)
    with contextlib.closing(cluster.client()) as client:
        for key, quota in keys.items():
            quota.seed(client.execute_command, key)
        for first in range(0, KEYS, 100):
            pipeline = client.pipeline()
            lines = [(key, keys[key].take(key)) for key in list(keys)[first : first + 100]] * 2
            for _, line in lines:
                pipeline.execute_command(*line)
            for (key, line), reply in zip(lines, pipeline.execute(), strict=True):
                taken[key] += keys[key].allowed(line, reply)
        assert set(taken.values()) == {2}
        for expected in (3, 3):
            for key, quota in keys.items():
                line = quota.take(key)
                taken[key] += quota.allowed(line, client.execute_command(*line))
                assert taken[key] == expected
    assert assert_replicas_are_equal(cluster) == KEYS
    shares = [node.ask("DBSIZE") for node in cluster.primaries()]
    assert min(shares) > KEYS // 5, shares
    count("cluster", keys=KEYS, commands=4 * KEYS)


def test_a_replica_answers_peeks(cluster):
    """After READONLY, with what its primary would say; everything that takes goes to that."""
    taker = ["RL.TOKEN", "k", 5, "1/366d"]
    peek = ["RL.PEEK", *(["TOKEN", *taker[1:]])]
    primary = cluster.owner(key_slot(b"k"))
    (replica,) = cluster.replicas_of(primary)
    with primary.wire() as p, replica.wire() as q:
        for _ in range(5):
            assert p(*taker)[0] == 1
        cluster.settle()
        assert q(*peek).startswith("MOVED ")
        assert q("READONLY") == "OK"
        assert q(*peek)[:3] == [0, 5, 0]
        assert q("RL.INSPECT", "k")[:2] == [b"algorithm", b"token"]
        assert q(*taker).startswith("MOVED ")
        assert q(*WITHIN).startswith("MOVED ")


def test_hash_tags_keep_limits_together(cluster, count):
    """RL.ALL over the keys of one tag, wherever its slot is: all of them or none."""
    names = tags(range(0, SLOTS, SLOTS // TAGS), TAGS)
    with contextlib.closing(cluster.client()) as client:
        for name in names:
            line = ["RL.ALL", "SLIDING", f"{{{name}}}:ip", "31d", 9, "TOKEN", f"{{{name}}}:user"]
            line += [4, "1/366d", "COUNTER", f"{{{name}}}:site", "366d", 20, "COST", 5]
            replies = [client.execute_command(*line) for _ in range(6)]
            assert [reply[0] for reply in replies] == [1, 1, 1, 1, 0, 0]
            assert replies[-1][1] == 1
            assert [clause[2] for clause in replies[-1][2:]] == [5, 0, 0]
    assert assert_replicas_are_equal(cluster) == 3 * len(names)
    count("cluster", commands=6 * len(names))


# --- Load --------------------------------------------------------------------------------------


def load_key(name, quota) -> str:
    return f"{{{name}}}:{quota.name}:{quota.limit}"


class Load:
    """Clients on the keys of some hash tags, each in its own way. Every call gets its answer."""

    WAYS = ("direct", "direct", "all", "multi", "script")

    def __init__(self, cluster, names):
        self.cluster, self.names = cluster, names
        self.kinds = [quota for limit in LIMITS for quota in quotas(limit)]
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self.remaining = defaultdict(list)
        self.taken = defaultdict(int)
        self.quota = {}
        self.commands = 0
        self.redirections = defaultdict(int)
        self.failures = []
        self.threads = [
            threading.Thread(target=self.run, args=each) for each in enumerate(self.WAYS)
        ]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()

    def run(self, number, way) -> None:
        dice = random.Random(number)
        try:
            with (
                contextlib.closing(self.cluster.client()) as client,
                contextlib.closing(Router(self.cluster)) as router,
            ):
                while not self.stopped.is_set():
                    getattr(self, way)(client, router, dice)
                with self.lock:
                    for kind in ("moved", "asked", "tried"):
                        self.redirections[kind] += getattr(router, kind)
        except Exception as failure:  # reported by the main thread, which must see it
            self.failures.append(failure)

    def line(self, dice, name=None):
        """One call, on a key of any tag or of this one."""
        quota = dice.choice(self.kinds)
        key = load_key(name or dice.choice(self.names), quota)
        cost = dice.choice([1, 1, 1, 2])
        with self.lock:
            self.quota[key] = quota
        return key, quota, cost

    def book(self, key, quota, cost, line, reply) -> None:
        allowed = quota.allowed(line, reply)
        with self.lock:
            self.commands += 1
            if allowed:
                self.taken[key] += cost
                self.remaining[key].append(reply[2])

    def direct(self, client, _, dice) -> None:
        key, quota, cost = self.line(dice)
        line = quota.take(key, cost)
        self.book(key, quota, cost, line, client.execute_command(*line))

    def all(self, client, _, dice) -> None:
        """Two keys of one tag, which for a while lie on two nodes."""
        name = dice.choice(self.names)
        clauses = {}
        for _ in range(2):
            key, quota, cost = self.line(dice, name)
            clauses[key] = (key, quota, cost)
        line = ["RL.ALL"]
        for key, quota, cost in clauses.values():
            line += quota.clause(key, cost)
        try:
            reply = client.execute_command(*line)
        except (TryAgainError, ClusterError):  # the client gave up; nothing was done
            return
        with self.lock:
            self.commands += 1
            for (key, _, cost), answer in zip(clauses.values(), reply[2:], strict=True):
                if reply[0]:
                    self.taken[key] += cost
                    self.remaining[key].append(answer[2])

    def multi(self, _, router, dice) -> None:
        name = dice.choice(self.names)
        calls = [self.line(dice, name) for _ in range(4)]
        lines = [quota.take(key, cost) for key, quota, cost in calls]
        replies = router.transaction(calls[0][0], lines)
        for call, line, reply in zip(calls, lines, replies, strict=True):
            self.book(*call, line, reply)

    def script(self, _, router, dice) -> None:
        # One key: with several, a slot that moves key by key can serve a script on neither node.
        key, quota, cost = self.line(dice)
        lines = [quota.take(key, cost)] * 3
        replies = router(key, "EVAL", RUN_ALL, 1, key, as_json(lines))
        assert isinstance(replies, list), replies
        for line, reply in zip(lines, replies, strict=True):
            self.book(key, quota, cost, line, reply)

    def check(self, router) -> None:
        """What was let through is what is counted, to the unit; and it goes on from there."""
        assert not self.failures, self.failures
        assert self.taken
        for key, quota in self.quota.items():
            taken, seen = self.taken[key], self.remaining[key]
            assert taken <= quota.limit, key
            assert len(set(seen)) == len(seen), (key, "one place given away twice")
            assert quota.used(asker(router, key), key) == taken, key
            use_up(router, key, quota, quota.limit - taken)


def use_up(router, key, quota, left) -> None:
    """So much fits, and not a unit more."""
    if left > 1_000 and quota.name == "sorted-set":
        return  # where each unit is a member, one call takes a thousand at most
    for cost, fits in ((left + 1, False), (left, True), (1, False)):
        if cost:
            line = quota.take(key, cost)
            assert quota.allowed(line, router(key, *line)) == fits, (key, cost)


def fill_idle(router, names) -> set[bytes]:
    """Keys that nobody asks while they move: some bytes and some lifetime each."""
    keys = set()
    for i, name in enumerate(names):
        for quota in quotas(100):
            key = f"{{{name}}}:idle:{quota.name}"
            quota.seed(asker(router, key), key)
            line = quota.take(key, 1 + i % 50)
            assert quota.allowed(line, router(key, *line))
            keys.add(key.encode())
    for name in names:
        key = f"{{{name}}}:idle:short"
        assert router(key, "RL.SLIDING", key, "2h", 5)[0] == 1
        keys.add(key.encode())
    return keys


def seed(router, names) -> None:
    """The logs in sorted sets that the load will work on."""
    for name in names:
        for limit in LIMITS:
            for quota in quotas(limit):
                key = load_key(name, quota)
                quota.seed(asker(router, key), key)


def prepare(cluster, router, number):
    """Some slots of the first primary with idle keys; what these are, and another primary."""
    source, target = cluster.primaries()[:2]
    first = min(first for (first, _), port in cluster.owners(source).items() if port == source.port)
    slots = range(first, first + number)
    assert cluster.owner(slots[-1]) is source
    names = tags(slots, TAGS)
    idle = fill_idle(router, names)
    seed(router, names)
    return source, target, slots, names, idle


def test_slots_move_key_by_key_under_load(cluster, router, count):
    """MIGRATING, IMPORTING, MIGRATE: no unit of a limit is lost or given out twice."""
    source, target, slots, names, idle = prepare(cluster, router, MOVED_SLOTS)
    with Load(cluster, names) as load:
        until(lambda: len(load.quota) > len(names) or load.failures, "no load")
        for turn in range(2 * ROUNDS):
            pair = (source, target) if turn % 2 == 0 else (target, source)
            before = pair[0].holds(idle)
            assert before.keys() == idle
            took = {}
            for slot in slots:
                took |= dict(cluster.reshard(slot, *pair))
            after = pair[1].holds(idle)
            for key in idle:
                assert after[key].value == before[key].value, key
                # MIGRATE sends what is left of a lifetime, so it ends later by how long that took.
                later = after[key].expires_at - before[key].expires_at
                assert 0 <= later <= took[key] + 1, key
            if load.failures:
                break
    load.check(router)
    assert load.redirections["moved"] > 0
    assert_replicas_are_equal(cluster)
    count("cluster", slots_moved=2 * ROUNDS * len(slots), commands_while_moving=load.commands)


def test_slots_move_atomically_under_load(cluster, router, binary, count):
    """Valkey's CLUSTER MIGRATESLOTS, which a module has to allow: to the unit and the bit."""
    if not binary.name.startswith("valkey"):
        pytest.skip("CLUSTER MIGRATESLOTS is Valkey's, from 9.0 on")
    source, target, slots, names, idle = prepare(cluster, router, 2 * MOVED_SLOTS)
    step = MOVED_SLOTS // 4
    with Load(cluster, names) as load:
        until(lambda: len(load.quota) > len(names) or load.failures, "no load")
        for turn in range(2 * ROUNDS):
            pair = (source, target) if turn % 2 == 0 else (target, source)
            before = pair[0].holds(idle)
            assert before.keys() == idle
            for first in slots[::step]:
                cluster.migrate(first, min(first + step - 1, slots[-1]), *pair)
            assert pair[1].holds(idle) == before
            if load.failures:
                break
    load.check(router)
    assert load.redirections["moved"] > 0
    assert_replicas_are_equal(cluster)
    count(
        "cluster",
        slots_moved_atomically=2 * ROUNDS * len(slots),
        commands_while_moving=load.commands,
    )


# --- Failover ----------------------------------------------------------------------------------


class Confirmed(Load):
    """Each call is followed by WAIT: what the replica has is known, call by call.

    A connection that breaks, and a node that is no primary any more, end the client.
    """

    WAYS = ("confirm",) * 3

    def __init__(self, cluster, names):
        super().__init__(cluster, names)
        self.open = defaultdict(int)  # key: cost that a replica may have or not

    def confirm(self, _, router, dice) -> None:
        key, quota, cost = self.line(dice)
        line = quota.take(key, cost)
        try:
            wire = router.wire(self.cluster.doomed.port)
            reply, replicas = wire.pipeline([line, ["WAIT", 1, 1_000]])
        except OSError:
            with self.lock:
                self.open[key] += cost
            self.stopped.set()
            return
        if isinstance(reply, Failure):
            assert reply.startswith(("MOVED", "CLUSTERDOWN")), reply
            self.stopped.set()
        elif replicas == 1:
            self.book(key, quota, cost, line, reply)
        elif quota.allowed(line, reply):
            with self.lock:
                self.open[key] += cost

    def check(self, router) -> None:
        assert not self.failures, self.failures
        assert self.taken
        for key, quota in self.quota.items():
            used = quota.used(asker(router, key), key)
            assert self.taken[key] <= used <= self.taken[key] + self.open[key], key
            assert used <= quota.limit, key
            use_up(router, key, quota, quota.limit - used)


def is_forgotten(cluster, dead) -> bool:
    """Do all that are left know that somebody else owns its slots?"""
    return all(dead.port not in cluster.owners(node).values() for node in cluster.alive())


def kill_a_primary(cluster, doomed) -> int:
    """kill -9 under load, and back again as a replica; the number of calls that were confirmed."""
    cluster.doomed = doomed
    (heir,) = cluster.replicas_of(doomed)
    first, last = next(s for s, port in cluster.owners(doomed).items() if port == doomed.port)
    names = tags(range(first, min(last + 1, first + 200), 7), TAGS)
    with contextlib.closing(Router(cluster)) as router:
        idle = fill_idle(router, names)
        seed(router, names)
    before = doomed.holds(idle)
    assert before.keys() == idle
    with Confirmed(cluster, names) as load:
        until(lambda: load.commands > 500 or load.failures, "no load")
        doomed.kill()
    until(heir.is_primary, "nobody takes over", pause=0.05)
    until(lambda: is_forgotten(cluster, doomed), "the others do not learn of it", pause=0.05)
    until(lambda: heir.info()["cluster_state"] == "ok", "no failover", pause=0.05)
    assert heir.holds(idle) == before
    with contextlib.closing(Router(cluster)) as router:
        load.check(router)
    doomed.start()
    cluster.settle()
    assert not doomed.is_primary()
    assert_replicas_are_equal(cluster)
    return load.commands


def test_limits_hold_when_a_primary_dies(cluster, count):
    """What a replica has confirmed is counted by the one that takes over, and no more than that.

    The idle keys are the same to the bit, their expiry included.
    """
    for turn in range(KILLS):
        for node in cluster.primaries():
            assert node.ask("FLUSHALL") == "OK"
        commands = kill_a_primary(cluster, cluster.primaries()[turn % 3])
        count("cluster", failovers=1, confirmed_commands=commands)
