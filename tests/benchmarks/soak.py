"""``make soak``: 2,000 packed runs on eight nodes of a real Slurm, while nodes, launchers and the controller are killed
again and again. Afterwards it is counted what was lost, what was done twice and what it cost, against the same sweep
left alone on this machine. Exit code 1 if anything was lost, ran twice or came out differently.

    python tests/benchmarks/soak.py                      # 50 packs of 40; needs root and Debian's Slurm, some minutes
    python tests/benchmarks/soak.py --packs 4            # a quick look
    python tests/benchmarks/soak.py --folder DIR ...     # keeps everything; an undisturbed sweep found there is used
    python tests/benchmarks/soak.py --folder DIR --only undisturbed
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from soak_chaos import Chaos, read_hits
from soak_cluster import Cluster
from soak_launcher import Launcher, orchestrate_environment
from soak_table import Outcome, judge, show
from soak_watch import Watch

from jobs.workspace import Workspace

SWEEP = "soak"
SITE = "memory_mb: 1500\nlooks_per_minute: 60\nlead_s: 30\n"
UNREACHABLE = 5


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packs", type=int, default=50, help="packs of 40 runs [50]")
    parser.add_argument("--seed", type=int, default=1, help="of the agent of chaos [1]")
    parser.add_argument("--every", type=float, default=4.0, help="mean seconds between two hits on full nodes [4]")
    parser.add_argument("--minutes", type=float, default=60.0, help="give up after so many [60]")
    parser.add_argument("--folder", type=Path, help="keep everything here [a temporary folder]")
    parser.add_argument("--only", choices=["undisturbed"], help="just this part, into --folder")
    parser.add_argument("--base-port", type=int, default=17400)
    options = parser.parse_args(arguments)
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="soak-"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "site.yaml").write_text(SITE)
    try:
        undisturbed = leave_alone(folder, options.packs)
        if options.only:
            return 0
        disturbed = disturb(folder, options)
        say("counting")
        verdict = judge(folder, SWEEP, undisturbed, disturbed, read_hits(folder / "hits.jsonl"))
        show(verdict)
        if verdict.faults and options.folder is None:
            options.folder = folder  # somebody will want to look at it
            say(f"kept for a look: {folder}")
        return 1 if verdict.faults else 0
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


def say(text: str) -> None:
    print(f"soak: {text}", file=sys.stderr, flush=True)


def leave_alone(folder: Path, packs: int) -> Outcome:
    """The same packs on the local backend, one a core; what an earlier call has left in the folder is used."""
    kept = folder / f"undisturbed-{packs}.json"
    if kept.exists():
        return Outcome.load(kept)
    root = folder / f"undisturbed-{packs}"
    shutil.rmtree(root, ignore_errors=True)
    environ = orchestrate_environment(folder, os.environ)
    cores = len(os.sched_getaffinity(0))
    launcher = Launcher(
        root, folder / "undisturbed.log", packs=packs, backend="local", in_flight=cores, environ=environ
    )
    say(f"the sweep left alone, {cores} packs at a time")
    watch, begin = Watch(root), time.monotonic()
    watch.start()
    try:
        launcher.start()
        while (code := launcher.ended()) is None:
            time.sleep(0.2)
    finally:
        launcher.stop()
        watch.stop()
    if code != 0:
        raise RuntimeError(f"the undisturbed sweep ended with exit code {code}; see {folder / 'undisturbed.log'}")
    outcome = Outcome(str(root), time.monotonic() - begin, watch.cpu(), watch.weights, dict(launcher.exits))
    outcome.keep(kept)
    return outcome


def disturb(folder: Path, options: argparse.Namespace) -> Outcome:
    """The sweep on Slurm with the agent of chaos at work. Nothing of it is left when this returns or raises."""
    root = folder / "disturbed"
    shutil.rmtree(root, ignore_errors=True)
    for log in ("disturbed.log", "hits.jsonl"):
        (folder / log).unlink(missing_ok=True)
    cluster = Cluster(folder / "slurm", base_port=options.base_port)
    environ = orchestrate_environment(folder, cluster.environ)
    launcher = Launcher(
        root, folder / "disturbed.log", packs=options.packs, backend="slurm", in_flight=12, environ=environ
    )
    workspace = Workspace(root)
    watch = Watch(root, cluster.directory)
    try:
        cluster.up()
        say(f"on {len(cluster.nodes)} nodes, with chaos of seed {options.seed}")
        chaos = Chaos(
            cluster,
            launcher,
            workspace,
            seed=options.seed,
            every_s=options.every,
            log=folder / "hits.jsonl",
        )
        watch.start()
        begin = time.monotonic()
        launcher.start()
        asked = _until_done(launcher, chaos, begin + 60 * options.minutes)
        seconds = time.monotonic() - begin
        launcher.kill()
        chaos.hurry()
        left = [f"{e.id} {e.state} {e.node} {e.reason}" for e in cluster.settle()]
    finally:
        launcher.stop()
        if watch.is_alive():
            watch.stop()
        cluster.down()
    outcome = Outcome(str(root), seconds, watch.cpu(), watch.weights, dict(launcher.exits))
    outcome.more = {
        "left": left,
        "asked": asked,
        "hits": dict(chaos.hits),
        "missed": dict(chaos.missed),
        "mended": dict(chaos.mended),
    }
    outcome.keep(folder / "disturbed.json")
    return outcome


def _until_done(launcher: Launcher, chaos: Chaos, end: float) -> dict[str, Any]:
    """Type the command until it says that all is done. Returns what a person had to ask for besides."""
    asked: dict[str, Any] = {}
    told = time.monotonic()
    while time.monotonic() < end:
        chaos.turn()
        if time.monotonic() - told > 30:
            told = time.monotonic()
            say(f"{sum(chaos.hits.values())} hits: {orjson.dumps(dict(chaos.hits)).decode()}")
        code = launcher.ended()
        if code == 0:
            return asked
        if code is not None:
            if code != UNREACHABLE:
                # Runs whose class wants a person's word: `scancel` is one.
                retried = launcher.verb("retry", "--sweep", SWEEP, "--class", "cancelled", "--yes")
                asked[f"retry {len(asked) + 1}"] = {"exit": code, "said": retried.stdout[-300:]}
                if len(asked) > 5:
                    return asked
            time.sleep(2)
            launcher.start()
        time.sleep(0.2)
    asked["gave up"] = f"not done after {(time.monotonic() - end) / 60:.0f} minutes over the limit"
    return asked


if __name__ == "__main__":
    sys.exit(main())
