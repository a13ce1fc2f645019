"""Memory: what was used is given back, a full server keeps what it has, and nothing is corrupted.

Issue 4, point 7.
"""

import random
import re
import shutil
import subprocess
from collections import Counter
from itertools import count as counting
from pathlib import Path

import pytest

import servers
from forms import form
from servers import MODULE, REPOSITORY, Binary
from waiting import until
from wire import Failure
from workload import DAY, RUN_ALL, Traffic, as_json, everything, now_ms, quotas, with_module

KEYS = form(20_000, 1_000_000)
BATCH = 1_000
GONE = form(60, 600)  # seconds until the last short-lived key must have expired
ROOM = 2_000_000  # bytes that a server may use for itself, more or less
DEFRAGMENTED = form(4_000, 40_000)


def used_memory(wire) -> int:
    return int(re.search(rb"used_memory:(\d+)", wire("INFO", "memory"))[1])


# --- Short lives -------------------------------------------------------------------------------

# A fraction of a second each, and at most half as long again.
SHORT_LIVED = {
    "fixed": lambda key: ["RL.FIXED", key, "200ms", 5],
    "sliding": lambda key: ["RL.SLIDING", key, "200ms", 5],
    "tiers": lambda key: ["RL.SLIDING", key, "50ms", 3, "200ms", 5, "COST", 2],
    "sorted-set": lambda key: ["RL.SLIDING", key, "200ms", 5, "COST", 3],
    "counter": lambda key: ["RL.COUNTER", key, "200ms", 5],
    "counter 256": lambda key: ["RL.COUNTER", key, "256ms", 5, "BUCKETS", 256],
    "token": lambda key: ["RL.TOKEN", key, 5, "5/200ms", "COST", 5],
    "leaky": lambda key: ["RL.LEAKY", key, 5, "5/200ms", "COST", 5],
    "throttle": lambda key: ["RL.THROTTLE", key, 9, 50, 1, 10],
    "all": lambda key: [
        *["RL.ALL", "FIXED", f"{key}:1", "100ms", 5, "SLIDING", f"{key}:2", "100ms", 5],
        *["TOKEN", f"{key}:3", 5, "5/100ms", "LEAKY", f"{key}:4", 5, "5/100ms"],
    ],
}


@pytest.mark.parametrize("name", SHORT_LIVED)
def test_short_lived_keys_leave_nothing(spawn, count, name):
    """No key, and the memory as it was: nobody has to ask a key again for it to go."""
    line = SHORT_LIVED[name]
    storage = "sorted-set" if name == "sorted-set" else "compact"
    server = spawn("hz 50", with_module(f"sliding-storage {storage}"), module=False)
    with server.wire() as wire:
        wire.pipeline(line(f"warm:{i}") for i in range(BATCH))  # buffers of the connection, scripts
        until(lambda: wire("DBSIZE") == 0, "keys do not expire", GONE)
        baseline = used_memory(wire)
        for first in range(0, KEYS, BATCH):
            replies = wire.pipeline(line(f"user:{i}") for i in range(first, first + BATCH))
            assert all(isinstance(reply, list) for reply in replies)
        until(lambda: wire("DBSIZE") == 0, f"{wire('DBSIZE')} keys do not expire", GONE, pause=0.05)
        until(
            lambda: used_memory(wire) < baseline + ROOM,
            f"memory is not given back: {baseline} before, {used_memory(wire)} after",
            GONE,
            pause=0.05,
        )
    count("memory", short_lived_keys=KEYS)


# --- Full --------------------------------------------------------------------------------------

LIMIT = 1_000


