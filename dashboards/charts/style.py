"""How every picture looks, and its bytes: the same data give the same ones."""

from __future__ import annotations

import base64
import io
from typing import Any

import matplotlib

matplotlib.use("agg")

from matplotlib.figure import Figure

from dashboards import colours

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "orchestrate",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "text.color": colours.INK,
    "axes.edgecolor": colours.RULE,
    "axes.labelcolor": colours.MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": colours.MUTED,
    "ytick.color": colours.MUTED,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "hatch.linewidth": 0.6,
    "hatch.color": "#c3c9d0",
    "legend.frameon": False,
}
METADATA = {"svg": {"Date": None, "Creator": "orchestrate"}, "png": {"Software": "orchestrate"}}


def rendered(figure: Figure, kind: str, dpi: int = 150) -> bytes:
    """The file's bytes, ``kind`` being "svg" or "png"."""
    sink = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(sink, format=kind, dpi=dpi, metadata=METADATA[kind], facecolor="white")
    return sink.getvalue()


def inline(figure: Figure) -> str:
    """A figure as an address that a page can hold."""
    return "data:image/svg+xml;base64," + base64.b64encode(rendered(figure, "svg")).decode()
