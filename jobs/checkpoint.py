"""Checkpoints on disk: written aside, fsynced, manifest last, renamed; the loader walks back to a whole one.

A checkpoint is a directory ``checkpoints/step-<step>-a<attempt>/``. The attempt is part of the name, so that two
attempts that are alive at once (one of them given up for lost) never write to the same place. Its ``manifest.json``
holds size and sha256 of every other file, and the sha256 of itself. Nothing points at "the latest": the directory is
scanned, what it holds is the truth.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from jobs.durable import aside_name, fsync_dir
from jobs.identity import canonical_json

MANIFEST = "manifest.json"
FORMAT = 1
KEEP = 2
SPARE_BYTES = 8 << 20
"""Room that must be left for facts and metrics after a checkpoint is written."""
COMPLETE = "complete"

_NAME = re.compile(r"step-(\d+)-a(\d+)")
_ASIDE = re.compile(r"\.step-\d+-a(\d+)\.")


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint directory as it was found.

    Attributes:
        verdict: ``"complete"``, or what is wrong with it.
        bytes: of all its files but the manifest (as the manifest says; 0 without one).
        meta: what the session wrote beside the state (see ``write_checkpoint``).
    """

    path: Path
    step: int
    attempt: int
    verdict: str
    bytes: int = 0
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return self.verdict == COMPLETE


class DiskFull(OSError):
    """There is no room for the checkpoint; nothing was written."""


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json({k: v for k, v in manifest.items() if k != "digest"})).hexdigest()


def require_room(directory: Path, needed: int) -> None:
    """Raises DiskFull (errno ENOSPC) where the file system has less than ``needed`` bytes and a little to spare."""
    free = shutil.disk_usage(directory).free
    if free < needed + SPARE_BYTES:
        text = f"a checkpoint of {needed} bytes does not fit: {free} bytes are free (and {SPARE_BYTES} must stay so)"
        raise DiskFull(errno.ENOSPC, text, str(directory))


def write_checkpoint(
    checkpoints: Path,
    *,
    step: int,
    attempt: int,
    write: Callable[[Path], None],
    meta: dict[str, Any],
    expected_bytes: int = 0,
) -> Checkpoint:
    """Let ``write(directory)`` fill a directory, and make it a checkpoint.

    Args:
        meta: JSON kept in the manifest: ``finished`` (ids of the runs that were finished at ``step``) and whatever
            else the next attempt's session needs.
        expected_bytes: size of the last one, to refuse before writing rather than in the middle.

    Raises:
        DiskFull: see ``require_room``. OSError: writing failed; the partial directory is gone.
    """
    checkpoints.mkdir(parents=True, exist_ok=True)
    require_room(checkpoints, expected_bytes)
    final = checkpoints / f"step-{step:08d}-a{attempt}"
    aside = aside_name(final)
    aside.mkdir()
    try:
        write(aside)
        files = {str(p.relative_to(aside)): p for p in sorted(aside.rglob("*")) if p.is_file()}
        entries = {}
        for name, path in files.items():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
            entries[name] = {"bytes": path.stat().st_size, "sha256": _sha256(path)}
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "step": step,
            "attempt": attempt,
            "time": time.time(),
            "files": entries,
            "meta": meta,
        }
        manifest["digest"] = _digest(manifest)
        with open(aside / MANIFEST, "xb") as file:
            file.write(canonical_json(manifest))
            file.flush()
            os.fsync(file.fileno())
        for directory in sorted({p.parent for p in files.values()} | {aside}):
            fsync_dir(directory)
        os.rename(aside, final)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    fsync_dir(checkpoints)
    return Checkpoint(final, step, attempt, COMPLETE, sum(e["bytes"] for e in entries.values()), meta)


