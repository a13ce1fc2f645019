"""A cluster of three primaries and three replicas, and a client that tells which way it took.

Formed by hand: `CLUSTER MEET`, `ADDSLOTSRANGE`, `REPLICATE`. From Redis 7.0 on, which lets the port
of the cluster bus be chosen.
"""

import contextlib
import time
from functools import partial

from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.crc import key_slot
from redis.retry import Retry

from servers import Binary, Server, free_port
from waiting import until
from wire import Failure, Wire
from workload import Content

SLOTS = 16_384
NODE_TIMEOUT = 2_000  # ms
PATIENCE = 60  # seconds until a cluster must have come to an agreement


class Node(Server):
    """A server with `cluster-enabled`; started again it comes back where it was."""

    def __init__(self, binary: Binary, config=()):
        self.bus = 0
        self.own = [
            "cluster-enabled yes",
            f"cluster-node-timeout {NODE_TIMEOUT}",
            "cluster-replica-validity-factor 0",
            "cluster-require-full-coverage no",
            "repl-diskless-sync-delay 0",
            *config,
        ]
        super().__init__(binary)

    def start(self, module: bool = True) -> None:
        if not self.port:
            return super().start(module)
        self._launch(module)
        assert self._ready(), self.log_tail()
        return None

    def _launch(self, module: bool) -> None:
        if not self.bus or not (self.directory / "nodes.conf").exists():
            self.bus = free_port()
        self.config = self.own
        if self.binary.version >= (7, 0):
            self.config = [*self.own, f"cluster-port {self.bus}"]
        super()._launch(module)

    def kill(self) -> None:
        """As by kill -9: nothing is said to anybody, nothing is saved."""
        self.process.kill()
        self.process.wait()
        self.process = None

    def ask(self, *command):
        with self.wire() as wire:
            return wire(*command)

    def info(self) -> dict[str, str]:
        lines = self.ask("CLUSTER", "INFO").decode().split()
        return dict(line.split(":", 1) for line in lines)

    def id(self) -> str:
        return self.ask("CLUSTER", "MYID").decode()

    def role(self) -> list:
        return self.ask("ROLE")

    def joins(self, primary: str) -> bool:
        """Becomes a replica of the one with this id, as soon as it has heard of it."""
        known = self.ask("CLUSTER", "NODES").decode()
        return primary in known and self.ask("CLUSTER", "REPLICATE", primary) == "OK"

    def holds(self, keys=None) -> dict[bytes, Content]:
        """These keys, or all: the value, not as it is encoded, and when it expires."""
        with self.wire() as wire:
            assert wire("READONLY") == "OK"
            keys = list(wire("KEYS", "*") if keys is None else keys)
            kinds = wire.pipeline(["TYPE", key] for key in keys)
            values = wire.pipeline(
                ["ZRANGE", key, 0, -1, "WITHSCORES"] if kind == "zset" else ["DUMP", key]
                for key, kind in zip(keys, kinds, strict=True)
            )
            expiries = wire.pipeline(["PEXPIRETIME", key] for key in keys)
        return {
            key: Content(value, expires_at)
            for key, value, expires_at in zip(keys, values, expiries, strict=True)
            if value
        }

    def is_primary(self) -> bool:
        return self.role()[0] == b"master"

    def is_in_step(self) -> bool:
        """As a replica: connected, and all that its primary sent is here."""
        kind, _, port, state, offset = self.role()
        if kind != b"slave" or state != b"connected":
            return False
        with Wire(port) as wire:
            return wire("ROLE")[1] == offset


