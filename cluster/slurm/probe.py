"""Looking a site over before a sweep does: what it offers, what will not work there, and why.

    for finding in probe(Path("runs"), profile): print(finding.level, finding.what, finding.advice)

Read-only: nothing is submitted. What only a job can show (limits inside a job, the nodes' view of the file system) is
recorded by every job's shim instead.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cluster.backend import ClusterError
from cluster.slurm.commands import Commands
from cluster.slurm.limits import Limits
from cluster.slurm.parse import key_values
from cluster.slurm.profile import Profile
from cluster.slurm.reservations import maintenances

NEEDED = ("sbatch", "squeue", "scontrol", "scancel", "srun")
NETWORK = ("nfs", "nfs4", "lustre", "gpfs", "beegfs", "fuse", "ceph", "cifs", "smb3", "afs", "wekafs", "pvfs2")
SKEW_S = 2.0
LEAST_LEAD_S = 30


@dataclass(frozen=True, slots=True)
class SiteFinding:
    """One thing that was looked at. ``level``: ok, warning or error; ``advice``: what to do where it is not ok."""

    level: str
    what: str
    advice: str = ""


def probe(root: Path, profile: Profile, commands: Commands | None = None) -> Iterator[SiteFinding]:
    """Everything that can be asked from here.

    Args:
        root: the workspace, which every node has to see under the same path.
    """
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        yield SiteFinding("error", f"not on PATH: {', '.join(missing)}", "run on a machine that can submit jobs")
        return
    commands = commands or Commands(looks_per_minute=60, orders_per_minute=60)
    limits = Limits(commands)
    try:
        config = limits.config()
        if not config:
            yield SiteFinding("error", "the controller does not answer `scontrol show config`", "ask again later")
            return
        yield SiteFinding("ok", f"Slurm {config.get('SLURM_VERSION', '?')} on {config.get('ClusterName', '?')}")
        yield from _sizes(limits)
        yield _accounting(commands, limits, config)
        yield from _ending(config, profile)
        yield from _partition(commands, profile)
        yield from _maintenance(commands)
    except ClusterError as error:
        yield SiteFinding("error", str(error))
    yield from _files(root)
    if root.is_dir():
        yield from _quota(root)
        yield from _clocks(root)


def _sizes(limits: Limits) -> Iterator[SiteFinding]:
    jobs = limits.config().get("MaxJobCount", "?")
    yield SiteFinding("ok", f"arrays of up to {limits.array_size} jobs; the controller keeps {jobs}")
    submit = limits.submit_limit()
    if submit is not None:
        yield SiteFinding("ok", f"you may have {submit} jobs queued; the rest waits with us, not in the queue")


def _accounting(commands: Commands, limits: Limits, config: dict[str, str]) -> SiteFinding:
    if not limits.accounting:
        return SiteFinding(
            "warning",
            "no accounting: states come from squeue and from our own end markers",
            "who cancelled a job, and out-of-memory in a step, cannot be told here",
        )
    answer = commands("sacct", "-n", "-P", "-X", "-S", "now-1hours", "-u", getpass.getuser(), "-o", "JobID")
    if not answer.ok:
        return SiteFinding("warning", f"sacct does not answer ({answer.trouble})", "jobs run on; verdicts may be late")
    if "job_comment" not in config.get("AccountingStoreFlags", ""):
        return SiteFinding("ok", "accounting answers (it keeps no comments: ended jobs are known by name alone)")
    return SiteFinding("ok", "accounting answers and keeps comments")


def _seconds(text: str) -> int:
    found = re.match(r"\d+", text)
    return int(found[0]) if found else 0


def _ending(config: dict[str, str], profile: Profile) -> Iterator[SiteFinding]:
    """Requeue, preemption, signals: how jobs end here."""
    if config.get("JobRequeue", "1") == "0":
        yield SiteFinding("ok", "JobRequeue=0 here; our jobs ask for --requeue themselves")
    wait = _seconds(config.get("KillWait", "30 sec"))
    yield SiteFinding(
        "ok" if wait >= LEAST_LEAD_S else "warning",
        f"a job that has to go has {wait} s from TERM to KILL",
        "" if wait >= LEAST_LEAD_S else "a checkpoint that takes longer is lost at a preemption; checkpoint more often",
    )
    if profile.lead_s < LEAST_LEAD_S:
        advice = "Slurm looks at time limits every 30 s; set lead_s to several times what a checkpoint takes"
        yield SiteFinding("warning", f"the profile's lead before a time limit is {profile.lead_s} s", advice)
    mode, kind = config.get("PreemptMode", "OFF"), config.get("PreemptType", "(null)")
    if kind in ("(null)", "preempt/none", ""):
        yield SiteFinding("ok", "jobs are not preempted here")
    elif "CANCEL" in mode:
        yield SiteFinding(
            "warning", f"preemption cancels jobs ({mode})", "a preempted run waits for the loop to relaunch it"
        )
    elif "SUSPEND" in mode:
        advice = "a suspended run looks hung to nobody but its clock; hangs are judged by time that could be run"
        yield SiteFinding("warning", f"preemption suspends jobs ({mode})", advice)
    else:
        user_signal = "send_user_signal" in " ".join(config.values())
        said = "with our warning signal" if user_signal else "with TERM"
        yield SiteFinding("ok", f"preempted jobs are queued again ({mode}), {said}")


def _partition(commands: Commands, profile: Profile) -> Iterator[SiteFinding]:
    answer = commands("scontrol", "-o", "show", "partition")
    parts = {p["PartitionName"]: p for line in answer.out.splitlines() if "PartitionName" in (p := key_values(line))}
    if profile.partition is None:
        return
    for name in profile.partition.split(","):
        if name not in parts:
            yield SiteFinding("error", f"there is no partition {name}", f"choose one of {', '.join(sorted(parts))}")
            continue
        part = parts[name]
        if part.get("State", "UP") != "UP":
            yield SiteFinding("error", f"partition {name} is {part['State']}", "its jobs will wait")
        yield SiteFinding(
            "ok", f"partition {name}: at most {part.get('MaxTime', '?')}, {part.get('TotalNodes', '?')} nodes"
        )
        if part.get("PreemptMode") == "CANCEL":
            yield SiteFinding("warning", f"preemption in {name} cancels jobs", "a preempted run waits for the loop")


def _maintenance(commands: Commands) -> Iterator[SiteFinding]:
    answer = commands("scontrol", "-o", "show", "reservation")
    for found in maintenances(answer.out):
        hours = (found.start - datetime.now()).total_seconds() / 3600
        said = f"maintenance {found.name} from {found.start}"
        if hours > 0:
            advice = f"jobs that want more than {hours:.1f} h do not start before it; limits are shortened to fit"
            yield SiteFinding("warning", said, advice)
        else:
            yield SiteFinding("warning", f"{said}, going on until {found.end}", "nothing starts meanwhile")


# The shared file system


def filesystem(path: Path) -> str:
    """Type of the file system that holds ``path``, "" where it cannot be told."""
    best, kind = "", ""
    try:
        lines = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return ""
    there = str(path.resolve())
    for line in lines:
        _, mount, type_, *_ = line.split()
        inside = there == mount or there.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, type_
    return kind


def _files(root: Path) -> Iterator[SiteFinding]:
    """What our files rest on: links that decide, renames that replace, appends, fsync."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        name = root / f".probe-{uuid.uuid4().hex}"
        name.mkdir()
    except OSError as error:
        yield SiteFinding("error", f"{root}: {error.strerror}", "the workspace must be writable")
        return
    kind = filesystem(root)
    try:
        first, second, decided = name / "a", name / "b", name / "decided"
        first.write_text("a")
        second.write_text("b")
        os.link(first, decided)
        try:
            os.link(second, decided)
            yield SiteFinding(
                "error", f"{root}: a link replaced another", "two jobs could own one run; use another folder"
            )
        except FileExistsError:
            pass
        if not os.path.samefile(first, decided):
            yield SiteFinding("error", f"{root}: a link is not its file", "use another folder")
        os.replace(second, first)
        began = time.perf_counter()
        descriptor = os.open(first, os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, b"c")
        os.fsync(descriptor)
        os.close(descriptor)
        took = time.perf_counter() - began
        yield SiteFinding("ok", f"{root} links, renames and appends ({kind or 'unknown file system'})")
        if took > 0.5:
            yield SiteFinding("warning", f"an fsync takes {took:.1f} s", "checkpoint by seconds, not by steps")
    except OSError as error:
        yield SiteFinding("error", f"{root}: {error.strerror}", "hard links and renames are needed; use another folder")
    finally:
        shutil.rmtree(name, ignore_errors=True)
    if kind and not kind.startswith(NETWORK):
        advice = "fine if every node sees it (one machine, or a cluster file system this does not know)"
        yield SiteFinding("warning", f"{root} lies on {kind}, which looks like a local disk", advice)


