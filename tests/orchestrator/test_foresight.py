"""The power line of a plan counts the seeds and arms of its comparison, not all runs."""

from __future__ import annotations

from pathlib import Path

import yaml

from orchestrator.foresight import power_of
from sweeps.expand import expand
from sweeps.load import load_sweep


def test_the_study_is_counted_by_its_own_comparison() -> None:
    line = power_of(expand(load_sweep("compat", preset="mini")))
    assert line is not None
    assert line.startswith("power: 6 seeds x 13 arms")  # 8 rows and 5 controls; the rate 1/3 is not the primary slice


def test_a_sweep_without_a_baseline_has_no_line(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(yaml.safe_dump({"name": "one", "runner": "toy", "factors": {"steps": [1, 2]}}))
    assert power_of(expand(load_sweep(file))) is None


def test_one_seed_decides_nothing(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    content = {"name": "one", "runner": "toy", "factors": {"steps": [1, 2]}, "analysis": {"baseline": {"steps": 1}}}
    file.write_text(yaml.safe_dump(content))
    line = power_of(expand(load_sweep(file)))
    assert line is not None
    assert "no effect can be decided" in line
