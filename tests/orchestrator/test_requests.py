"""Requests: written once, folded in the order of what their writers had seen."""

from __future__ import annotations

import pytest

from jobs.workspace import Workspace
from orchestrator.errors import OrchestratorError
from orchestrator.requests import Wishes, write_request


def test_the_last_word_about_a_run_counts(workspace: Workspace) -> None:
    wishes = Wishes(workspace)
    assert wishes.refresh() == set()
    write_request(workspace, "cancel", {"r1": 1, "r2": 1})
    write_request(workspace, "retry", {"r1": 1}, fresh=True)
    assert wishes.refresh() == {"r1", "r2"}
    assert (wishes.of["r1"].kind, wishes.of["r1"].fresh, wishes.of["r2"].kind) == ("retry", True, "cancel")
    assert wishes.refresh() == set()


def test_order_is_by_what_was_seen_not_by_clocks(workspace: Workspace) -> None:
    late = write_request(workspace, "cancel", {"r1": 1})
    late.rename(workspace.requests / "9999999999999999999-ab.json")
    write_request(workspace, "retry", {"r1": 1})
    wishes = Wishes(workspace)
    wishes.refresh()
    assert wishes.of["r1"].kind == "retry"


def test_what_a_loop_had_read_before_is_no_news(workspace: Workspace) -> None:
    first = write_request(workspace, "cancel", {"r1": 0})
    write_request(workspace, "cancel", {"r2": 0})
    wishes = Wishes(workspace)
    assert wishes.refresh({first.name}) == {"r2"}
    assert set(wishes.of) == {"r1", "r2"}


def test_a_file_that_is_no_request_is_named(workspace: Workspace) -> None:
    write_request(workspace, "cancel", {"r1": 0})
    (workspace.requests / "1-x.json").write_text('{"request": "explode"}')
    with pytest.raises(OrchestratorError, match=r"1-x\.json"):
        Wishes(workspace).refresh()


def test_half_written_requests_are_not_there(workspace: Workspace) -> None:
    write_request(workspace, "cancel", {"r1": 0})
    (workspace.requests / ".2-x.json.abc").write_text("{")
    assert Wishes(workspace).refresh() == {"r1"}
