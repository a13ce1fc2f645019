"""LEAKY: an allowed request is held for `wait_ms`. Redis' clock stands, so all waits are exact."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor

from expect import allowed, limited
from waiting import until
from web import PATIENCE

POLICY = '"queue";q=3;w=2'
KEY = "rl:queue:127.0.0.1"


def places_left(server) -> int:
    with server.wire() as wire:
        return wire("RL.PEEK", "LEAKY", KEY, 3, 2)[2]


def served(app) -> int:
    """How many requests of /queue the application itself has seen."""
    return int(app.get("/served").body)


def ask(app, pool, server):
    """Send a request and return when it has its place: the answer, and how long it took, later."""
    left = places_left(server)

    def timed():
        began = time.monotonic()
        answer = app.get("/queue")
        ended = time.monotonic()
        return answer, ended - began, ended

    answer = pool.submit(timed)
    until(lambda: places_left(server) == left - 1, "it takes its place", PATIENCE)
    return answer


def test_requests_are_held_in_order(app, server):
    app = app()
    with ThreadPoolExecutor(3) as pool:
        queue = [ask(app, pool, server) for _ in range(3)]
        full = app.get("/queue")
        answers = [place.result() for place in queue]
    for (answer, took, _), left, wait in zip(answers, (2, 1, 0), (0, 0.5, 1), strict=True):
        allowed(answer, POLICY, f'"queue";r={left};t={(4 - left) // 2}')
        assert took >= wait
    ends = [ended for *_, ended in answers]
    assert ends == sorted(ends)
    limited(full, ["queue"], 500)
    assert full.limit == '"queue";r=0;t=2'


def test_longer_than_max_wait_is_refused_at_once(app, server):
    app = app(MAX_WAIT_MS=600)
    assert app.get("/queue").status == 200
    with ThreadPoolExecutor(1) as pool:
        held = ask(app, pool, server)
        answer = app.get("/queue")
        assert held.result()[0].status == 200
    limited(answer, ["queue"], 400)
    assert (answer.policy, answer.limit) == (POLICY, '"queue";r=0;t=2')
    assert places_left(server) == 0  # its place stays taken


def test_exactly_max_wait_is_held(app, server):
    app = app(MAX_WAIT_MS=500)
    assert app.get("/queue").status == 200
    began = time.monotonic()
    allowed(app.get("/queue"), POLICY, '"queue";r=1;t=1')
    assert time.monotonic() - began >= 0.5
    limited(app.get("/queue"), ["queue"], 500)


def test_no_wait_at_all(app, server):
    app = app(MAX_WAIT_MS=0, LEGACY_HEADERS=1)
    allowed(app.get("/queue"), POLICY, '"queue";r=2;t=1')
    answer = app.get("/queue")
    limited(answer, ["queue"], 500)
    assert answer["X-RateLimit-Remaining"] == "1"


def test_client_that_hangs_up_is_not_served(app, server):
    app = app()
    before = served(app)
    with ThreadPoolExecutor(1) as pool:
        assert app.get("/queue").status == 200
        with socket.create_connection(("127.0.0.1", app.port), timeout=PATIENCE) as impatient:
            impatient.sendall(b"GET /queue HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(lambda: places_left(server) == 1, "it takes its place", PATIENCE)
        # Who comes behind is held for longer than that one would have been.
        behind = ask(app, pool, server)
        assert behind.result()[0].status == 200
    assert served(app) == before + 2
    assert places_left(server) == 0
