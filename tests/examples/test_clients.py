"""Who a client is: its address, also behind proxies, and what it says of itself."""

import pytest

from expect import allowed, limited
from web import at_once


def default_keys(server) -> list[str]:
    with server.wire() as wire:
        return sorted(key.decode() for key in wire("KEYS", "*"))


def test_each_address_has_a_limit_of_its_own(app, server):
    for source in ("127.0.0.1", "127.0.0.2"):
        answer = app().get("/default", source=source)
        allowed(answer, '"default";q=100;w=60', '"default";r=99;t=60')
    assert default_keys(server) == ["rl:default:127.0.0.1", "rl:default:127.0.0.2"]


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        # Nobody is trusted: whatever the client says, its connection counts.
        (0, None, "127.0.0.1"),
        (0, "203.0.113.7", "127.0.0.1"),
        (0, "203.0.113.7, 198.51.100.1", "127.0.0.1"),
        # One proxy, which adds the address it sees on the right.
        (1, None, "127.0.0.1"),
        (1, "203.0.113.7", "203.0.113.7"),
        (1, "spoofed, 203.0.113.7", "203.0.113.7"),
        (1, "192.0.2.1,198.51.100.1,203.0.113.7", "203.0.113.7"),
        (1, " spoofed ,\t 203.0.113.7 ", "203.0.113.7"),
        (1, 'unknown, , ;;"=, ::::, 203.0.113.7', "203.0.113.7"),
        (1, "203.0.113.7, 2001:db8::1", "2001:db8::1"),
        (1, "", "127.0.0.1"),
        # Two proxies: the inner one has added the address of the outer one.
        (2, None, "127.0.0.1"),
        (2, "203.0.113.7", "127.0.0.1"),
        (2, "203.0.113.7, 10.0.0.1", "203.0.113.7"),
        (2, "spoofed, 203.0.113.7, 10.0.0.1", "203.0.113.7"),
        (2, "2001:db8::1, 10.0.0.1", "2001:db8::1"),
        # Several header lines are one list.
        (1, ["spoofed", "203.0.113.7"], "203.0.113.7"),
        (2, ["spoofed", "203.0.113.7", "10.0.0.1"], "203.0.113.7"),
        (2, ["spoofed, 203.0.113.7", "10.0.0.1"], "203.0.113.7"),
    ],
)
def test_address_behind_proxies(app, server, proxies, forwarded, address):
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    answer = app(TRUSTED_PROXIES=proxies).get("/default", headers)
    allowed(answer, '"default";q=100;w=60', '"default";r=99;t=60')
    assert default_keys(server) == [f"rl:default:{address}"]


@pytest.mark.parametrize("header", ["Forwarded", "X-Real-IP", "Client-IP", "X-Client-IP"])
@pytest.mark.parametrize("proxies", [0, 1])
def test_other_headers_are_not_believed(app, server, proxies, header):
    app(TRUSTED_PROXIES=proxies).get("/default", {header: "203.0.113.7"})
    assert default_keys(server) == ["rl:default:127.0.0.1"]


HOSTILE = {
    "empty": b"",
    "spaces": b"a key  of words",
    "arguments": b"k 60 100 COST 0 AT 0",
    "escaped line ends": b"k\\r\\nFLUSHALL%0d%0aFLUSHALL",
    "tab": b"a\tb",
    "hash tag": b"{k}{}}{",
    "glob": b"*?[a-z]",
    "colons": b":::rl:login:k",
    "quotes": b"\"'`$(x)",
    "number": b"-1",
    "UTF-8": "schlüssel 鍵 🔑 \u2028".encode(),
    "not UTF-8": b"\x80\xff\xfe\x85",
    "long": b"k" * 8_000,
}


@pytest.mark.parametrize("key", HOSTILE.values(), ids=HOSTILE)
def test_hostile_key_is_just_another_key(app, server, key):
    for left in (2, 1, 0):
        answer = app().get("/login", {"X-Api-Key": key})
        allowed(answer, '"login";q=3;w=3600', f'"login";r={left};t=3600')
    limited(app().get("/login", {"X-Api-Key": key}), ["login"], 3_600_000)
    answer = app().get("/login", {"X-Api-Key": key[:-1] + b"x"})
    allowed(answer, '"login";q=3;w=3600', '"login";r=2;t=3600')
    with server.wire() as wire:
        assert set(wire("KEYS", "*")) == {b"rl:login:" + key, b"rl:login:" + key[:-1] + b"x"}


def test_keys_of_different_bytes_are_different(app):
    """Also where no text can be made of them."""
    for key in (b"\xff\xfe", b"\xff\xfd", b"\xff", "ü".encode(), b"\xfc"):
        answer = app().get("/login", {"X-Api-Key": key})
        allowed(answer, '"login";q=3;w=3600', '"login";r=2;t=3600')


@pytest.mark.parametrize("cost", ["", "0", "-1", "1.5", "x", "1%20COST", "9" * 30])
def test_odd_cost_is_no_way_around_the_limit(app, cost):
    """The application decides what it makes of it, but it is limited."""
    answers = [app().get(f"/upload?cost={cost}") for _ in range(6)]
    assert answers[-1].status in (400, 429)


def test_concurrent_clients_get_what_there_is(app):
    app = app()
    answers = at_once(50, lambda _: app.get("/feed", {"X-User": "ann"}))
    assert sorted(a.status for a in answers) == [200] * 10 + [429] * 40
    assert sorted(a.remaining for a in answers if a.status == 200) == list(range(10))


def test_concurrent_clients_are_all_counted(app):
    """None slips through without having been asked about, however many connections there are."""
    app = app()
    answers = [
        a for batch in at_once(50, lambda _: [app.get("/default") for _ in range(3)]) for a in batch
    ]
    assert sorted(a.status for a in answers) == [200] * 100 + [429] * 50
    assert sorted(a.remaining for a in answers if a.status == 200) == list(range(100))


def test_concurrent_clients_with_layers(app):
    app = app()
    answers = at_once(50, lambda n: app.get("/layers", {"X-User": f"user{n % 5}"}))
    assert sorted(a.status for a in answers) == [200] * 25 + [429] * 25
    assert app.get("/layers", {"X-User": "last"}).limit.startswith('"ip";r=74;')
