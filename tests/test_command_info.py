"""What the server tells about our commands, and the module's own comings and goings."""

import pytest
import redis

import servers
from limiters import LIMITERS, registered
from wire import Failure

NOW = 1_699_999_200_000
FLAGS = {"write", "denyoom", "fast"}
OTHER_KINDS = {"readonly", "admin", "noscript", "blocking", "movablekeys", "random", "loading"}


def info(wire, command) -> list:
    """COMMAND INFO: name, arity, flags, first key, last key, step, and more on newer servers."""
    return wire("COMMAND", "INFO", command)[0]


def counts_arguments(wire) -> bool:
    """Servers from 7.0 on take an arity from a module, and documentation too."""
    return not isinstance(wire("COMMAND", "DOCS", "GET"), Failure)


def documentation(wire, command) -> dict:
    reply = wire("COMMAND", "DOCS", command)
    if isinstance(reply, Failure):
        pytest.skip("this server has no COMMAND DOCS")
    return as_map(reply[1])


def as_map(flat) -> dict:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def test_flags_and_key_position(wire, limiter):
    name, _, flags, first, last, step, *_ = info(wire, limiter.command)
    assert name.decode().upper() == limiter.command
    assert set(flags) >= FLAGS
    assert not set(flags) & OTHER_KINDS
    assert (first, last, step) == (1, 1, 1)


def test_arity(wire, limiter):
    """Name, key and two numbers at least; 6.2 cannot be told, so there the module counts."""
    assert info(wire, limiter.command)[1] == (-4 if counts_arguments(wire) else -1)


def test_getkeys(wire, limiter):
    line = limiter.call("the key", 10, cost=2, at=NOW)
    assert wire("COMMAND", "GETKEYS", *line) == [b"the key"]


def test_getkeys_of_several_tiers(wire):
    line = ["RL.SLIDING", "the key", 1, 10, 60, 100, 3600, 1000, "COST", 2]
    assert wire("COMMAND", "GETKEYS", *line) == [b"the key"]


def test_docs(wire, limiter):
    docs = documentation(wire, limiter.command)
    assert len(docs[b"summary"]) > 20
    assert docs[b"since"]
    assert docs[b"group"] == b"module"
    assert docs[b"complexity"]


def flatten(arguments) -> list[dict]:
    found = []
    for argument in map(as_map, arguments):
        found.append(argument)
        found += flatten(argument.get(b"arguments", []))
    return found


@pytest.mark.parametrize(
    ("command", "names", "options"),
    [
        ("RL.FIXED", ["key", "window", "max"], {"COST", "OFFSET", "AT"}),
        ("RL.SLIDING", ["key", "window", "max"], {"COST", "AT"}),
        ("RL.TOKEN", ["key", "capacity", "rate"], {"COST", "AT"}),
    ],
)
def test_documented_arguments(wire, command, names, options):
    arguments = flatten(documentation(wire, command)[b"arguments"])
    in_order = [argument[b"name"].decode() for argument in arguments]
    assert [name for name in in_order if name in names] == names
    tokens = {argument[b"token"].decode() for argument in arguments if b"token" in argument}
    assert tokens == options
    optional = [argument for argument in arguments if "optional" in argument.get(b"flags", [])]
    assert {argument[b"token"].decode() for argument in optional} == options


def modules(wire) -> set[str]:
    return {as_map(entry)[b"name"].decode() for entry in wire("MODULE", "LIST")}


def our_name(server, spawn) -> str:
    """The module's name: what this server lists and one without the module does not."""
    with server.wire() as ours, spawn(module=False).wire() as bare:
        (name,) = modules(ours) - modules(bare)
        return name


def test_loading_twice_is_refused(spawn):
    server = spawn()
    with server.client() as client:
        with pytest.raises(redis.ResponseError):
            client.execute_command("MODULE", "LOAD", str(servers.MODULE))
        assert client.execute_command(*LIMITERS[0].call("k", 2, at=NOW))[:3] == [1, 2, 1]


def test_unload_and_load_again(spawn):
    """Ten times, the keys living on as plain strings and deciding on when the module is back.

    Each step has a connection of its own: all four servers keep a pointer to the last command of a
    connection, and follow it after UNLOAD (redis issues 4826 and 10177).
    """
    server = spawn()
    name = our_name(server, spawn)
    limit = 12
    for taken in range(1, 11):
        with server.wire() as wire:
            for limiter in LIMITERS:
                reply = wire(*limiter.call(limiter.word, limit, seconds=600, at=NOW))
                assert reply[:3] == [1, limit, limit - taken]
            values = [wire("GET", limiter.word) for limiter in LIMITERS]
        with server.wire() as wire:
            assert wire("MODULE", "UNLOAD", name) == "OK"
        with server.wire() as wire:
            assert not registered(wire, "RL.FIXED")
            assert [wire("GET", limiter.word) for limiter in LIMITERS] == values
        with server.wire() as wire:
            assert wire("MODULE", "LOAD", str(servers.MODULE)) == "OK"


def test_hot_swap_in_one_transaction(spawn):
    """The upgrade without a gap: in one EXEC all others are cut off, the old module goes, the new
    one comes."""
    server = spawn()
    name = our_name(server, spawn)
    with server.wire() as wire:
        wire("RL.SLIDING", "k", 60, 2, "AT", NOW)
    with server.wire() as wire:
        replies = wire.transaction(
            [
                ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"],
                ["MODULE", "UNLOAD", name],
                ["MODULE", "LOAD", str(servers.MODULE)],
            ]
        )
        assert replies[1:] == ["OK", "OK"]
    with server.wire() as wire:
        assert wire("RL.SLIDING", "k", 60, 2, "AT", NOW) == [1, 2, 0, 0, 60_000]
