"""What all pictures share: few colours, and the same bytes on every run."""

from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

# From the palette of Okabe and Ito, which colour-blind readers can tell apart.
PASSES = "#0072B2"
REFUSED = "#D55E00"
GREY = "#B4BBC4"
PALE = "#E9ECEF"
TEXT = "#24292F"
QUIET = "#6A737D"
MONO = "DejaVu Sans Mono"

pyplot.rcParams.update(
    {
        "svg.hashsalt": "redis-rl",
        "svg.fonttype": "path",  # looks the same where the font is not installed
        "font.family": "DejaVu Sans",  # comes with matplotlib
        "font.size": 10,
        "text.color": TEXT,
        "axes.edgecolor": GREY,
        "axes.labelcolor": QUIET,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.spines.left": False,
        "xtick.color": GREY,
        "xtick.labelcolor": QUIET,
        "ytick.color": GREY,
        "ytick.labelcolor": QUIET,
        "xtick.labelsize": 9,
        "ytick.labelsize": 9,
        "ytick.left": False,
    }
)


def panels(height: float, ratios: list[float], left: float, right: float = 0.97, **more):
    """A picture as wide as a page, of panels one below the other on one time axis."""
    figure, axes = pyplot.subplots(
        len(ratios), sharex=True, figsize=(8.8, height), height_ratios=ratios, squeeze=False
    )
    figure.subplots_adjust(left=left, right=right, **more)
    return figure, list(axes[:, 0])


def seconds(axis, label: str = "seconds") -> None:
    axis.set_xlabel(label, fontsize=9)


def bare(axis) -> None:
    """No scale upwards, where only the places along the time axis tell something."""
    axis.set_yticks([])


def headline(axis, command: str, meaning: str) -> None:
    """A command, and in plain words what it asks, above a panel."""
    place = {"transform": axis.transAxes, "va": "bottom"}
    axis.text(0, 1.02, command, family=MONO, fontweight="bold", **place)
    axis.text(1, 1.02, meaning, color=QUIET, ha="right", **place)


def note(axis, x: float, y: float, text: str, color: str = QUIET, **more) -> None:
    axis.text(x, y, text, color=color, **{"fontsize": 9, "va": "center"} | more)


def save(figure, name: str) -> None:
    path = Path(__file__).with_name(name + ".svg")
    figure.savefig(path, facecolor="white", metadata={"Date": None})
    # matplotlib leaves blanks at the ends of lines, which git would complain about.
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
    pyplot.close(figure)
