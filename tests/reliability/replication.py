"""Primaries and replicas: how far they are, and whether they hold the same."""

from waiting import until
from workload import everything

# Nothing but our own traffic may move the replication offset: no PING from the primary.
PRIMARY = ("repl-ping-replica-period 3600", "repl-diskless-sync-delay 0")


def replication(server) -> dict:
    with server.client() as client:
        return client.info("replication")


def is_in_step(primary, replica) -> bool:
    state = replication(replica)
    offset = replication(primary)["master_repl_offset"]
    return state["master_link_status"] == "up" and state["slave_repl_offset"] == offset


def follows(primary, replica) -> bool:
    """Is it a replica of this primary, connected? (Under load it is never quite level.)"""
    state = replication(replica)
    return state.get("master_port") == primary.port and state["master_link_status"] == "up"


def differences(primary, replicas, db, look=everything) -> dict:
    """Keys that are not the same on all, with what they are on each."""
    for replica in replicas:
        until(lambda of=replica: is_in_step(primary, of), "the replica does not catch up")
    # The replicas are read first: while the primary has a key, so had they a moment ago.
    sides = [look(replica, db) for replica in replicas]
    truth = look(primary, db)
    # What the primary has let go of since then must be gone on them, too.
    expired = set().union(*sides) - set(truth)
    if expired:
        for side, replica in zip(sides, replicas, strict=True):
            still = look(replica, db)
            for key in expired - set(still):
                side.pop(key, None)
    return {
        key: (truth.get(key), *(side.get(key) for side in sides))
        for key in set(truth).union(*sides)
        if any(side.get(key) != truth.get(key) for side in sides)
    }


def changes(server) -> tuple[int, int]:
    """The replication offset, and the count of changes that leads to the next save."""
    with server.client() as client:
        return (
            client.info("replication")["master_repl_offset"],
            client.info("persistence")["rdb_changes_since_last_save"],
        )
