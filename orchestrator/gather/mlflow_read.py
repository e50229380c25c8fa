"""Runs of an MLflow experiment as rows of a table: parameters, tags and last metrics side by side."""

from __future__ import annotations

from pathlib import Path

from orchestrator.gather.read_table import Row
from sweeps.analysis.errors import AnalysisError

PREFIX = "mlflow:"
PAGE = 1000


def read_experiment(name: str, uri: str | None = None) -> list[Row]:
    """All active runs of an experiment, page by page.

    A metric wins over a parameter of the same name, a parameter over a tag. A run that has not finished well
    carries its status as ``status``, so that a missing value has a reason.

    Args:
        name: the experiment's name or id.
        uri: tracking URI; MLflow's own setting where absent.

    Raises:
        AnalysisError: no such experiment, no runs, or a server that does not answer.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient, get_tracking_uri

    place = uri or get_tracking_uri()
    file = place.partition("?")[0].partition("sqlite:///")[2]
    if file and not Path(file).exists():  # asking would make it
        raise AnalysisError(f"{PREFIX}{name}: there is no MLflow store {file}; say where it is with --tracking-uri")
    try:
        client = MlflowClient(tracking_uri=uri)
        experiment = client.get_experiment_by_name(name) or (client.get_experiment(name) if name.isdigit() else None)
        if experiment is None:
            known = ", ".join(sorted(e.name for e in client.search_experiments()))
            raise AnalysisError(f"{PREFIX}{name}: no such experiment; there are {known or 'none'}")
        runs, token = [], None
        while True:
            page = client.search_runs([experiment.experiment_id], max_results=PAGE, page_token=token)
            runs += page
            token = page.token
            if not token:
                break
    except MlflowException as error:
        raise AnalysisError(f"{PREFIX}{name}: {error}") from None
    if not runs:
        raise AnalysisError(f"{PREFIX}{name}: the experiment has no runs")
    rows = []
    for run in runs:
        tags = {k: v for k, v in run.data.tags.items() if not k.startswith("mlflow.")}
        values = {**tags, **run.data.params, **run.data.metrics}
        if run.info.status != "FINISHED":
            values["status"] = str(run.info.status).lower()
        rows.append(Row(f"{PREFIX}{name} run {run.info.run_id}", values))
    return rows
