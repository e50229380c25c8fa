"""Jobs as processes: each run is a session of its own, watched by a shell that leaves how it ended.

``run/<token>.pid`` holds the batch shell's pid (which is its session's id), ``run/<token>.end`` its exit status.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

_WATCHER = """
setsid /bin/bash "$1" {redirect} </dev/null &
pid=$!; echo $pid > "$2.pid.new"; mv "$2.pid.new" "$2.pid"
wait $pid; code=$?
echo $code > "$2.end.new"; mv "$2.end.new" "$2.end"
exec "$3" tick
"""


def start(
    script: Path, base: Path, control: Path, env: dict[str, str], cwd: str, output: str, error: str, append: bool
) -> None:
    """Start a batch script. ``base``: path that ``.pid`` and ``.end`` are added to; ``control``: called at the end."""
    arrow = ">>" if append else ">"
    redirect = f'{arrow}"$4" 2>{">" if append else ""}"$5"' if error != output else f'{arrow}"$4" 2>&1'
    command = _WATCHER.format(redirect=redirect)
    subprocess.run(  # the outer shell ends at once: the watcher is nobody's child, so nobody has to collect it
        [
            "/bin/sh",
            "-c",
            'setsid /bin/bash -c "$@" &',
            "start",
            command,
            "watcher",
            script,
            base,
            control,
            output,
            error,
        ],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )


def leader(base: Path, patience_s: float = 2.0) -> int | None:
    """Pid of a run's batch shell."""
    end = time.monotonic() + patience_s
    while True:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(base.with_name(base.name + ".pid").read_text())
        if time.monotonic() > end:
            return None
        time.sleep(0.005)


def exit_status(base: Path) -> tuple[int, int] | None:
    """(code, signal) of a run that is over, else None."""
    try:
        code = int(base.with_name(base.name + ".end").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return (0, code - 128) if code > 128 else (code, 0)


def members(session: int) -> list[int]:
    """Processes of a session that are alive."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                if int(fields[3]) == session and fields[0] not in (b"Z", b"X"):
                    found.append(int(name))
    return found


def send(base: Path, number: int, *, batch: bool = True, others: bool = True) -> None:
    """Signal a run: its batch shell, its other processes, or both."""
    pid = leader(base)
    if pid is None:
        return
    for member in members(pid):
        if member == os.getpid():  # a job that gives orders about itself: the real controller is another process
            continue
        if batch if member == pid else others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, number)


def kill(base: Path) -> None:
    """Make a run end now, whatever it does about it."""
    send(base, signal.SIGKILL)
