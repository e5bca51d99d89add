"""The kinds of pictures that the laboratory needs, as PNG and SVG: grouped bars, and shares of
processors over time.

Needs the optional extra ``lab``. Pictures carry no date and no version, so that the same run gives
the same bytes.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gridtravel.gridcore.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One set of axes: a group of bars for each label, one bar of each series in a group."""

    title: str
    labels: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    """Heights beside ``labels``; ``None``: no bar."""
    is_log: bool = False


def require_charts() -> None:
    """``InputError`` when the drawing library is not installed: said before the work, not after."""
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError("pictures need matplotlib", hint="install the extra 'lab'")


def draw_bars(out: Path, name: str, panels: Sequence[Panel], unit: str) -> None:
    """Draw ``out/name.png`` and ``out/name.svg``, panels one below the other."""
    require_charts()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": name, "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(12, 3.6 * len(panels)), layout="constrained")
        for axes, panel in zip(
            figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True
        ):
            width = 0.8 / len(panel.series)
            for position, (label, heights) in enumerate(panel.series.items()):
                offset = (position - (len(panel.series) - 1) / 2) * width
                axes.bar(
                    [group + offset for group in range(len(panel.labels))],
                    [0 if height is None else height for height in heights],
                    width,
                    label=label,
                )
            axes.set_xticks(
                range(len(panel.labels)), [label.replace(", ", "\n") for label in panel.labels]
            )
            axes.set_ylabel(unit)
            axes.set_title(panel.title)
            if panel.is_log and any(any(heights) for heights in panel.series.values()):
                axes.set_yscale("log")
            axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
        _save(figure, out, name)


def draw_shares(
    out: Path,
    name: str,
    seconds: Sequence[float],
    shares: Mapping[str, Sequence[float]],
    deadlines: Mapping[str, float],
    title: str,
) -> None:
    """Draw ``out/name.png`` and ``out/name.svg``: what each job had of the processors, one
    on the other, up to each of ``seconds``; a dashed line of its colour is its deadline.
    """
    require_charts()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": name, "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(12, 4.5), layout="constrained")
        axes = figure.subplots()
        areas = axes.stackplot(seconds, *shares.values(), labels=list(shares), step="pre")
        for job, area in zip(shares, areas, strict=True):
            axes.axvline(deadlines[job], linestyle="--", color=area.get_facecolor()[0])
        axes.set_xlabel("seconds since the market opened")
        axes.set_ylabel("processors, as measured")
        axes.set_title(title)
        axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
        _save(figure, out, name)


def _save(figure: Figure, out: Path, name: str) -> None:
    try:
        figure.savefig(out / f"{name}.png", dpi=110, metadata={"Software": None})
        figure.savefig(out / f"{name}.svg", metadata={"Date": None, "Creator": None})
    except OSError as fault:
        raise InputError(f"{out / name}: cannot be drawn: {fault.strerror}") from fault
