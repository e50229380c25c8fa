"""What a person chooses before comparing."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sweeps.analysis.corrections import CORRECTIONS
from sweeps.analysis.errors import AnalysisError
from sweeps.analysis.looks import Look
from sweeps.analysis.sigma import NOISE_RATIO, parse


@dataclass(frozen=True)
class Options:
    """How to compare; the defaults are the ones docs/statistics.md measures.

    Attributes:
        baseline: arm all others are compared with.
        correction: one of `CORRECTIONS`.
        alpha: family-wise level (false discovery rate for bh and by).
        margin: equivalence margin in the metric's unit, or None for no equivalence claims.
        sigma: one of `sigma.RULES`.
        paired: pair by seed; to be declared only where equal seeds share their data order.
        lower_is_better: for losses.
        directional: improvers and degraders as two one-sided families, each at alpha.
        look: planned look that alpha is spent by; without one an unfinished table is exploratory.
        chance: chance level per task, at which diverged runs count.
        family: size of the family where it is larger than the arms at hand.
        noise_ratio: how much noisier than the pool ``auto`` takes a single run to be.

    Raises:
        AnalysisError: a value out of range, naming it and the valid choices.
    """

    baseline: str
    correction: str = "dunnett"
    alpha: float = 0.05
    margin: float | None = None
    sigma: str = "auto"
    paired: bool = False
    lower_is_better: bool = False
    directional: bool = False
    look: Look | None = None
    chance: Mapping[str, float] = field(default_factory=dict)
    family: int | None = None
    noise_ratio: float = NOISE_RATIO

    def __post_init__(self) -> None:
        parse(self.sigma)
        if self.correction not in CORRECTIONS:
            raise AnalysisError(f"correction {self.correction!r} is unknown; choose from {', '.join(CORRECTIONS)}")
        if not 0 < self.alpha < 1:
            raise AnalysisError(f"alpha is {self.alpha}; give a level between 0 and 1, such as 0.05")
        if self.margin is not None and not 0 < self.margin < math.inf:
            raise AnalysisError(f"margin is {self.margin}; give a positive number in the metric's unit")
        if not self.noise_ratio >= 1:
            raise AnalysisError(f"noise ratio is {self.noise_ratio}; give 1 (as noisy as the pool) or more")

    @property
    def level(self) -> float:
        """Family-wise level to test at: alpha, or what this look may spend."""
        return self.alpha if self.look is None else self.look.level(self.alpha)
