"""The tables that a run prints."""

from collections.abc import Iterable

from .figures import against_three, ratios, row, spread, values

LABEL = 56
VERDICT = 32


def tables(servers: dict) -> Iterable[str]:
    """Lines for every server and group, then what must be reached."""
    for name, server in servers.items():
        for group, result in server["groups"].items():
            yield ""
            yield f"== {name}: {result['title']}"
            yield from speeds(server["groups"], group) if "rows" in result else sizes(result)
            if "step_us" in result:
                yield from long_logs(result)
            if group == "layers":
                three = cell(against_three(server["groups"]))
                yield f"{'RL.ALL / the three calls one by one':<{LABEL}} {three}"
    yield ""
    yield from must_reach(servers)


def speeds(groups: dict, group: str) -> Iterable[str]:
    result = groups[group]
    head = f"{'':<{LABEL}} {'requests/s':>10}  {'/ SET PX':<17} {'/ GET':<17} {'/ Lua':<17}"
    head += f" {'us':>6} {'busy':>5}"
    latencies = result["depth"] == 1
    if latencies:
        head += f" {'p50':>6} {'p99':>6} {'p99.9':>6} {'worst':>6}"
    if group == "replica":
        head += f" {'sent':>6}"
    yield head.rstrip()
    for line in result["rows"]:
        yield speed(groups, group, line, latencies).rstrip()


def speed(groups: dict, group: str, line: dict, latencies: bool) -> str:
    label = f"{line['label']:<{LABEL}}"
    if not values(line, "rps"):
        return f"{label} not measured: {line['remark']}"
    text = f"{label} {median(line, 'rps'):>10,.0f}  "
    for base in ("set", "get", f"lua-{line['id']}"):
        other = row(groups, group, base)
        text += f"{cell(spread(ratios(line, other)) if base != line['id'] else None):<17} "
    text += f"{median(line, 'cpu_us'):>6.2f} {median(line, 'busy'):>5.0%}"
    if latencies:
        text += "".join(f" {median(line, name):>6.2f}" for name in ("p50", "p99", "p999"))
        text += f" {max(values(line, 'worst')):>6.2f}"
    if group == "replica":
        text += f" {median(line, 'sent'):>6.1f}"
    return text + (f"  ({line['remark']})" if line["remark"] else "")


def long_logs(result: dict) -> Iterable[str]:
    for entries, spent in result["step_us"].items():
        label = f"server us of a call, slot in and out, {int(entries):,} entries"
        yield f"{label:<{LABEL}} {cell(spread(spent))}"
    for phase, worst in result["worst_ms"].items():
        yield f"{'worst call in ms: ' + phase:<{LABEL}} {worst:.2f}"
    yield f"{'the Lua script, all gone at once':<{LABEL}} {result['lua_worst_ms']:.2f}"


def sizes(result: dict) -> Iterable[str]:
    yield f"{'bytes per live request':<{LABEL}} {'filled':>8} {'later':>8} {'Lua':>8}"
    for log in result["logs"]:
        label = f"{log['requests']:,} requests in {log['window_ms']:,} ms"
        yield f"{label:<{LABEL}} {log['filled']:>8.2f} {log['later']:>8.2f} {log['lua']:>8.2f}"
    yield f"{'bytes per key (MEMORY USAGE user:42 SAMPLES 0)':<{LABEL}}"
    for key in result["keys"]:
        yield f"{key['label']:<{LABEL}} {key['bytes']:>8}"


def must_reach(servers: dict) -> Iterable[str]:
    yield "== must reach (median, least to most; the floors are meant for Redis 7.0)"
    yield (
        f"{'':<{LABEL}} {'floor':>7}  " + "".join(f"{name:<{VERDICT}}" for name in servers).rstrip()
    )
    for lines in zip(*(server["floors"] for server in servers.values()), strict=True):
        sign = ">=" if lines[0]["at_least"] else "<="
        bound = f"{sign} {lines[0]['bound']:g}"
        verdicts = "".join(f"{verdict(line):<{VERDICT}}" for line in lines)
        yield f"{lines[0]['figure']:<{LABEL}} {bound:>7}  {verdicts}".rstrip()


def verdict(line: dict) -> str:
    if line["reached"] is None:
        return "-"
    return f"{cell(line['measured'])} {'pass' if line['reached'] else 'FAIL'}"


def median(line: dict, name: str) -> float:
    return spread(values(line, name))[0]


def cell(measured: Iterable[float] | None) -> str:
    if measured is None:
        return ""
    middle, least, most = measured
    return f"{middle:.2f} ({least:.2f}-{most:.2f})"
