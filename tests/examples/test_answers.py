"""What an application answers: status, headers and body, to the letter."""

import pytest

from expect import LEGACY, allowed, limited

FIRST = [  # path, headers, and what the first request is told
    ("/default", {}, '"default";q=100;w=60', '"default";r=99;t=60'),
    ("/tiers", {}, '"tiers";q=3;w=10', '"tiers";r=2;t=60'),
    ("/login", {"X-Api-Key": "k1"}, '"login";q=3;w=3600', '"login";r=2;t=3600'),
    ("/upload", {}, '"upload";q=5;w=3', '"upload";r=4;t=1'),
    ("/feed", {"X-User": "ann"}, '"feed";q=10;w=10', '"feed";r=9;t=11'),
    ("/queue", {}, '"queue";q=3;w=2', '"queue";r=2;t=1'),
    (
        "/layers",
        {"X-User": "ann"},
        '"ip";q=100;w=60, "user";q=5;w=5, "endpoint";q=1000;w=3600',
        '"ip";r=99;t=60, "user";r=4;t=1, "endpoint";r=999;t=3600',
    ),
]


@pytest.mark.parametrize(
    ("path", "headers", "policy", "limit"), FIRST, ids=[row[0][1:] for row in FIRST]
)
def test_first_request(app, path, headers, policy, limit):
    answer = app().get(path, headers)
    allowed(answer, policy, limit)
    assert [answer[name] for name in LEGACY] == [None] * 3


def test_route_without_limit(app, server):
    allowed(app().get("/free"), None, None)
    with server.wire() as wire:
        assert wire("DBSIZE") == 0


@pytest.mark.parametrize("path", ["/login", "/feed"])
def test_request_without_key_has_no_limit(app, server, path):
    for _ in range(12):
        allowed(app().get(path), None, None)
    with server.wire() as wire:
        assert wire("DBSIZE") == 0


def test_keys(app, server):
    for path, headers, *_ in FIRST:
        app().get(path, headers)
    with server.wire() as wire:
        assert sorted(wire("KEYS", "*")) == [
            b"rl:default:127.0.0.1",
            b"rl:endpoint:all",
            b"rl:feed:ann",
            b"rl:ip:127.0.0.1",
            b"rl:login:k1",
            b"rl:queue:127.0.0.1",
            b"rl:tiers:127.0.0.1",
            b"rl:upload:127.0.0.1",
            b"rl:user:ann",
        ]


def test_keys_with_a_hash_tag(app, server):
    answer = app(HASH_TAG="acme").get("/layers", {"X-User": "ann"})
    assert answer.limit == '"ip";r=99;t=60, "user";r=4;t=1, "endpoint";r=999;t=3600'
    app(HASH_TAG="acme").get("/default")
    with server.wire() as wire:
        assert sorted(wire("KEYS", "*")) == [
            b"rl:{acme}:default:127.0.0.1",
            b"rl:{acme}:endpoint:all",
            b"rl:{acme}:ip:127.0.0.1",
            b"rl:{acme}:user:ann",
        ]


def test_limited(app):
    for left in (2, 1, 0):
        answer = app().get("/login", {"X-Api-Key": "k1"})
        allowed(answer, '"login";q=3;w=3600', f'"login";r={left};t=3600')
    answer = app().get("/login", {"X-Api-Key": "k1"})
    limited(answer, ["login"], 3_600_000)
    assert (answer.policy, answer.limit) == ('"login";q=3;w=3600', '"login";r=0;t=3600')
    assert [answer[name] for name in LEGACY] == [None] * 3
    allowed(app().get("/login", {"X-Api-Key": "k2"}), '"login";q=3;w=3600', '"login";r=2;t=3600')


def test_seconds_are_rounded_up(app, server):
    for _ in range(3):
        app().get("/tiers")
    for now, wait, reset in [
        (0, 10_000, 60),
        (1, 9_999, 60),
        (999, 9_001, 60),
        (1_000, 9_000, 59),
        (1_001, 8_999, 59),
        (9_000, 1_000, 51),
        (9_001, 999, 51),
        (9_999, 1, 51),
    ]:
        server.set_clock(now)
        answer = app().get("/tiers")
        limited(answer, ["tiers"], wait)
        assert answer.limit == f'"tiers";r=0;t={reset}'
    server.set_clock(10_000)
    allowed(app().get("/tiers"), '"tiers";q=5;w=60', '"tiers";r=1;t=60')


def test_policy_is_that_of_the_tier_that_speaks(app, server):
    for _ in range(3):
        app().get("/tiers")
    server.set_clock(10_000)
    for left in (1, 0):
        allowed(app().get("/tiers"), '"tiers";q=5;w=60', f'"tiers";r={left};t=60')
    answer = app().get("/tiers")
    limited(answer, ["tiers"], 50_000)
    assert (answer.policy, answer.limit) == ('"tiers";q=5;w=60', '"tiers";r=0;t=60')


