"""Metric rows of several attempts become one curve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from orchestrator.gather.curves import flagged, merged_points, points_table, split_name


def log(path: Path, rows: list[dict[str, Any]], torn: bytes = b"") -> Path:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows) + torn)
    return path


def points(run: str, steps: range, value: float) -> list[dict[str, Any]]:
    return [{"run": run, "step": step, "test/accuracy": value} for step in steps]


def test_complaint_7_12_three_segments_with_overlap_make_one_curve(tmp_path: Path) -> None:
    """wandb/wandb#2423 and others: pieces of a time-limited run neither double nor replace each other."""
    first = log(tmp_path / "1", points("ra", range(10, 60, 10), 0.1))
    second = log(tmp_path / "2", points("ra", range(40, 90, 10), 0.2))
    third = log(tmp_path / "3", points("ra", range(70, 100, 10), 0.3))
    merged = merged_points([(1, first), (2, second), (3, third)], ["ra"])
    assert [(step, value, attempt) for _, step, _, _, value, _, attempt in merged] == [
        (10, 0.1, 1), (20, 0.1, 1), (30, 0.1, 1),
        (40, 0.2, 2), (50, 0.2, 2), (60, 0.2, 2),
        (70, 0.3, 3), (80, 0.3, 3), (90, 0.3, 3),
    ]  # fmt: skip


def test_each_run_of_a_pack_has_its_own_first_step(tmp_path: Path) -> None:
    """A member that had finished writes nothing in the second attempt and loses nothing by it."""
    first = log(tmp_path / "1", points("ra", range(10, 40, 10), 0.1) + points("rb", range(10, 40, 10), 0.1))
    second = log(tmp_path / "2", points("rb", range(20, 50, 10), 0.2))
    merged = merged_points([(1, first), (2, second)], ["rb", "ra"])
    assert [(run, step, attempt) for run, step, *_, attempt in merged] == [
        ("rb", 10, 1), ("rb", 20, 2), ("rb", 30, 2), ("rb", 40, 2), ("ra", 10, 1), ("ra", 20, 1), ("ra", 30, 1),
    ]  # fmt: skip


def test_a_later_piece_that_got_less_far_still_wins(tmp_path: Path) -> None:
    first = log(tmp_path / "1", points("ra", range(2, 8, 2), 0.1))
    second = log(tmp_path / "2", points("ra", range(4, 6, 2), 0.2))
    merged = merged_points([(1, first), (2, second)], ["ra"])
    assert [(step, attempt) for _, step, *_, attempt in merged] == [(2, 1), (4, 2)]


def test_rows_of_one_step_are_joined_and_a_torn_line_is_dropped(tmp_path: Path) -> None:
    rows = [{"run": "ra", "step": 1, "test/accuracy": 0.5}, {"run": "ra", "step": 1, "train/loss": 1.0}]
    path = log(tmp_path / "1", [*rows, {"run": "stranger", "step": 1, "train/loss": 9.0}], torn=b'{"run": "ra", "st')
    merged = merged_points([(1, path)], ["ra"])
    assert [(split, metric, value) for _, _, split, metric, value, *_ in merged] == [
        ("test", "accuracy", 0.5),
        ("train", "loss", 1.0),
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, (1.0, None)), ("nan", (None, "nan")), ("-inf", (None, "-inf")), (None, (None, "nan")), ("inf", (None, "inf"))],
)
def test_what_is_not_finite_becomes_a_flag(value: Any, expected: tuple[float | None, str | None]) -> None:
    assert flagged(value) == expected


def test_a_key_splits_at_its_first_slash() -> None:
    assert split_name("test/accuracy/length_3") == ("test", "accuracy/length_3")
    assert split_name("loss") == ("", "loss")


def test_no_points_make_an_empty_table_with_the_columns() -> None:
    assert points_table([]).num_rows == 0
    assert points_table([]).column_names == ["run", "step", "split", "metric", "value", "flag", "attempt"]
