"""Runner ``train``: a pack of runs of one task, each with its own function, rate, seed and end, as one program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from jobs.data import Order, one_set
from jobs.facts import FailureClass
from jobs.numerics import reproducible
from jobs.pack_loop import PackLoop, Program, add_training_sums
from jobs.pack_state import PackState
from jobs.shape_product import read_curves, starting_curves
from jobs.stack import Stack
from jobs.tasks.build import make_task
from jobs.train_config import ACTIVATION_INPUT, TrainConfig
from models.build import Member

if TYPE_CHECKING:
    from jobs.session import Session


def run(session: Session) -> None:
    """Carry out the pack of a session."""
    with reproducible(session.launch.threads):
        PackLoop(session, TrainProgram(session)).run()


class TrainProgram(Program):
    """One model a run. Equal seeds mean equal data, order and initial weights, whatever the arm."""

    def __init__(self, session: Session) -> None:
        self.configs = [_typed(member.config) for member in session.members]
        self.models = [1] * len(self.configs)
        self.data_seeds = seeds = [member.seed for member in session.members]
        members = []
        for member, config in zip(session.members, self.configs, strict=True):
            described = config.transformer()
            path = member.inputs.get(ACTIVATION_INPUT)
            # The search of a masked member may have failed for good: it keeps its place with any function at all.
            missing = member.done and path is None
            curves = starting_curves(described) if missing else read_curves(path, described)
            members.append(Member(described, member.seed, curves))
        self.stack = Stack(members, self.configs, ranks=session.ranks)
        task = make_task(self.configs[0].task)
        self._by_sequence = task.config.metric == "sequence accuracy"
        self._examples = one_set(task, "train", seeds)
        self._order = Order(seeds, "weights", self.configs[0].batch_size)

    def step(self, step: int, state: PackState) -> None:
        batch = self._examples.batch(self._order.at(step, self._examples.sizes))
        done = self.stack.weights_pass(batch)
        mark_fallen(self.stack, done.losses, step, state)
        self.stack.update(step, state.active())
        add_training_sums(state, self.stack, done, by_sequence=self._by_sequence)

    def judge(self, run: int, state: PackState) -> tuple[FailureClass, str] | None:
        at = int(state.diverged_at[run])
        return None if at < 0 else (FailureClass.DIVERGED, f"loss or gradient not finite or out of bounds at step {at}")


def mark_fallen(stack: Stack, losses: Tensor, step: int, state: PackState) -> None:
    """Note the step of active models that have just diverged."""
    fallen = stack.fallen(losses) & state.active()
    if bool(fallen.any()):
        state.diverged_at[fallen] = step


def _typed(config: object) -> TrainConfig:
    assert isinstance(config, TrainConfig)
    return config
