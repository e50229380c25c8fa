"""A study's pilot on a cluster: the same rounds, handed over to Slurm one after the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from cluster.fake_slurm.control import FakeSlurm
from cluster.slurm.commands import Commands
from cluster.submitit_backend import SlurmBackend
from jobs.workspace import Workspace
from orchestrator.cli import running
from orchestrator.cli.piloting import run_pilots
from orchestrator.policy import Policy, default_policy

PILOT = """
name: grid
runner: toy
seeds: {values: 1, first: 9001}
config: {steps: 2, best_lr: 0.1}
factors: {task: {far: {}}, lr: [0.01, 0.02]}
pack: {max: 9}
"""
STUDY = """
name: study
runner: toy
pilots: {rates: {sweep: pilot.yaml, clip: [2, 4]}}
factors: {task: {far: {lr: "${values.rates.far.lr}"}}}
"""


def hurried(backend: str, max_in_flight: int | None = None) -> Policy:
    return replace(default_policy(backend, max_in_flight), poll_s=(0.2, 1.0), settle_s=0.1, verdict_wait_s=1.0)


def impatient(name: str, **options: Any) -> SlurmBackend:
    return SlurmBackend(commands=Commands(looks_per_minute=6000, orders_per_minute=6000), **options)


def test_rounds_go_through_slurm(slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "default_policy", hurried)
    monkeypatch.setattr(running, "make_backend", impatient)
    (tmp_path / "pilot.yaml").write_text(PILOT)
    (tmp_path / "study.yaml").write_text(STUDY)
    space = Workspace(tmp_path / "runs")
    study = str(tmp_path / "study.yaml")
    tables = run_pilots(space, study, (), "slurm", None, Console(), "again")
    content = yaml.safe_load(tables["rates"].read_text())
    assert content["values"]["rates"]["far"]["lr"] == 0.1, "one decade beyond the grid"
    assert content["values"]["rates_source"]["made_by"].startswith("orchestrate rates grid grid-x1 ")
    assert slurm.calls["sbatch"] == 2
    assert run_pilots(space, study, (), "slurm", None, Console(), "again") == tables
    assert slurm.calls["sbatch"] == 2, "nothing was left to run"
