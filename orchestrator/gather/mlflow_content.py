"""One run as a tracking store takes it: within its limits, without NaN. Pure, and free of mlflow itself."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from sweeps.layout import text
from sweeps.tables import FLAG, RUN_FIELDS, SUMMARY, Columns, read_curves

MAX_POINTS, MAX_CURVES = 30, 30
"""Of a curve, and curves of a run: one ``log_batch`` holds at most 1,000 metrics and 1,000 entities."""
MAX_PARAMS = 60
MAX_VALUE, MAX_TAG, MAX_NAME = 500, 5000, 250
"""Lengths every version of the server accepts (the limits differ between versions and between calls)."""
ENDED = {"completed": "FINISHED", "failed": "FAILED", "cancelled": "KILLED"}
"""Our states -> the store's. A run is exported when it has come to an end."""
RUN_TAG, DIGEST_TAG = "orchestrate.run_id", "orchestrate.digest"


Reading = tuple[int, float | None, str | None]
"""step, value, flag"""


@dataclass(frozen=True)
class Content:
    """Everything that is exported of one run. Times are milliseconds; ``metrics`` are (name, step, value)."""

    run: str
    name: str
    status: str
    start: int
    end: int
    params: tuple[tuple[str, str], ...]
    tags: tuple[tuple[str, str], ...]
    metrics: tuple[tuple[str, int, float], ...]

    @property
    def digest(self) -> str:
        return hashlib.sha256(orjson.dumps(asdict(self))).hexdigest()[:20]


def contents(root: Path, sweep: str, runs: Columns, wanted: set[str]) -> list[Content]:
    """The wanted runs that have ended, in the order of the plan."""
    curves = _curves(root, sweep, wanted)
    columns = {name: runs.values(name) for name, _ in RUN_FIELDS}
    summaries = {name: runs.values(SUMMARY + name) for name in runs.metrics}
    flags = {name.removeprefix(FLAG): runs.values(name) for name in runs.names if name.startswith(FLAG)}
    configs = {cell["index"]: cell.get("config", {}) for cell in runs.plan.get("cells", [])}
    made = []
    for index, run in enumerate(columns["run"]):
        row = {name: column[index] for name, column in columns.items()}
        if run not in wanted or row["state"] not in ENDED:
            continue
        summary = {name: value for name, column in summaries.items() if (value := column[index]) is not None}
        flagged = {name: value for name, column in flags.items() if (value := column[index]) is not None}
        made.append(_content(sweep, row, summary, flagged, configs.get(row["cell"], {}), curves.get(run, {})))
    return made


def _content(
    sweep: str,
    row: Mapping[str, Any],
    summary: Mapping[str, Any],
    flagged: Mapping[str, str],
    config: Mapping[str, Any],
    curves: Mapping[str, Sequence[Reading]],
) -> Content:
    labels = orjson.loads(row["labels"])
    start = row["started"] or row["finished"] or 0.0
    end = max(row["finished"] or start, start)
    params = [(name, text(level)) for name, level in labels.items()]
    params += [("seed", str(row["seed"])), ("stage", str(row["stage"])), ("runner", str(row["runner"]))]
    params += [(f"config.{name}", value) for name, value in flat(config)]
    step = int(row["step"] or 0)
    metrics = [(store_name(n), step, float(v)) for n, v in summary.items() if not isinstance(v, str)]
    dropped = sorted(curves)[MAX_CURVES - 1 :]
    budget = MAX_CURVES * MAX_POINTS - len(metrics)
    notes = [f"{name} is {flag}" for name, flag in sorted(flagged.items())]
    for name in sorted(curves):
        points = curves[name]
        if bad := [(step, flag) for step, _, flag in points if flag is not None]:
            more = f" and {len(bad) - 1} more" if bad[1:] else ""
            notes.append(f"{name} is {bad[0][1]} at step {bad[0][0]}{more}")
        finite = [(step, value) for step, value, _ in points if value is not None]
        thin = thinned(finite) if name not in dropped else []
        if len(thin) > budget:
            dropped.append(name)
            continue
        budget -= len(thin)
        taken = {(n, s) for n, s, _ in metrics}
        metrics += [(n, s, v) for s, v in thin if (n := store_name(name)) and (n, s) not in taken]
    tags = {
        RUN_TAG: row["run"],
        "orchestrate.sweep": sweep,
        "orchestrate.pack": row["pack"],
        "orchestrate.attempts": row["attempts"],
        "orchestrate.resumes": row["resumes"],
        "orchestrate.not_exact": "; ".join(row["inexact"] or []),
        "orchestrate.failure": row["failure"],
        "orchestrate.message": row["message"],
        "orchestrate.host": row["host"],
        "orchestrate.code": row["code"],
        "orchestrate.not_finite": "; ".join(notes),
        "orchestrate.not_exported": ", ".join(sorted(set(dropped))),
    } | {f"orchestrate.text.{n}": v for n, v in summary.items() if isinstance(v, str)}
    return Content(
        run=row["run"],
        name=" ".join([*(text(level) for level in labels.values()), f"s{row['seed']}"])[:MAX_NAME],
        status=ENDED[row["state"]],
        start=int(1000 * start),
        end=int(1000 * end),
        params=tuple(_unique((store_name(n), cut(v, MAX_VALUE)) for n, v in params))[:MAX_PARAMS],
        tags=tuple((store_name(n), cut(str(v), MAX_TAG)) for n, v in tags.items() if v not in (None, "")),
        metrics=tuple(metrics),
    )


def flat(config: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """A nested config as dotted keys with text values, sorted."""
    pairs = []
    for name, value in sorted(config.items()):
        if isinstance(value, Mapping):
            pairs += flat(value, f"{prefix}{name}.")
        else:
            pairs.append((f"{prefix}{name}", text(value)))
    return pairs


def cut(value: str, limit: int) -> str:
    """A value within a limit; one that was cut says so, and how long it was."""
    if len(value) <= limit:
        return value
    marker = f" [cut: {len(value)} characters, sha256 {hashlib.sha256(value.encode()).hexdigest()[:8]}]"
    return value[: limit - len(marker)] + marker


def store_name(name: str) -> str:
    """A name in the characters that stores take: ``test/accuracy@T/2`` -> ``test/accuracy at T/2``."""
    return re.sub(r"[^/\w.\- ]", "_", name.replace("@", " at "))[:MAX_NAME]


def thinned(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most ``MAX_POINTS``, evenly spaced by index, the first and the last among them."""
    if len(points) <= MAX_POINTS:
        return list(points)
    return [points[i] for i in np.linspace(0, len(points) - 1, MAX_POINTS).round().astype(int).tolist()]


def _unique(pairs: Any) -> list[tuple[str, str]]:
    return list({name: (name, value) for name, value in reversed(list(pairs))}.values())[::-1]


def _curves(
    root: Path, sweep: str, wanted: set[str]
) -> dict[str, dict[str, list[tuple[int, float | None, str | None]]]]:
    table = read_curves(root, sweep, runs=wanted)
    found: dict[str, dict[str, list[Reading]]] = {}
    names = ("run", "split", "metric", "step", "value", "flag")
    for run, split, metric, step, value, flag in zip(*map(table.values, names), strict=True):
        name = f"{split}/{metric}" if split else metric
        found.setdefault(run, {}).setdefault(name, []).append((step, value, flag))
    return found
