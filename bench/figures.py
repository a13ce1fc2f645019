"""What the runs come to: ratios, their spread over rounds, and what must be reached.

All of it is computed from a server's results as they stand in the JSON.
"""

import statistics
from collections.abc import Iterable, Sequence

SMALL = {"fixed": "RL.FIXED", "token": "RL.TOKEN", "leaky": "RL.LEAKY", "counter": "RL.COUNTER"}

Results = dict
Spread = tuple[float, float, float]


def row(results: Results, group: str, identity: str) -> dict:
    """A contender's row; one without runs if the group or the contender was not measured."""
    rows = results.get(group, {}).get("rows", [])
    return next((row for row in rows if row["id"] == identity), {"id": identity, "runs": []})


def values(row: dict, name: str) -> list[float]:
    return [run[name] for run in row["runs"] if run]


def ratios(row: dict, base: dict, name: str = "rps") -> list[float]:
    """`row` / `base`, round by round."""
    pairs = zip(row["runs"], base["runs"], strict=False)
    return [ours[name] / theirs[name] for ours, theirs in pairs if ours and theirs]


def spread(values: Sequence[float]) -> Spread | None:
    """Median, least and most."""
    return (statistics.median(values), min(values), max(values)) if values else None


def within(
    results: Results, group: str, identity: str, base: str, name: str = "rps"
) -> Spread | None:
    """The spread of one contender's ratio to another of its group."""
    ours, theirs = (row(results, group, who) for who in (identity, base))
    return spread(ratios(ours, theirs, name))


def against_three(results: Results) -> Spread | None:
    """RL.ALL / the three calls in its stead, whose times add up."""
    rows = [row(results, "layers", who)["runs"] for who in ("all", "fixed", "token", "sliding")]
    rounds = [runs for runs in zip(*rows, strict=False) if all(runs)]
    return spread([every["rps"] * sum(1 / one["rps"] for one in three) for every, *three in rounds])


def floors(results: Results) -> list[dict]:
    """The figures that must be reached on Redis 7.0."""
    return [*speed_floors(results), *log_floors(results), *replica_floors(results)]


def speed_floors(results: Results) -> Iterable[dict]:
    for who, name in SMALL.items():
        yield floor(f"{name} allowed / SET PX", 1.0, within(results, "allowed", who, "set"))
    for who, entries in (("sliding", "100"), ("sliding-long", "60,000")):
        figure = f"RL.SLIDING allowed, {entries} entries / SET PX"
        yield floor(figure, 0.9, within(results, "allowed", who, "set"))
    for who, name in (SMALL | {"sliding": "RL.SLIDING"}).items():
        yield floor(f"{name} denied / GET", 0.8, within(results, "denied", who, "get"))
    for who, bound in (("sliding", 4), ("token", 4.5), ("fixed", 1.6)):
        measured = within(results, "allowed", who, f"lua-{who}")
        yield floor(f"RL.{who.upper()} / Lua {who}", bound, measured)


def log_floors(results: Results) -> Iterable[dict]:
    logs = results.get("logs", {})
    by_speed = within(results, "logs", "sliding-100", "sliding-1000000")
    yield ceiling("cost of a call, 1,000,000 entries / 100, at full speed", 1.3, by_speed)
    steps = logs.get("step_us", {})
    pairs = zip(steps.get("1000000", []), steps.get("100", []), strict=True)
    by_step = spread([long / short for long, short in pairs])
    yield ceiling("the same, a slot in and a slot out", 1.3, by_step)
    worst = max(logs.get("worst_ms", {}).values(), default=None)
    yield ceiling("worst call, 1,000,000 entries, ms", 5, worst and (worst, worst, worst))
    sizes = results.get("memory", {}).get("logs", [{}] * 3)
    names = ("100 entries", "60,000 entries", "600,000 requests in 60 s")
    for size, name, bound in zip(sizes, names, (13, 12, 2), strict=True):
        measured = size and (max(size["filled"], size["later"]), size["filled"], size["later"])
        yield ceiling(f"bytes per live request, {name}", bound, measured or None)


def replica_floors(results: Results) -> Iterable[dict]:
    for who in ("sliding", "token", "fixed"):
        measured = within(results, "replica", who, f"lua-{who}", "sent")
        yield ceiling(f"replication bytes, RL.{who.upper()} / Lua {who}", 0.5, measured)


def floor(figure: str, bound: float, measured: Spread | None, at_least: bool = True) -> dict:
    reached = None
    if measured:
        reached = measured[0] >= bound if at_least else measured[0] <= bound
    return {
        "figure": figure,
        "bound": bound,
        "at_least": at_least,
        "measured": measured and [round(value, 4) for value in measured],
        "reached": reached,
    }


def ceiling(figure: str, bound: float, measured: Spread | None) -> dict:
    return floor(figure, bound, measured, at_least=False)
