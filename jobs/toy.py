"""The toy trainer: keeps the whole contract of a runner (steps, metrics, checkpoints, products, resume) without torch.

Each member's state is a running sha256 over its seed, inputs and steps, and a loss that follows from it. Two runs with
equal digests did exactly the same steps in the same order, which is how the tests see that a resume was exact.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import orjson

from jobs.facts import FailureClass
from jobs.layout import Layout
from jobs.session import Member, Session
from jobs.toy_config import Faults, ToyConfig

STATE = "state.json"


@dataclass
class _State:
    """Where one member is."""

    digest: str
    accuracy: float = 0.0
    loss: float = 1.0


def _begin(member: Member) -> _State:
    digest = hashlib.sha256(str(member.seed).encode())
    for name, path in sorted(member.inputs.items()):
        digest.update(name.encode() + path.read_bytes())
    return _State(digest.hexdigest())


def _step(state: _State, config: ToyConfig, seed: int, step: int) -> None:
    """One step; the pseudo-random number comes from the digest, so that a skipped or doubled step shows for ever."""
    digest = hashlib.sha256(f"{state.digest}:{seed}:{step}".encode()).digest()
    state.digest = digest.hex()
    uniform = int.from_bytes(digest[:6], "big") / 2**48 - 0.5
    done = step / max(config.steps, 1)
    state.accuracy = min(1.0, max(0.0, config.level * (1 - math.exp(-5 * done)) + config.noise * uniform))
    state.loss = 0.9 * state.loss + 0.1 * (1 - state.accuracy)


def _metrics(config: ToyConfig, state: _State, loss: float) -> dict[str, float]:
    metrics = {"train/loss": loss, "test/accuracy": state.accuracy}
    if config.lr is not None:
        off = abs(math.log10(config.lr / config.best_lr))
        metrics |= {"validation/loss": 1.0 + off, "validation/accuracy": state.accuracy}
    return metrics


class _Trouble:
    """The fault switches of one member, silent in attempts they are not meant for."""

    def __init__(self, config: Faults, settings: object, attempt: int, rank: int) -> None:
        faults = Faults.model_validate(settings) if settings else config
        meant = faults.attempts is None or attempt in faults.attempts
        self.faults = faults if meant and (faults.ranks is None or rank in faults.ranks) else Faults()

    def holds(self, step: int) -> bool:
        """A test wants to do something to this run before it goes on."""
        return bool(self.faults.hold) and step >= self.faults.hold_at and os.path.exists(self.faults.hold)

    def strike(self, step: int) -> None:
        """What goes wrong in this step, goes wrong now."""
        f = self.faults
        if step == f.oom_at:
            raise MemoryError("the toy was told to run out of memory")
        if step == f.gpu_oom_at:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB (the toy was told to)")
        if step == f.error_at:
            raise ValueError("the toy was told to fail")
        if step == f.full_disk_at:
            raise OSError(errno.ENOSPC, "No space left on device (the toy was told so)")
        if step == f.exit_at:
            os._exit(f.exit_code)
        if step == f.signal_at:
            os.kill(os.getpid(), f.signal)
        while step == f.hang_at:
            time.sleep(0.05)

    def noise(self) -> None:
        """Children and log output, at the start."""
        f = self.faults
        if f.ignore_signals:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
                signal.signal(number, signal.SIG_IGN)
        for _ in range(f.children):
            code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
            subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL)
        out = sys.stdout.buffer
        if f.not_utf8:
            out.write(b"\xff\xfe not text \xc3\n")
        for number in range(int(f.log_mb * 1024)):
            out.write(b"%08d " % number + b"x" * 1014 + (b"\r" if f.cr_progress else b"\n"))
        out.flush()


def _write(directory: Path, states: dict[str, _State], ballast: int) -> None:
    payload = {run: [state.digest, state.accuracy, state.loss] for run, state in states.items()}
    (directory / STATE).write_bytes(orjson.dumps(payload))
    if ballast:
        (directory / "ballast.bin").write_bytes(bytes(ballast))


def run(session: Session) -> None:
    """Carry out a pack of toy runs, one step of every unfinished member at a time."""
    settings = session.launch.settings.get("toy")
    number, rank = session.launch.attempt, session.ranks.rank
    troubles = {m.run: _Trouble(m.config.faults, settings, number, rank) for m in session.members}
    session.layout = Layout(session.members[0].config.layout)
    states = {m.run: _begin(m) for m in session.members}
    if session.checkpoint is not None:
        for name, (digest, accuracy, loss) in orjson.loads((session.checkpoint / STATE).read_bytes()).items():
            states[name] = _State(digest, accuracy, loss)
    active = [m for m in session.members if not m.done]
    total = max((m.config.steps for m in active), default=0)
    ballast = max((m.config.checkpoint_bytes for m in active), default=0)
    session.started(session.resume_step, "exact" if session.checkpoint else None, {})
    for m in active:
        troubles[m.run].noise()

    def write(directory: Path) -> None:
        _write(directory, states, ballast)
        for m in session.members:
            faults = troubles[m.run].faults
            time.sleep(faults.save_seconds)
            if faults.die_in_save is not None and step >= faults.die_in_save:
                os.kill(os.getpid(), signal.SIGKILL)

    step = session.resume_step
    active = _finish_due(session, active, states, troubles, step)
    while active:
        held = any(troubles[m.run].holds(step) for m in active)
        step += not held
        time.sleep(max((m.config.step_seconds for m in active), default=0.0) if not held else 0.02)
        for m in tuple(active) if not held else ():
            trouble, state = troubles[m.run], states[m.run]
            trouble.strike(step)
            _step(state, m.config, m.seed, step)
            loss = state.loss + (trouble.faults.jump_after_resume if session.checkpoint else 0.0)
            if step == trouble.faults.nan_at:
                session.metrics(m.run, step, {"train/loss": math.nan})
                session.finish(m.run, step, "failed", {}, FailureClass.DIVERGED, f"loss is nan at step {step}")
                active.remove(m)
            elif step % m.config.metric_every == 0 or step == m.config.steps:
                session.metrics(m.run, step, _metrics(m.config, state, loss))
        if held:
            session.busy()
        leaving = session.advance(step, total)
        if session.checkpoint_due(step):
            session.save(step, write)
        active = _finish_due(session, active, states, troubles, step)
        if leaving:
            return


def _finish_due(
    session: Session, active: list[Member], states: dict[str, _State], troubles: dict[str, _Trouble], step: int
) -> list[Member]:
    """Finish the members that have done all their steps; those that go on."""
    for m in active:
        if step < m.config.steps:
            continue
        if troubles[m.run].faults.die_before_finish:
            os.kill(os.getpid(), signal.SIGKILL)
        state = states[m.run]
        for name in m.config.products:
            session.product(m.run, name, {"of": m.run, "digest": state.digest})
        summary = {"test/accuracy": state.accuracy, "train/loss": state.loss, "digest": state.digest}
        session.finish(m.run, step, "completed", summary)
    return [m for m in active if step < m.config.steps]
