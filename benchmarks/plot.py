"""Plots of the report: ratios of wall times to pylance, with their targets; recall over time."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl

mpl.use("svg")

from matplotlib import pyplot as plt  # after the choice of the backend
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from benchmarks.behind import under_headings
from benchmarks.report import ratio

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

INK, SOFT, GRID = "#1d2126", "#5d6670", "#dfe2e6"
MET, OPEN, NONE, OTHER = "#2a7f62", "#c8553d", "#3b6ea5", "#98a2ae"
# Texts stay texts: a third of the size, and they can be searched.
STYLE: Final = {
    "svg.hashsalt": "alance",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9,
}
TICKS: Final = [0.05, 0.1, 0.2, 0.33, 0.5, 1, 2, 3, 5, 10, 20]


def plot(results: dict[str, Any], path: Path) -> None:
    """Draw a row for each case, local ones first: alance, Vortex, target, on a log scale."""
    tables = under_headings(results["cases"])
    cases = [(heading, case) for heading, table in tables.items() for case in table]
    mpl.rcParams.update(STYLE)
    figure, axes = plt.subplots(figsize=(9.6, 1.5 + 0.27 * len(cases)))
    values = [1.0]
    for y, (_, case) in enumerate(cases):
        target, ours = case["target"], ratio(case)
        colour = NONE if target is None else MET if ours <= target else OPEN
        axes.plot([1, ours], [y, y], color=colour, linewidth=2.2, alpha=0.45, zorder=2)
        axes.plot(ours, y, "o", color=colour, markersize=7, zorder=4)
        values.append(ours)
        if target is not None:
            axes.plot(target, y, "|", color=INK, markersize=12, markeredgewidth=1.8, zorder=5)
            values.append(target)
        if "vortex" in case["sides"]:
            theirs = ratio(case, "vortex")
            axes.plot(theirs, y, "D", color=OTHER, fillstyle="none", markersize=5, zorder=3)
            values.append(theirs)
        axes.text(1.015, y, f"{ours:.2f}", transform=axes.get_yaxis_transform(), va="center",
                  color=colour, fontweight="bold")  # fmt: skip
    axes.axvline(1, color=SOFT, linewidth=1, zorder=1)
    for end in accumulate(map(len, [*tables.values()][:-1])):
        axes.axhline(end - 0.5, color=SOFT, linewidth=0.8, linestyle=":")
    labels = [f"{heading}  {case['table']}: {case['name']}" for heading, case in cases]
    axes.set_yticks(range(len(cases)), labels)
    axes.set_ylim(len(cases) - 0.4, -0.6)
    axes.set_xscale("log")
    axes.set_xlim(min(values) * 0.85, max(values) * 1.15)
    axes.xaxis.set_major_locator(FixedLocator(TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=INK)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xlabel("wall time over that of pylance: left of 1 is faster", color=SOFT)
    axes.set_title("alance beside pylance, ratio of medians", loc="left", fontsize=12,
                   fontweight="bold", pad=28)  # fmt: skip
    axes.legend(handles=_legend(), loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=5,
                frameon=False, columnspacing=1.4, handletextpad=0.4)  # fmt: skip
    figure.savefig(path, bbox_inches="tight", facecolor="white", metadata={"Date": None})
    plt.close(figure)


def plot_recall(points: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw recall over the time of a search and over its requests, for the table `vectors`.

    Each side has a curve over the number of probed partitions.
    """
    mpl.rcParams.update(STYLE)
    panels = [("local", "again", "ms"), ("lab", "others", "ms"), ("lab", "others", "requests")]
    figure, all_axes = plt.subplots(1, len(panels), figsize=(9.6, 3.6), sharey=True)
    for axes, (place, when, what) in zip(all_axes, panels, strict=True):
        for refine, style in ((None, "--"), (10, "-")):
            for side, colour in (("alance", MET), ("pylance", OTHER)):
                chosen = [
                    point["sides"][side]
                    for point in points
                    if (point["table"], point["place"], point["when"]) == ("vectors", place, when)
                    and point["refine_factor"] == refine
                ]
                label = f"{side}{', refined' if refine else ''}"
                axes.plot([run[what] for run in chosen], [run["recall"] for run in chosen],
                          style, color=colour, marker="o", markersize=4, label=label)  # fmt: skip
        axes.set_xscale("log")
        axes.set_title(f"{place}, {when}", loc="left")
        axes.set_xlabel("ms a search" if what == "ms" else "requests a search", color=SOFT)
        axes.grid(color=GRID, linewidth=0.8)
        for side_of_box in axes.spines.values():
            side_of_box.set_visible(False)
    all_axes[0].set_ylabel("recall of the 10 nearest", color=SOFT)
    all_axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, bbox_inches="tight", facecolor="white", metadata={"Date": None})
    plt.close(figure)


def _legend() -> list[Line2D]:
    def mark(colour: str, marker: str, label: str, **more: Any) -> Line2D:
        return Line2D([], [], color=colour, marker=marker, linestyle="none", label=label, **more)

    return [
        mark(MET, "o", "alance, target met"),
        mark(OPEN, "o", "target not met"),
        mark(NONE, "o", "no target"),
        mark(INK, "|", "target", markersize=10, markeredgewidth=1.8),
        mark(OTHER, "D", "Vortex", fillstyle="none"),
    ]