def test_a_full_server_refuses_and_keeps(spawn, count):
    """noeviction: every command that takes answers OOM, nothing is half done, no key is lost."""
    server = spawn("maxmemory-policy noeviction")
    kinds = quotas(LIMIT)
    with server.wire() as wire:
        for quota in kinds:
            quota.seed(wire, quota.name)
            line = quota.take(quota.name, 7)
            assert quota.allowed(line, wire(*line))
        wire("CONFIG", "SET", "maxmemory", used_memory(wire) + 600_000)
        filled = 0
        while True:
            lines = [q.take(f"{q.name}:{filled + i}", 3) for i in range(50) for q in kinds]
            replies = wire.pipeline(lines)
            refused = [reply for reply in replies if isinstance(reply, Failure)]
            assert all(reply.startswith("OOM ") for reply in refused), refused[0]
            filled += 50
            assert filled < 100_000
            if len(refused) == len(replies):
                break
        # What is left of room comes and goes with buffers: from here on there is none.
        wire("CONFIG", "SET", "maxmemory", 0)
        full = everything(server)
        used = {quota.name: quota.used(wire, quota.name) for quota in kinds}
        wire("CONFIG", "SET", "maxmemory", used_memory(wire) // 2)
        assert len(full) > 500
        lines = [quota.take(quota.name) for quota in kinds]
        lines += [["RL.ALL", *kinds[0].clause("fixed"), *kinds[1].clause("fresh")]]
        for line in lines:
            assert wire(*line).startswith("OOM ")
            *queued, done = wire.pipeline([["MULTI"], line, ["EXEC"]])
            assert queued[1].startswith("OOM ")
            assert done.startswith("EXECABORT")
            replies = wire("EVAL", RUN_ALL, 1, line[1], as_json([line]))
            refusal = replies if isinstance(replies, Failure) else replies[0]
            assert "OOM " in refusal
        # Looking is free, and so is making room.
        for quota in kinds:
            assert quota.used(wire, quota.name) == used[quota.name]
            assert isinstance(wire("RL.INSPECT", quota.name), list)
        assert isinstance(wire("MEMORY", "DOCTOR"), bytes)
        assert wire("RL.PEEK", *kinds[0].clause("fresh"))[:3] == [1, LIMIT, LIMIT]
        wire("CONFIG", "SET", "maxmemory", 0)
        assert everything(server) == full
        for quota in kinds:
            left = LIMIT - used[quota.name]
            for cost, fits in ((left + 1, False), (left, True), (1, False)):
                line = quota.take(quota.name, cost)
                assert quota.allowed(line, wire(*line)) == fits, quota
        assert wire("DBSIZE") == len(full)
    count("memory", keys_kept_when_full=len(full))


def test_a_log_that_grows_until_the_server_is_full(spawn):
    """A single key that takes all there is: refused by the server, and right ever after."""
    server = spawn("maxmemory-policy noeviction")
    now = now_ms()
    with server.wire() as wire:
        wire("CONFIG", "SET", "maxmemory", used_memory(wire) + 2_000_000)
        taken = []  # when
        for at in counting(now, BATCH):
            times = range(at, at + BATCH)
            lines = [["RL.SLIDING", "k", "31d", 10**6, "AT", time] for time in times]
            replies = wire.pipeline(lines)
            allowed = [
                time for time, reply in zip(times, replies, strict=True) if isinstance(reply, list)
            ]
            taken += allowed
            assert all(reply[0] == 1 for reply in replies if isinstance(reply, list))
            assert len(taken) < 10**6
            if len(allowed) < BATCH:
                break
        wire("CONFIG", "SET", "maxmemory", 1)
        last = ["RL.SLIDING", "k", "31d", 10**6, "AT", at + BATCH]
        assert wire(*last).startswith("OOM ")
        peek = ["RL.PEEK", "SLIDING", "k", "31d", 10**6, "AT", at + BATCH]
        assert wire(*peek)[2] == 10**6 - len(taken)
        wire("CONFIG", "SET", "maxmemory", 0)
        taken.append(at + BATCH)
        assert wire(*last)[2] == 10**6 - len(taken)
        # One after the other leaves the window, from the oldest on.
        for i in (0, 1, len(taken) // 2, len(taken) - 2, len(taken) - 1):
            peek[-1] = taken[i] + 31 * DAY - 1
            assert wire(*peek)[2] == 10**6 - len(taken) + i
            peek[-1] += 1
            assert wire(*peek)[2] == 10**6 - len(taken) + i + 1


def test_memory_doctor_and_stats_answer(wire):
    """MEMORY in all its forms, on keys of every kind."""
    for quota in quotas(LIMIT):
        quota.seed(wire, quota.name)
        for i in range(50):
            wire(*quota.take(quota.name, 1 + i % 3))
        assert 0 < wire("MEMORY", "USAGE", quota.name) < 20_000
        assert wire("OBJECT", "ENCODING", quota.name)
    assert isinstance(wire("MEMORY", "DOCTOR"), bytes)
    assert isinstance(wire("MEMORY", "STATS"), list)
    assert wire("MEMORY", "PURGE") == "OK"


# --- Active defragmentation --------------------------------------------------------------------


def keys_moved(wire) -> int:
    return int(re.search(rb"active_defrag_key_hits:(\d+)", wire("INFO", "stats"))[1])


def test_active_defrag_corrupts_nothing(spawn, count):
    """Keys are moved about in memory under load; every one counts on to the unit."""
    server = spawn("hz 100", "maxmemory-policy noeviction")
    with server.wire() as wire:
        reply = wire("CONFIG", "SET", "activedefrag", "yes")
        if reply != "OK":
            assert "DISABLED" in reply or "defrag" in reply
            pytest.skip(f"built without: {reply}")
        for name, value in {
            "active-defrag-ignore-bytes": 1,
            "active-defrag-threshold-lower": 1,
            "active-defrag-cycle-min": 30,
            "active-defrag-cycle-max": 60,
        }.items():
            assert wire("CONFIG", "SET", name, value) == "OK"
        dice = random.Random(4)
        kinds = quotas(10**5)
        keys = {f"{dice.choice(kinds).name}:{i}": 0 for i in range(DEFRAGMENTED)}
        of = {key: next(q for q in kinds if q.name == key.split(":")[0]) for key in keys}
        for key, quota in of.items():
            quota.seed(wire, key)
        commands = moved = 0

        def load() -> None:
            lines = []
            for key in dice.choices(list(keys), k=2 * DEFRAGMENTED):
                cost = dice.choice([1, 2, 5])
                keys[key] += cost
                lines.append((of[key], of[key].take(key, cost)))
            for first in range(0, len(lines), BATCH):
                part = lines[first : first + BATCH]
                replies = wire.pipeline(line for _, line in part)
                for (quota, line), answer in zip(part, replies, strict=True):
                    assert quota.allowed(line, answer), (line, answer)

        for _ in range(6):
            # Holes between the keys, by strings of all sizes that come and go.
            fillers = [f"filler:{i}" for i in range(2 * DEFRAGMENTED)]
            wire.pipeline(["SET", key, "x" * dice.choice([20, 60, 300, 900])] for key in fillers)
            load()
            for first in range(0, len(fillers), BATCH):
                wire("DEL", *fillers[first : first + BATCH])
            before = keys_moved(wire)  # and from here on there are only ours to be moved
            load()
            moved += keys_moved(wire) - before
            commands += 4 * DEFRAGMENTED
        until(lambda: load() or keys_moved(wire) - before + moved > 0, "it moves none of ours", 120)
        for key, used in keys.items():
            assert of[key].used(wire, key) == used, key
    count("memory", commands_under_defrag=commands, keys_moved_by_defrag=moved)


# --- valgrind ----------------------------------------------------------------------------------

VALGRIND = shutil.which("valgrind")
# Each report begins a paragraph of its own; ours have a frame in the module.
PARAGRAPH = re.compile(r"^==\d+== ?$", re.MULTILINE)
OURS = re.compile(r"libredis_rl|redis_rl::|src/(commands|limiter|server|state)/")


def memcheck(log: Path) -> list[str]:
    return [
        VALGRIND,
        "--tool=memcheck",
        "--leak-check=full",
        # Not "possible": a server points behind the header of its strings, its own shared ones too.
        "--show-leak-kinds=definite,indirect",
        "--errors-for-leak-kinds=definite",
        "--keep-debuginfo=yes",
        "--num-callers=40",
        "--error-limit=no",
        f"--log-file={log}",
    ]


def complaints_of_ours(log: Path) -> list[str]:
    text = log.read_text(errors="replace")
    assert "ERROR SUMMARY" in text, text[-2_000:]
    return [part for part in PARAGRAPH.split(text) if OURS.search(part)]


needs_valgrind = pytest.mark.skipif(
    not form(False, True) or VALGRIND is None,
    reason="only in the long form, and with `apt-get install valgrind`",
)


@needs_valgrind
def test_the_module_in_a_server_under_memcheck(binary, tmp_path, count):
    """Every command, errors and scripts among them, then UNLOAD: no error and no leak of ours.

    Redis 6.2.5 and 8.2.3 have an allocator built in that valgrind cannot stand in for. There it
    sees wild jumps and reads only; on 7.0.15 and Valkey also each byte too far, each use after a
    free and each leak.
    """
    log = tmp_path / "memcheck.log"
    wrapper = tmp_path / "server-under-memcheck"
    # Debian's jemalloc is a library, whose malloc valgrind then replaces.
    command = [*memcheck(log), "--soname-synonyms=somalloc=*jemalloc*", str(binary.path)]
    wrapper.write_text('#!/bin/sh\nexec {} "$@"\n'.format(" ".join(map(str, command))))
    wrapper.chmod(0o755)
    servers.START_DEADLINE, before = 300, servers.START_DEADLINE
    server = None
    try:
        server = servers.Server(Binary(binary.name, wrapper, binary.version))
        with server.wire() as wire:
            for seed in range(3):
                traffic = Traffic(seed)
                traffic.run(wire, 1_500)
                count("memory", commands_under_memcheck=traffic.commands)
            for quota in quotas(LIMIT):
                for i in range(300):
                    wire(*quota.take(f"memcheck:{quota.name}", 1 + i % 3))
            until(lambda: wire("PING") == "PONG", "no answer")
        with server.wire() as wire:
            assert wire("MODULE", "UNLOAD", "rl") == "OK"
            assert wire("MODULE", "LOAD", MODULE) == "OK"
        with server.wire() as wire:
            assert wire("RL.TOKEN", "fresh", 5, 1)[:3] == [1, 5, 4]
        process = server.process
        process.terminate()
        process.wait(300)
    finally:
        servers.START_DEADLINE = before
        if server is not None:
            server.remove()
    assert not complaints_of_ours(log)


@needs_valgrind
def test_the_rust_tests_under_memcheck(binary, tmp_path, count):
    """The module's own unit and property tests, with few cases each."""
    if binary.name != servers.find(["redis-7.0"])[0].name:
        pytest.skip("runs once, and without a server")
    built = subprocess.run(
        ["cargo", "test", "--no-run", "--locked", "--lib", "--tests", "--message-format=short"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    programs = re.findall(r"Executable .*\((.+)\)", built.stderr)
    assert programs
    results = Counter()
    for i, program in enumerate(programs):
        log = tmp_path / f"memcheck-{i}.log"
        done = subprocess.run(
            [*memcheck(log), REPOSITORY / program, "--test-threads=1"],
            cwd=REPOSITORY,
            env={"PROPTEST_CASES": "4", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=3_600,
        )
        assert done.returncode == 0, done.stdout[-3_000:]
        results["tests"] += int(re.search(r"(\d+) passed", done.stdout)[1])
        assert not complaints_of_ours(log)
    assert results["tests"] > 0
    count("memory", rust_tests_under_memcheck=results["tests"])
