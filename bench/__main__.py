"""Measures redis-rl beside what one would use instead, on each server; see `--help`."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import servers
from servers import Binary, Server

from . import RESULTS, contenders, groups, picture, report
from .conditions import conditions
from .contenders import Contender
from .figures import floors
from .rounds import Bench, Effort, note

FULL = Effort(rounds=9, minor_rounds=5, seconds=0.3)
# Where the floors do not hold, fewer and shorter rounds say enough.
ELSEWHERE = Effort(rounds=5, minor_rounds=3, seconds=0.2)
QUICK = Effort(rounds=3, minor_rounds=2, seconds=0.15)
FLOORS_HOLD_ON = "redis-7.0"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench",
        description="Measure redis-rl beside SET, GET, INCR and Lua scripts. Another command joins "
        "by BENCH_MODULE='/path/to.so' BENCH_COMMAND='CL.THROTTLE __key__ 15 30 60 1' in the "
        "environment.",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="a few minutes on Redis 7.0 only")
    add("--server", action="append", metavar="NAME", help="such as valkey-9.1; may be repeated")
    add("--group", action="append", choices=list(groups.listed()), help="may be repeated")
    add("--module", type=Path, default=servers.MODULE, help="libredis_rl.so to measure")
    add("--rounds", type=int, help="rounds of every group")
    add("--seconds", type=float, help="about how long each run takes")
    add("--name", help="of the files in bench/results (default: full or quick)")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    module = options.module.resolve()
    wanted = options.server or ([FLOORS_HOLD_ON] if options.quick else None)
    try:
        binaries = servers.find(wanted)
        if not module.is_file():
            raise servers.Missing(f"no module at {module}; `make build` builds it")
    except servers.Missing as missing:
        sys.exit(str(missing))
    parameters = {"quick": options.quick, "module": os.environ.get("BENCH_MODULE", "")}
    processor = reserve_processor()
    parameters |= {"command": os.environ.get("BENCH_COMMAND", ""), "server_on": processor}
    name = options.name or ("quick" if options.quick else "full")
    target = RESULTS / f"{name}.json"
    RESULTS.mkdir(exist_ok=True)
    results = {"conditions": conditions(module, parameters), "servers": {}}
    for binary in binaries:
        note(binary.name)
        measured = measure(binary, module, processor, options)
        results["servers"][binary.name] = measured | {"floors": floors(measured["groups"])}
        target.write_text(json.dumps(results, indent=1) + "\n")
    print("\n".join(report.tables(results["servers"])))
    picture.draw(results, target.with_suffix(".svg"))
    print(f"\nWritten: {target} and {target.with_suffix('.svg').name}")


def measure(
    binary: Binary, module: Path, processor: int | None, options: argparse.Namespace
) -> dict:
    effort = effort_on(binary, options)
    server, others = start(binary, module)
    try:
        if processor is not None:
            # The main thread only: what the server does aside goes where we are.
            os.sched_setaffinity(server.process.pid, {processor})
        names = options.group or list(groups.listed())
        found = groups.run(Bench(server, effort), names, others)
    finally:
        server.remove()
    # As it is read back from a file, where all keys are strings.
    return json.loads(json.dumps({"effort": vars(effort), "groups": found}))


def effort_on(binary: Binary, options: argparse.Namespace) -> Effort:
    if options.quick:
        effort = QUICK
    else:
        effort = FULL if binary.name.startswith(FLOORS_HOLD_ON) else ELSEWHERE
    return Effort(
        options.rounds or effort.rounds,
        options.rounds or effort.minor_rounds,
        options.seconds or effort.seconds,
    )


def start(binary: Binary, module: Path) -> tuple[Server, Sequence[Contender]]:
    """A server with our module, and the caller's where it loads."""
    config = [f'loadmodule "{module}"']
    command = os.environ.get("BENCH_COMMAND")
    others = [contenders.other(command)] if command else []
    another = os.environ.get("BENCH_MODULE")
    if another:
        try:
            return Server(binary, [*config, f"loadmodule {another}"], module=False), others
        except RuntimeError as failed:
            note(f"  without {another}: {str(failed).splitlines()[-1]}")
            others = []
    return Server(binary, config, module=False), others


def reserve_processor() -> int | None:
    """Keep ourselves and the load generator off one processor, for the server; None if there is
    but one.
    """
    first, *rest = sorted(os.sched_getaffinity(0))
    if not rest:
        return None
    os.sched_setaffinity(0, rest)
    return first


if __name__ == "__main__":
    main()
