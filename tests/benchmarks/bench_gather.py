"""O6: gathering 100,000 runs into Parquet, against reading the same bytes with pyarrow.json; R1: a report of the size
of `compat preset=mini`; R2: its numbers for 100,000 runs. R4 (same bytes) is a test."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pyarrow.json

from jobs.workspace import Workspace
from orchestrator.gather.parquet import gather

RUNS, MORE, PACK = 100_000, 1_000, 64


def _synthetic() -> ModuleType:
    path = Path(__file__).parents[1] / "dashboards" / "synthetic.py"
    spec = importlib.util.spec_from_file_location("synthetic", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["synthetic"] = module
    spec.loader.exec_module(module)
    return module


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _sweep(root: Path, synthetic: ModuleType) -> tuple[Path, list[Path]]:
    """A sweep of RUNS completed runs, and the attempts of its last MORE runs moved out of sight."""
    made = [
        synthetic.Made({"arm": f"a{i % 40}"}, seed=i // 40, summary={"test/accuracy": i / RUNS, "train/loss": 1.0})
        for i in range(RUNS)
    ]
    analysis = {"metric": "test/accuracy", "baseline": {"arm": "a0"}}
    synthetic.write_plain(root, made, analysis, pack=PACK)
    facts = root / "facts.jsonl"
    with open(facts, "wb") as sink:
        for path in sorted(root.glob("packs/*/*/a1/facts.jsonl")):
            # The first line of an attempt is no finished fact, and a reader of columns wants one kind of line.
            sink.write(path.read_bytes().partition(b"\n")[2])
    packs = sorted(root.glob("packs/*/*"))[: MORE // PACK]
    return facts, packs


def _gather_rows(root: Path, synthetic: ModuleType) -> list[dict[str, object]]:
    facts, late = _sweep(root, synthetic)
    workspace = Workspace(root)
    floor = min(_seconds(lambda: pyarrow.json.read_json(facts)) for _ in range(3))
    aside = root / "aside"
    aside.mkdir()
    for pack in late:
        shutil.move(pack, aside / pack.name)
    whole = _seconds(lambda: gather(workspace, "plain"))
    for pack in late:
        shutil.move(aside / pack.name, pack)
    more = _seconds(lambda: gather(workspace, "plain"))
    idle = _seconds(lambda: gather(workspace, "plain"))
    report = _report_seconds(root, "plain")
    return [
        {
            "id": "O6",
            "what": f"gather {RUNS:,} runs in packs of {PACK} / pyarrow.json of the same facts",
            "ratio": whole / floor,
            "target": "<= 5; 3 s",
            "seconds": whole,
        },
        {"id": "O6", "what": f"the same, {len(late) * PACK} runs more", "seconds": more, "target": "0.3 s"},
        {"id": "O6", "what": "the same, nothing new", "seconds": idle, "target": ""},
        {"id": "R2", "what": f"report --json of {RUNS:,} runs, from process start", "seconds": report, "target": "5 s"},
    ]


def _report_seconds(root: Path, sweep: str, write: bool = False) -> float:
    call = "write_report" if write else "report_content"
    program = f"from pathlib import Path; from dashboards.report import {call} as r; r(Path({str(root)!r}), {sweep!r})"
    return _seconds(lambda: subprocess.run([sys.executable, "-c", program], check=True))


def _study_rows(root: Path, synthetic: ModuleType) -> list[dict[str, object]]:
    workspace = synthetic.write_study(root, synthetic.Study(failures=False, rates=("1",)))
    runs = gather(workspace, "compat").runs
    numbers = min(_report_seconds(root, "compat") for _ in range(2))
    page = min(_report_seconds(root, "compat", write=True) for _ in range(2))
    floor = min(_seconds(lambda: subprocess.run([sys.executable, "-c", "import dashboards.report"])) for _ in range(2))
    return [
        {
            "id": "R1",
            "what": f"all numbers of an 8 x 8 report, {runs} runs, from process start / its imports",
            "ratio": numbers / floor,
            "target": "2 s",
            "seconds": numbers,
        },
        {"id": "R1", "what": "the same with page and pictures", "ratio": page / floor, "target": "", "seconds": page},
    ]


def main() -> list[dict[str, object]]:
    synthetic = _synthetic()
    with tempfile.TemporaryDirectory() as folder:
        return _study_rows(Path(folder) / "study", synthetic) + _gather_rows(Path(folder) / "plain", synthetic)


if __name__ == "__main__":
    for row in main():
        print(row)