def _quota(root: Path) -> Iterator[SiteFinding]:
    stat = os.statvfs(root)
    free = stat.f_bavail * stat.f_frsize
    level = "ok" if free > 5e9 else "warning"
    yield SiteFinding(level, f"{free / 1e9:.1f} GB free", "" if level == "ok" else "make room before a large sweep")
    if stat.f_files and stat.f_favail < max(100_000, 0.02 * stat.f_files):
        yield SiteFinding("warning", f"{stat.f_favail} inodes free", "an attempt takes about a dozen files")
    tool = shutil.which("quota")
    if tool is not None:
        try:
            done = subprocess.run([tool, "-w", "-p"], capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return
        over = [line.split()[0] for line in done.stdout.splitlines() if "*" in line]
        if over:
            yield SiteFinding("warning", f"over quota on {', '.join(over)}", "writes will fail; make room")


def _clocks(root: Path) -> Iterator[SiteFinding]:
    """The file server's clock against ours. Nothing is decided by it; people compare log lines."""
    path = root / f".clock-{uuid.uuid4().hex}"
    try:
        before = time.time()
        path.touch()
        skew = path.stat().st_mtime - (before + time.time()) / 2
    except OSError:
        return
    finally:
        path.unlink(missing_ok=True)
    if abs(skew) > SKEW_S:
        said = f"the file server's clock is {skew:+.0f} s from that of {socket.gethostname()}"
        yield SiteFinding("warning", said, "harmless here (heartbeats are judged by their changing), confusing in logs")
    else:
        yield SiteFinding("ok", "the file server's clock agrees with ours")
