"""Writes the tables of docs/performance.md from results/full.json and results/before.json:
`python -m bench.tables`."""

import json
import sys

from . import REPOSITORY, RESULTS
from .figures import against_three, ratios, row, spread, values

sys.path.insert(0, str(REPOSITORY / "docs" / "pictures"))
from page import replace, table

PAGE = REPOSITORY / "docs" / "performance.md"
DEFAULT = "redis-7.0.15"
DEPTHS = {"depth-1": "1", "depth-16": "16", "allowed": "32", "depth-64": "64"}
FEW = ("get", "incr", "fixed", "token", "leaky", "counter", "sliding")


def main() -> None:
    full = json.loads((RESULTS / "full.json").read_text())
    before = json.loads((RESULTS / "before.json").read_text())
    servers = full["servers"]
    here = servers[DEFAULT]["groups"]
    for name, text in {
        "conditions": conditions(full),
        "allowed": speeds(here, "allowed"),
        "denied": speeds(here, "denied"),
        "floors": floors(servers),
        "before": changes(before["servers"], servers),
        "depth": depths(here),
        "latency": latencies(here),
        "logs": logs(servers),
        "hot": speeds(here, "hot"),
        "layers": layers(servers),
        "sent": sent(servers),
    }.items():
        replace(PAGE, name, text)


def cell(measured) -> str:
    if measured is None:
        return ""
    middle, least, most = measured
    return f"{middle:.2f} ({least:.2f} to {most:.2f})"


def conditions(full: dict) -> str:
    told = full["conditions"]
    effort = full["servers"][DEFAULT]["effort"]
    return (
        f"{told['date'][:10]}, {told['cpu']}, {told['cores']} cores, Linux {told['kernel']};\n"
        "`redis-benchmark` 7.0.15 on one core, the server on the other; no persistence,\n"
        f"no replica; {effort['rounds']} rounds of {effort['seconds']} s each on Redis 7.0.15, "
        "fewer on the others, the contenders in turn. Figures\n"
        "are the median, and the least and the most of all rounds.\n"
    )


def speeds(groups: dict, group: str) -> str:
    rows = []
    for line in groups[group]["rows"]:
        if not values(line, "rps"):
            continue
        others = [row(groups, group, who) for who in ("set", "get", f"lua-{line['id']}")]
        rows.append(
            [
                f"`{line['label']}`" if line["label"].isupper() else line["label"],
                f"{spread(values(line, 'rps'))[0]:,.0f}",
                *(
                    cell(spread(ratios(line, other))) if other["id"] != line["id"] else ""
                    for other in others
                ),
                f"{spread(values(line, 'cpu_us'))[0]:.2f}",
            ]
        )
    return table(["", "requests/s", "/ `SET PX`", "/ `GET`", "/ its script", "server us"], rows)


def verdict(line: dict) -> str:
    if not line["measured"]:
        return ""
    middle = line["measured"][0]
    return f"{middle:.2f}" if line["reached"] else f"**{middle:.2f}**"


def floors(servers: dict) -> str:
    rows = []
    for lines in zip(*(server["floors"] for server in servers.values()), strict=True):
        sign = "at least" if lines[0]["at_least"] else "at most"
        bound = f"{sign} {lines[0]['bound']:g}"
        rows.append([lines[0]["figure"], bound, *map(verdict, lines)])
    return table(["", "wanted", *servers], rows)


def changes(before: dict, after: dict) -> str:
    rows = []
    names = [name for name in after if name in before]
    for i, line in enumerate(after[DEFAULT]["floors"]):
        pairs = [(before[name]["floors"][i], after[name]["floors"][i]) for name in names]
        if all(old["measured"] and new["measured"] for old, new in pairs):
            shown = [f"{o['measured'][0]:.2f}, {n['measured'][0]:.2f}" for o, n in pairs]
            rows.append([line["figure"], *shown])
    return table(["before, after", *names], rows)


def depths(groups: dict) -> str:
    rows = []
    for who in FEW:
        cells = [
            cell(spread(ratios(row(groups, group, who), row(groups, group, "set"))))
            for group in DEPTHS
        ]
        rows.append([row(groups, "allowed", who)["label"], *cells])
    return table(["/ `SET PX`", *(f"pipeline {depth}" for depth in DEPTHS.values())], rows)


def latencies(groups: dict) -> str:
    rows = []
    for line in groups["depth-1"]["rows"]:
        if values(line, "p50"):
            times = [spread(values(line, name))[0] for name in ("p50", "p99", "p999")]
            worst = max(values(line, "worst"))
            rows.append([line["label"], *(f"{time:.2f}" for time in (*times, worst))])
    return table(["ms, pipeline 1, 50 clients", "p50", "p99", "p99.9", "worst"], rows)


def logs(servers: dict) -> str:
    rows = []
    for name, server in servers.items():
        result = server["groups"].get("logs")
        if not result:
            continue
        steps = [cell(spread(spent)) for spent in result["step_us"].values()]
        worst = max(result["worst_ms"].values())
        rows.append([name, *steps, f"{worst:.1f}", f"{result['lua_worst_ms']:.0f}"])
    sizes = [f"{int(n):,}" for n in servers[DEFAULT]["groups"]["logs"]["step_us"]]
    head = ["server us of a call, a log of", *sizes, "worst call, ms", "the script's worst, ms"]
    return table(head, rows)


def layers(servers: dict) -> str:
    rows = [[name, cell(against_three(server["groups"]))] for name, server in servers.items()]
    return table(["", "`RL.ALL` of three / the three calls one by one"], rows)


def sent(servers: dict) -> str:
    whos = ("fixed", "token", "sliding")
    rows = []
    for name, server in servers.items():
        cells = []
        for who in whos:
            pair = [row(server["groups"], "replica", one) for one in (who, f"lua-{who}")]
            if all(values(line, "sent") for line in pair):
                ours, theirs = (spread(values(line, "sent"))[0] for line in pair)
                cells.append(f"{ours:.0f} / {theirs:.0f}")
            else:
                cells.append("")
        rows.append([name, *cells])
    head = ["bytes to a replica, ours / the script's", *(f"`RL.{who.upper()}`" for who in whos)]
    return table(head, rows)


if __name__ == "__main__":
    main()
