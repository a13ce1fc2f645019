"""Where the server says no, we say no in its words, and nothing is half done.

Issue 4, point 8.
"""

import contextlib
import os
import resource
import signal
from dataclasses import replace

import pytest

from forms import form
from limiters import five_integers
from living import LIMIT, QUOTAS, SCRIPT, TAKES, code, each_write, fill, looks, seed, take, ways
from replication import PRIMARY, changes, is_in_step
from servers import Server
from waiting import until
from wire import Failure, Push
from workload import Pipe, everything

# --- WATCH and client-side caching ---------------------------------------------------------------


def executes_after(server, watched, line) -> bool:
    """Does a transaction that watches these keys still run after somebody else's call?"""
    with server.wire() as watcher, server.wire() as other:
        assert watcher("WATCH", *watched) == "OK"
        other(*line)
        *_, executed = watcher.pipeline([["MULTI"], ["ECHO", "done"], ["EXEC"]])
        assert executed in (None, [b"done"])
        return executed is not None


@each_write
def test_watch(server, wire, count, name):
    """An allowed call aborts those that watch a key of it; denied ones, looks, errors do not."""
    seed(wire)
    keys = TAKES[name]
    assert not executes_after(server, keys, take(name))
    assert not executes_after(server, keys[-1:], take(name))
    before = everything(server)
    harmless = [take(name), take(name, LIMIT + 1), [*take(name), "wrong"], ["RL.INSPECT", keys[0]]]
    harmless += [quota.peek(keys[0]) for quota in QUOTAS.values()]
    harmless.append(["RL.ALL", *QUOTAS["fixed"].clause("fresh"), *QUOTAS["leaky"].clause("k", 11)])
    if name == "throttle":
        harmless.append(take(name, 0))
    for line in harmless:
        assert executes_after(server, [*keys, "fresh", "k"], line), line
    assert everything(server) == before
    count("living", watched_transactions=2 + len(harmless))


class Tracker:
    """A client of RESP3 that caches what it reads."""

    def __init__(self, server, *mode):
        self.wire = server.wire(protocol=3)
        self.writer = server.wire()
        assert self.wire("CLIENT", "TRACKING", "ON", *mode) == "OK"

    def close(self):
        self.wire.close()
        self.writer.close()

    def read(self, *line):
        assert not isinstance(reply := self.wire(*line), Push | Failure), (line, reply)

    def invalidated_by(self, *line) -> set:
        """Runs the line for somebody else: of the keys that were read, those to read again."""
        self.read("GET", "marker")
        self.writer(*line)
        self.writer("SET", "marker", "x")
        keys = set()
        while b"marker" not in keys:
            push = self.wire.read()
            assert isinstance(push, Push), push
            assert push[0] == b"invalidate"
            keys.update(push[1])
        return keys - {b"marker"}


@pytest.mark.parametrize("mode", [[], ["BCAST"]], ids=["default", "broadcast"])
@each_write
def test_tracking(server, wire, count, mode, name):
    """What RL.PEEK or RL.INSPECT read is invalidated by allowed calls, and by no others."""
    seed(wire)
    keys = TAKES[name]
    told = {key.encode() for key in keys}
    asked = {"first": QUOTAS["fixed"], "second": QUOTAS["token"]} | QUOTAS
    harmless = [take(name), take(name, LIMIT + 1), [*take(name), "wrong"], ["RL.INSPECT", keys[0]]]
    with contextlib.closing(Tracker(server, *mode)) as tracker:
        for key in keys:
            tracker.read(*asked[key].peek(key))
        assert tracker.invalidated_by(*take(name)) == told  # 4 of 10
        for key in keys:
            tracker.read("RL.INSPECT", key)
        assert tracker.invalidated_by(*take(name)) == told  # 8 of 10
        for line in harmless:
            for key in keys:
                tracker.read(*asked[key].peek(key))
            assert tracker.invalidated_by(*line) == set(), line
    count("living", tracked_calls=2 + len(harmless))


def test_tracking_without_loop(server, wire):
    """With NOLOOP a client is not told of what it changed itself."""
    seed(wire)
    with server.wire(protocol=3) as caller:
        assert caller("CLIENT", "TRACKING", "ON", "NOLOOP") == "OK"
        for name, quota in QUOTAS.items():
            if name == "sorted-set" and server.binary.version < (7, 0):
                continue  # 6.2 takes a change that a module has it make for somebody else's
            assert five_integers(caller(*quota.peek(name)))
            assert five_integers(caller(*take(name)))
            assert caller("PING") == "PONG", name  # and no push before it


# --- WAIT ----------------------------------------------------------------------------------------


