"""A primary and its replica, which has never heard of the module."""

from limiters import held
from waiting import until

# Nothing but our own traffic may move the replication offset: no PING from the primary.
PRIMARY = ("repl-ping-replica-period 3600", "repl-diskless-sync-delay 0")

CORE_WRITES = {"set", "setrange", "append", "pexpireat", "del", "unlink", "zadd"}
CORE_WRITES |= {"zremrangebyscore"}
AROUND = {"multi", "exec", "select", "ping", "info", "replconf", "config", "config|resetstat"}


class Pair:
    """`p` is a client of the primary, `q` one of the replica."""

    def __init__(self, spawn, *, arguments="", module_on_replica=False):
        self.primary = spawn(*PRIMARY, arguments=arguments)
        self.replica = spawn(module=module_on_replica)
        self.p, self.q = self.primary.client(), self.replica.client()
        self.q.replicaof("127.0.0.1", self.primary.port)
        until(lambda: self.q.info("replication")["master_link_status"] == "up", "no link")
        self.empty()

    def empty(self) -> None:
        """Nothing but one key, so that the SELECT which precedes the first write is behind us."""
        self.p.flushall()
        self.p.set("first", "one")
        self.settle()

    def offset(self) -> int:
        return self.p.info("replication")["master_repl_offset"]

    def settle(self) -> None:
        """Wait until the replica has all that the primary sent."""
        until(
            lambda: self.q.info("replication")["slave_repl_offset"] == self.offset(),
            "the replica does not catch up",
        )

    def assert_equal(self) -> None:
        """Every key of either side, value and absolute expiry.

        The replica is read first: while the primary has a key, so had the replica a moment ago.
        What the primary has let go in between must be gone on the replica too.
        """
        self.settle()
        keys = {*self.p.keys(), *self.q.keys()}
        assert keys
        for key in keys:
            on_replica, on_primary = held(self.q, key), held(self.p, key)
            if on_primary.dump is None:
                on_replica = held(self.q, key)
            assert on_replica == on_primary, key

    def close(self) -> None:
        self.p.close()
        self.q.close()