def test_counter_is_limited(app, server):
    for _ in range(10):
        app().get("/feed", {"X-User": "ann"})
    server.set_clock(10_001)
    answer = app().get("/feed", {"X-User": "ann"})
    limited(answer, ["feed"], 99)
    assert answer.limit == '"feed";r=0;t=1'
    server.set_clock(10_100)
    allowed(app().get("/feed", {"X-User": "ann"}), '"feed";q=10;w=10', '"feed";r=0;t=11')


def test_cost(app, server):
    allowed(app().get("/upload?cost=4"), '"upload";q=5;w=3', '"upload";r=1;t=2')
    answer = app().get("/upload?cost=3")
    limited(answer, ["upload"], 1_000)
    assert answer.limit == '"upload";r=1;t=2'
    server.set_clock(1_000)
    allowed(app().get("/upload?cost=3"), '"upload";q=5;w=3', '"upload";r=0;t=3')


def test_cost_above_the_limit_never_passes(app):
    answer = app().get("/upload?cost=6")
    limited(answer, ["upload"], None)
    assert (answer.policy, answer.limit) == ('"upload";q=5;w=3', '"upload";r=5;t=0')


def test_a_layer_that_denies_leaves_the_others_as_they_are(app):
    for _ in range(5):
        app().get("/layers", {"X-User": "ann"})
    for _ in range(2):
        answer = app().get("/layers", {"X-User": "ann"})
        limited(answer, ["user"], 1_000)
        assert answer.policy == '"ip";q=100;w=60, "user";q=5;w=5, "endpoint";q=1000;w=3600'
        assert answer.limit == '"ip";r=95;t=60, "user";r=0;t=5, "endpoint";r=995;t=3600'
    allowed(
        app().get("/layers", {"X-User": "bob"}),
        '"ip";q=100;w=60, "user";q=5;w=5, "endpoint";q=1000;w=3600',
        '"ip";r=94;t=60, "user";r=4;t=1, "endpoint";r=994;t=3600',
    )


def test_every_layer_that_denies_is_named(app, server):
    with server.wire() as wire:
        wire("RL.TOKEN", "rl:user:ann", 5, 1, "COST", 5)
        wire("RL.FIXED", "rl:endpoint:all", 3600, 1000, "COST", 1000)
    server.set_clock(1)
    answer = app().get("/layers", {"X-User": "ann"})
    limited(answer, ["user", "endpoint"], 3_599_999)
    assert answer.limit == '"ip";r=100;t=0, "user";r=0;t=5, "endpoint";r=0;t=3600'


def test_a_layer_without_key_is_left_out(app, server):
    allowed(
        app().get("/layers"),
        '"ip";q=100;w=60, "endpoint";q=1000;w=3600',
        '"ip";r=99;t=60, "endpoint";r=999;t=3600',
    )


def test_legacy_headers(app):
    answer = app(LEGACY_HEADERS=1).get("/default")
    allowed(answer, '"default";q=100;w=60', '"default";r=99;t=60')
    assert [answer[name] for name in LEGACY] == ["100", "99", "60"]
    assert app(LEGACY_HEADERS=1).get("/free")["X-RateLimit-Limit"] is None


def test_legacy_headers_speak_for_the_smallest_share(app, server):
    with server.wire() as wire:
        wire("RL.SLIDING", "rl:ip:127.0.0.1", 60, 100, "COST", 19)
    legacy = app(LEGACY_HEADERS=1)
    # 80 of 100 is as much as 4 of 5: the earlier speaks. Then 79 of 100 against 3 of 5.
    answer = legacy.get("/layers", {"X-User": "ann"})
    assert [answer[name] for name in LEGACY] == ["100", "80", "60"]
    answer = legacy.get("/layers", {"X-User": "ann"})
    assert [answer[name] for name in LEGACY] == ["5", "3", "2"]


def test_legacy_headers_speak_for_the_first_that_denies(app, server):
    with server.wire() as wire:
        wire("RL.SLIDING", "rl:ip:127.0.0.1", 60, 100, "COST", 99)
        wire("RL.TOKEN", "rl:user:ann", 5, 1, "COST", 5)
        wire("RL.FIXED", "rl:endpoint:all", 3600, 1000, "COST", 1000)
    server.set_clock(1)
    answer = app(LEGACY_HEADERS=1).get("/layers", {"X-User": "ann"})
    limited(answer, ["user", "endpoint"], 3_599_999)
    assert [answer[name] for name in LEGACY] == ["5", "0", "5"]
