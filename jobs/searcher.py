"""Runner ``search``, stage I: models of different seeds share one elementwise function. Their weights follow the loss
on one part of the data, the function follows the loss on the other, so that it does not adapt to what they memorise.

First order: at each step both gradients are taken at the same weights and the same function, then both move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from jobs import metrics
from jobs.data import Batch, Order, PackExamples, derived_seed, two_parts
from jobs.facts import FailureClass
from jobs.numerics import reproducible
from jobs.optimizer import FlatParameters, PackedAdamW
from jobs.pack_loop import PackLoop, Program, add_training_sums
from jobs.pack_state import PackState
from jobs.shape_product import ShapeProduct, Slot, Visits
from jobs.stack import Stack
from jobs.tasks.build import make_task
from jobs.train_config import SHAPE_PRODUCT, SearchConfig
from jobs.trainer import mark_fallen
from models.build import Member
from models.config import SplineGrid
from models.curves import grid_of, start_values
from models.visits import VisitSummary

if TYPE_CHECKING:
    from jobs.session import Session

UNMOVED = 1e-6
"""A function that has moved less than this anywhere is the start it was given, not a result."""

FEWEST_MODELS = 0.5
"""A search whose surviving models are a smaller share than this has failed."""

_COARSE_BINS = 60
_VISIT_EXAMPLES = 256


def run(session: Session) -> None:
    """Carry out the pack of a session."""
    with reproducible(session.launch.threads):
        PackLoop(session, SearchProgram(session)).run()


class SearchProgram(Program):
    """M models a run, those of a run in one group. All seeds are derived from the run's seed under the label "search":
    no run of stage II meets the same data, order or initial weights."""

    def __init__(self, session: Session) -> None:
        self.configs = configs = [_typed(member.config) for member in session.members]
        self.models = [config.search.members for config in configs]
        task = make_task(configs[0].task)
        own_table = task.splits_batch  # MEMORIZE: each model has a table of its own, else one data set for all
        members, model_configs, self.data_seeds, seeds = [], [], [], []
        for group, (member, config) in enumerate(zip(session.members, configs, strict=True)):
            for place in range(config.search.members):
                seed = derived_seed(member.seed, "search", str(place))
                seeds.append(seed)
                self.data_seeds.append(seed if own_table else derived_seed(member.seed, "search"))
                members.append(Member(config.transformer(), seed, {}, group))
                model_configs.append(config)
        self.stack = Stack(members, model_configs, train_shapes=True, ranks=session.ranks)
        self._by_sequence = task.config.metric == "sequence accuracy"
        shares = [config.search.holdout for config in model_configs]
        self._weights_part, self._shape_part = two_parts(task, self.data_seeds, shares)
        self._weights_count, self._shape_count = configs[0].batch_size, configs[0].shape_batch
        self._splits_batch = task.splits_batch
        if task.splits_batch:
            self._order = Order(seeds, "both", self._weights_count + self._shape_count)
        else:
            self._order = Order(seeds, "weights", self._weights_count)
            self._shape_order = Order(seeds, "shape", self._shape_count)
        self._shape = FlatParameters(self.stack.model.shapes())
        section = configs[0].search
        self._every = section.weight_steps_per_shape_step
        self._start = self._shape.values.clone()
        self._shape_gradient = torch.empty_like(self._start)
        self._shape_adam = PackedAdamW(self._shape.values, section.betas)
        self._shape_rates = torch.tensor([config.search.lr for config in configs])
        self._masked: list[bool] | None = None

    def step(self, step: int, state: PackState) -> None:
        self._tell_active(state)
        weights, shape = self._batches(step)
        moves_shape = (step + 1) % self._every == 0
        for parameter in self._shape.parameters:
            parameter.requires_grad_(False)
        done = self.stack.weights_pass(weights)
        losses = done.losses
        if moves_shape:
            for parameter in self._shape.parameters:
                parameter.requires_grad_(True)
            on_shape, gradients = self.stack.shapes_pass(shape)
            losses = torch.where(torch.isfinite(on_shape.losses), losses, on_shape.losses)
            state.add("shape_loss", on_shape.losses.double())
            state.add("shape_batches", torch.ones(len(losses)))
            self._shape.gather(gradients, self._shape_gradient)
        mark_fallen(self.stack, losses, step, state)
        self.stack.update(step, state.active())
        if moves_shape:
            going = torch.tensor([not run.ended for run in state.runs])
            self._shape_gradient.masked_fill_(~going.unsqueeze(1), 0.0)
            self._shape_adam.update(step // self._every, self._shape_gradient, self._shape_rates * going)
        add_training_sums(state, self.stack, done, by_sequence=self._by_sequence)

    def _tell_active(self, state: PackState) -> None:
        active = state.active().tolist()
        if active != self._masked:
            self.stack.model.set_active(active)
            self._masked = active

    def _batches(self, step: int) -> tuple[Batch, Batch]:
        weights, shape = self._weights_part, self._shape_part
        if self._splits_batch:
            drawn = self._order.at(step, weights.sizes)
            return _take(weights, drawn[:, : self._weights_count]), _take(shape, drawn[:, self._weights_count :])
        drawn = self._order.at(step, weights.sizes)
        return _take(weights, drawn), _take(shape, self._shape_order.at(step, shape.sizes))

    def observe(self, run: int, sums: dict[str, float]) -> dict[str, float]:
        moved = self._shape.values[run] - self._start[run]
        row = {
            metrics.SHAPE_MOVED: float(moved.square().mean().sqrt()),
            metrics.SHAPE_MOVED_MAX: float(moved.abs().max()),
        }
        if sums.get("shape_batches"):
            row[metrics.SHAPE_LOSS] = sums["shape_loss"] / sums["shape_batches"]
        return row

    def judge(self, run: int, state: PackState) -> tuple[FailureClass, str] | None:
        at = state.diverged_at[state.places(run)]
        fallen = int((at >= 0).sum())
        if len(at) - fallen < max(1.0, FEWEST_MODELS * len(at)):
            return FailureClass.DIVERGED, f"{fallen} of {len(at)} models diverged, the last at step {int(at.max())}"
        if state.runs[run].ended:
            moved = float((self._shape.values[run] - self._start[run]).abs().max())
            if not moved > UNMOVED:
                return FailureClass.USER_ERROR, (
                    f"the shape did not move: at most {moved:.1e} from its start in {self.configs[run].steps} steps; "
                    f"raise search.lr or steps, or choose another search.start"
                )
        return None

    def remarks(self, run: int, state: PackState) -> dict[str, float | int | str | None]:
        return {"models": self.models[run], "models_survived": len(state.survivors(run))}

    def products(self, run: int, state: PackState) -> dict[str, Any]:
        survivors = state.survivors(run)
        visits = self._visits()
        config = self.configs[run].transformer()
        slots: dict[str, Slot] = {}
        for name, theta in self.stack.model.shapes().items():
            activation = config.searched()[name]
            values = theta[run].detach().reshape(-1, theta.shape[-1])
            grid = grid_of(activation)
            start = _start(activation, grid)
            moved = values - start.to(values.dtype)
            slots[name] = Slot(
                kind=activation.kind,
                low=grid.low if grid else None,
                high=grid.high if grid else None,
                knots=grid.knots if grid else None,
                values=tuple(tuple(row) for row in values.tolist()),
                start=tuple(start.tolist()),
                moved_rms=float(moved.square().mean().sqrt()),
                moved_max=float(moved.abs().max()),
                visits=_coarse(visits[name], survivors),
            )
        product = ShapeProduct(
            steps=self.configs[run].steps, members=self.models[run], models=len(survivors), slots=slots
        )
        return {SHAPE_PRODUCT: product.model_dump(mode="json")}

    @torch.no_grad()
    def _visits(self) -> dict[str, VisitSummary]:
        """Inputs of the functions on the first examples of the part that the shape was trained on."""
        model = self.stack.model
        count = min(_VISIT_EXAMPLES, int(self._shape_part.sizes.min()))
        batch = self._shape_part.batch(torch.arange(count).expand(len(self.data_seeds), -1))
        model.record_visits(True)
        try:
            model(batch.tokens, batch.positions)
            return model.visits()
        finally:
            model.record_visits(False)

    def tensors(self) -> dict[str, Tensor]:
        named = {f"shape.{slot}": theta.detach() for slot, theta in self.stack.model.shapes().items()}
        moments = {f"shape_optimizer.{name}": t for name, t in self._shape_adam.state().items()}
        return self.stack.state() | named | moments

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor]) -> None:
        self.stack.restore(tensors)
        for slot, theta in self.stack.model.shapes().items():
            theta.copy_(tensors[f"shape.{slot}"])
        self._shape_adam.restore({name: tensors[f"shape_optimizer.{name}"] for name in self._shape_adam.state()})


def _take(part: PackExamples, places: Tensor) -> Batch:
    return part.batch(places)


def _start(activation: Any, grid: SplineGrid | None) -> Tensor:
    return torch.ones(2) if grid is None else start_values(grid, activation.start)


def _coarse(visits: VisitSummary, members: Tensor) -> Visits:
    """Sum over these members, ``_COARSE_BINS`` bins over the knots' range or one a segment where there are fewer."""
    counts = visits.counts[members].sum(dim=0)
    inner = counts[1:-1]
    width = -(-len(inner) // _COARSE_BINS)
    padded = torch.nn.functional.pad(inner, (0, -len(inner) % width))
    merged = padded.view(-1, width).sum(dim=1)
    return Visits(
        minimum=float(visits.minimum[members].min()),
        maximum=float(visits.maximum[members].max()),
        low=visits.grid.low,
        high=visits.grid.low + visits.grid.spacing * width * len(merged),
        counts=tuple(merged.tolist()),
        below=int(counts[0]),
        above=int(counts[-1]),
    )


def _typed(config: object) -> SearchConfig:
    assert isinstance(config, SearchConfig)
    return config
