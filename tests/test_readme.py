"""Every example in README.md and docs/ is run, and answers as printed there.

A block fenced as ```redis holds lines `> COMMAND ...`, each followed by what redis-cli prints; each
block starts on an empty database. redis-cli itself prints the replies that are compared.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass

import pytest

from servers import REPOSITORY

FENCE = re.compile(r"^```redis[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """One fenced block: where it stands, its commands, and all that redis-cli prints for them."""

    place: str
    commands: list[str]
    printed: list[str]


def examples() -> list[Example]:
    found = []
    for page in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]:
        text = page.read_text() if page.exists() else ""
        for block in FENCE.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            lines = [line.rstrip() for line in block[1].splitlines() if line.strip()]
            found.append(
                Example(
                    f"{page.relative_to(REPOSITORY)}:{line}",
                    [line[2:] for line in lines if line.startswith("> ")],
                    [line for line in lines if not line.startswith("> ")],
                )
            )
    return found


EXAMPLES = examples()


def redis_cli(port: int, commands: list[str]) -> list[str]:
    program = shutil.which("redis-cli", path="/usr/bin:/usr/local/bin")
    assert program, "redis-cli is not installed; `make test` installs it"
    done = subprocess.run(
        [program, "-h", "127.0.0.1", "-p", str(port), "--no-raw"],
        input="".join(command + "\n" for command in commands),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not done.stderr
    return [line.rstrip() for line in done.stdout.splitlines() if line.strip()]


def test_readme_has_examples_of_every_command():
    text = "\n".join(command for example in EXAMPLES for command in example.commands)
    for command in "FIXED SLIDING COUNTER TOKEN LEAKY THROTTLE PEEK ALL INSPECT STATS TOP".split():
        assert f"RL.{command}" in text


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.place)
def test_example(server, example):
    assert example.commands
    assert example.printed
    assert redis_cli(server.port, example.commands) == example.printed
