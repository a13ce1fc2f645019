"""Fifty real connections on one key at once: exactly as much as the limit gets through."""

import random
import threading

import pytest

CONNECTIONS = 50
CALLS = 40
LIMIT = 1_000

# Windows so long that none ends, and a rate so slow that nothing drains, while the test runs.
COMMANDS = [
    ["RL.FIXED", "k", "366d", LIMIT],
    ["RL.SLIDING", "k", "31d", LIMIT],
    ["RL.SLIDING", "k", "1d", LIMIT, "31d", 2 * LIMIT],
    ["RL.COUNTER", "k", "366d", LIMIT],
    ["RL.COUNTER", "k", "366d", LIMIT, "BUCKETS", 1],
    ["RL.TOKEN", "k", LIMIT, "1/366d"],
    ["RL.LEAKY", "k", LIMIT, "1/366d"],
]


def hammer(server, command, costs) -> list[tuple[int, list]]:
    """All connections start together and ask, each for its own costs; every (cost, reply)."""
    answers, failures = [], []
    start = threading.Barrier(CONNECTIONS)

    def ask(mine):
        try:
            with server.client() as client:
                client.ping()
                start.wait(60)
                mine = [(c, client.execute_command(*command, "COST", c)) for c in mine]
            answers.extend(mine)
        except Exception as failure:  # reported by the main thread, which must see it
            failures.append(failure)

    threads = [threading.Thread(target=ask, args=(mine,)) for mine in costs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    return answers


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(str, command)))
def test_exactly_the_limit_gets_through(server, command):
    answers = hammer(server, command, [[1] * CALLS] * CONNECTIONS)
    assert len(answers) == CONNECTIONS * CALLS
    allowed = [reply for _, reply in answers if reply[0] == 1]
    # One decision after the other: each allowed call saw a remaining of its own.
    assert sorted(reply[2] for reply in allowed) == list(range(LIMIT))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(str, command)))
def test_mixed_costs_never_exceed_the_limit(server, r, command):
    dice = random.Random(7)
    costs = [[dice.randint(1, 9) for _ in range(CALLS)] for _ in range(CONNECTIONS)]
    answers = hammer(server, command, costs)
    taken = sum(cost for cost, reply in answers if reply[0] == 1)
    denied = [cost for cost, reply in answers if reply[0] == 0]
    assert taken <= LIMIT
    assert min(denied) > LIMIT - taken  # nothing was denied that would have fitted
    last = r.execute_command(*command, "COST", LIMIT)
    assert last[:3] == [0, LIMIT, LIMIT - taken]