def test_wait(spawn, count):
    """WAIT after a take waits for a replica to have it, as after SET."""
    names = form(["sliding", "sorted-set", "all"], list(TAKES))
    primary, replica = spawn(*PRIMARY), spawn()
    with primary.wire() as wire, replica.wire() as other:
        fill(wire)
        other("REPLICAOF", "127.0.0.1", primary.port)
        until(lambda: is_in_step(primary, replica), "the replica does not come up")
        for name in names:
            os.kill(replica.process.pid, signal.SIGSTOP)
            try:
                assert isinstance(wire(*take(name, 1)), list)
                assert wire("WAIT", 1, 1) == 0, name
            finally:
                os.kill(replica.process.pid, signal.SIGCONT)
            assert isinstance(wire(*take(name, 1)), list)
            assert wire("WAIT", 1, 60_000) == 1, name
            for key in TAKES[name]:
                assert other("DUMP", key) == wire("DUMP", key), name
    count("living", waits=2 * len(names))


# --- CLIENT PAUSE --------------------------------------------------------------------------------


def test_client_pause_write(server, wire, count):
    """Whoever would take waits, also if it would be denied; whoever looks is answered."""
    fill(wire)
    waiting = []
    for name in TAKES:
        for line in (take(name), take(name, LIMIT + 1)):
            waiting.append((name, line, [line]))
            waiting.append((name, line, [["MULTI"], line, ["EXEC"]]))
            waiting.append((name, line, [["EVAL", SCRIPT, 1, line[1], *line]]))
    verdicts = {name: [] for name in TAKES}
    with contextlib.ExitStack() as stack:
        pipes = [stack.enter_context(Pipe(server.port)) for _ in waiting]
        ids = {pipe("CLIENT", "ID") for pipe in pipes}
        stack.callback(wire, "CLIENT", "UNPAUSE")
        before, moved = everything(server), changes(server)
        assert wire("CLIENT", "PAUSE", 60_000, "WRITE") == "OK"
        for pipe, (_, _, lines) in zip(pipes, waiting, strict=True):
            pipe.send_all(lines)
        until(lambda: ids <= blocked(wire), "not everybody waits")
        for line in looks():
            assert isinstance(reply := wire(*line), list), (line, reply)
            if server.binary.version >= (7, 0):
                script = f"#!lua flags=no-writes\n{SCRIPT}"
                assert isinstance(reply := wire("EVAL", script, 0, *line), list), (line, reply)
        assert everything(server) == before
        assert changes(server) == moved
        assert ids <= blocked(wire)
        assert wire("CLIENT", "UNPAUSE") == "OK"
        for pipe, (name, line, lines) in zip(pipes, waiting, strict=True):
            *_, reply = [pipe.read() for _ in lines]
            verdict = reply[0] if lines[-1] == ["EXEC"] else reply
            verdicts[name].append((line == take(name), QUOTAS["fixed"].allowed(line, verdict)))
    # Of three that wanted 4 there were 6 left for one, whichever it was. None got 11.
    for name, found in verdicts.items():
        assert sorted(found) == [(False, False)] * 3 + [(True, False)] * 2 + [(True, True)], name
    count("living", paused_calls=len(waiting))


def blocked(wire) -> set[int]:
    """The ids of the clients that wait."""
    found = set()
    for line in wire("CLIENT", "LIST").decode().splitlines():
        fields = dict(field.split("=", 1) for field in line.split(" "))
        if "b" in fields["flags"]:
            found.add(int(fields["id"]))
    return found


# --- States in which a server refuses to write ---------------------------------------------------


# Each prepares a server and yields it with the code of its refusals, begins to refuse and yields
# again, and at last writes again. What is left is run at the end.


def too_few_replicas(spawn, *_):
    server = spawn()
    with server.wire() as wire:
        fill(wire)
        yield server, "NOREPLICAS"
        wire("CONFIG", "SET", "min-replicas-to-write", 1)
        yield
        wire("CONFIG", "SET", "min-replicas-to-write", 0)


def failed_snapshot(spawn, *_):
    """The snapshot cannot be put where it belongs: there is a directory of that name."""
    server = spawn("save 3600 1")
    with server.wire() as wire:
        fill(wire)
        yield server, "MISCONF"
        inside = server.directory / "dump.rdb" / "x"
        inside.mkdir(parents=True)
        wire("BGSAVE")
        until(lambda: b"bgsave_status:err" in wire("INFO", "persistence"), "the snapshot worked")
        yield
        inside.rmdir()
        inside.parent.rmdir()
        assert wire("SAVE") == "OK"


def failing_log(_, binary, directory):
    """The append-only file may not grow: to the server its disk is full."""
    shielded = directory / "server"  # the signal that comes with it would end the server
    shielded.write_text(f"#!/bin/sh\ntrap '' XFSZ\nexec {binary.path} \"$@\"\n")
    shielded.chmod(0o755)
    server = Server(replace(binary, path=shielded), ["appendonly yes", "appendfsync everysec"])
    try:
        with server.wire() as wire:
            fill(wire)
            large = ["SET", "large", "x" * 1_000_000]  # so that no other file comes near
            wire(*large)
            yield server, "MISCONF"
            size = max(path.stat().st_size for path in server.directory.rglob("*.aof"))
            free = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size + 9, free[1]))
            wire(*large)
            until(lambda: b"last_write_status:err" in wire("INFO", "persistence"), "no error")
            yield
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, free)
            until(lambda: b"last_write_status:ok" in wire("INFO", "persistence"), "no recovery")
            yield
        held_before = everything(server)
        server.stop()
        server.start()
        assert everything(server) == held_before
        assert not server.trouble()
    finally:
        server.remove()


