"""The index is disposable, host-local, and makes a look cost nothing per ended run."""

from __future__ import annotations

import builtins
import functools
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import orjson
import pytest

from cluster.fake_backend import FakeBackend
from jobs.state import RunState
from jobs.workspace import Workspace
from orchestrator.errors import OrchestratorError
from orchestrator.index import Index, discard, filesystem_of, refuse_network, verdicts_from, verdicts_to
from orchestrator.loop import Loop
from orchestrator.policy import Policy
from orchestrator.requests import write_request
from orchestrator.status import summary
from orchestrator.workspace_id import ensure_workspace_id, packs_on_disk, workspace_id

POLICY = Policy(probe=False)
MakeLoop = Callable[..., Loop]


@pytest.fixture
def fake(tmp_path: Path, lab: ModuleType) -> FakeBackend:
    return FakeBackend(tmp_path / "c.json", execute=lambda entry, job: lab.pretend(Path(entry["cwd"]), job))


@pytest.fixture
def make_loop(workspace: Workspace, fake: FakeBackend):
    loops: list[Loop] = []

    def make(**options: object) -> Loop:
        loops.append(Loop(workspace, fake, POLICY, code="", **options))  # type: ignore[arg-type]
        return loops[-1]

    yield make
    for loop in loops:
        loop.close()


def finish(loop: Loop, fake: FakeBackend) -> None:
    while not loop.tick().done:
        fake.step()


def opens_of(action: Callable[[], object], monkeypatch: pytest.MonkeyPatch, root: Path) -> list[str]:
    """Files and folders under ``root`` that an action opens or lists."""
    seen: list[str] = []

    def note(path: object) -> None:
        if isinstance(path, str | os.PathLike) and str(path).startswith(str(root)):
            seen.append(str(path))

    with monkeypatch.context() as patch:
        real = {
            "open": builtins.open,
            "io": Path.open,
            "scandir": os.scandir,
            "listdir": os.listdir,
            "read": Path.read_bytes,
        }
        patch.setattr(builtins, "open", lambda p, *a, **k: (note(p), real["open"](p, *a, **k))[1])
        patch.setattr(os, "scandir", lambda p=".": (note(p), real["scandir"](p))[1])
        patch.setattr(os, "listdir", lambda p=".": (note(p), real["listdir"](p))[1])
        patch.setattr(Path, "read_bytes", lambda p: (note(p), real["read"](p))[1])
        action()
    return seen


