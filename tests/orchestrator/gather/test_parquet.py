"""Tables of a sweep: complete, incremental, the same bytes whichever way they came about."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from jobs.workspace import Workspace
from orchestrator.gather.parquet import gather
from sweeps.errors import SweepError
from sweeps.tables import read_curves, read_parquet, read_runs

ANALYSIS = {"metric": "test/accuracy", "baseline": {"arm": "a"}}


def tables(workspace: Workspace, name: str) -> tuple[bytes, bytes]:
    return workspace.runs_table(name).read_bytes(), workspace.curves_table(name).read_bytes()


def made(synthetic: ModuleType, count: int, **more: Any) -> list[Any]:
    return [
        synthetic.Made({"arm": "ab"[i % 2]}, seed=i // 2, summary={"test/accuracy": i / count}, **more)
        for i in range(count)
    ]


def test_complaint_7_08_a_thousand_and_one_runs_are_a_thousand_and_one(tmp_path: Path, synthetic: ModuleType) -> None:
    """mlflow/mlflow#627, #1517, #15814: no silent cap."""
    synthetic.write_plain(tmp_path, made(synthetic, 1001), ANALYSIS)
    gathered = gather(Workspace(tmp_path), "plain")
    assert gathered.runs == 1001
    assert gathered.states == {"completed": 1001}
    assert len(read_runs(tmp_path, "plain")) == 1001


