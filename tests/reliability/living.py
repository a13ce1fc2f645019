"""Takes and looks of every kind and each way to call them: for living with a server."""

import pytest

from wire import Failure
from workload import quotas

LIMIT = 10
QUOTAS = {quota.name: quota for quota in quotas(LIMIT)}
# Everything that writes, taking 4 of 10 from each of these keys.
TAKES = {name: [name] for name in QUOTAS} | {"all": ["first", "second"]}
SCRIPT = "return redis.call(unpack(ARGV))"
CODES = ("READONLY", "NOREPLICAS", "MISCONF", "OOM", "NOPERM", "MASTERDOWN")


def take(name, cost=4) -> list:
    if name in QUOTAS:
        return QUOTAS[name].take(name, cost)
    clauses = QUOTAS["fixed"].clause("first", cost), QUOTAS["token"].clause("second", cost)
    return ["RL.ALL", *clauses[0], *clauses[1]]


def looks() -> list[list]:
    peeks = [quota.peek(quota.name) for quota in QUOTAS.values()]
    return peeks + [["RL.INSPECT", key] for keys in TAKES.values() for key in keys]


def seed(wire) -> None:
    for quota in QUOTAS.values():
        quota.seed(wire, quota.name)


def fill(wire) -> None:
    """Every key is there, and has 6 of 10 left."""
    seed(wire)
    for name in TAKES:
        assert isinstance(wire(*take(name)), list), name


def ways(wire, line, scripts=True) -> list:
    """The replies to one line: on its own, in a transaction, from a script."""
    _, queued, executed = wire.pipeline([["MULTI"], line, ["EXEC"]])
    if isinstance(queued, Failure):
        assert executed.startswith("EXECABORT"), executed
    elif isinstance(executed, Failure):  # refused as a whole
        queued = executed
    else:
        queued = executed[0]
    replies = [wire(*line), queued]
    return replies + ([wire("EVAL", SCRIPT, 1, line[1], *line)] if scripts else [])


def code(reply) -> str:
    """What an error is about: also from a script, where 6.2 and 7.0 wrap it in their own words."""
    assert isinstance(reply, Failure), reply
    return next((code for code in CODES if code in reply), str(reply))


each_write = pytest.mark.parametrize("name", TAKES)
