"""A whole sweep's files without a sweep: plan, facts and metric rows of a made-up transfer study.

Deterministic. Load it with the ``synthetic`` fixture, or by path; tests and benchmarks share it.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from jobs.spec import InputRef, RunSpec, pack_id
from jobs.workspace import Workspace

TASKS: dict[str, dict[str, Any]] = {
    "memorize": {"name": "memorize", "values": 16, "pairs": 256},
    "parentheses": {"name": "parentheses", "max_pairs": 6},
    "addmod": {"name": "addmod", "p": 23, "validation": 50, "test": 50},
    "haystack": {"name": "haystack", "max_keys": 4, "values": 15, "validation": 200, "test": 200},
    "add": {"name": "add", "digits": 3},
    "addreversed": {"name": "addreversed", "digits": 3},
    "copy": {"name": "copy", "symbols": 8, "max_length": 5, "test_max_length": 5},
    "mano": {"name": "mano", "modulus": 7, "max_operations": 2, "validation": 200, "test": 200},
}
CHANCE = {
    "memorize": 1 / 16,
    "parentheses": 0.53,
    "addmod": 1 / 23,
    "haystack": 1 / 15,
    "add": 0.4,
    "addreversed": 0.33,
    "copy": 0.0,
    "mano": 0.2,
}
LEVEL_AT_T = {
    "memorize": 0.33,
    "parentheses": 0.78,
    "addmod": 0.05,
    "haystack": 0.55,
    "add": 0.58,
    "addreversed": 0.62,
    "copy": 0.62,
    "mano": 0.44,
}
CONTROLS = ("relu", "relu2", "silu")
T_TASK = 100
STEPS = 300


@dataclass
class Study:
    """What to make up.

    Attributes:
        tasks: rows and columns.
        searches, seeds: replicates.
        rates: levels of the relative rate.
        failures: whether some runs fail, diverge, wait, run, or were skipped.
        points: evaluations of a run.
    """

    tasks: tuple[str, ...] = tuple(TASKS)
    searches: int = 2
    seeds: int = 3
    rates: tuple[str, ...] = ("1", "1/3")
    failures: bool = True
    points: int = 12
    name: str = "compat"
    lines: list[dict[str, Any]] = field(default_factory=list)


def write_study(root: Path, study: Study | None = None) -> Workspace:
    """Write the files of a made-up sweep and return its workspace."""
    study = study or Study()
    workspace = Workspace(root)
    maker = _Maker(workspace, study)
    maker.plan()
    maker.attempts()
    return workspace


class _Maker:
    def __init__(self, workspace: Workspace, study: Study) -> None:
        self.workspace, self.study = workspace, study
        self.cells: list[dict[str, Any]] = []
        self.runs: list[dict[str, Any]] = []
        self.packs: list[dict[str, Any]] = []
        self.skipped: list[dict[str, Any]] = []
        self.searched: dict[tuple[str, str, int], str] = {}

    def plan(self) -> None:
        study = self.study
        for learns in ("spline", "scaled_gelu"):
            for task in study.tasks:
                cell = self._cell("search", "search", task, {"task": task, "learns": learns}, search={"learns": learns})
                members = []
                for search in range(1, study.searches + 1):
                    run = self._run(cell, search, {"search_seed": search})
                    self.searched[learns, task, search] = run
                    members.append(run)
                self._pack(members, "search")
        for seed in range(1, study.seeds + 1):
            for task in study.tasks:
                for rate in study.rates:
                    self._pack(self._column(task, rate, seed), "retrain")
        header = {
            "plan": 1,
            "sweep": study.name,
            "digest": "0" * 64,
            "source": {"file": "compat.yaml", "preset": "mini"},
            "settings": {},
            "analysis": {
                "metric": "test/accuracy",
                "baseline": {"architecture": "gelu"},
                "arm": "architecture",
                "column": "task",
                "primary": {"rate": ["1"]},
                "step": dict.fromkeys(study.tasks, T_TASK),
                "alpha": 0.05,
            },
            "stages": [{"name": "search"}, {"name": "retrain"}],
        }
        lines = [header, *self.cells, *self.runs, *self.packs, *self.skipped]
        path = self.workspace.plan(study.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))

    def _column(self, task: str, rate: str, seed: int) -> list[str]:
        study, members = self.study, []
        arms = ["gelu", *(CONTROLS if rate == "1" else ()), *(("random_spline",) if rate == "1" else ())]
        for arm in arms:
            cell = self._train_cell(task, {"task": task, "architecture": arm, "rate": rate})
            members.append(self._run(cell, seed, {}))
        for source in study.tasks:
            labels = {"task": task, "architecture": source, "rate": rate}
            if study.failures and (source, task) == ("mano", "memorize"):
                if seed == 1:
                    self.skipped.append({"skipped": labels, "reason": "the grid of mano is wider than the table"})
                continue
            cell = self._train_cell(task, labels)
            for search in range(1, study.searches + 1):
                ref = InputRef(self.searched["spline", source, search], "shape")
                members.append(self._run(cell, seed, {"search_seed": search, "learns": "spline"}, ref))
        if rate == "1":
            cell = self._train_cell(task, {"task": task, "architecture": "scaled_gelu", "rate": rate})
            for search in range(1, study.searches + 1):
                ref = InputRef(self.searched["scaled_gelu", task, search], "shape")
                members.append(self._run(cell, seed, {"search_seed": search, "learns": "scaled_gelu"}, ref))
        return members

    def _train_cell(self, task: str, labels: dict[str, Any]) -> dict[str, Any]:
        return self._cell("retrain", "train", task, labels, model={"activation": {"kind": labels["architecture"]}})

    def _cell(self, stage: str, runner: str, task: str, labels: dict[str, Any], **config: Any) -> dict[str, Any]:
        for cell in self.cells:
            if cell["stage"] == stage and cell["labels"] == labels:
                return cell
        optimizer = {"name": "adamw", "lr": 0.01, "relative_rate": 1.0 if labels.get("rate", "1") == "1" else 1 / 3}
        whole = {"task": TASKS[task], "optimizer": optimizer, "steps": STEPS, "t_task": T_TASK, **config}
        cell = {
            "cell": len(self.cells),
            "stage": stage,
            "runner": runner,
            "config": whole,
            "labels": labels,
            "shape": {"parameters": 7000, "models": 8 if stage == "search" else 1},
        }
        self.cells.append(cell)
        return cell

    def _run(self, cell: dict[str, Any], seed: int, labels: dict[str, Any], ref: InputRef | None = None) -> str:
        inputs = {"activation": ref} if ref else {}
        config = {**cell["config"], "cell": cell["cell"]}  # keeps ids apart without a real config per arm
        spec = RunSpec(cell["runner"], config, seed, inputs)
        line: dict[str, Any] = {"run": spec.id, "cell": cell["cell"], "seed": seed, "labels": labels}
        if ref:
            line["inputs"] = {"activation": ref.payload()}
        self.runs.append(line)
        return spec.id

    def _pack(self, members: list[str], stage: str) -> None:
        pack = {"pack": pack_id(members), "runs": members, "stage": stage, "order": len(self.packs)}
        self.packs.append(pack | {"resources": {}, "execution": {}})

    def attempts(self) -> None:
        lines = {line["run"]: line for line in self.runs}
        for index, pack in enumerate(self.packs):
            members = [(run, self._labels(lines[run]), lines[run]["seed"]) for run in pack["runs"]]
            late = self.study.failures and pack["stage"] == "retrain" and index >= len(self.packs) - 3
            if late and index == len(self.packs) - 1:
                continue  # pending
            self._attempt(pack, members, index, running=late and index == len(self.packs) - 2)

    def _labels(self, line: dict[str, Any]) -> dict[str, Any]:
        return {**self.cells[line["cell"]]["labels"], **line["labels"]}

    def _attempt(self, pack: dict[str, Any], members: list[Any], index: int, running: bool) -> None:
        resumed = self.study.failures and index % 9 == 4
        first = self.workspace.attempt(pack["pack"], 1)
        start = 1_700_000_000.0 + 100 * index
        if resumed:
            self._files(first, start, self._rows(members, 0, 170), [], steps=(0, 150, 170), closed="preempted")
            second = self.workspace.attempt(pack["pack"], 2)
            exact = "exact" if index % 2 else "not exact: another number of threads"
            self._finish(second, start + 60, members, 150, exact, running)
        else:
            self._finish(first, start, members, 0, None, running)

    def _finish(
        self, place: Any, start: float, members: list[Any], step: int, exact: str | None, running: bool
    ) -> None:
        rows = self._rows(members, step, 140 if running else STEPS)
        facts = [] if running else [self._finished(m, start + 40 + i / 10, place, exact) for i, m in enumerate(members)]
        closed = None if running else "completed"
        self._files(place, start, rows, facts, steps=(step, 150, STEPS), closed=closed, exact=exact)

    def _files(
        self, place: Any, start: float, rows: list[Any], facts: list[Any], *, steps: Any, closed: Any, exact: Any = None
    ) -> None:
        place.path.mkdir(parents=True, exist_ok=True)
        begin, checkpoint, end = steps
        place.launch.write_bytes(orjson.dumps(self._launch(place)))
        started = {"fact": "started", "time": start, "step": begin, "exact": exact, "host": "node1", "pid": 1}
        started |= {"code": "c0ffee", "members": len(rows), "threads": 1}
        saved = {"fact": "checkpointed", "time": start + 20, "step": checkpoint, "bytes": 100, "seconds": 0.01}
        _log(place.facts, [started, saved, *facts])
        _log(place.metrics, rows)
        place.claimed.write_bytes(orjson.dumps({"time": start, "job": "j", "host": "node1", "pid": 1}))
        beat = {"beat": 9, "step": end, "steps": STEPS, "time": start + 25 if closed == "preempted" else start + 50}
        place.heartbeat.write_bytes(orjson.dumps(beat))
        if closed:
            place.closed.write_bytes(orjson.dumps({"time": start + 51, "by": "worker", "outcome": closed}))

    def _launch(self, place: Any) -> dict[str, Any]:
        pack = next(pack for pack in self.packs if pack["pack"] == place.pack)
        members = [{"run": run, "config": 0, "seed": 1} for run in pack["runs"]]
        return {
            "pack": place.pack,
            "attempt": place.number,
            "name": f"orc-{place.pack}-a{place.number}",
            "runner": "train",
            "members": members,
            "configs": [{}],
            "root": str(self.workspace.root),
        }

    def _finished(self, member: Any, time: float, place: Any, exact: str | None) -> dict[str, Any]:
        run, labels, seed = member
        fact: dict[str, Any] = {"fact": "finished", "time": time, "run": run, "status": "completed", "step": STEPS}
        fact |= {"seconds": 1.7 if "architecture" in labels else 12.0}
        if exact and exact != "exact":
            fact["exact"] = [exact]
        if "architecture" not in labels:
            fact["summary"] = {"shape/moved": 0.8 if labels["learns"] == "spline" else 0.3, "shape/moved_max": 1.9}
            fact["products"] = {"shape": self._shape(place, run, labels)}
            return fact
        trouble = self._trouble(labels, seed)
        if trouble == "diverged":
            return fact | {"status": "failed", "step": 41, "failure": "diverged", "message": "loss is nan at step 41"}
        if trouble:
            return fact | {
                "status": "failed",
                "step": 120,
                "failure": trouble,
                "message": "the machine had no memory left",
            }
        where = {"T/2": T_TASK // 2, "T": T_TASK, "2T": 2 * T_TASK, "final": STEPS}
        found = {k: self._accuracy(run, labels, seed, v) for k, v in where.items()}
        fact["summary"] = {f"test/accuracy@{k}": v for k, v in found.items()}
        fact["summary"] |= {f"validation/accuracy@{k}": round(0.99 * v, 4) for k, v in found.items()}
        return fact

    def _trouble(self, labels: dict[str, Any], seed: int) -> str | None:
        if not self.study.failures:
            return None
        pair = labels["architecture"], labels["task"]
        if pair == ("parentheses", "copy") and seed == 2:
            return "diverged"
        if pair == ("haystack", "add") and labels.get("search_seed") == 1 and seed == 1:
            return "out_of_memory"
        return "hang" if pair == ("copy", "haystack") else None

    def _shape(self, place: Any, run: str, labels: dict[str, Any]) -> dict[str, Any]:
        place.products.mkdir(parents=True, exist_ok=True)
        rng = random.Random(labels["task"] + str(labels["search_seed"]))
        phase, pull = rng.uniform(0, 6), rng.uniform(0.3, 1.5)
        low, high, knots = -10.0, 10.0, 41
        xs = [low + (high - low) * i / (knots - 1) for i in range(knots)]
        body = [0.1 * x + pull * math.sin(x * 0.9 + phase) * math.exp(-abs(x) / 6) for x in xs]
        payload = {
            "version": 1,
            "steps": STEPS,
            "members": 8,
            "models": 8,
            "slots": {"mlp": self._slot(labels["learns"], low, high, body, pull)},
        }
        data = orjson.dumps(payload)
        (place.products / f"{run}-shape.json").write_bytes(data)
        return {"path": f"products/{run}-shape.json", "sha256": "0" * 64, "bytes": len(data)}

    def _slot(self, learns: str, low: float, high: float, body: list[float], pull: float) -> dict[str, Any]:
        visits = {"minimum": -4.5 - pull, "maximum": 4.1 + pull, "low": low, "high": high, "below": 0, "above": 0}
        visits["counts"] = [round(1000 * math.exp(-((low + 0.5 * i + 0.25) ** 2) / (1.2 + pull))) for i in range(40)]
        if learns == "scaled_gelu":
            slot = {"kind": learns, "values": [[1.0 + pull / 2, 1.3]], "start": [1.0, 1.0]}
        else:
            slot = {"kind": "learned", "low": low, "high": high, "knots": len(body), "values": [body]}
            slot["start"] = [0.01] * len(body)
        return slot | {"moved_rms": 0.8, "moved_max": 1.9, "visits": visits}

    def _rows(self, members: list[Any], begin: int, end: int) -> list[dict[str, Any]]:
        rows = []
        every = max(1, STEPS // self.study.points)
        for step in range(begin + every - begin % every, end + 1, every):
            for run, labels, seed in members:
                if "architecture" not in labels:
                    moved = 0.8 * (1 - math.exp(-step / 90))
                    rows.append(
                        {"run": run, "step": step, "shape/moved": moved, "train/loss": 2 * math.exp(-step / 200)}
                    )
                    continue
                if self._trouble(labels, seed) and step > 41:
                    rows.append({"run": run, "step": step, "train/loss": "nan", "test/accuracy": None})
                    continue
                accuracy = self._accuracy(run, labels, seed, step)
                rows.append(
                    {"run": run, "step": step, "test/accuracy": accuracy, "train/loss": 2.5 * (1.02 - accuracy)}
                )
        return rows

    def _accuracy(self, run: str, labels: dict[str, Any], seed: int, step: int) -> float:
        task, arm, source = labels["task"], labels["architecture"], labels["architecture"]
        pair = random.Random(f"{task}/{arm}/{source}")
        gain = {"gelu": 0.0, "relu": -0.1, "relu2": 0.15, "silu": -0.05, "scaled_gelu": 0.35}.get(arm, 0.0)
        if arm in TASKS:
            gain = 1.1 if source == task else pair.gauss(0.05, 0.75)
            if {source, task} == {"add", "addreversed"}:
                gain = 0.7
            gain += 0.12 * random.Random(f"{task}/{source}/{labels.get('search_seed')}").gauss(0, 1)
        if arm == "random_spline":
            gain = -0.9
        if labels["rate"] != "1":
            gain = 0.6 * gain + 0.3 * pair.gauss(0, 1) - 0.4
        noise = random.Random(f"{run}/{seed}").gauss(0, 0.1)
        chance = CHANCE[task]
        place = min(0.97, max(0.03, (LEVEL_AT_T[task] - chance) / (1 - chance)))
        logit = math.log(place / (1 - place)) + 1.6 * math.log(max(step, 1) / T_TASK) + gain + noise
        if task == "addmod":
            logit -= 1.5
        wobble = random.Random(f"{run}/{seed}/{step}").gauss(0, 0.006)
        return round(min(1.0, max(0.0, chance + (1 - chance) / (1 + math.exp(-logit)) + wobble)), 4)


def _log(path: Path, records: list[Any]) -> None:
    path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))


@dataclass
class Made:
    """One run of a plain sweep: its labels, and what it came to.

    ``summary`` None leaves it unfinished; ``points`` are the metric rows (without run) of each attempt.
    """

    labels: dict[str, Any]
    seed: int = 1
    summary: dict[str, Any] | None = None
    failure: str | None = None
    points: tuple[tuple[dict[str, Any], ...], ...] = ((),)
    config: dict[str, Any] = field(default_factory=dict)


def write_plain(
    root: Path,
    made: list[Made],
    analysis: dict[str, Any],
    *,
    name: str = "plain",
    pack: int = 16,
    launched: bool = True,
) -> list[str]:
    """A sweep of one stage; returns the run ids in order. Attempt k of a pack holds the k-th points of its runs."""
    workspace = Workspace(root)
    cells: dict[bytes, dict[str, Any]] = {}
    runs = []
    for index, one in enumerate(made):
        spec = RunSpec("toy", {"n": index, **one.config}, one.seed)
        cell = {"stage": "toy", "runner": "toy", "config": one.config, "labels": one.labels, "shape": {}}
        cell = cells.setdefault(orjson.dumps(cell), {"cell": len(cells), **cell})
        runs.append({"run": spec.id, "cell": cell["cell"], "seed": one.seed, "labels": {"seed": one.seed}})
    ids = [run["run"] for run in runs]
    groups = [list(range(i, min(i + pack, len(made)))) for i in range(0, len(made), pack)]
    header = {"plan": 1, "sweep": name, "digest": "0" * 64, "source": {"file": "plain.yaml"}, "settings": {}}
    lines = [header | {"analysis": analysis, "stages": [{"name": "toy"}]}, *cells.values(), *runs]
    for order, group in enumerate(groups):
        members = [ids[i] for i in group]
        line = {"pack": pack_id(members), "runs": members, "stage": "toy", "order": order}
        lines.append(line | {"resources": {}, "execution": {}})
        _plain_attempts(workspace, line["pack"], members, [made[i] for i in group])
    path = workspace.plan(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    _log(path, lines)
    return ids


def _plain_attempts(workspace: Workspace, pack: str, members: list[str], made: list[Made]) -> None:
    attempts = max(len(one.points) for one in made)
    for number in range(1, attempts + 1):
        place = workspace.attempt(pack, number)
        place.path.mkdir(parents=True, exist_ok=True)
        launch = {"pack": pack, "attempt": number, "name": "orc", "runner": "toy", "configs": [{}], "root": "."}
        launch["members"] = [{"run": run, "config": 0, "seed": 1} for run in members]
        place.launch.write_bytes(orjson.dumps(launch))
        start = 1_700_000_000.0 + 100 * number
        facts: list[dict[str, Any]] = [
            {"fact": "started", "time": start, "step": 0, "host": "h", "pid": 1, "members": len(members), "threads": 1}
            | {"exact": None if number == 1 else "exact"}
        ]
        rows = [
            {"run": run, **point}
            for run, one in zip(members, made, strict=True)
            for point in (one.points[number - 1] if len(one.points) >= number else ())
        ]
        last = number == attempts
        if last:
            facts += [
                _plain_finished(run, one, start + 50) for run, one in zip(members, made, strict=True) if _ended(one)
            ]
        place.claimed.write_bytes(orjson.dumps({"time": start, "job": "j", "host": "h", "pid": 1}))
        _log(place.metrics, rows)
        _log(place.facts, facts)
        if not last or all(_ended(one) for one in made):
            outcome = "completed" if last else "preempted"
            place.closed.write_bytes(orjson.dumps({"time": start + 60, "by": "worker", "outcome": outcome}))


def _ended(one: Made) -> bool:
    return one.summary is not None or one.failure is not None


def _plain_finished(run: str, one: Made, time: float) -> dict[str, Any]:
    step = max((point["step"] for points in one.points for point in points), default=10)
    fact = {"fact": "finished", "time": time, "run": run, "step": step, "seconds": 2.0, "summary": one.summary or {}}
    return fact | {"status": "failed" if one.failure else "completed", "failure": one.failure, "message": ""}