def inspect(path: Path) -> Checkpoint:
    """Verify one checkpoint directory against its manifest: every file there, of its size and its sha256."""
    match = _NAME.fullmatch(path.name)
    step, attempt = (int(match[1]), int(match[2])) if match else (-1, -1)
    try:
        manifest = orjson.loads((path / MANIFEST).read_bytes())
    except FileNotFoundError:
        return Checkpoint(path, step, attempt, "no manifest")
    except orjson.JSONDecodeError:
        return Checkpoint(path, step, attempt, "manifest is not JSON")
    if not isinstance(manifest, dict) or manifest.get("digest") != _digest(manifest):
        return Checkpoint(path, step, attempt, "manifest does not match its own digest")
    if manifest["format"] != FORMAT:
        return Checkpoint(path, step, attempt, f"format {manifest['format']} is not known here")
    size = sum(entry["bytes"] for entry in manifest["files"].values())
    if (manifest["step"], manifest["attempt"]) != (step, attempt):
        return Checkpoint(path, step, attempt, "manifest belongs to another checkpoint", size)
    verdict = COMPLETE
    for name, entry in manifest["files"].items():
        try:
            found = (path / name).stat().st_size
        except FileNotFoundError:
            verdict = f"{name} is missing"
            break
        if found != entry["bytes"]:
            verdict = f"{name} has {found} bytes, not {entry['bytes']}"
            break
        if _sha256(path / name) != entry["sha256"]:
            verdict = f"{name} has another content than was written"
            break
    return Checkpoint(path, step, attempt, verdict, size, manifest["meta"])


def _scan(checkpoints: Path) -> list[tuple[int, int, Path]]:
    """(attempt, step, path), newest first. A later attempt's checkpoint is newer than an earlier attempt's, whatever
    their steps: its metric rows have replaced the earlier ones from where it began."""
    try:
        names = os.listdir(checkpoints)
    except FileNotFoundError:
        return []
    found = ((_NAME.fullmatch(name), checkpoints / name) for name in names)
    return sorted(((int(m[2]), int(m[1]), path) for m, path in found if m), reverse=True)


def list_checkpoints(pack: Path) -> list[Checkpoint]:
    """All checkpoints of a pack's directory with their verdicts, newest first. Reads every byte of them."""
    return [inspect(path) for _, _, path in _scan(pack / "checkpoints")]


def newest_checkpoint(
    checkpoints: Path, *, done: Collection[str], after_attempt: int = 0
) -> tuple[Checkpoint | None, list[Checkpoint]]:
    """The checkpoint to resume from, and the newer ones that had to be passed over.

    Args:
        done: runs whose ``finished`` fact counts. A checkpoint in which any other run is finished already was left by
            an attempt whose word did not count; resuming it would skip that run's end.
        after_attempt: ignore checkpoints of attempts up to this one.
    """
    passed: list[Checkpoint] = []
    for attempt, _, path in _scan(checkpoints):
        if attempt <= after_attempt:
            continue
        checkpoint = inspect(path)
        unknown = set(checkpoint.meta.get("finished", ())) - set(done)
        if checkpoint.complete and unknown:
            verdict = f"holds finished runs without a fact that counts: {', '.join(sorted(unknown))}"
            checkpoint = Checkpoint(path, checkpoint.step, attempt, verdict, checkpoint.bytes, checkpoint.meta)
        if checkpoint.complete:
            return checkpoint, passed
        passed.append(checkpoint)
    return None, passed


def newest_meta(checkpoints: Path, after_attempt: int = 0) -> dict[str, Any] | None:
    """What the newest manifest says beside the state, of which nothing is read; None where there is no checkpoint.

    Args:
        after_attempt: ignore checkpoints of attempts up to this one.
    """
    for attempt, _, path in _scan(checkpoints):
        if attempt > after_attempt:
            try:
                return dict(orjson.loads((path / MANIFEST).read_bytes())["meta"])
            except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
                continue
    return None


def clear_asides(checkpoints: Path, attempt: int) -> int:
    """Remove what attempts up to ``attempt`` were writing when they died. Returns how many there were."""
    try:
        names = os.listdir(checkpoints)
    except FileNotFoundError:
        return 0
    stale = [name for name in names if (match := _ASIDE.match(name)) and int(match[1]) <= attempt]
    for name in stale:
        shutil.rmtree(checkpoints / name, ignore_errors=True)
    return len(stale)


def prune(checkpoints: Path, *, attempt: int, keep: int = KEEP, spare: Iterable[Path] = ()) -> None:
    """Keep the ``keep`` newest of the checkpoints written by attempts up to ``attempt``; later ones are not ours.

    A checkpoint loses its manifest first, so that what is half removed is never taken for whole."""
    spared = set(spare)
    ours = [path for number, _, path in _scan(checkpoints) if number <= attempt]
    for path in [path for path in ours if path not in spared][keep:]:
        (path / MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)
    if keep == 0:
        try:
            checkpoints.rmdir()
        except OSError:
            return
