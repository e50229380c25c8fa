"""Filling a real MLflow store (SQLite), and what happens when the store is not there."""

from __future__ import annotations

import shutil
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jobs.workspace import Workspace
from orchestrator.gather import mlflow_export
from orchestrator.gather.mlflow_content import RUN_TAG
from orchestrator.gather.mlflow_export import default_uri, export_sweep, spawn_export
from orchestrator.gather.parquet import gather

Prepare = Callable[..., tuple[Workspace, list[str]]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


def client(uri: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow.tracking import MlflowClient

        return MlflowClient(uri)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Creating the tables takes a second and a half: once is enough."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def prepare(tmp_path: Path, synthetic: ModuleType, empty_database: Path) -> Prepare:
    """Write and gather a sweep beside an empty store."""

    def prepared(made: list[Any]) -> tuple[Workspace, list[str]]:
        ids = synthetic.write_plain(tmp_path, made, {}, pack=4)
        workspace = Workspace(tmp_path)
        gather(workspace, "plain")
        if not (tmp_path / "tables" / "mlflow.db").exists():
            shutil.copy(empty_database, tmp_path / "tables" / "mlflow.db")
        return workspace, ids

    return prepared


def stored(workspace: Workspace) -> list[Any]:
    """Every live run of the experiment, asked for without our own paging."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = client(default_uri(workspace))
        return list(found.search_runs([found.get_experiment_by_name("plain").experiment_id], max_results=1000))


def history(workspace: Workspace, run: Any, metric: str) -> list[tuple[int, float]]:
    return sorted((m.step, m.value) for m in client(default_uri(workspace)).get_metric_history(run.info.run_id, metric))


def test_complaint_7_01_a_sweep_fills_a_database_store_without_a_server(
    prepare: Prepare, synthetic: ModuleType
) -> None:
    """mlflow/mlflow#23634, #18534: the folder store is closed; SQLite is the default, and twice changes nothing."""
    made = [synthetic.Made({"arm": arm}, summary={"test/accuracy": 0.5}) for arm in "abc"]
    made.append(synthetic.Made({"arm": "d"}, failure="diverged", summary={"test/accuracy": "nan"}))
    workspace, ids = prepare(made)
    first, second = export_sweep(workspace, "plain"), export_sweep(workspace, "plain")
    assert (first.ended, first.sent, first.left, first.error) == (4, 4, 0, None)
    assert (second.sent, second.already) == (0, 4)
    runs = stored(workspace)
    assert {run.data.tags[RUN_TAG] for run in runs} == set(ids)
    assert sorted(run.info.status for run in runs) == ["FAILED", "FINISHED", "FINISHED", "FINISHED"]
    assert not (workspace.root / "mlruns").exists()


def test_complaint_7_12_three_segments_synced_twice_are_one_run_with_one_curve(
    prepare: Prepare, synthetic: ModuleType
) -> None:
    segments = tuple(
        tuple({"step": step, "test/accuracy": value} for step in steps)
        for steps, value in ((range(10, 60, 10), 0.25), (range(40, 90, 10), 0.5), (range(70, 100, 10), 0.75))
    )
    workspace, _ = prepare([synthetic.Made({"arm": "a"}, summary={"test/accuracy": 0.75}, points=segments)])
    export_sweep(workspace, "plain")
    export_sweep(workspace, "plain")
    (run,) = stored(workspace)
    values = [0.25] * 3 + [0.5] * 3 + [0.75] * 3
    assert history(workspace, run, "test/accuracy") == list(zip(range(10, 100, 10), values, strict=True))
    assert run.data.tags["orchestrate.attempts"] == "3"


def test_complaint_7_03_a_run_that_changed_replaces_what_was_sent(prepare: Prepare, synthetic: ModuleType) -> None:
    """mlflow/mlflow#7152, #7046: parameters are write-once, so attempt 2 with others would die on them."""
    made = synthetic.Made({"arm": "a"}, failure="out_of_memory", config={"batch": 64})
    workspace, (run_id,) = prepare([made])
    export_sweep(workspace, "plain")
    pack = next(workspace.packs.glob("*/*"))
    shutil.copytree(pack / "a1", pack / "a2")
    facts = (pack / "a2" / "facts.jsonl").read_text()
    for was, now in (('"failed"', '"completed"'), ('"out_of_memory"', "null"), ('"summary":{}', '"summary":{"x":0.5}')):
        assert was in facts
        facts = facts.replace(was, now)
    (pack / "a2" / "facts.jsonl").write_text(facts)
    launch = (pack / "a2" / "launch.json").read_text()
    (pack / "a2" / "launch.json").write_text(launch.replace('"attempt":1', '"attempt":2'))
    gather(workspace, "plain")
    assert export_sweep(workspace, "plain").sent == 1
    (run,) = stored(workspace)
    assert run.data.tags[RUN_TAG] == run_id
    assert (run.info.status, run.data.tags["orchestrate.attempts"]) == ("FINISHED", "2")
    assert "orchestrate.failure" not in run.data.tags


@pytest.mark.parametrize("call", ["create_run", "log_batch", "set_terminated"])
def test_complaint_7_05_what_a_bad_hour_left_half_done_is_finished_later(
    call: str, prepare: Prepare, synthetic: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store fails in the middle of the second run, with and without our knowing what it did."""
    workspace, ids = prepare([synthetic.Made({"arm": a}, summary={"test/accuracy": 0.5}) for a in "abc"])
    store = client(default_uri(workspace))
    whole = getattr(type(store), call)
    calls = iter([True, False])

    def failing(*arguments: Any, **keywords: Any) -> Any:
        answer = whole(*arguments, **keywords)
        if not next(calls):
            raise ConnectionError("the server went away after it had done it")
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(type(store), call, failing)
        outcome = export_sweep(workspace, "plain")
    assert (outcome.sent, outcome.left) == (1, 2)
    assert outcome.error is not None
    assert "went away" in outcome.error
    later = export_sweep(workspace, "plain")
    assert (later.left, later.error) == (0, None)
    runs = stored(workspace)
    assert sorted(run.data.tags[RUN_TAG] for run in runs) == sorted(ids)
    assert {run.info.status for run in runs} == {"FINISHED"}


def test_complaint_7_08_a_lost_outbox_is_made_good_by_paging_through_the_store(
    prepare: Prepare, synthetic: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mlflow/mlflow#627, #1517: a search returns a page and says nothing of the rest."""
    workspace, ids = prepare([synthetic.Made({"arm": "a"}, seed=s, summary={"test/accuracy": 0.5}) for s in range(7)])
    export_sweep(workspace, "plain")
    (workspace.tables / "plain" / "outbox.jsonl").unlink()
    monkeypatch.setattr(mlflow_export, "PAGE", 3)
    outcome = export_sweep(workspace, "plain")
    assert (outcome.sent, outcome.already) == (0, 7)
    assert len(stored(workspace)) == len(ids) == 7


def test_a_deleted_store_is_filled_again(prepare: Prepare, synthetic: ModuleType) -> None:
    """The outbox must not claim what a store that is gone had."""
    workspace, _ = prepare([synthetic.Made({"arm": "a"}, summary={"test/accuracy": 0.5})])
    uri = f"sqlite:///{workspace.tables}/other.db"
    shutil.copy(workspace.tables / "mlflow.db", workspace.tables / "other.db")
    assert export_sweep(workspace, "plain").sent == 1
    assert export_sweep(workspace, "plain", uri).sent == 1


def test_no_run_is_begun_when_the_time_is_up(prepare: Prepare, synthetic: ModuleType) -> None:
    workspace, _ = prepare([synthetic.Made({"arm": a}, summary={"test/accuracy": 0.5}) for a in "abc"])
    ticks = iter([0.0, 1.0, 99.0])
    outcome = export_sweep(workspace, "plain", seconds=10, clock=lambda: next(ticks))
    assert (outcome.sent, outcome.left, outcome.error) == (1, 2, "out of time after 10 s")


class _Sick(BaseHTTPRequestHandler):
    """Answers 500, or accepts and says nothing."""

    hang = threading.Event()
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        if self.server.hanging:  # type: ignore[attr-defined]
            self.hang.wait(30)
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(params=["answers 500", "hangs"])
def sick_server(request: pytest.FixtureRequest) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Sick)
    server.hanging = request.param == "hangs"  # type: ignore[attr-defined]
    _Sick.hang.clear()
    _Sick.asked = 0
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    _Sick.hang.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_complaint_7_05_a_sick_server_costs_nothing_but_itself(
    sick_server: str, prepare: Prepare, synthetic: ModuleType
) -> None:
    """mlflow/mlflow#1550, #1760: nothing raises, nothing waits long, all of it is there afterwards."""
    workspace, ids = prepare([synthetic.Made({"arm": a}, summary={"test/accuracy": 0.5}) for a in "ab"])
    outcome = export_sweep(workspace, "plain", sick_server, seconds=5)
    assert _Sick.asked >= 1
    assert (outcome.sent, outcome.left) == (0, 2)
    assert outcome.error
    assert export_sweep(workspace, "plain").sent == len(ids)
    assert len(stored(workspace)) == 2


def test_complaint_7_05_an_export_process_is_waited_for_by_nobody_and_ends_by_itself(
    prepare: Prepare, synthetic: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, _ = prepare([synthetic.Made({"arm": "a"}, summary={"test/accuracy": 0.5})])
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Sick)  # accepts, and nobody ever serves
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "600")
    began = time.monotonic()
    process = spawn_export(workspace, "plain", f"http://127.0.0.1:{server.server_port}", seconds=2)
    assert process.poll() is None
    assert process.wait(timeout=30) != 0  # killed by its own alarm in the middle of a call
    assert time.monotonic() - began < 30
    server.server_close()


def test_a_second_export_of_the_same_sweep_steps_back(prepare: Prepare, synthetic: ModuleType) -> None:
    workspace, _ = prepare([synthetic.Made({"arm": "a"}, summary={"test/accuracy": 0.5})])
    with mlflow_export.only_one(workspace.tables / "plain" / "outbox.lock") as ours:
        assert ours
        outcome = export_sweep(workspace, "plain")
    assert (outcome.sent, outcome.error) == (0, "another export of this sweep is running")
