"""redis.conf.example starts a real server as it stands, on each of the four."""

import contextlib
import os
import re
import subprocess
import time

import pytest

import servers
from wire import Wire

EXAMPLE = servers.REPOSITORY / "redis.conf.example"
DEADLINE = 30


@pytest.fixture
def example_server(binary, tmp_path):
    """The file as it is, on a port of our own, from a directory that looks like the repository."""
    release = tmp_path / "target" / "release"
    release.mkdir(parents=True)
    (release / servers.MODULE.name).symlink_to(servers.MODULE)
    port = servers.free_port()
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [binary.path, EXAMPLE, "--port", str(port)],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        with answering(process, port, log) as wire:
            yield wire
    finally:
        process.terminate()
        process.wait(DEADLINE)


def answering(process, port, log) -> Wire:
    deadline = time.monotonic() + DEADLINE
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            return Wire(port)
        time.sleep(0.02)
    pytest.fail(f"no server came up:\n{log.read_text(errors='replace')}")


def test_starts_as_it_stands_and_answers(example_server):
    assert example_server("RL.SLIDING", "user:42", 60, 100, "AT", 0) == [1, 100, 99, 0, 60_000]
    assert example_server("RL.FIXED", "user:43", 60, 100)[:3] == [1, 100, 99]


def settings() -> list[tuple[str, str]]:
    lines = [line.strip() for line in EXAMPLE.read_text().splitlines()]
    return [tuple(line.split(None, 1)) for line in lines if line and not line.startswith("#")]


def test_settings_are_in_force(example_server):
    """Each line reached the server, so none is misspelt or silently overruled."""
    for name, value in settings():
        if name in {"loadmodule", "port", "dir"}:
            continue
        (_, actual) = example_server("CONFIG", "GET", name)
        assert normal(actual.decode()) == normal(value), name


def normal(value: str) -> str:
    units = {"kb": 2**10, "mb": 2**20, "gb": 2**30}
    match = re.fullmatch(r"(\d+)(kb|mb|gb)", value.lower())
    return str(int(match[1]) * units[match[2]]) if match else value.strip('"')


def test_every_setting_is_explained():
    """A comment stands above each line, or above the group without blank lines that it is in."""
    previous = ""
    for line in EXAMPLE.read_text().splitlines():
        if line and not line.startswith("#"):
            assert previous.startswith("#") or previous == "explained", line
            previous = "explained"
        else:
            previous = line


def test_listens_on_this_machine_only():
    assert dict(settings())["bind"].split() == ["127.0.0.1"]
    assert os.path.normpath(dict(settings())["loadmodule"]) == "target/release/libredis_rl.so"
