"""The doctor's look at a site."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cluster.fake_slurm.control import FakeSlurm
from cluster.slurm.commands import Answer, Commands, run_command
from cluster.slurm.probe import SiteFinding, filesystem, probe
from cluster.slurm.profile import Profile


def found(findings: list[SiteFinding], text: str) -> SiteFinding:
    return next(finding for finding in findings if text in finding.what)


def test_a_site_that_is_well(tmp_path: Path, slurm: FakeSlurm) -> None:
    slurm.configure(KillWait=30)
    findings = list(probe(tmp_path / "runs", Profile(partition="gpu")))
    assert not [finding for finding in findings if finding.level == "error"]
    assert "22.05.8 on fake" in found(findings, "Slurm").what
    assert found(findings, "arrays of up to 1001").level == "ok"
    assert found(findings, "accounting answers").level == "ok"
    assert found(findings, "30 s from TERM to KILL").level == "ok"
    assert found(findings, "queued again").level == "ok"
    assert found(findings, "partition gpu").level == "ok"
    assert found(findings, "links, renames and appends").level == "ok"
    assert found(findings, "clock agrees").level == "ok"
    assert list((tmp_path / "runs").iterdir()) == [], "nothing is left behind"
    assert slurm.calls.get("sbatch", 0) == 0, "nothing is submitted"


def test_what_will_not_work_is_said_with_its_reason(tmp_path: Path, slurm: FakeSlurm) -> None:
    slurm.configure(KillWait=5, MaxSubmit=50)
    slurm.switch(accounting_off=True)
    findings = list(probe(tmp_path / "runs", Profile(partition="nosuch", lead_s=10)))
    assert found(findings, "no accounting").level == "warning"
    assert found(findings, "5 s from TERM").level == "warning"
    assert found(findings, "lead before a time limit is 10 s").level == "warning"
    nosuch = found(findings, "no partition nosuch")
    assert nosuch.level == "error"
    assert "gpu, preempt, scavenge" in nosuch.advice


def test_a_preemption_that_cancels_is_a_warning(tmp_path: Path, slurm: FakeSlurm) -> None:
    findings = list(probe(tmp_path / "runs", Profile(partition="scavenge")))
    assert found(findings, "preemption in scavenge cancels").level == "warning"


def test_a_submit_limit_is_told(tmp_path: Path, slurm: FakeSlurm) -> None:
    slurm.configure(MaxSubmit=50)
    assert found(list(probe(tmp_path / "runs", Profile())), "50 jobs queued").level == "ok"


def test_a_controller_that_is_away(tmp_path: Path, slurm: FakeSlurm) -> None:
    slurm.switch(controller_down=True)
    (finding,) = [f for f in probe(tmp_path / "runs", Profile()) if f.level == "error"]
    assert "does not answer" in finding.what


def test_no_slurm_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (finding,) = probe(tmp_path / "runs", Profile())
    assert finding.level == "error"
    assert "sbatch" in finding.what


def test_maintenance_shortens_what_may_be_asked_for(tmp_path: Path, slurm: FakeSlurm) -> None:
    begin = datetime.now() + timedelta(hours=5)

    def run(argv: Sequence[str], limit: float) -> Answer:
        if "reservation" in argv:
            line = f"ReservationName=m1 StartTime={begin:%Y-%m-%dT%H:%M:%S} EndTime=x Flags=MAINT,IGNORE_JOBS Nodes=a\n"
            return Answer(0, line, "")
        return run_command(argv, limit)

    findings = list(probe(tmp_path / "runs", Profile(), Commands(run=run)))
    assert "more than 5.0 h" in found(findings, "maintenance m1").advice


def test_an_unwritable_workspace_is_an_error(tmp_path: Path, slurm: FakeSlurm) -> None:
    (tmp_path / "file").write_text("")
    findings = list(probe(tmp_path / "file" / "runs", Profile()))
    assert any(finding.level == "error" and "file" in finding.what for finding in findings)


def test_file_systems_are_told(tmp_path: Path) -> None:
    assert filesystem(Path("/proc")) == "proc"
    assert filesystem(tmp_path)
