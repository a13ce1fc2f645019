"""Of the Python example only: what else an ASGI application answers carries the headers too."""

import hashlib
import http.client
from pathlib import Path

import pytest

import apps
import servers
from waiting import until
from web import PATIENCE


@pytest.fixture(scope="module", params=["python"])
def wrapped(request, shared_server):
    app = start(shared_server)
    yield app
    app.stop()


def start(server, **settings) -> apps.App:
    """The application of asgi_app.py, by the Python that the example is installed for."""
    program, _ = apps.python().command
    script = Path(__file__).with_name("asgi_app.py")
    demo = apps.Demo("python", [program, script])
    return apps.App(demo, apps.environment(server, settings))


def test_stream(wrapped, server):
    answer = wrapped.get("/stream")
    assert (answer.status, answer.body) == (200, b"0\n1\n2\n")
    assert answer["Transfer-Encoding"] == "chunked"
    assert answer.limit == '"all";r=99;t=60'


@pytest.mark.parametrize(
    ("path", "status"), [("/missing", 404), ("/nowhere", 404), ("/crash", 500)]
)
def test_error_has_the_headers(wrapped, server, path, status):
    answer = wrapped.get(path)
    assert answer.status == status
    assert (answer.policy, answer.limit) == ('"all";q=100;w=60', '"all";r=99;t=60')


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 1_000_000])
def test_body_of_a_held_request(wrapped, server, size):
    """It is read while the request is held; the application gets all of it."""
    body = bytes(i % 251 for i in range(size))
    for held in (False, True):
        connection = http.client.HTTPConnection("127.0.0.1", wrapped.port, timeout=PATIENCE)
        connection.request("POST", "/digest", body)
        response = connection.getresponse()
        assert response.read().decode().strip('"') == hashlib.sha256(body).hexdigest()
        assert response.getheader("RateLimit") == f'"digest";r={98 if held else 99};t=1'
        connection.close()


def test_path_below_a_mount(wrapped, server):
    for status, limit in [(200, '"item";r=1;t=60'), (200, '"item";r=0;t=60'), (429, None)]:
        answer = wrapped.get("/sub/item/7")
        assert answer.status == status
        assert limit is None or answer.limit == limit
    assert wrapped.get("/sub/other").limit is None


@pytest.mark.parametrize("name", ["python"])
def test_cluster(name):
    """A client of a cluster, and a tag that keeps the keys of a request in one slot."""
    (binary,) = servers.find(["redis-7.0"])
    server = servers.Server(binary, ["cluster-enabled yes"])
    with server.wire() as wire:
        assert wire("CLUSTER", "ADDSLOTSRANGE", 0, 16383) == "OK"
        until(lambda: b"cluster_state:ok" in wire("CLUSTER", "INFO"), "the cluster is up", PATIENCE)
    app = start(server, CLUSTER=1)
    try:
        for tenant in ("acme", "other"):
            answer = app.get("/stream", {"X-Tenant": tenant})
            assert answer.limit == '"all";r=99;t=60, "more";r=4;t=1'
            assert app.get("/missing", {"X-Tenant": tenant}).limit == '"all";r=98;t=60'
        with server.wire() as wire:
            assert sorted(wire("KEYS", "*")) == [
                b"rl:{acme}:all:k",
                b"rl:{acme}:more:k",
                b"rl:{other}:all:k",
                b"rl:{other}:more:k",
            ]
        assert app.get("/stream", {"X-Tenant": "}{%"}).status == 200  # still one slot
        with server.wire() as wire:
            assert wire("EXISTS", "rl:{%7D%7B%25}:all:k") == 1
        server.stop()
        assert app.get("/missing", {"X-Tenant": "acme"}).status == 503
    finally:
        app.stop()
        server.remove()
