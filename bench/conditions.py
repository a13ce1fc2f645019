"""Under what conditions the figures were found."""

import hashlib
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from . import REPOSITORY, load


def conditions(module: Path, parameters: dict) -> dict:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory": field("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "commit": commit(),
        "module_sha256": hashlib.sha256(module.read_bytes()).hexdigest(),
        "load_generator": f"{load.version()}, {load.CLIENTS} clients",
        "parameters": parameters,
    }


def field(file: str, name: str) -> str:
    match = re.search(rf"^{name}\s*:\s*(.*)$", Path(file).read_text(), re.MULTILINE)
    return match[1] if match else "unknown"


def commit() -> str:
    """The commit of the checkout, `-dirty` behind it if there are changes."""
    done = subprocess.run(
        ["git", "-C", REPOSITORY, "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"
