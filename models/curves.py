"""Knot values as lists of numbers: where searches start, random controls, and the checks on values handed in."""

from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from models.config import (
    ActivationConfig,
    FileSplineActivation,
    LearnedActivation,
    RandomSplineActivation,
    ScaledGeluActivation,
    SplineGrid,
    Start,
    TransformerConfig,
)
from models.errors import ModelError

START_CONSTANT = 0.01  # a flat start passes no gradient to the weights below it until the values have moved
_LENGTH_SCALE = 2.0  # of the random curves; the published learned curves have lobes about this wide
_WAVES = 64


def knots(grid: SplineGrid) -> Tensor:
    """Knot positions, float64 ``[K]``."""
    return torch.linspace(grid.low, grid.high, grid.knots, dtype=torch.float64)


def start_values(grid: SplineGrid, start: Start) -> Tensor:
    """Where a search begins, float64 ``[K]``: 0.01 everywhere, the identity, or GeLU (tanh) at the knots."""
    points = knots(grid)
    if start == "identity":
        return points
    if start == "gelu":
        return functional.gelu(points, approximate="tanh")
    return torch.full_like(points, START_CONSTANT)


def second_moment(values: Tensor, grid: SplineGrid) -> float:
    """E[phi(z)^2] of a spline under z ~ N(0, 1), by quadrature on a fine grid (error below 1e-6)."""
    z = np.linspace(-9.0, 9.0, 40_001)
    density = np.exp(-0.5 * z * z)
    y = np.interp(z, knots(grid).numpy(), values.double().numpy())
    return float(np.sum(y * y * density) / np.sum(density))


def gelu_second_moment() -> float:
    """E[GeLU(z)^2] under z ~ N(0, 1), about 0.425."""
    z = torch.linspace(-9.0, 9.0, 40_001, dtype=torch.float64)
    density = torch.exp(-0.5 * z * z)
    y = functional.gelu(z, approximate="tanh")
    return float((y * y * density).sum() / density.sum())


def random_values(config: RandomSplineActivation) -> Tensor:
    """A smooth stationary random curve at the knots, float64 ``[K]``: 64 cosines, Gaussian correlation of length 2."""
    draw = np.random.Generator(np.random.PCG64(config.seed))
    frequency = draw.standard_normal(_WAVES) / _LENGTH_SCALE
    phase = draw.uniform(0.0, 2.0 * np.pi, _WAVES)
    values = torch.from_numpy(
        np.cos(np.outer(knots(config.grid).numpy(), frequency) + phase).sum(axis=1) * np.sqrt(2.0 / _WAVES)
    )
    target = gelu_second_moment() if config.second_moment is None else config.second_moment
    return values * float(np.sqrt(target / second_moment(values, config.grid)))


def grid_of(activation: ActivationConfig) -> SplineGrid | None:
    """The grid of a spline, None for every other function."""
    if isinstance(activation, LearnedActivation | FileSplineActivation | RandomSplineActivation):
        return activation.grid
    return None


def shape_size(activation: ActivationConfig) -> int:
    """How many numbers describe one function: knots of a spline, 2 for (a, b), 0 for a fixed function."""
    if isinstance(activation, ScaledGeluActivation):
        return 2
    grid = grid_of(activation)
    return 0 if grid is None else grid.knots


def initial_shape(activation: ActivationConfig) -> Tensor:
    """Numbers that describe one function when no curve is handed in, float64 ``[shape_size]``."""
    if isinstance(activation, LearnedActivation):
        return start_values(activation.grid, activation.start)
    if isinstance(activation, ScaledGeluActivation):
        return torch.ones(2, dtype=torch.float64)
    if isinstance(activation, FileSplineActivation):
        return torch.tensor(activation.values, dtype=torch.float64)
    if isinstance(activation, RandomSplineActivation):
        return random_values(activation)
    return torch.empty(0, dtype=torch.float64)


def member_shapes(config: TransformerConfig, curves: Mapping[str, object], *, searching: bool) -> dict[str, Tensor]:
    """One member's numbers for each slot, float64 ``[layers or 1, size]`` (size 0: a fixed function).

    Args:
        config: the member's description.
        curves: slot -> ``[size]`` (one curve for all layers) or ``[layers, size]``; required for every searched slot
            unless ``searching``, where it replaces the start that the config names.

    Raises:
        ModelError: a curve that is missing, that no slot takes, of the wrong size, or not finite.
    """
    searched, slots = config.searched(), config.slots()
    unknown = sorted(set(curves) - set(searched))
    if unknown:
        takers = ", ".join(sorted(searched)) or "none: this architecture has no searched function"
        raise ModelError(f"no slot takes the curves {', '.join(unknown)}; slots that take one: {takers}")
    rows = config.layers if config.share_activation == "per_layer" else 1
    found: dict[str, Tensor] = {}
    for slot, activation in slots.items():
        if slot in curves:
            found[slot] = _checked(slot, curves[slot], rows, shape_size(activation))
        elif slot in searched and not searching:
            raise ModelError(
                f"the {activation.kind} function of slot {slot!r} needs the curve that a search produced; "
                f"pass curves={{{slot!r}: ...}}, or train_shapes=True to search for it"
            )
        else:
            found[slot] = initial_shape(activation).expand(rows, -1).clone()
    return found


def _checked(slot: str, given: object, rows: int, size: int) -> Tensor:
    values = torch.as_tensor(cast("Tensor", given), dtype=torch.float64, device="cpu").detach()
    if values.shape == (size,):
        values = values.expand(rows, size)
    if values.shape != (rows, size):
        wanted = f"[{size}]" if rows == 1 else f"[{size}] or [{rows}, {size}]"
        raise ModelError(f"the curve of slot {slot!r} has shape {list(values.shape)}, expected {wanted}")
    if not bool(torch.isfinite(values).all()):
        raise ModelError(f"the curve of slot {slot!r} holds a NaN or an infinity")
    return values.clone()
