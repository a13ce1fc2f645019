"""Who may do what: every key is checked, and a look needs no more than the right to read."""

import pytest

from limiters import LIMITERS, held
from wire import Failure

NOW = 1_699_999_200_000


@pytest.fixture
def become(server, wire):
    """A connection of a user with these rules."""
    connections = []

    def log_in(*rules):
        assert wire("ACL", "SETUSER", "tester", "reset", "on", "nopass", *rules) == "OK"
        connections.append(server.wire())
        assert connections[-1]("AUTH", "tester", "any") == "OK"
        return connections[-1]

    yield log_in
    for connection in connections:
        connection.close()
    wire("ACL", "DELUSER", "tester")


def assert_no_permission(reply) -> None:
    assert isinstance(reply, Failure), reply
    assert reply.startswith("NOPERM "), reply


@pytest.mark.parametrize("position", range(5))
def test_every_key_of_all_is_checked(wire, become, position):
    """One key outside the user's pattern, at whichever place, and nothing is taken."""
    user = become("~mine:*", "+rl.all")
    mine = [limiter.clause(f"mine:{limiter.word}", 5) for limiter in LIMITERS]
    line = ["RL.ALL", *(word for clause in mine for word in clause)]
    assert user(*line)[:2] == [1, -1]
    before = [wire("GET", clause[1]) for clause in mine]
    mine[position][1] = "yours"
    line = ["RL.ALL", *(word for clause in mine for word in clause)]
    assert_no_permission(user(*line))
    assert_no_permission(user("RL.ALL", "TOKEN", "TOKEN", 5, 1))
    assert [wire("GET", f"mine:{limiter.word}") for limiter in LIMITERS] == before
    assert wire("EXISTS", "yours", "TOKEN") == 0


def test_key_patterns_hold_for_every_command(wire, become, limiter):
    user = become("~k*", "+@all")
    calls = [limiter.call, limiter.peek]
    for call in calls:
        assert user(*call("k1", 5, at=NOW))[0] == 1
        assert_no_permission(user(*call("other", 5, at=NOW)))
    assert user("RL.INSPECT", "k1")
    assert_no_permission(user("RL.INSPECT", "other"))
    assert user("RL.THROTTLE", "k2", 5, 5, 1000)[0] == 0
    assert_no_permission(user("RL.THROTTLE", "other", 5, 5, 1000))
    assert wire("EXISTS", "other") == 0


def test_each_command_has_to_be_allowed(become, limiter):
    user = become("~*", "+rl.peek")
    assert user(*limiter.peek("k", 5, at=NOW))[0] == 1
    assert_no_permission(user(*limiter.call("k", 5, at=NOW)))
    assert_no_permission(user("RL.INSPECT", "k"))
    assert_no_permission(user("RL.ALL", *limiter.clause("k", 5)))
    user = become("~*", f"+{limiter.command.lower()}")
    assert user(*limiter.call("k", 5, at=NOW))[0] == 1
    assert_no_permission(user(*limiter.peek("k", 5, at=NOW)))


def needs_key_permissions(server) -> None:
    if server.binary.version < (7, 0):
        pytest.skip("this server knows no permission to read only")


def test_looks_need_the_right_to_read_only(server, r, wire, become, limiter):
    needs_key_permissions(server)
    user = become("%R~k*", "+rl.peek", "+rl.inspect", f"+{limiter.command.lower()}", "+rl.all")
    wire(*limiter.call("k", 5, at=NOW))
    before = held(r, "k")
    assert user(*limiter.peek("k", 5, at=NOW))[:3] == [1, 5, 4]
    assert user("RL.INSPECT", "k") is not None
    assert user(*limiter.peek("k none", 5, at=NOW))[:3] == [1, 5, 5]
    assert_no_permission(user(*limiter.call("k", 5, at=NOW)))
    assert_no_permission(user("RL.ALL", *limiter.clause("k", 5)))
    assert_no_permission(user(*limiter.peek("other", 5, at=NOW)))
    assert_no_permission(user("RL.INSPECT", "other"))
    assert held(r, "k") == before


def test_the_right_to_write_only_is_not_enough(server, become, limiter):
    """The reply tells what the key holds."""
    needs_key_permissions(server)
    user = become("%W~k*", "+@all")
    assert_no_permission(user(*limiter.call("k", 5, at=NOW)))
    assert_no_permission(user(*limiter.peek("k", 5, at=NOW)))
    assert_no_permission(user("RL.ALL", *limiter.clause("k", 5)))


def test_a_log_in_a_sorted_set_needs_no_other_command(r, wire, become):
    """What the module asks of the server meanwhile is its own affair."""
    user = become("~k*", "+rl.sliding", "+rl.peek", "+rl.inspect", "+rl.all")
    wire("ZADD", "k", NOW, "a")
    wire("EXPIRE", "k", 60)
    assert user("RL.SLIDING", "k", 60, 5, "AT", NOW) == [1, 5, 3, 0, 60_000]
    assert user("RL.PEEK", "SLIDING", "k", 60, 5, "AT", NOW) == [1, 5, 3, 0, 60_000]
    assert user("RL.ALL", "SLIDING", "k", 60, 5, "AT", NOW) == [1, -1, [1, 5, 2, 0, 60_000]]
    assert user("RL.INSPECT", "k") is not None
    assert r.zcard("k") == 3


def test_what_tells_of_all_keys_is_not_for_every_limiter_user(wire, become):
    if "rate_limit" not in {category.decode() for category in wire("ACL", "CAT")}:
        pytest.skip("this server has no categories for modules")
    assert wire("RL.STATS", "RESET") == "OK"
    user = become("~mine:*", "+@rate_limit")
    assert user("RL.FIXED", "mine:k", 60, 0)[0] == 0
    for command in ("RL.STATS", "RL.TOP"):
        assert_no_permission(user(command))
    user = become("+@admin")
    assert user("RL.TOP", "RESET") == [[b"mine:k", 1, 0, 0]]