class Cluster:
    """Three primaries with a third of the slots each, and a replica for each of them."""

    def __init__(self, binary: Binary, config=()):
        self.nodes = []
        try:
            for _ in range(6):
                self.nodes.append(Node(binary, config))
            self._form()
        except BaseException:
            self.remove()
            raise

    def _form(self) -> None:
        first = self.nodes[0]
        for epoch, node in enumerate(self.nodes, 1):
            assert node.ask("CLUSTER", "SET-CONFIG-EPOCH", epoch) == "OK"
        for node in self.nodes[1:]:
            assert first.ask("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus) == "OK"
        share = -(-SLOTS // 3)
        primaries, replicas = self.nodes[:3], self.nodes[3:]
        for i, node in enumerate(primaries):
            start, end = i * share, min((i + 1) * share, SLOTS) - 1
            assert node.ask("CLUSTER", "ADDSLOTSRANGE", start, end) == "OK"
        for replica, primary in zip(replicas, primaries, strict=True):
            until(partial(replica.joins, primary.id()), "the nodes do not meet", PATIENCE)
        self.settle()

    def alive(self) -> list[Node]:
        return [node for node in self.nodes if node.alive()]

    def primaries(self) -> list[Node]:
        return [node for node in self.alive() if node.is_primary()]

    def replicas_of(self, primary: Node) -> list[Node]:
        return [
            node
            for node in self.alive()
            if (role := node.role())[0] == b"slave" and role[2] == primary.port
        ]

    def owners(self, node: Node) -> dict[tuple[int, int], int]:
        """Who owns which slots, as this node sees it."""
        return {(first, last): owner[1] for first, last, owner, *_ in node.ask("CLUSTER", "SLOTS")}

    def is_settled(self) -> bool:
        alive = self.alive()
        views = [self.owners(node) for node in alive]
        return (
            all(node.info()["cluster_state"] == "ok" for node in alive)
            and all(view == views[0] for view in views)
            and sum(last - first + 1 for first, last in views[0]) == SLOTS
            and all(node.is_primary() or node.is_in_step() for node in alive)
            and all(self.replicas_of(node) for node in self.primaries())
            and all(
                line.split()[7] == "connected" and "fail" not in line.split()[2]
                for node in alive
                for line in node.ask("CLUSTER", "NODES").decode().splitlines()
                if "noaddr" not in line
            )
            and all(int(node.info()["cluster_known_nodes"]) == len(self.nodes) for node in alive)
        )

    def settle(self) -> None:
        """All agree who owns what, every primary has a replica, every replica has all."""
        until(self.is_settled, "the cluster does not settle", PATIENCE, pause=0.05)

    def owner(self, slot: int) -> Node:
        for (first, last), port in self.owners(self.alive()[0]).items():
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == port)
        raise AssertionError(f"nobody owns slot {slot}")

    def client(self, **options) -> RedisCluster:
        """A redis-py cluster client. It follows MOVED and ASK, and repeats nothing else."""
        return RedisCluster(
            startup_nodes=[ClusterNode("127.0.0.1", node.port) for node in self.alive()],
            protocol=2,
            socket_timeout=60,
            retry=Retry(NoBackoff(), 0),
            **options,
        )

    # --- Moving slots --------------------------------------------------------------------------

    def reshard(self, slot: int, source: Node, target: Node) -> list[tuple[bytes, int, int]]:
        """The classic way, key by key. Returns each key with the milliseconds that its move took.

        Those are measured from before to after the MIGRATE on one clock: start and duration.
        """
        moved = []
        source_id, target_id = source.id(), target.id()
        with source.wire() as old, target.wire() as new:
            assert new("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id) == "OK"
            assert old("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id) == "OK"
            while keys := old("CLUSTER", "GETKEYSINSLOT", slot, 10):
                start = time.time_ns()
                host = ["127.0.0.1", target.port]
                reply = old("MIGRATE", *host, "", 0, 30_000, "KEYS", *keys)
                took = -(-(time.time_ns() - start) // 1_000_000)
                assert reply in ("OK", "NOKEY"), reply
                moved += [(key, took) for key in keys]
            for node in (target, source, *self.primaries()):
                assert node.ask("CLUSTER", "SETSLOT", slot, "NODE", target_id) == "OK"
        return moved

    def migrate(self, first: int, last: int, source: Node, target: Node) -> None:
        """Valkey's atomic slot migration, of a range of slots."""
        slots = ["SLOTSRANGE", first, last, "NODE", target.id()]
        with source.wire() as wire:
            assert wire("CLUSTER", "MIGRATESLOTS", *slots) == "OK"
            until(lambda: self._is_migrated(wire), "the slots do not move", PATIENCE)

    @staticmethod
    def _is_migrated(wire) -> bool:
        newest = wire("CLUSTER", "GETSLOTMIGRATIONS")[0]
        job = dict(zip(newest[::2], newest[1::2], strict=True))
        assert job[b"state"] not in (b"failed", b"cancelled"), job
        return job[b"state"] == b"success"

    def remove(self) -> None:
        for node in self.nodes:
            node.remove()

    def trouble(self) -> list[str]:
        return [line for node in self.nodes for line in node.trouble()]


class Router:
    """A bare client for what has to go to one node in one piece: transactions and scripts.

    Counts the redirections that it followed.
    """

    def __init__(self, cluster: Cluster):
        self.ports = [node.port for node in cluster.alive()]
        self.wires: dict[int, Wire] = {}
        self.owner: dict[int, int] = {}  # slot: port
        self.moved = self.asked = self.tried = 0

    def close(self) -> None:
        for wire in self.wires.values():
            wire.close()

    def wire(self, port: int) -> Wire:
        if port not in self.wires:
            self.wires[port] = Wire(port)
        return self.wires[port]

    def __call__(self, key, *command):
        """One command on the slot of this key, wherever that is now."""
        return self.together(key, [command])

    def transaction(self, key, commands) -> list:
        """The same in one MULTI/EXEC."""
        return self.together(key, [["MULTI"], *commands, ["EXEC"]])

    def together(self, key, commands):
        """These in one go to one node; the last one's reply. Only a redirection is followed."""
        slot = key_slot(str(key).encode())
        port, asking = self.owner.get(slot, self.ports[0]), False
        deadline = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < deadline, (key, commands)
            wire = self.wire(port)
            if asking and len(commands) == 1:
                replies = wire.pipeline([["ASKING"], *commands])[1:]
            else:
                replies = wire.pipeline(commands)
            redirection = next((reply for reply in replies if self.is_redirection(reply)), None)
            if redirection is None:
                return replies[-1]
            # In a transaction it comes when a command is queued, and EXEC does nothing then; or it
            # is what EXEC answers, which has done nothing either.
            refusal = replies[-1]
            assert self.is_redirection(refusal) or refusal.startswith("EXECABORT"), replies
            word, _, place = redirection.partition(" ")
            asking = False
            if word == "MOVED":
                self.moved += 1
                port = self.owner[slot] = int(place.rpartition(":")[2])
            elif word == "ASK" and len(commands) == 1:
                self.asked += 1
                port, asking = int(place.rpartition(":")[2]), True
            else:  # a transaction waits until its slot has moved
                self.tried += 1
                port = self.owner.get(slot, self.ports[0])
                time.sleep(0.001)

    @staticmethod
    def is_redirection(reply) -> bool:
        words = ("MOVED ", "ASK ", "TRYAGAIN", "CLUSTERDOWN")
        return isinstance(reply, Failure) and reply.startswith(words)


def tags(slots: range, number: int) -> list[str]:
    """So many hash tags whose slots lie in a range, spread over it."""
    found: dict[int, list[str]] = {slot: [] for slot in slots}
    each = -(-number // len(slots))
    i = 0
    while any(len(names) < each for names in found.values()):
        name = f"t{i}"
        i += 1
        slot = key_slot(name.encode())
        if slot in found and len(found[slot]) < each:
            found[slot].append(name)
    return [name for names in found.values() for name in names][:number]


@contextlib.contextmanager
def single(binary: Binary):
    """One node that owns every slot: enough to see what a cluster refuses."""
    node = Node(binary)
    try:
        for start in range(0, SLOTS, 2_048):
            slots = range(start, start + 2_048)
            assert node.ask("CLUSTER", "ADDSLOTS", *slots) == "OK"
        until(lambda: node.info()["cluster_state"] == "ok", "the node does not come up")
        yield node
        assert not node.trouble()
    finally:
        node.remove()
