"""A job that Slurm has started again goes on by itself, with no orchestrator alive.

The restarted shim closes the attempt before it, links the launch of the next one (members that have finished are
masked) and runs that, with a log of its own. All it knows of attempts are their files (docs/architecture.md):
``launch.json``, ``claimed.json``, ``facts.jsonl``, ``exit.json``, ``stop.json``, ``closed.json`` in ``a<k>/``. Two
restarts that race, or a loop that is faster, are harmless: the first file stands, and the claim decides who executes.

Standard library only: it runs on every node.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_IDLE = 10
"""So many attempts in a row that got no further end a loop of requeues; then a person or the loop decides."""
ACCOUNTS_S = 10.0
"""How long a restarted job waits for the accounts to say how its last run ended."""
LEFT_WHEN_ASKED = (15, 12, 2)
"""Signals that ask a command to leave."""


class Stop(Exception):
    """There is nothing for this job to do; the message says why. ``code``: what to exit with."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


def read(path: Path) -> dict[str, Any] | None:
    """The JSON object of a file, None where there is none."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None


def link(path: Path, value: Mapping[str, Any]) -> bool:
    """A file that decides: written aside, fsynced, linked. True: this one stands."""
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with open(aside, "xb") as file:
        file.write(json.dumps(value, sort_keys=True).encode())
        file.flush()
        os.fsync(file.fileno())
    try:
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
        ours = os.path.samefile(aside, path)
    finally:
        os.unlink(aside)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return ours


def _records(path: Path, limit: int | None) -> Iterator[dict[str, Any]]:
    """Whole lines of a log, up to byte ``limit``."""
    try:
        data = path.read_bytes()[:limit]
    except FileNotFoundError:
        return
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


@dataclass
class Attempt:
    """One attempt, as far as its files tell."""

    path: Path
    launch: dict[str, Any] | None = None
    claimed: dict[str, Any] | None = None
    closed: dict[str, Any] | None = None
    ended: dict[str, Any] | None = None
    finished: set[str] = field(default_factory=set)
    first: int = 0
    step: int | None = None
    """Of its last checkpoint."""
    reached: int | None = None
    """The last step at which a run of it finished."""

    @staticmethod
    def load(path: Path) -> Attempt:
        attempt = Attempt(
            path,
            read(path / "launch.json"),
            read(path / "claimed.json"),
            read(path / "closed.json"),
            read(path / "exit.json"),
        )
        limit = attempt.closed.get("facts_bytes") if attempt.closed else None
        for record in _records(path / "facts.jsonl", limit):
            match record.get("fact"):
                case "finished":
                    attempt.finished.add(record["run"])
                    attempt.reached = max(attempt.reached or 0, record["step"])
                case "started":
                    attempt.first = record["step"]
                case "checkpointed":
                    attempt.step = record["step"]
        return attempt

    @property
    def number(self) -> int:
        return int(self.path.name[1:])

    def sibling(self, number: int) -> Path:
        return self.path.with_name(f"a{number}")

    @property
    def progressed(self) -> bool:
        return bool(self.finished) or (self.step is not None and self.step > self.first)

    def open_members(self) -> list[str]:
        """Runs that still want training."""
        members = (self.launch or {}).get("members", ())
        return [m["run"] for m in members if not m.get("done") and m["run"] not in self.finished]

    def close(self, outcome: str, failure: str | None, message: str, **evidence: Any) -> None:
        """Say that it is over, unless somebody did before us; what stands is read back."""
        try:
            size = (self.path / "facts.jsonl").stat().st_size
        except FileNotFoundError:
            size = 0
        if self.ended:
            evidence["exit"] = self.ended
        record = {
            "time": time.time(), "by": "shim", "outcome": outcome, "failure": failure, "message": message,
            "step": self.reached if outcome == "completed" else self.step,
            "evidence": evidence, "facts_bytes": size,
        }  # fmt: skip
        link(self.path / "closed.json", record)
        self.closed = read(self.path / "closed.json")


def take_over(entry: Mapping[str, Any], token: str) -> dict[str, Any]:
    """The entry to run in a restarted job: that of the next attempt.

    Args:
        entry: as it stands in the batch file: attempt a<k>.
        token: ours, ``<name>/<job id>/<restarts>``.

    Raises:
        Stop: it is finished, was cancelled, has failed for good, or another job goes on with it.
    """
    first = Path(entry["claim"]).parent if entry["claim"] else None
    if first is None or not re.fullmatch(r"a\d+", first.name):
        return dict(entry)  # a command that keeps no attempts: simply again
    last = last_attempt(first)
    job = token.rpartition("/")[0]
    stopped = read(last.path / "stop.json") is not None
    if last.closed is None:
        if last.claimed is None:
            if stopped:
                raise Stop(f"{last.path.name} was cancelled before it began")
            return moved_entry(entry, first, last.path)
        if last.claimed.get("job", "").rpartition("/")[0] != job:
            raise Stop(f"{last.path.name} is executed by another job: {last.claimed.get('job')}")
        _close_predecessor(last, token)
        last = Attempt.load(last.path)
    assert last.closed is not None, "it was closed, by us or by somebody faster"
    outcome = last.closed["outcome"]
    if outcome not in ("preempted", "lost"):
        raise Stop(f"{last.path.name} is over ({outcome}); nothing is left to do here")
    if stopped:
        raise Stop(f"{last.path.name} was cancelled; not going on")
    if not last.open_members():
        raise Stop(f"every run of {last.path.name} has finished")
    if _idle(last) >= MOST_IDLE:
        raise Stop(f"{MOST_IDLE} attempts in a row got no further; not going on by myself")
    return moved_entry(entry, first, _launch_next(last))


def last_attempt(first: Path) -> Attempt:
    """The newest launched attempt of the pack that ``first`` is an attempt of."""
    number = int(first.name[1:])
    while first.with_name(f"a{number + 1}").joinpath("launch.json").exists():
        number += 1
    return Attempt.load(first.with_name(f"a{number}"))


def _close_predecessor(attempt: Attempt, token: str) -> None:
    """Judge the run of this job before this one."""
    restart = token.rpartition("/")[2]
    ended = attempt.ended or {}
    if not attempt.open_members():
        attempt.close("completed", None, "every run had finished before Slurm queued the job again")
    elif ended.get("code") == 75 or set(ended.get("forwarded", ())) & set(LEFT_WHEN_ASKED):
        attempt.close("preempted", "preempted", f"told to leave, then queued again by Slurm (restart {restart})")
    elif (failed := _failed_node(token)) is not None:
        message = f"node {failed or 'unknown'} failed; Slurm queued the job again (restart {restart})"
        attempt.close("lost", "node_failure", message, accounting="NODE_FAIL", node=failed)
    else:
        attempt.close("lost", "lost", f"ended without a word; Slurm queued the job again (restart {restart})")


def _failed_node(token: str) -> str | None:
    """The node (or list of them) whose failure ended the run of this job before this one, by the accounts; None where
    they do not say so, or there are none. One question, asked only after an end without a word."""
    job = token.rpartition("/")[0].rpartition("/")[2]
    question = ["sacct", "-n", "-P", "-X", "-D", "-S", "now-30days", "-j", job, "-o", "State,NodeList,End"]
    try:
        answer = subprocess.run(question, capture_output=True, text=True, timeout=ACCOUNTS_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    rows = [line.split("|") for line in answer.stdout.splitlines() if line.count("|") == 2]
    ended = [(word, nodes) for word, nodes, end in rows if end not in ("Unknown", "")]
    return ended[-1][1] if ended and ended[-1][0] == "NODE_FAIL" else None


def _idle(last: Attempt) -> int:
    """Attempts, counted back from the last, that got no further."""
    count, attempt = 0, last
    while not attempt.progressed:
        count += 1
        if attempt.number == 1 or not attempt.sibling(attempt.number - 1).is_dir():
            break
        attempt = Attempt.load(attempt.sibling(attempt.number - 1))
    return count


def _launch_next(last: Attempt) -> Path:
    """Link the launch of the attempt after ``last``; whoever linked it, it is what is run next."""
    assert last.launch is not None, "an attempt is found by its launch"
    number = last.number + 1
    launch = dict(last.launch)
    launch["attempt"] = number
    launch["name"] = re.sub(r"-a\d+$", f"-a{number}", launch["name"])
    launch["members"] = [
        {**member, "done": True} if member["run"] in last.finished else member for member in launch["members"]
    ]
    if launch.get("resume") is False:  # it was to begin afresh; what it has saved since is to be gone on with
        launch["resume"] = True
        launch["fresh_after"] = max(launch.get("fresh_after", 0), last.number - 1)
    place = last.sibling(number)
    place.mkdir(exist_ok=True)
    link(place / "launch.json", launch)
    return place


def moved_entry(entry: Mapping[str, Any], first: Path, place: Path) -> dict[str, Any]:
    """The entry with every path of its attempt replaced."""
    old, new = str(first), str(place)

    def moved(text: str) -> str:
        return new + text[len(old) :] if text == old or text.startswith(old + "/") else text

    paths = {name: moved(entry[name]) for name in ("cwd", "log", "record", "claim")}
    return {**entry, "argv": [moved(word) for word in entry["argv"]], **paths}
