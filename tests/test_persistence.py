"""Restarts from RDB and AOF, with and without the module: same bytes, lifetimes, decisions."""

import random
import time

import pytest

from limiters import LIMITERS, held

NOW = 1_699_999_200_000
REWRITE_DEADLINE = 60

AOF = ("appendonly yes", "appendfsync everysec")


def fill(server) -> None:
    """Each algorithm's keys in many states: fresh, full, moved back, long and nearly empty."""
    dice = random.Random(17)
    with server.wire() as wire:
        for limiter in LIMITERS:
            now = NOW
            for _ in range(400):
                now += dice.choice([0, 1, 30, 500, -100])
                key = f"{limiter.word}:{dice.randrange(4)}"
                wire(*limiter.call(key, 50, seconds=600, cost=dice.choice([1, 1, 5]), at=now))
            wire(*limiter.call(f"{limiter.word}:moved", 1, seconds=600, at=NOW + 10_000_000))
            wire(*limiter.call(f"{limiter.word}:moved", 1, seconds=600, at=NOW))
            wire(*limiter.call(f"{limiter.word}:clock", 5, seconds="1d"))


def everything(server) -> dict:
    with server.client() as client:
        return {key: held(client, key) for key in sorted(client.keys())}


def decisions(server) -> list:
    """What the keys decide from here on; asked of copies, so that it can be asked again."""
    replies = []
    with server.wire() as wire:
        for limiter in LIMITERS:
            for name in (0, 1, 2, 3, "moved"):
                for cost in (1, 3, 40):
                    for later in (0, 7, 20_000, 300_000, 700_000):
                        wire("COPY", f"{limiter.word}:{name}", "probe", "REPLACE")
                        line = limiter.call("probe", 50, seconds=600, cost=cost, at=NOW + later)
                        replies.append(wire(*line))
        wire("DEL", "probe")
    return replies


def restart(server, module: bool) -> None:
    server.stop()
    server.start(module=module)


def check_restarts(server) -> None:
    """Down and up again without the module, then with it: nothing may differ."""
    before, expected = everything(server), decisions(server)
    assert len(before) == len(LIMITERS) * 6
    assert {reply[0] for reply in expected} == {0, 1}
    restart(server, module=False)
    assert everything(server) == before
    restart(server, module=True)
    assert everything(server) == before
    assert decisions(server) == expected
    assert everything(server) == before


def test_rdb(spawn):
    server = spawn("save 3600 1")  # with a save point, a server told to stop saves first
    fill(server)
    check_restarts(server)


def test_aof(spawn):
    """The log holds core commands only, so a server without the module can replay it."""
    server = spawn(*AOF)
    fill(server)
    check_restarts(server)


def rewrite(client) -> None:
    client.bgrewriteaof()
    deadline = time.monotonic() + REWRITE_DEADLINE
    while True:
        state = client.info("persistence")
        if not state["aof_rewrite_in_progress"] and not state["aof_rewrite_scheduled"]:
            break
        assert time.monotonic() < deadline, "BGREWRITEAOF does not end"
        time.sleep(0.01)
    assert state["aof_last_bgrewrite_status"] == "ok"


@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_rewritten_aof(spawn, preamble):
    """As an RDB preamble and as plain commands, with more traffic appended behind the rewrite."""
    server = spawn(*AOF, f"aof-use-rdb-preamble {preamble}")
    fill(server)
    with server.client() as client:
        rewrite(client)
    fill(server)
    check_restarts(server)


def test_aof_names_no_module_command(spawn):
    server = spawn(*AOF)
    fill(server)
    server.stop()
    files = [path for path in server.directory.rglob("*") if ".aof" in path.name]
    text = b"".join(path.read_bytes() for path in files).upper()
    for limiter in LIMITERS:
        assert limiter.command.encode() not in text
        assert b"%b:MOVED" % limiter.word.upper().encode() in text


def test_full_log_reloads(spawn):
    """A sliding log of 20,000 slots, through AOF and RDB: the next decision is the right one."""
    server = spawn(*AOF, "save 3600 1")
    lines = [["RL.SLIDING", "k", 60, 20_000, "AT", NOW + i] for i in range(20_000)]
    with server.wire() as wire:
        wire.pipeline(lines)
        assert wire("RL.SLIDING", "k", 60, 20_000, "AT", NOW + 20_000)[0] == 0
    before = everything(server)
    restart(server, module=True)
    assert everything(server) == before
    with server.wire() as wire:
        replies = [wire("RL.SLIDING", "k", 60, 20_000, "AT", NOW + t) for t in (59_999, 60_000)]
    assert replies == [[0, 20_000, 0, 1, 20_000], [1, 20_000, 0, 0, 60_000]]