def test_status_opens_no_more_files_however_many_runs_have_ended(
    workspace: Workspace, lab: ModuleType, fake: FakeBackend, make_loop: MakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    for packs in (2, 30):
        specs = [lab.cell({}, [3 * n, 3 * n + 1, 3 * n + 2]) for n in range(packs)]
        lab.write_plan(workspace, "s", specs)
        loop = make_loop()
        finish(loop, fake)
        loop.tick()
        opened.append(opens_of(lambda: summary(workspace, "s"), monkeypatch, workspace.root))
        assert summary(workspace, "s").counts[RunState.COMPLETED] == 3 * packs
    assert opened[0] == opened[1]
    assert len(opened[0]) <= 4
    discard(workspace.index)
    without = opens_of(lambda: summary(workspace, "s"), monkeypatch, workspace.root)
    assert len(without) > 30, "this is how many it would be"


def test_a_loop_that_starts_again_reads_nothing_of_what_has_ended(
    workspace: Workspace, lab: ModuleType, fake: FakeBackend, make_loop: MakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.write_plan(workspace, "s", [lab.cell({}, [n]) for n in range(12)])
    finish(make_loop(), fake)
    loops: list[Loop] = []

    def start() -> None:
        loops.append(make_loop())
        assert loops[0].tick().done

    opened = opens_of(start, monkeypatch, workspace.root)
    below = [Path(path).relative_to(workspace.root).parts for path in opened]
    assert not [parts for parts in below if parts[0] == "packs" and len(parts) > 2], "only names of packs are listed"
    assert loops[0].board.counts["s"][RunState.COMPLETED] == 12


def test_status_sees_what_happened_since_the_loop_died(
    workspace: Workspace, lab: ModuleType, fake: FakeBackend, make_loop: MakeLoop
) -> None:
    lab.write_plan(workspace, "s", [lab.cell({}, [n]) for n in range(3)])
    make_loop().tick()
    counts = summary(workspace, "s").counts
    assert (counts[RunState.QUEUED], counts[RunState.PENDING]) == (3, 0)
    fake.step()
    fake.step()
    assert summary(workspace, "s").counts[RunState.RUNNING] == 3
    for _ in range(3):
        fake.step()
    assert summary(workspace, "s").counts[RunState.COMPLETED] == 3


def test_with_and_without_an_index_the_answer_is_the_same(
    workspace: Workspace, lab: ModuleType, fake: FakeBackend, make_loop: MakeLoop
) -> None:
    lab.write_plan(workspace, "s", [lab.cell({}, [2 * n, 2 * n + 1]) for n in range(4)])
    loop = make_loop()
    loop.tick()
    fake.end("orc-" + loop.board.order[0] + "-a1", cause="cancelled", word="CANCELLED")
    for _ in range(3):
        fake.step()
    loop.tick()
    quick = summary(workspace, "s")
    discard(workspace.index)
    slow = summary(workspace, "s")
    assert quick.counts == slow.counts
    assert (quick.total, slow.seen) == (8, None)
    assert dict(quick.cost).keys() == dict(slow.cost).keys()


def test_it_can_be_deleted_or_broken_at_any_time(
    workspace: Workspace, lab: ModuleType, fake: FakeBackend, make_loop: MakeLoop
) -> None:
    lab.write_plan(workspace, "s", [lab.cell({}, [n]) for n in range(4)])
    finish(make_loop(), fake)
    jobs = len(fake.jobs())
    for damage in (lambda p: p.unlink(), lambda p: p.write_bytes(b"not a database" * 100)):
        discard(workspace.index)
        workspace.index.parent.mkdir(parents=True, exist_ok=True)
        workspace.index.write_bytes(b"")
        damage(workspace.index)
        assert summary(workspace, "s").counts[RunState.COMPLETED] == 4
        loop = make_loop()
        finish(loop, fake)
        assert loop.board.counts["s"][RunState.COMPLETED] == 4
    assert len(fake.jobs()) == jobs, "nothing was run again"


def test_requests_reach_packs_that_the_index_calls_settled(
    workspace: Workspace, lab: ModuleType, fake: FakeBackend, make_loop: MakeLoop
) -> None:
    (spec,) = specs = lab.cell({}, [0])
    (pack,) = lab.write_plan(workspace, "s", [specs])
    first = make_loop()
    first.tick()
    fake.end(f"orc-{pack}-a1", cause="deadline")
    first.tick()
    later = Loop(workspace, fake, Policy(probe=False, settle_s=0), code="")
    finish(later, fake)
    later.close()
    assert later.board.counts["s"][RunState.FAILED] == 1
    write_request(workspace, "retry", {spec.id: 1})
    again = make_loop()
    finish(again, fake)
    assert again.board.counts["s"][RunState.COMPLETED] == 1
    assert len(workspace.attempts(pack)) == 2


def test_a_workspace_that_was_deleted_takes_its_index_with_it(
    workspace: Workspace, lab: ModuleType, fake: FakeBackend, make_loop: MakeLoop
) -> None:
    """The same folder, the same sweep: nothing of it has been run."""
    plan = functools.partial(lab.write_plan, workspace, "s", [lab.cell({}, [n]) for n in range(3)], digest="same")
    plan()
    finish(make_loop(), fake)
    assert summary(workspace, "s").counts[RunState.COMPLETED] == 3
    shutil.rmtree(workspace.root)
    plan()
    assert workspace.index.exists()
    assert summary(workspace, "s").counts[RunState.PENDING] == 3, "no workspace yet, so no index of it"
    ensure_workspace_id(workspace)
    assert summary(workspace, "s").counts[RunState.PENDING] == 3
    jobs = len(fake.jobs())
    fake._path.write_text('{"next": 1, "jobs": [], "faults": [], "calls": {}}')
    again = make_loop()
    assert again.board.counts["s"][RunState.PENDING] == 3
    finish(again, fake)
    assert len(fake.jobs()) == jobs == 3, "all of it was run again"
    assert len(packs_on_disk(workspace)) == 3


def test_a_loop_that_lives_on_does_not_write_into_another_workspaces_index(
    workspace: Workspace, lab: ModuleType, fake: FakeBackend, make_loop: MakeLoop
) -> None:
    lab.write_plan(workspace, "s", [lab.cell({}, [n]) for n in range(3)])
    old = make_loop()
    finish(old, fake)
    shutil.rmtree(workspace.root)
    lab.write_plan(workspace, "s", [lab.cell({}, [n]) for n in range(3)])
    new = make_loop()
    assert old._index is not None
    with pytest.raises(sqlite3.DatabaseError, match="another workspace"):
        old._index.store([("p", True, {})])
    assert old.tick().counts["s"].get(RunState.COMPLETED, 0) == 0, "it begins again, with the new one"
    assert new.board.counts["s"][RunState.PENDING] == 3


def test_results_that_somebody_deleted_are_pending_again(
    workspace: Workspace, lab: ModuleType, fake: FakeBackend, make_loop: MakeLoop
) -> None:
    packs = lab.write_plan(workspace, "s", [lab.cell({}, [n]) for n in range(6)])
    finish(make_loop(), fake)
    shutil.rmtree(workspace.pack(packs[0]))
    fake._path.write_text('{"next": 1, "jobs": [], "faults": [], "calls": {}}')
    again = make_loop()
    assert again.board.counts["s"][RunState.PENDING] == 1
    again.tick()
    assert summary(workspace, "s").counts[RunState.COMPLETED] == 5
    finish(again, fake)
    assert [job["name"] for job in fake.jobs()] == [f"orc-{packs[0]}-a1"]
    assert summary(workspace, "s").counts[RunState.COMPLETED] == 6


MOUNTS = """\
/dev/sda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb /home/local xfs rw 0 0
tmpfs /a\\040b tmpfs rw 0 0
"""


def test_a_network_file_system_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda path: True)
    monkeypatch.setattr(Path, "resolve", lambda path, strict=False: path)
    assert filesystem_of(Path("/home/ann/.cache/x"), MOUNTS) == "nfs4"
    assert filesystem_of(Path("/home/local/x"), MOUNTS) == "xfs"
    assert filesystem_of(Path("/a b/x"), MOUNTS) == "tmpfs"
    assert filesystem_of(Path("/homes/x"), MOUNTS) == "ext4"
    refuse_network(Path("/home/local/x"), MOUNTS)
    with pytest.raises(OrchestratorError, match="XDG_CACHE_HOME"):
        refuse_network(Path("/home/ann/index.sqlite"), MOUNTS)


def test_verdicts_survive_the_round_trip(
    workspace: Workspace, lab: ModuleType, fake: FakeBackend, make_loop: MakeLoop
) -> None:
    lab.write_plan(workspace, "s", [lab.cell({}, [n]) for n in range(2)])
    loop = make_loop()
    finish(loop, fake)
    stored = dict(Index(workspace.index, write=False, identity=workspace_id(workspace)).settled())
    for pack, verdict in loop.board.verdicts.items():
        again = orjson.loads(orjson.dumps(verdicts_to(verdict.runs)))
        assert verdicts_from(stored[pack]["verdicts"]) == verdict.runs == verdicts_from(again)
