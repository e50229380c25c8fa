"""The protocol of the 2026 audit (arXiv 2605.20798), exactly: z against the baseline's sigma, Bonferroni.

Offered so that its published table can be reproduced and compared with an honest one. Its faults: sigma from
three seeds is taken as known, the standard error of a difference is taken to be sigma, and the contrasts as
independent; the realised family-wise error of 19 null single runs is 46 %, not 5 % (docs/statistics.md).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.analysis import student
from sweeps.analysis.contrasts import Contrast, from_error
from sweeps.analysis.corrections import adjust, critical_z, family_wise_error, log_bonferroni
from sweeps.analysis.errors import AnalysisError

BAND = 2.0
"""|z| beyond which the audit calls an arm outside the noise."""
TESTS = 19
"""Its family: twenty configurations, one of them the baseline."""


@dataclass(frozen=True)
class AuditLine:
    """One arm under the audit's rule, with the small-sample t beside it.

    Attributes:
        arm: its name.
        z: (mean of the arm - baseline mean) / sigma.
        p: two-sided normal; 0 only where a double cannot hold it.
        log_p: ln p, always finite.
        p_bonferroni, p_sidak: p adjusted for the family.
        log_p_bonferroni: ln of ``p_bonferroni``.
        inside: within the two sigma band.
        survives: ``p_bonferroni`` < alpha.
        t: the honest counterpart, or None with a single baseline run.
    """

    arm: str
    z: float
    p: float
    log_p: float
    p_bonferroni: float
    p_sidak: float
    log_p_bonferroni: float
    inside: bool
    survives: bool
    t: Contrast | None = None


def line(arm: str, z: float, family: int = TESTS, alpha: float = 0.05, t: Contrast | None = None) -> AuditLine:
    """Grade one z."""
    log_p = student.two_sided_log_p(z)
    p = math.exp(log_p)
    (bonferroni,), (sidak,) = adjust([p], "bonferroni", family), adjust([p], "sidak", family)
    return AuditLine(
        arm=arm,
        z=z,
        p=p,
        log_p=log_p,
        p_bonferroni=bonferroni or 0.0,
        p_sidak=sidak or 0.0,
        log_p_bonferroni=log_bonferroni(log_p, family),
        inside=abs(z) <= BAND,
        survives=log_bonferroni(log_p, family) < math.log(alpha),
        t=t,
    )


def audit(
    arms: Mapping[str, Sequence[float]], baseline: Sequence[float], family: int | None = None, alpha: float = 0.05
) -> list[AuditLine]:
    """Apply the rule to whole arms, by descending z.

    Args:
        arms: values of each arm, without the baseline.
        baseline: values of the baseline; their sd is the yardstick.
        family: number of tests, the number of arms where absent.
        alpha: level after Bonferroni.

    Raises:
        AnalysisError: fewer than two baseline runs, or no spread among them.
    """
    if len(baseline) < 2:
        raise AnalysisError(
            f"the audit's yardstick is the baseline's sd, and there is {len(baseline)} baseline run; add seeds"
        )
    sigma, center = float(np.std(baseline, ddof=1)), float(np.mean(baseline))
    if sigma == 0:
        raise AnalysisError("the baseline's runs are all equal: its sd is 0 and z is not defined")
    size, lines = family if family is not None else len(arms), []
    for arm, values in arms.items():
        difference = float(np.mean(values)) - center
        error = sigma * math.sqrt(1 / len(values) + 1 / len(baseline))
        t = from_error("student, baseline sigma", difference, error, len(baseline) - 1, alpha)
        lines.append(line(arm, difference / sigma, size, alpha, t))
    return sorted(lines, key=lambda a: (-a.z, a.arm))


def uncorrected_error(family: int = TESTS, alpha: float = 0.05) -> float:
    """Family-wise error the audit quotes for no correction at all."""
    return family_wise_error(alpha, family)


def realised_error(
    *,
    arms: int = TESTS,
    baseline_seeds: int = 3,
    draws: int = 200_000,
    sigma_df: int | None = None,
    seed: int = 1,
    alpha: float = 0.05,
) -> dict[str, float]:
    """What the rule really does when no arm differs: simulated single runs against a mean of seeds.

    Args:
        arms: null arms, one run each.
        baseline_seeds: runs of the baseline; sigma comes from them unless ``sigma_df`` gives an independent one.
        draws: simulated audits.
        sigma_df: degrees of freedom of a sigma estimated elsewhere.
        seed: of the generator.
        alpha: level after Bonferroni.

    Returns:
        ``family_wise``: P(any |z| beyond Bonferroni's); ``false_survivors``: their expected number;
        ``improver``: P(any false improver); ``band``, ``band_flags``: the same two at the 2 sigma rule.
    """
    rng = np.random.default_rng(seed)
    limit = critical_z(alpha, arms)
    base = rng.standard_normal((draws, baseline_seeds))
    sigma = base.std(axis=1, ddof=1) if sigma_df is None else np.sqrt(rng.chisquare(sigma_df, draws) / sigma_df)
    z = (rng.standard_normal((draws, arms)) - base.mean(axis=1, keepdims=True)) / sigma[:, None]
    return {
        "family_wise": float((np.abs(z) > limit).any(axis=1).mean()),
        "false_survivors": float((np.abs(z) > limit).sum(axis=1).mean()),
        "improver": float((z > limit).any(axis=1).mean()),
        "band": float((np.abs(z) > BAND).any(axis=1).mean()),
        "band_flags": float((np.abs(z) > BAND).sum(axis=1).mean()),
    }