def test_no_file_is_written_per_run(tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.write_plain(tmp_path, made(synthetic, 100), ANALYSIS)
    gather(Workspace(tmp_path), "plain")
    assert sorted(p.name for p in (tmp_path / "tables").rglob("*")) == ["curves.parquet", "plain", "runs.parquet"]


def test_gathering_bit_by_bit_gives_the_bytes_of_gathering_at_once(tmp_path: Path, synthetic: ModuleType) -> None:
    """Summaries differ in their columns from pack to pack, and a pack gets a second attempt between two gathers."""
    whole = tmp_path / "whole"
    workspace = synthetic.write_study(whole, synthetic.Study(tasks=("memorize", "copy"), points=4))
    part = tmp_path / "part"
    shutil.copytree(whole / "sweeps", part / "sweeps")
    packs = sorted((whole / "packs").glob("*/*"))
    for index, pack in enumerate(packs):
        target = part / pack.relative_to(whole)
        for attempt in sorted(pack.glob("a*")):
            shutil.copytree(attempt, target / attempt.name)
            if index % 3 == 0 or attempt.name == "a2":
                gather(Workspace(part), "compat")
    gather(Workspace(part), "compat")
    gather(workspace, "compat")
    assert len(list((whole / "packs").glob("*/*/a2"))) >= 1
    assert tables(Workspace(part), "compat") == tables(workspace, "compat")


def test_a_second_gather_reads_only_what_is_not_final_and_changes_nothing(
    tmp_path: Path, synthetic: ModuleType
) -> None:
    runs = made(synthetic, 40)
    runs[-1].summary = None
    synthetic.write_plain(tmp_path, runs, ANALYSIS, pack=8)
    workspace = Workspace(tmp_path)
    first = gather(workspace, "plain")
    before = tables(workspace, "plain")
    second = gather(workspace, "plain")
    assert (first.packs_read, second.packs_read) == (5, 1)
    assert tables(workspace, "plain") == before
    assert second.states == {"completed": 39, "running": 1}


def test_a_new_plan_is_gathered_anew(tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.write_plain(tmp_path, made(synthetic, 4), ANALYSIS)
    gather(Workspace(tmp_path), "plain")
    synthetic.write_plain(tmp_path, made(synthetic, 6), ANALYSIS)
    assert gather(Workspace(tmp_path), "plain").runs == 6


def test_complaint_7_04_no_table_holds_a_nan(tmp_path: Path, synthetic: ModuleType) -> None:
    """mlflow/mlflow#16555, #15535: NaN and infinities are null with a flag beside them."""
    rows = ({"step": 10, "train/loss": "nan", "test/accuracy": 0.5}, {"step": 20, "train/loss": "inf"})
    summary = {"test/accuracy": "nan", "train/loss": "-inf", "digest": "abc", "steps": 3}
    runs = [synthetic.Made({"arm": "a"}, summary=summary, points=(rows,)), *made(synthetic, 2)]
    synthetic.write_plain(tmp_path, runs, ANALYSIS)
    gather(Workspace(tmp_path), "plain")
    for path in (tmp_path / "tables").rglob("*.parquet"):
        for column in read_parquet(path).columns:
            if pa.types.is_floating(column.type):
                assert np.isfinite(column.drop_null().to_numpy()).all()
    table = read_runs(tmp_path, "plain")
    assert table.values("flag.test/accuracy") == ["nan", None, None]
    assert table.values("flag.train/loss") == ["-inf", None, None]
    assert table.values("summary.test/accuracy")[0] is None
    assert table.values("summary.digest") == ["abc", None, None]
    assert table.values("summary.steps") == [3.0, None, None]
    curve = read_curves(tmp_path, "plain", [("train", "loss")])
    assert list(zip(curve.values("step"), curve.values("value"), curve.values("flag"), strict=True)) == [
        (10, None, "nan"),
        (20, None, "inf"),
    ]


def test_states_reasons_and_losses(tmp_path: Path, synthetic: ModuleType) -> None:
    runs = [
        synthetic.Made({"arm": "a"}, summary={"test/accuracy": 0.5}),
        synthetic.Made({"arm": "a"}, seed=2, failure="diverged"),
        synthetic.Made({"arm": "a"}, seed=3, failure="out_of_memory"),
        synthetic.Made({"arm": "b"}, seed=1),
    ]
    ids = synthetic.write_plain(tmp_path, runs, ANALYSIS, pack=1)
    shutil.rmtree(next((tmp_path / "packs").glob(f"*/{pack_of(tmp_path, ids[3])}")))
    gather(Workspace(tmp_path), "plain")
    table = read_runs(tmp_path, "plain")
    assert table.values("state") == ["completed", "failed", "failed", "pending"]
    assert table.values("reason") == [None, "diverged at step 10", "failed: out of memory", "pending"]
    assert table.values("failure") == [None, "diverged", "out_of_memory", None]
    assert table.values("attempts") == [1, 1, 1, 0]
    assert table.values("seconds") == [2.0, 2.0, 2.0, None]


def test_lost_time_is_what_no_checkpoint_saved(tmp_path: Path, synthetic: ModuleType) -> None:
    """From the last commit point to the last heartbeat, by the worker's clock; shared by the members."""
    study = synthetic.Study(tasks=("memorize", "copy"), points=4)
    workspace = synthetic.write_study(tmp_path, study)
    gather(workspace, "compat")
    table = read_runs(tmp_path, "compat")
    packs, lost = table.values("pack"), table.values("lost_seconds")
    resumed = [p for p, attempts in zip(packs, table.values("attempts"), strict=True) if attempts == 2]
    total = sum(seconds for pack, seconds in zip(packs, lost, strict=True) if pack == resumed[0])
    assert total == pytest.approx(5.0)  # checkpoint at +20 s, last beat at +25 s
    assert sum(lost) == pytest.approx(5.0 * len(set(resumed)))


def test_an_unknown_sweep_is_named_with_those_there_are(tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.write_plain(tmp_path, made(synthetic, 2), ANALYSIS)
    with pytest.raises(SweepError, match=r"no sweep 'plan' .* there are: plain"):
        gather(Workspace(tmp_path), "plan")


def pack_of(root: Path, run: str) -> str:
    lines = map(orjson.loads, (root / "sweeps" / "plain" / "plan.jsonl").read_bytes().splitlines())
    return next(line["pack"] for line in lines if "pack" in line and run in line["runs"])
