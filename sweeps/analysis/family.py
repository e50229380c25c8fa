"""From single contrasts to verdicts: one declared family, corrected, every member counted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sweeps.analysis import student
from sweeps.analysis.corrections import adjust, holm_levels
from sweeps.analysis.dunnett import adjusted_p, critical_value
from sweeps.analysis.options import Options
from sweeps.analysis.power import runs_to_decide
from sweeps.analysis.verdict import Verdict


@dataclass(frozen=True)
class Measured:
    """A contrast with its number, before correction.

    Attributes:
        verdict: without p_adjusted and with the verdict still open.
        loading: square root of the baseline's share of the variance, for Dunnett; None without a test.
    """

    verdict: Verdict
    loading: float | None = None

    @property
    def tested(self) -> bool:
        """Whether it may be decided: a p-value and no reason against."""
        return self.verdict.p is not None and self.verdict.reason is None


def correct(groups: Sequence[Sequence[Measured]], options: Options, level: float) -> list[Verdict]:
    """Adjust over all groups (task x scale) together and close every verdict.

    Dunnett holds within a group, where the contrasts share a baseline; over several groups its p-values are
    multiplied by their number. All other corrections take the contrasts of all groups as one family. A member
    without a test counts as p = 1. With ``directional`` the p-values are one-sided and each side is a family.
    """
    members = [(group, member) for group in groups for member in group]
    size = max(len(members), options.family or 0)
    name = _name(options, size, len(groups))
    up = _adjusted(groups, options, size, 1)
    down = _adjusted(groups, options, size, -1) if options.directional else up
    equivalence = adjust([m.verdict.p_equivalence if m.tested else None for _, m in members], "holm")
    levels = holm_levels([m.verdict.p if m.tested else None for _, m in members], level)
    closed = []
    for index, (group, member) in enumerate(members):
        v = replace(member.verdict, family=name, p_equivalence=equivalence[index])
        difference, error, df = v.difference, v.standard_error, v.df
        if not member.tested or difference is None or error is None or df is None:
            closed.append(v)
            continue
        v = replace(v, p_adjusted=min(up[index], down[index]))
        half = _half_width(df, options, level, size, levels[index], group, groups)
        if half is not None:
            v = replace(v, family_low=difference - half * error, family_high=difference + half * error)
        closed.append(_close(v, options, level, size))
    return closed


def _close(v: Verdict, options: Options, level: float, size: int) -> Verdict:
    within = v.p_equivalence is not None and v.p_equivalence < level
    if v.p_adjusted is not None and v.p_adjusted < level and v.difference:
        good = (v.difference < 0) == options.lower_is_better
        notes = (*v.notes, f"the difference is real and lies within the margin {v.margin:g}") if within else v.notes
        return replace(v, verdict="better" if good else "worse", notes=notes)
    if within:
        return replace(v, verdict="equivalent")
    if v.standard_error is None or v.df is None or v.difference is None:
        return v
    unit = "searches" if v.searches else "seeds"
    now = v.searches or v.n
    more = runs_to_decide(v.difference, v.standard_error, v.df, now, level / size)
    return replace(v, more=more, more_unit=unit)


def _adjusted(groups: Sequence[Sequence[Measured]], options: Options, size: int, sign: int) -> list[float]:
    """Adjusted p of every member in one direction (or two-sided, the same for both signs)."""
    if options.correction != "dunnett":
        members = [m for group in groups for m in group]
        plain = [_p(m, options, sign) if m.tested else None for m in members]
        adjusted = adjust(plain, options.correction, size)
        return [1.0 if p is None else p for p in adjusted]
    out: list[float] = []
    for group in groups:
        tested = [m for m in group if m.tested]
        found = iter(
            adjusted_p(
                [sign * (m.verdict.statistic or 0.0) for m in tested],
                [m.verdict.df or 1.0 for m in tested],
                _loadings(group, _share(size, groups, group)),
                one_sided=options.directional,
                shared=_shared(options),
            )
        )
        out += [min(1.0, len(groups) * next(found)) if m.tested else 1.0 for m in group]
    return out


def _p(member: Measured, options: Options, sign: int) -> float:
    v = member.verdict
    if not options.directional:
        return v.p if v.p is not None else 1.0
    return student.upper_p(sign * (v.statistic or 0.0), v.df or 1.0)


def _half_width(
    df: float,
    options: Options,
    level: float,
    size: int,
    holm_level: float,
    group: Sequence[Measured],
    groups: Sequence[Sequence[Measured]],
) -> float | None:
    """Half-width of the simultaneous interval in standard errors; None where there is no such interval."""
    if options.directional:
        return None
    if options.correction == "bonferroni":
        return student.critical(level / size / 2, df)
    if options.correction == "sidak":
        return student.critical(-math.expm1(math.log1p(-level) / size) / 2, df)
    if options.correction == "holm":
        return student.critical(holm_level / 2, df)
    if options.correction != "dunnett":
        return None
    loadings = _loadings(group, _share(size, groups, group))
    return critical_value(level / len(groups), df, loadings, shared=_shared(options))


def _share(size: int, groups: Sequence[Sequence[Measured]], group: Sequence[Measured]) -> int:
    """Contrasts to count in a group: its own, and all that the family has beyond the table (it may be here)."""
    return len(group) + size - sum(map(len, groups))


def _shared(options: Options) -> bool:
    """Whether the contrasts rest on one estimate of sigma (``auto``: on one, or on larger ones)."""
    return options.sigma != "own"


def _loadings(group: Sequence[Measured], size: int) -> list[float]:
    """Loadings of a group filled up to its size: a member without a test counts as the least correlated."""
    found = [m.loading or 0.0 for m in group if m.tested]
    return found + [min(found, default=0.0)] * (size - len(found))


def _name(options: Options, size: int, groups: int) -> str:
    arms = f"{size} contrast{'s' if size > 1 else ''}"
    side = "one-sided " if options.directional else ""
    if options.correction == "none":
        return f"{side}no correction over {arms}"
    if options.correction == "dunnett" and groups > 1:
        return f"{side}Dunnett in each of {groups} groups, Bonferroni over groups, {arms}"
    name = {"bh": "Benjamini-Hochberg", "by": "Benjamini-Yekutieli"}.get(
        options.correction, options.correction.capitalize()
    )
    return f"{side}{name} over {arms}"
