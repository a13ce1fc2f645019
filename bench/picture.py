"""Draws the ratios of a run: `python -m bench.picture results.json picture.svg` draws it again."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from .contenders import spoken
from .figures import SMALL, Spread, within
from .rounds import DEPTH, MANY

# Of the palette of Okabe and Ito, which the colour-blind can tell apart.
OURS, LUA, CORE = "#0072B2", "#E69F00", "#999999"
KINDS = {OURS: "redis-rl", LUA: "Lua script", CORE: "other command"}
INK = "#000000"

SETTINGS = {
    "font.size": 9,
    "svg.hashsalt": "redis-rl",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True)
class Bar:
    """A ratio to show: whose, to whose, and the floor under it, if there is one."""

    label: str
    identity: str
    base: str
    colour: str = OURS
    floor: float | None = None


@dataclass(frozen=True)
class Panel:
    axis: str
    group: str
    bars: tuple[Bar, ...]


def panels(other: str) -> tuple[Panel, ...]:
    """All there is to show; `other` is the command that the caller named, if one."""
    small = [Bar(name, who, "set", floor=1.0) for who, name in SMALL.items()]
    denied = SMALL | {"sliding": "RL.SLIDING, 100 entries"}
    allowed = (
        Bar("GET", "get", "set", CORE),
        Bar("INCR", "incr", "set", CORE),
        *small,
        Bar("RL.TOKEN, key made anew", "token-new", "set"),
        Bar("RL.SLIDING, 100 entries", "sliding", "set", floor=0.9),
        Bar("RL.SLIDING, 60,000 entries", "sliding-long", "set", floor=0.9),
        Bar(other, "other", "set", CORE),
        *scripts("set"),
        Bar("Lua sliding log, 60,000 entries", "lua-sliding-long", "set", LUA),
    )
    scripted = (("fixed", 1.6), ("token", 4.5), ("sliding", 4))
    return (
        Panel("allowed; SET k v PX 60000 = 1", "allowed", allowed),
        Panel(
            "denied; GET = 1",
            "denied",
            (*(Bar(n, who, "get", floor=0.8) for who, n in denied.items()), *scripts("get")),
        ),
        Panel(
            "allowed; its Lua script = 1",
            "allowed",
            tuple(Bar(f"RL.{w.upper()}", w, f"lua-{w}", floor=least) for w, least in scripted),
        ),
    )


def scripts(base: str) -> tuple[Bar, ...]:
    names = {
        "fixed": "fixed window",
        "token": "token bucket",
        "sliding": "sliding log, 100 entries",
    }
    return tuple(Bar(f"Lua {name}", f"lua-{who}", base, LUA) for who, name in names.items())


def draw(results: dict, target: Path) -> None:
    """One row of panels for each question, one column for each server."""
    servers = results["servers"]
    other = spoken([results["conditions"]["parameters"]["command"]])
    rows = [panel for panel in (measured(p, servers) for p in panels(other)) if panel.bars]
    if not rows:
        return
    heights = [len(panel.bars) + 2 for panel in rows]
    with pyplot.rc_context(SETTINGS):
        figure, grid = pyplot.subplots(
            len(rows),
            len(servers),
            figsize=(2.6 + 2.5 * len(servers), 1.2 + 0.24 * sum(heights)),
            height_ratios=heights,
            sharex="row",
            sharey="row",
            squeeze=False,
            layout="constrained",
        )
        for panel, line in zip(rows, grid, strict=True):
            for server, axes in zip(servers.values(), line, strict=True):
                bars(axes, panel, server["groups"])
            line[0].set_xlim(0, widest(panel, servers) * 1.2)
        for name, axes in zip(servers, grid[0], strict=True):
            axes.set_title(name, fontweight="bold", pad=8)
        figure.suptitle(f"Throughput as a ratio: {MANY:,} keys, pipeline {DEPTH}")
        legend(figure)
        figure.savefig(target, metadata={"Date": None} if target.suffix == ".svg" else None)
        pyplot.close(figure)


def measured(panel: Panel, servers: dict) -> Panel:
    """The panel without bars that no server has."""
    groups = [server["groups"] for server in servers.values()]
    found = tuple(bar for bar in panel.bars if any(ratio(panel, bar, g) for g in groups))
    return Panel(panel.axis, panel.group, found)


def ratio(panel: Panel, bar: Bar, groups: dict) -> Spread | None:
    return within(groups, panel.group, bar.identity, bar.base)


def widest(panel: Panel, servers: dict) -> float:
    groups = [server["groups"] for server in servers.values()]
    found = [ratio(panel, bar, g) for bar in panel.bars for g in groups]
    return max([most for _, _, most in filter(None, found)] + [b.floor or 0 for b in panel.bars])


def bars(axes: Axes, panel: Panel, groups: dict) -> None:
    axes.axvline(1, color="#bbbbbb", linewidth=0.8, zorder=0)
    for place, bar in enumerate(panel.bars):
        found = ratio(panel, bar, groups)
        if found is None:
            continue
        middle, least, most = found
        axes.barh(place, middle, color=bar.colour, height=0.7)
        whisker = [[middle - least], [most - middle]]
        axes.errorbar(middle, place, xerr=whisker, color=INK, linewidth=0.8, capsize=2)
        if bar.floor is not None:
            axes.plot([bar.floor] * 2, [place - 0.45, place + 0.45], color=INK, linewidth=2)
        # The medians stand in a column at the right edge, clear of whiskers and floors.
        axes.text(
            1,
            place,
            f"{middle:.2f}",
            transform=axes.get_yaxis_transform(),
            horizontalalignment="right",
            verticalalignment="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(panel.bars)), [bar.label for bar in panel.bars])
    axes.set_ylim(len(panel.bars) - 0.4, -0.6)
    axes.set_xlabel(panel.axis)
    axes.tick_params(axis="y", length=0)


def legend(figure: Figure) -> None:
    handles = [Patch(color=colour, label=name) for colour, name in KINDS.items()]
    handles.append(Line2D([], [], color=INK, linewidth=2, label="floor"))
    whisker = Line2D([], [], color=INK, linewidth=0.8, marker="|", label="least to most")
    ncols = 5 if figure.get_figwidth() > 8 else 3
    figure.legend(
        handles=[*handles, whisker], loc="outside lower center", ncols=ncols, frameon=False
    )


def main(arguments: Sequence[str]) -> None:
    source, target = map(Path, arguments)
    draw(json.loads(source.read_text()), target)


if __name__ == "__main__":
    main(sys.argv[1:])
