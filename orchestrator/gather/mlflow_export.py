"""Fill an MLflow tracking store from the tables: one MLflow run per run of a sweep, however often it is done.

Nothing waits for the store. ``spawn_export`` starts a process of its own, which ends by itself after a given time;
what it did not get done is done by the next one. A run is sent when it has ended, with one ``log_batch``; should it
change later (a retry), its MLflow run is replaced, because params and points cannot be taken back.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from jobs.durable import AppendLog
from jobs.workspace import Workspace
from orchestrator.gather.mlflow_content import DIGEST_TAG, ENDED, RUN_TAG, Content, contents
from orchestrator.gather.outbox import Outbox, Sent, only_one, store_key
from sweeps.tables import read_runs

PAGE = 1000
"""Runs a search returns at most; there is always another page to ask for."""
PATIENCE = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
}
"""How long one call may take, in seconds, and how often it is tried again; a person's own settings stand."""


@dataclass(frozen=True)
class Exported:
    """What an export came to. ``ended`` = ``sent`` + ``already`` + ``left``; ``error`` says why something is left."""

    ended: int
    sent: int
    already: int
    left: int
    error: str | None = None


def default_uri(workspace: Workspace) -> str:
    """SQLite beside the tables, unless ``MLFLOW_TRACKING_URI`` names a store."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{workspace.tables.resolve() / 'mlflow.db'}"


def export_sweep(
    workspace: Workspace,
    sweep: str,
    tracking_uri: str | None = None,
    *,
    seconds: float = 300.0,
    clock: Callable[[], float] = time.monotonic,
) -> Exported:
    """Send every ended run that the store lacks. Never raises because of the store: see ``Exported.error``.

    Args:
        workspace: where the tables are.
        sweep: a gathered sweep; its name is the experiment's.
        tracking_uri: any that MLflow takes; see ``default_uri``.
        seconds: no new run is begun after that long.
        clock: monotonic seconds.

    Raises:
        AnalysisError: the sweep was not gathered.
    """
    uri = tracking_uri or default_uri(workspace)
    end = clock() + seconds
    runs = read_runs(workspace.root, sweep)
    ended = [r for r, s in zip(runs.values("run"), runs.values("state"), strict=True) if s in ENDED]
    folder = workspace.runs_table(sweep).parent
    with only_one(folder / "outbox.lock") as ours, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of MLflow and its database layer, about each other
        if not ours:
            return Exported(len(ended), 0, 0, len(ended), "another export of this sweep is running")
        sent = already = 0
        error = None
        pending = contents(workspace.root, sweep, runs, set(ended))
        try:
            store = _Store(uri, sweep, folder / "outbox.jsonl")
            pending, already = store.missing(pending)
            with store.outbox.writing() as log:
                for content in pending:
                    if clock() >= end:
                        error = f"out of time after {seconds:g} s"
                        break
                    store.send(content, log)
                    sent += 1
        except _store_errors() as failure:  # the next export takes over
            error = f"{type(failure).__name__}: {str(failure).splitlines()[0] if str(failure) else ''}"[:500]
    return Exported(len(ended), sent, already, len(ended) - sent - already, error)


def _store_errors() -> tuple[type[Exception], ...]:
    """What the store, its database or the network may throw."""
    from mlflow.exceptions import MlflowException
    from requests.exceptions import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    return MlflowException, RequestException, SQLAlchemyError, OSError


class _Store:
    def __init__(self, uri: str, sweep: str, outbox: Path) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        for name, value in PATIENCE.items():
            os.environ.setdefault(name, value)
        from mlflow.tracking import MlflowClient

        self.client: Any = MlflowClient(uri)
        found = self.client.get_experiment_by_name(sweep)
        self.experiment = str(found.experiment_id if found else self.client.create_experiment(sweep))
        self.outbox = Outbox.load(outbox, store_key(uri), self.experiment)
        self._new = found is None

    def missing(self, all_contents: list[Content]) -> tuple[list[Content], int]:
        """Contents the store lacks or has otherwise, and how many it has as they are."""
        sent = self.outbox.sent
        unsure = any(content.run in sent and sent[content.run].digest is None for content in all_contents)
        if (unsure or not self.outbox.known) and not self._new:
            with self.outbox.writing() as log:
                for run, found in self._search().items():
                    self.outbox.record(log, run, found.address, found.digest)
        missing = [c for c in all_contents if c.run not in sent or sent[c.run].digest != c.digest]
        return missing, len(all_contents) - len(missing)

    def _search(self) -> Mapping[str, Sent]:
        """Every run of the experiment, page by page."""
        found: dict[str, Sent] = {}
        token = None
        while True:
            page = self.client.search_runs([self.experiment], max_results=PAGE, page_token=token)
            for run in page:
                whole = run.info.status in ENDED.values()
                digest = run.data.tags.get(DIGEST_TAG) if whole else None
                if (name := run.data.tags.get(RUN_TAG)) is None:
                    continue
                if name in found:  # two of one run: keep the whole one
                    spare, keep = (run.info.run_id, found[name]) if found[name].digest else (found[name].address, None)
                    self.client.delete_run(spare)
                    if keep is not None:
                        continue
                found[name] = Sent(run.info.run_id, digest)
            token = page.token
            if not token:
                return found

    def send(self, content: Content, log: AppendLog) -> None:
        """One run, whole: replace what an earlier version of it left."""
        from mlflow.entities import Metric, Param, RunTag

        before = self.outbox.sent.get(content.run)
        self.outbox.record(log, content.run, before.address if before else None, None)
        if before is not None and before.address is not None:
            self.client.delete_run(before.address)
        tags = dict(content.tags)
        created = self.client.create_run(self.experiment, start_time=content.start, tags=tags, run_name=content.name)
        address = created.info.run_id
        self.client.log_batch(
            address,
            metrics=[Metric(name, value, content.end, step) for name, step, value in content.metrics],
            params=[Param(name, value) for name, value in content.params],
            tags=[RunTag(DIGEST_TAG, content.digest)],
        )
        self.client.set_terminated(address, content.status, end_time=content.end)
        self.outbox.record(log, content.run, address, content.digest)


def spawn_export(
    workspace: Workspace, sweep: str, tracking_uri: str | None = None, seconds: float = 300.0
) -> subprocess.Popen[bytes]:
    """Start an export that nobody waits for; it ends within ``seconds`` and a half, whatever the store does.

    Its outcome is appended to ``tables/<sweep>/export.log``. The address travels by environment, not on the command
    line, where everybody could read it.
    """
    environment = os.environ | ({"MLFLOW_TRACKING_URI": tracking_uri} if tracking_uri else {})
    command = [sys.executable, "-P", "-m", __name__, str(workspace.root), sweep, "--seconds", str(seconds)]
    with open(workspace.runs_table(sweep).parent / "export.log", "ab") as log:
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m orchestrator.gather.mlflow_export")
    parser.add_argument("root", type=Path)
    parser.add_argument("sweep")
    parser.add_argument("--seconds", type=float, default=300.0)
    options = parser.parse_args()
    signal.alarm(max(1, round(1.5 * options.seconds)))  # the default action ends the process, mid-call too
    outcome = export_sweep(Workspace(options.root), options.sweep, seconds=options.seconds)
    print(orjson.dumps(asdict(outcome)).decode(), flush=True)


if __name__ == "__main__":
    main()
