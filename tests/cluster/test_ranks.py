"""A command of several processes under one shim: who they are told to be, what is passed on, and who failed first."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.backend import LaunchRequest, Resources
from cluster.batch_file import batch_payload
from cluster.ranks import PEER_LOST, explained, first_to_fail, local_environments, path_of

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path, python: list[str]) -> Start:
    """The shim of a Python command that is ``ranks`` processes."""

    def begin(code: str, ranks: int, **changes: Any) -> subprocess.Popen[bytes]:
        log, record = str(tmp_path / "log.txt"), str(tmp_path / "exit.json")
        resources = Resources(cpus=4, processes=ranks)
        request = LaunchRequest("orc-p1-a1", (*python, "-c", code), str(tmp_path), log, record, resources=resources)
        payload = batch_payload("b1", [request])
        payload["entries"]["0"] |= changes
        (tmp_path / "batch.json").write_text(json.dumps(payload))
        return subprocess.Popen([*python, "-m", "cluster.launch_shim", str(tmp_path / "batch.json"), "0"])

    return begin


def logs(folder: Path, ranks: int) -> list[str]:
    return [Path(path_of(str(folder / "log.txt"), rank)).read_text() for rank in range(ranks)]


def record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "exit.json").read_text())


def test_every_process_is_told_who_it_is(start: Start, tmp_path: Path) -> None:
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "OMP_NUM_THREADS")
    shared = ("MASTER_PORT", "ORCHESTRATE_JOB", "ORCHESTRATE_WARNING")
    code = f"import json, os; print(json.dumps([[os.environ[n] for n in group] for group in {(names, shared)}]))"
    assert start(code, 2).wait() == 0
    said = [json.loads(text) for text in logs(tmp_path, 2)]
    assert [own for own, _ in said] == [[str(r), str(r), "2", "2", "127.0.0.1", "2"] for r in range(2)]
    assert said[0][1] == said[1][1]
    assert said[0][1][2] == "USR2"
    left = record(tmp_path)
    assert (left["code"], left["rank"], left["ranks"]) == (0, 0, 2)


def test_6_06_processes_of_a_pack_get_devices_of_their_own() -> None:
    found = local_environments(4, {"CUDA_VISIBLE_DEVICES": "2,3"})
    assert [env["CUDA_VISIBLE_DEVICES"] for env in found] == ["2", "2", "3", "3"]
    assert {env["LOCAL_RANK"] for env in found} == {"0"}
    assert [env["ORCHESTRATE_LOCAL_RANK"] for env in found] == ["0", "1", "2", "3"]
    assert local_environments(1, {"CUDA_VISIBLE_DEVICES": "2,3"}) == [{}], "one process keeps what it was given"


def test_a_warning_reaches_every_process(start: Start, tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGUSR2, lambda n, f: (print('got it'), sys.exit(75)))\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    shim = start(code, 3)
    end = time.monotonic() + 10
    while not all("ready" in text for text in _seen(tmp_path, 3)):
        assert time.monotonic() < end
        time.sleep(0.01)
    shim.send_signal(signal.SIGUSR2)
    assert shim.wait(10) == 75
    assert [text.count("got it") for text in logs(tmp_path, 3)] == [1, 1, 1]
    assert record(tmp_path)["forwarded"] == [signal.SIGUSR2]


def _seen(folder: Path, ranks: int) -> list[str]:
    """As ``logs``, while some may not be there yet."""
    paths = [Path(path_of(str(folder / "log.txt"), rank)) for rank in range(ranks)]
    return [path.read_text() if path.exists() else "" for path in paths]


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("sys.exit(77)", (77, None)),
        ("os.kill(os.getpid(), 9)", (None, 9)),
        ("sys.exit(1)", (1, None)),
    ],
)
def test_4_10_one_of_four_processes_fails_while_the_others_sleep(
    start: Start, tmp_path: Path, end: str, expected: tuple[int | None, int | None]
) -> None:
    code = f"import os, sys, time\nif os.environ['RANK'] == '2': {end}\ntime.sleep(60)"
    began = time.monotonic()
    shim = start(code, 4, peers_s=0.3)
    assert shim.wait(20) == (expected[0] or 128 + 9)
    assert time.monotonic() - began < 10
    left = record(tmp_path)
    assert (left["code"], left["signal"], left["rank"]) == (*expected, 2)


def test_those_that_notice_leave_in_order_and_explain_nothing(start: Start, tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "if os.environ['RANK'] == '1': time.sleep(0.2); sys.exit(81)\n"
        "time.sleep(0.1); print('leaving'); sys.exit(82)"
    )
    assert start(code, 3).wait(20) == 81
    assert record(tmp_path)["rank"] == 1
    assert "leaving" in logs(tmp_path, 3)[0]


def test_no_process_outlives_the_shim(start: Start, tmp_path: Path) -> None:
    shim = start("import os, time; print(os.getpid(), flush=True); time.sleep(60)", 2)
    end = time.monotonic() + 10
    while not all(text.endswith("\n") for text in _seen(tmp_path, 2)):
        assert time.monotonic() < end
        time.sleep(0.01)
    pids = [int(text) for text in logs(tmp_path, 2)]
    shim.kill()
    shim.wait()
    while any(_alive(pid) for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([(0, 0), (1, 0)], None),
        ([(1, 75), (0, 75)], None),
        ([(0, PEER_LOST), (1, -9)], (1, -9)),
        ([(2, 77), (1, -9)], (2, 77)),
        ([(0, PEER_LOST), (1, PEER_LOST)], (0, PEER_LOST)),
    ],
)
def test_who_failed_first(ends: list[tuple[int, int]], expected: tuple[int, int] | None) -> None:
    assert first_to_fail(ends) == expected


def _ended(code: int | None, number: int | None = None, at: float = 1.0, job: str = "t") -> dict[str, Any]:
    return {"code": code, "signal": number, "time": at, "job": job}


def test_what_ranks_on_other_machines_left_explains_the_first(tmp_path: Path) -> None:
    main = str(tmp_path / "exit.json")
    lost = _ended(PEER_LOST)
    assert explained(_ended(77), main, 2, "t") == {**_ended(77), "ranks": 2}, "it has a reason of its own"
    Path(path_of(main, 1)).write_text(json.dumps(_ended(PEER_LOST, at=3.0)))
    Path(path_of(main, 2)).write_text(json.dumps({**_ended(None, 9, at=2.0), "host": "h2"}))
    Path(path_of(main, 3)).write_text(json.dumps(_ended(1, at=0.0, job="of another start")))
    told = explained(lost, main, 4, "t", 0.0)
    assert (told["rank"], told["code"], told["signal"], told["silent"]) == (2, None, 9, [])
    assert told["failed_on"] == "h2"
    told = explained(lost, main, 5, "t", 0.1)
    assert (told["rank"], told["silent"]) == (2, [4]), "a node that died leaves nothing"
    told = explained(lost, str(tmp_path / "other.json"), 2, "t", 0.0)
    assert (told["code"], told["silent"]) == (PEER_LOST, [1])
