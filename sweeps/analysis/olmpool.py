"""The published OlmPool table as factors (sweeps/data/olmpool.csv names its source)."""

import csv
from collections.abc import Iterable, Mapping
from importlib import resources

import numpy as np

from sweeps.analysis.factorial import Fit, Pair, fit, single_factor_pairs

FACTORS = ("swa", "qk_norm", "norm", "fp8", "init", "kv_heads", "context")
OUTCOME = "helmet_32k"
TEXT = ("qk_norm", "norm", "init")


def published_rows() -> list[dict[str, float | str]]:
    """The 26 rows shipped with the package."""
    return parse(resources.files("sweeps").joinpath("data/olmpool.csv").read_text().splitlines())


def parse(lines: Iterable[str]) -> list[dict[str, float | str]]:
    """Rows of the table; numbers as floats, a missing LongPPL left out."""
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return [{k: v if k in TEXT else float(v) for k, v in row.items() if v != ""} for row in rows]


def harmful_choices(row: Mapping[str, float | str]) -> int:
    """[QK-norm present] + [fewer than 32 kv heads] + [sliding window] + [context of 4K]."""
    return sum(harm[1](row) for harm in _HARMS)


def main_effects(rows: list[dict[str, float | str]], outcome: str = OUTCOME) -> Fit:
    """Sliding window, grouped heads, their product, QK-norm, post-norm, short context and fp8."""
    factors = {name: np.array([float(holds(r)) for r in rows]) for name, holds in (*_HARMS, *_OTHERS)}
    return fit(factors, [r[outcome] for r in rows], [("SWA", "GQA")])


def count_fit(rows: list[dict[str, float | str]], outcome: str = OUTCOME) -> Fit:
    """The outcome on the number of harmful choices alone."""
    return fit({"harmful choices": [harmful_choices(r) for r in rows]}, [r[outcome] for r in rows])


def replicate_pairs(rows: list[dict[str, float | str]], outcome: str = OUTCOME) -> list[Pair]:
    """Rows that differ in the letter of their initialisation only: the nearest thing to a seed replicate."""
    return [p for p in single_factor_pairs(rows, FACTORS, outcome) if p.factor == "init"]


_HARMS = (
    ("SWA", lambda r: r["swa"] == 1),
    ("GQA", lambda r: r["kv_heads"] < 32),
    ("QK-norm", lambda r: r["qk_norm"] != "none"),
    ("4K context", lambda r: r["context"] == 4),
)
_OTHERS = (
    ("post-norm", lambda r: r["norm"] == "post"),
    ("fp8", lambda r: r["fp8"] == 1),
)