def full_memory(spawn, *_):
    server = spawn("maxmemory-policy noeviction")
    with server.wire() as wire:
        fill(wire)
        for i in range(50):
            wire.pipeline(quota.take(f"{quota.name} {i}") for quota in QUOTAS.values())
        yield server, "OOM"
        wire("CONFIG", "SET", "maxmemory", 1)
        yield
        wire("CONFIG", "SET", "maxmemory", 0)


def read_only_replica(spawn, *_):
    primary, replica = spawn(*PRIMARY), spawn()
    with primary.wire() as wire, replica.wire() as other:
        fill(wire)
        other("REPLICAOF", "127.0.0.1", primary.port)
        until(lambda: is_in_step(primary, replica), "the replica does not come up")
        yield replica, "READONLY"
        yield
        other("REPLICAOF", "NO", "ONE")


def dumps(wire) -> dict:
    """The value and the presence of an expiry of every key; asked without MULTI or a script."""
    keys = wire("KEYS", "*")
    return {key: (wire("DUMP", key), wire("PTTL", key) > 0) for key in keys}


STATES = [too_few_replicas, failed_snapshot, failing_log, full_memory, read_only_replica]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__.replace("_", " "))
def test_a_server_that_refuses_to_write(spawn, binary, tmp_path, count, state):
    """Takes are refused as SET is, looks are answered where GET is; no key changes.

    On their own, in MULTI and from scripts. What would be denied is refused, too: a server asks
    only whether a command may write. Afterwards every key gives exactly what it had left.
    """
    with contextlib.closing(state(spawn, binary, tmp_path)) as steps:
        server, why = next(steps)
        before = everything(server)
        next(steps)
        moved = changes(server)
        with server.wire() as wire:
            during = dumps(wire)
            assert set(during) == set(before)
            # (6.2 does not count its replicas for what a script writes, by SET or by us.)
            scripts = why != "NOREPLICAS" or server.binary.version >= (7, 0)
            set_refused = [code(reply) for reply in ways(wire, ["SET", "fresh", "x"], scripts)]
            assert set(set_refused) == {why}
            for name in TAKES:
                for cost in (1, 4, LIMIT + 1):
                    refused = [code(reply) for reply in ways(wire, take(name, cost), scripts)]
                    assert refused == set_refused, name
            get_answered = [
                not isinstance(reply, Failure) for reply in ways(wire, ["GET", "fresh"])
            ]
            assert get_answered[0]
            for line in looks():
                answered = [isinstance(reply, list) for reply in ways(wire, line)]
                assert answered == get_answered, line
            assert dumps(wire) == during
            assert changes(server) == moved
            next(steps, None)
            assert everything(server) == before
            for name in TAKES:
                for cost, allowed in ((7, False), (6, True), (1, False)):
                    line = take(name, cost)
                    assert QUOTAS["fixed"].allowed(line, wire(*line)) == allowed, name
        next(steps, None)
    count("living", refused_calls=9 * len(TAKES))


def test_replica_without_its_primary(spawn):
    """With `replica-serve-stale-data no` looks are refused as GET is, takes as SET is."""
    server = spawn("replica-serve-stale-data no")
    with server.wire() as wire:
        fill(wire)
        before = everything(server)
        wire("REPLICAOF", "127.0.0.1", 1)  # where nobody is
        refused = [code(wire("GET", "k")), code(wire("SET", "k", "x"))]
        assert refused[0] == "MASTERDOWN"
        for line in looks():
            assert code(wire(*line)) == refused[0], line
        for name in TAKES:
            assert code(wire(*take(name))) == refused[1], name
        wire("REPLICAOF", "NO", "ONE")
    assert everything(server) == before


def test_writable_replica_keeps_to_itself(spawn):
    """With `replica-read-only no` it decides for itself; the primary does not hear of it."""
    primary, replica = spawn(*PRIMARY), spawn("replica-read-only no")
    with primary.wire() as wire, replica.wire() as other:
        fill(wire)
        other("REPLICAOF", "127.0.0.1", primary.port)
        until(lambda: is_in_step(primary, replica), "the replica does not come up")
        before, moved = everything(primary), changes(primary)
        for name in TAKES:
            line = take(name, 6)
            assert [QUOTAS["fixed"].allowed(line, other(*line)) for _ in "12"] == [True, False]
        assert everything(primary) == before
        assert changes(primary) == moved
