"""Redis away, hanging, without the module or answering errors; and well again."""

import os
import signal

import pytest

from expect import allowed, limited, unavailable, unlimited
from servers import free_port
from waiting import until
from web import PATIENCE, at_once

POLICY = '"login";q=3;w=3600'


MODES = {"open": unlimited, "closed": unavailable}


@pytest.fixture(params=MODES)
def mode(request) -> str:
    return request.param


def await_limits(app) -> None:
    """Redis is noticed, though perhaps not by the very next request."""
    until(lambda: app.get("/default").limit is not None, "limits again", PATIENCE)


def login(app, key: str):
    return app.get("/login", {"X-Api-Key": key})


def test_defaults(own_app, own_server):
    """Without settings: open, no legacy headers."""
    app = own_app(own_server)
    await_limits(app)
    own_server.stop()
    unlimited(app.get("/default"))


def test_killed_and_back(own_app, own_server, mode):
    app = own_app(own_server, ON_ERROR=mode, TIMEOUT_MS=5_000, LEGACY_HEADERS=1)
    allowed(login(app, "k1"), POLICY, '"login";r=2;t=3600')
    own_server.process.kill()
    own_server.process.wait()
    for path in ("/default", "/queue", "/layers", "/upload?cost=6"):
        MODES[mode](app.get(path))
    unlimited(app.get("/free"))
    unlimited(app.get("/login"))  # no key, nothing to ask
    own_server.revive()
    await_limits(app)
    for left in (2, 1, 0):
        allowed(login(app, "k2"), POLICY, f'"login";r={left};t=3600')
    limited(login(app, "k2"), ["login"], 3_600_000)


def test_away_from_the_start(own_app, own_server, mode):
    own_server.stop()
    app = own_app(own_server, ON_ERROR=mode)
    MODES[mode](app.get("/default"))
    own_server.revive()
    await_limits(app)


def test_hanging(own_app, own_server, mode):
    app = own_app(own_server, ON_ERROR=mode, TIMEOUT_MS=500)
    await_limits(app)
    os.kill(own_server.process.pid, signal.SIGSTOP)
    try:
        for path in ("/default", "/queue"):
            MODES[mode](app.get(path))
        # More than there are connections: who waits for one is answered as well.
        for answer in at_once(50, lambda n: login(app, f"k{n}")):
            MODES[mode](answer)
    finally:
        os.kill(own_server.process.pid, signal.SIGCONT)
    await_limits(app)


def test_late_reply_is_nobodys(own_app, own_server):
    """What comes after the timeout is not taken for the answer to the next question."""
    app = own_app(own_server, TIMEOUT_MS=500)
    await_limits(app)
    os.kill(own_server.process.pid, signal.SIGSTOP)
    try:
        for answer in at_once(20, lambda n: login(app, f"k{n}")):
            unlimited(answer)
    finally:
        os.kill(own_server.process.pid, signal.SIGCONT)
    # Until it is limited again, then some more: each hears of its own limit.
    answers = []
    until(
        lambda: answers.append(app.get("/feed", {"X-User": "u"})) or answers[-1].limit,
        "limits again",
        PATIENCE,
    )
    answers += at_once(30, lambda _: app.get("/feed", {"X-User": "u"}))
    assert {a.policy for a in answers} <= {None, '"feed";q=10;w=10'}


def test_without_the_module(own_app, new_server, mode):
    """The log says so, once, and nothing of anybody's key."""
    server = new_server(module=False)
    try:
        app = own_app(server, ON_ERROR=mode, TIMEOUT_MS=30_000)
        for _ in range(3):
            MODES[mode](login(app, "secret"))
        MODES[mode](app.get("/layers"))
        told = [line for line in app.output().splitlines() if "module" in line.lower()]
        assert len(told) == 1, app.output()
        assert "secret" not in app.output()
        server.stop()
        server.revive()
        await_limits(app)
    finally:
        server.remove()


def test_error_reply(app, server, mode):
    app = app(ON_ERROR=mode)
    with server.wire() as wire:
        wire("SET", "rl:login:k1", "no limiter")
        MODES[mode](login(app, "k1"))
        allowed(login(app, "k2"), POLICY, '"login";r=2;t=3600')
        wire("DEL", "rl:login:k1")
    allowed(login(app, "k1"), POLICY, '"login";r=2;t=3600')


def test_error_in_one_layer_takes_nothing_from_the_others(app, server, mode):
    app = app(ON_ERROR=mode)
    with server.wire() as wire:
        wire("SET", "rl:user:ann", "no limiter")
        MODES[mode](app.get("/layers", {"X-User": "ann"}))
        assert wire("KEYS", "*") == [b"rl:user:ann"]


def test_nobody_listens(own_app, own_server, mode):
    app = own_app(own_server, REDIS_URL=f"redis://127.0.0.1:{free_port()}", ON_ERROR=mode)
    for answer in at_once(50, lambda _: app.get("/default")):
        MODES[mode](answer)
