"""Realised family-wise error and power of every rule `orchestrate compare` offers.

    python tests/benchmarks/sim_calibration.py            print the tables
    python tests/benchmarks/sim_calibration.py --write    and put them into docs/statistics.md

Twenty arms, one of them the baseline. Nulls: no arm differs; error is the share of simulated tables in which
any of the 19 is called better or worse. Power: one arm is 4 sigma better (20 sigma at 1 v 3); the share of
tables in which it is called so. The rules are restated over arrays, a thousand times faster than a table at a
time; `agreement` holds the restatement against the engine. A few minutes on one core.
"""

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.interpolate import RegularGridInterpolator

from sweeps.analysis.comparison import compare
from sweeps.analysis.corrections import BY_P_VALUES, adjust_array
from sweeps.analysis.dunnett import critical_value
from sweeps.analysis.linear import SEARCH_RATIO
from sweeps.analysis.noise_floor import c4
from sweeps.analysis.options import Options
from sweeps.analysis.results import Result
from sweeps.analysis.sigma import NOISIER as NOISIER_SEARCHES
from sweeps.analysis.specificity import specificity
from sweeps.analysis.summaries import Summary, compare_summaries
from sweeps.analysis.transfer import transfer_matrix

Array = NDArray[np.float64]
ARMS, ALPHA, NOISIER = 19, 0.05, 3.0
DESIGNS = {"1v3": (1, 3), "3v3": (3, 3), "6v6": (6, 6)}
SHIFT = {"1v3": 20.0, "3v3": 4.0, "6v6": 4.0}
SPREADS = ("equal", "arm x3", "base x3")
LAWS = ("normal", "t3")
NULLS, SHIFTED, MATRICES, MOVED, STUDIES = 8000, 2000, 400, 40, 4000
LONE = 5
"""How many times `NULLS` tables of a single arm."""
COLUMNS, ROWS, OWN_SHIFT = 8, 10, 6.0
"""Of a study: columns, its own rows and two controls, and by how many seed sds an own row is better."""
SMALL = 1e-4
"""One sigma of the matrix's accuracies, small enough for them to stay within [0, 1]."""
DOCS = Path(__file__).parents[2] / "docs" / "statistics.md"


@dataclass(frozen=True)
class Contrasts:
    """t of every arm; shapes (tables, arms)."""

    t: Array
    df: Array
    loading: Array
    valid: bool = True
    shared: bool = True


def draw(
    rng: np.random.Generator, tables: int, design: str, spread: str, law: str, searches: int = 0
) -> tuple[Array, Array]:
    """Null runs: the arms (tables, ARMS, seeds) and the baseline (tables, seeds), unit sd but for ``spread``.

    With ``searches`` the arms carry a search effect as large as the seed noise, seeds nested in that many.
    """
    seeds, base_seeds = DESIGNS[design]

    def noise(shape: tuple[int, ...]) -> Array:
        return rng.standard_normal(shape) if law == "normal" else rng.standard_t(3, shape) / np.sqrt(3)

    arms, base = noise((tables, ARMS, seeds)), noise((tables, base_seeds))
    if searches:
        arms += np.repeat(noise((tables, ARMS, searches)), seeds // searches, axis=2)
    if spread == "arm x3":
        arms[:, 0] *= NOISIER
    if spread == "base x3":
        base *= NOISIER
    return arms, base


def contrasts(rule: str, arms: Array, base: Array) -> Contrasts:
    """Unpaired t statistics under a sigma rule, as `sigma.noise` and `nested.difference_variance` have them."""
    n, nb = arms.shape[2], base.shape[1]
    difference = arms.mean(axis=2) - base.mean(axis=1, keepdims=True)
    base_ms = np.broadcast_to(base.var(axis=1, ddof=1)[:, None], difference.shape)
    arm_ms = arms.var(axis=2, ddof=1) if n > 1 else np.zeros_like(difference)
    if rule == "audit":
        ones = np.ones_like(difference)
        return Contrasts(difference / np.sqrt(base_ms), ones * np.inf, ones * 0.0)
    if rule == "means":  # only means, their n and the baseline's sd are known
        ratio = Options("b").noise_ratio ** 2 / n
        error = base_ms / c4(nb - 1) ** 2 * (ratio + 1 / nb)
        loading = np.full_like(difference, np.sqrt((1 / nb) / (ratio + 1 / nb)))
        return Contrasts(difference / np.sqrt(error), np.full_like(difference, nb - 1.0), loading)
    if rule == "own":
        return _welch(difference, arm_ms, n - 1.0, base_ms, nb - 1.0, n, nb, n > 1)
    if rule == "baseline" or (rule == "pooled" and n == 1):
        return _one(difference, base_ms, nb - 1.0, n, nb)
    if rule == "pooled":
        df = arms.shape[1] * (n - 1) + nb - 1
        squares = arm_ms.sum(axis=1, keepdims=True) * (n - 1) + base_ms[:, :1] * (nb - 1)
        return _one(difference, np.broadcast_to(squares / df, difference.shape), df, n, nb)
    if n == 1:  # auto: a single run may be `noise_ratio` times as noisy as the baseline
        error = base_ms / c4(nb - 1) ** 2 * (Options("b").noise_ratio ** 2 + 1 / nb)
        share = np.full_like(difference, (1 / nb) / (Options("b").noise_ratio ** 2 + 1 / nb))
        return Contrasts(difference / np.sqrt(error), np.full_like(difference, nb - 1.0), np.sqrt(share))
    pool = np.broadcast_to(arm_ms.mean(axis=1, keepdims=True), difference.shape)
    return _larger(difference, arm_ms, base_ms, pool, arms.shape[1] * (n - 1.0), n, nb)


def nested(arms: Array, base: Array, searches: int) -> Contrasts:
    """The default rule on seeds nested in searches, balanced."""
    tables, m, n = arms.shape
    nb, per = base.shape[1], n // searches
    blocks = arms.reshape(tables, m, searches, per)
    difference = arms.mean(axis=2) - base.mean(axis=1, keepdims=True)
    base_ms = np.broadcast_to(base.var(axis=1, ddof=1)[:, None], difference.shape)
    search_ms = np.broadcast_to(
        per * blocks.mean(axis=3).var(axis=2, ddof=1).mean(axis=1, keepdims=True), difference.shape
    )
    search_df = m * (searches - 1.0)
    if per == 1:
        ours = base_used = base_ms / c4(nb - 1) ** 2
        base_df = np.full_like(difference, nb - 1.0)
    else:
        arm_ms = blocks.var(axis=3, ddof=1).mean(axis=2)
        pool = np.broadcast_to(arm_ms.mean(axis=1, keepdims=True), difference.shape)
        ours = np.maximum(pool, arm_ms / c4(searches * (per - 1)) ** 2)
        unbiased = base_ms / c4(nb - 1) ** 2
        base_used = np.maximum(pool, unbiased)
        base_df = np.where(unbiased > pool, nb - 1.0, m * searches * (per - 1.0))
    own_ms = per * blocks.mean(axis=3).var(axis=2, ddof=1)
    others = (own_ms.sum(axis=1, keepdims=True) - own_ms) / (m - 1)
    noisier = special.fdtrc(searches - 1, (m - 1) * (searches - 1), own_ms / others) < NOISIER_SEARCHES
    search_ms = np.where(noisier, own_ms / c4(searches - 1) ** 2, search_ms)
    search_df = np.where(noisier, searches - 1.0, search_df)
    a, b = np.maximum(search_ms, ours) / n, base_used / nb
    df = (a + b) ** 2 / (a**2 / search_df + b**2 / base_df)
    return Contrasts(difference / np.sqrt(a + b), df, np.sqrt(b / (a + b)))


def pairs(rule: str, arms: Array, base: Array) -> Contrasts:
    """Paired t statistics, as `blocks.paired` has them."""
    apart = arms - base[:, None]
    n, m = apart.shape[2], apart.shape[1]
    if rule == "auto":
        center = arms.mean(axis=1, keepdims=True)
        arm_ms = (arms - center).var(axis=2, ddof=1) * m / (m - 1)
        base_ms = np.broadcast_to((base - center[:, 0]).var(axis=1, ddof=1)[:, None], arm_ms.shape)
        pool = np.broadcast_to(arm_ms.mean(axis=1, keepdims=True), arm_ms.shape)
        return _larger(apart.mean(axis=2), arm_ms, base_ms, pool, (m - 1) * (n - 1.0), n, n)
    table = np.concatenate([base[:, None], arms], axis=1)
    residual = table - table.mean(2, keepdims=True) - table.mean(1, keepdims=True) + table.mean((1, 2), keepdims=True)
    blocks = 2 * (residual**2).sum((1, 2)) / (m * (n - 1))
    own = rule == "own"
    value = apart.var(axis=2, ddof=1) if own else np.broadcast_to(blocks[:, None], apart.shape[:2])
    df = np.full_like(value, n - 1.0 if own else m * (n - 1.0))
    loading = np.full_like(value, np.sqrt(0.5))
    return Contrasts(apart.mean(axis=2) / np.sqrt(value / n), df, loading, shared=not own)


def rejected(found: Contrasts, correction: str) -> NDArray[np.bool_]:
    """Which contrasts are called; Dunnett through a table of its critical values at a common loading."""
    if correction == "dunnett":
        return np.abs(found.t) > _dunnett(found.df, found.loading, found.shared)
    finite = np.where(np.isinf(found.df), 1e8, found.df)
    p = 2 * special.stdtr(finite, -np.abs(found.t))
    return (p if correction == "none" else adjust_array(p, correction)) < ALPHA


def error_and_power(
    rng: np.random.Generator, rule: Callable[[Array, Array], Contrasts], correction: str, design: str, **scenario
) -> tuple[float, float]:
    """Family-wise error over `NULLS` tables, and power over `SHIFTED`."""
    arms, base = draw(rng, NULLS, design, **scenario)
    error = rejected(rule(arms, base), correction).any(axis=1).mean()
    arms, base = arms[:SHIFTED].copy(), base[:SHIFTED]
    arms[:, 1] += SHIFT[design]
    return float(error), float(rejected(rule(arms, base), correction)[:, 1].mean())


def lone_error(rng: np.random.Generator, rule: str, design: str, spread: str, law: str) -> float:
    """Family-wise error of a default where one arm stands against the baseline: nothing to correct for."""
    drawn = [draw(rng, NULLS, design, spread, law) for _ in range(LONE)]
    arms = np.concatenate([arms[:, :1] for arms, _ in drawn])
    return float(rejected(contrasts(rule, arms, np.concatenate([base for _, base in drawn])), "none").mean())


def agreement(tables: int = 4) -> float:
    """Largest difference between the engine's p-values and the restated ones, over all sigma rules."""
    rng, worst = np.random.default_rng(7), 0.0
    for design in DESIGNS:
        for rule, paired in [(r, False) for r in ("auto", "pooled", "own", "baseline")] + [
            (r, True) for r in ("auto", "pooled", "own") if design != "1v3"
        ]:
            arms, base = draw(rng, tables, design, "arm x3", "normal")
            found = (pairs if paired else contrasts)(rule, arms, base)
            for i in range(tables if found.valid else 0):
                verdicts = compare(
                    _results(arms[i], base[i]), Options("base", "holm", sigma=rule, paired=paired)
                ).verdicts
                for v in verdicts:
                    arm = int(v.arm[1:])
                    ours = 2 * special.stdtr(found.df[i, arm], -abs(found.t[i, arm]))
                    worst = max(worst, abs(ours - (v.p or 0.0)))
    for design in DESIGNS:
        arms, base = draw(rng, tables, design, "arm x3", "normal")
        found = contrasts("means", arms, base)
        for i in range(tables):
            published = [Summary(f"a{k}", len(runs), float(runs.mean())) for k, runs in enumerate(arms[i])]
            baseline = Summary("base", len(base[i]), float(base[i].mean()), float(base[i].std(ddof=1)))
            for v in compare_summaries(published, baseline, Options("base")):
                arm = int(v.arm[1:])
                worst = max(worst, abs(2 * special.stdtr(found.df[i, arm], -abs(found.t[i, arm])) - (v.p or 0.0)))
    for design, searches in (("3v3", 3), ("6v6", 2)):
        arms, base = draw(rng, tables, design, "equal", "normal", searches)
        found = nested(arms, base, searches)
        for i in range(tables):
            for v in compare(_results(arms[i], base[i], searches), Options("base", "holm")).verdicts:
                arm = int(v.arm[1:])
                worst = max(worst, abs(2 * special.stdtr(found.df[i, arm], -abs(found.t[i, arm])) - (v.p or 0.0)))
    return worst


def matrix_error(rng: np.random.Generator, spread: str, law: str) -> tuple[float, float, float]:
    """Of an 8 x 8 null matrix (2 searches x 3 seeds, 3 baseline seeds): family-wise error, the same of Holm over the
    pooled sigma without the guard, and power on the diagonal.
    """
    tasks = [f"t{i}" for i in range(8)]
    false = unguarded = hits = 0
    for draws in range(MATRICES):
        results = []
        for task in tasks:
            arms, base = draw(rng, 1, "6v6", spread, law, searches=2)
            results += [Result("base", task, s, None, 0.5 + SMALL * float(base[0, s])) for s in range(3)]
            for i, arm in enumerate(tasks):
                results += [Result(arm, task, k % 3, k // 3, 0.5 + SMALL * float(arms[0, i, k])) for k in range(6)]
        found = transfer_matrix(results, baseline="base", columns=tasks, rows=tasks)
        false += any(c.decided for c in found.cells)
        unguarded += any(c.p_adjusted is not None and c.p_adjusted < ALPHA for c in found.cells)
        if draws < MOVED:
            moved = [replace(r, value=(r.value or 0) + 8 * SMALL) if r.arm == r.task else r for r in results]
            shifted = transfer_matrix(moved, baseline="base", columns=tasks, rows=tasks)
            hits += sum(shifted.cell(t, t).decided for t in tasks)
    return false / MATRICES, unguarded / MATRICES, hits / MOVED / len(tasks)


def study(
    rng: np.random.Generator, draws: int, searches: int, seeds: int, spread: str, law: str
) -> tuple[Array, Array]:
    """A null study: arms (draws, columns, rows, searches, seeds) and the baseline (draws, columns, seeds).

    The first `COLUMNS` rows are the columns' own, two are controls. "own x3": each own row in its own column.
    """

    def noise(shape: tuple[int, ...]) -> Array:
        return rng.standard_normal(shape) if law == "normal" else rng.standard_t(3, shape) / np.sqrt(3)

    arms = noise((draws, COLUMNS, ROWS, searches, seeds)) + noise((draws, COLUMNS, ROWS, searches, 1))
    base = noise((draws, COLUMNS, seeds))
    if spread == "arm x3":
        arms[:, :, 0] *= NOISIER
    if spread == "own x3":
        arms[:, range(COLUMNS), range(COLUMNS)] *= NOISIER
    if spread == "base x3":
        base *= NOISIER
    return arms, base


def asked(arms: Array, base: Array, weights: Callable[[int], Array], own: Callable[[int], int]) -> tuple[Array, Array]:
    """t and df of one contrast in every column (draws, columns), as `linear.contrast` has them, balanced.

    Args:
        arms, base: as `study` draws them.
        weights: column -> weight of each row.
        own: column -> the row that is asked about.
    """
    _, columns, rows, searches, per = arms.shape
    n, seed_df, search_df = searches * per, searches * (per - 1.0), searches - 1.0
    w = np.array([weights(c) for c in range(columns)])
    here = np.arange(rows) == np.array([own(c) for c in range(columns)])[:, None]
    seed_ms, search_ms = arms.var(axis=4, ddof=1).mean(axis=3), per * arms.mean(axis=4).var(axis=3, ddof=1)
    pool_df = rows * seed_df + base.shape[2] - 1
    pool = (seed_ms.sum(axis=2) * seed_df + base.var(axis=2, ddof=1) * (base.shape[2] - 1)) / pool_df
    own_seeds = seed_ms / c4(seed_df) ** 2
    seeds = np.maximum(own_seeds, pool[..., None])
    pooled = search_ms.mean(axis=2, keepdims=True)
    others = (search_ms.sum(axis=2, keepdims=True) - search_ms) / (rows - 1)
    noisier = special.fdtrc(search_df, (rows - 1) * search_df, search_ms / others) < NOISIER_SEARCHES
    square = np.where(noisier, search_ms / c4(search_df) ** 2, pooled)
    square = np.maximum(np.maximum(square, seeds), np.where(here, SEARCH_RATIO**2 * pooled, 0.0))
    parts = w**2 * square / n
    shared, apart = np.where(noisier, 0.0, parts).sum(axis=2), np.where(noisier, parts**2, 0.0).sum(axis=2)
    total = parts.sum(axis=2)
    df = total**2 / (apart / search_df + shared**2 / (rows * search_df))
    return (arms.mean(axis=(3, 4)) * w).sum(axis=2) / np.sqrt(total), df


def contrast_error(rng: np.random.Generator, searches: int, seeds: int, spread: str, law: str) -> list[float]:
    """Family-wise error, by Holm, of: own less other rows; own beats another one by one; own less two controls; and
    the power of the first where every own row is `OWN_SHIFT` better."""
    arms, base = study(rng, STUDIES, searches, seeds, spread, law)
    p = _p(*asked(arms, base, _against_rows, lambda c: c))
    errors = [float((p.min(axis=1) < ALPHA / COLUMNS).mean())]
    upper = []
    for apart in range(1, COLUMNS):
        t, df = asked(arms, base, lambda c, k=apart: _unit(c) - _unit((c + k) % COLUMNS), lambda c: c)
        upper.append(np.where(t > 0, _p(t, df), 1.0))
    errors.append(float((np.concatenate(upper, axis=1).min(axis=1) < ALPHA / COLUMNS / (COLUMNS - 1)).mean()))
    shape = [_p(*asked(arms, base, lambda c, k=k: _unit(c) - _unit(k), lambda c: c)) for k in (COLUMNS, COLUMNS + 1)]
    errors.append(float((np.concatenate(shape, axis=1).min(axis=1) < ALPHA / COLUMNS / 2).mean()))
    arms = arms.copy()
    arms[:, range(COLUMNS), range(COLUMNS)] += OWN_SHIFT
    found = adjust_array(_p(*asked(arms, base, _against_rows, lambda c: c)), "holm")
    return [*errors, float((found < ALPHA).mean())]


def contrast_agreement(draws: int = 3) -> float:
    """Largest difference between p-values of the engine's linear contrasts and the restated ones."""
    worst = 0.0
    for searches, seeds, spread in ((2, 3, "own x3"), (3, 6, "arm x3")):
        arms, base = study(np.random.default_rng(3), draws, searches, seeds, spread, "normal")
        p = _p(*asked(arms, base, _against_rows, lambda c: c))
        for i in range(draws):
            results = []
            for c in range(COLUMNS):
                results += [Result("base", f"t{c}", s, None, float(v)) for s, v in enumerate(base[i, c])]
                results += [
                    Result(f"t{r}", f"t{c}", s, k, float(arms[i, c, r, k, s]))
                    for r, k, s in np.ndindex(ROWS, searches, seeds)
                ]
            names = [f"t{c}" for c in range(COLUMNS)]
            for c, found in enumerate(specificity(results, names, names)):
                worst = max(worst, abs((found.against_others.p or 0.0) - p[i, c]))
    return worst


def _against_rows(column: int) -> Array:
    weights = np.where(np.arange(ROWS) < COLUMNS, -1 / (COLUMNS - 1), 0.0)
    weights[column] = 1.0
    return weights


def _unit(row: int) -> Array:
    return (np.arange(ROWS) == row).astype(float)


def _p(t: Array, df: Array) -> Array:
    return 2 * special.stdtr(df, -np.abs(t))


def tables(progress: Callable[[str], None]) -> str:
    """The markdown that stands in docs/statistics.md."""
    rules = {"audit (z, baseline sd), bonferroni": (lambda a, b: contrasts("audit", a, b), "bonferroni")}
    for sigma in ("auto", "pooled", "own", "baseline"):
        for correction in ("dunnett", *BY_P_VALUES, "none"):
            rules[f"{sigma}, {correction}"] = (lambda a, b, s=sigma: contrasts(s, a, b), correction)
    rules["published means, no sd of arms, dunnett"] = (lambda a, b: contrasts("means", a, b), "dunnett")
    for sigma in ("auto", "pooled", "own"):
        rules[f"{sigma}, dunnett, paired"] = (lambda a, b, s=sigma: pairs(s, a, b), "dunnett")
    out = []
    for design in DESIGNS:
        scenarios = [(spread, law) for spread in SPREADS for law in LAWS]
        head = ["sigma, correction", *(f"{s}, {law}" for s, law in scenarios)]
        searches = {"3v3": 3, "6v6": 2}.get(design)
        head += [f"{searches} searches"] if searches else []
        head += ["power, normal", "power, t3"]
        rows = []
        for name, (rule, correction) in rules.items():
            if design == "1v3" and (name.startswith("own") or "paired" in name):
                continue
            rng = np.random.default_rng(1)
            found = [error_and_power(rng, rule, correction, design, spread=s, law=law) for s, law in scenarios]
            errors = [e for e, _ in found]
            if searches:
                errors.append(
                    error_and_power(rng, rule, correction, design, spread="equal", law="normal", searches=searches)[0]
                )
            rows.append([name, *map(_number, errors), *(f"{p:.2f}" for _, p in found[:2])])
            progress(f"{design} {name}")
        if searches:
            rng, told = np.random.default_rng(1), lambda a, b, s=searches: nested(a, b, s)
            found = [
                error_and_power(rng, told, "dunnett", design, spread=s, law=law, searches=searches)
                for s, law in scenarios
            ]
            cells = [_number(e) for e, _ in found]
            rows.append(["auto, dunnett, searches told", *cells, cells[0], *(f"{p:.2f}" for _, p in found[:2])])
        out.append(f"**{design}**: {design[0]} runs an arm, {design[2]} of the baseline\n")
        out.append(_markdown(head, rows))
    rows = []
    for design in DESIGNS:
        for rule, name in (("auto", "auto"), ("means", "published means, no sd of the arm")):
            rng = np.random.default_rng(1)
            errors = [lone_error(rng, rule, design, spread, law) for spread in SPREADS for law in LAWS]
            rows.append([f"{design}, {name}", *(_number(e, LONE * NULLS) for e in errors)])
        progress(f"one arm {design}")
    out.append("**One arm** and the baseline, nothing to correct for; 40,000 tables a scenario\n")
    out.append(_markdown(["design, rule", *(f"{s}, {law}" for s in SPREADS for law in LAWS)], rows))
    rows = []
    for spread in SPREADS:
        for law in LAWS:
            *errors, power = matrix_error(np.random.default_rng(1), spread, law)
            rows.append([f"{spread}, {law}", *(_number(e, MATRICES) for e in errors), f"{power:.2f}"])
            progress(f"matrix {spread} {law}")
    out.append("**Transfer matrix**, 8 x 8, 2 searches x 3 seeds against 3 baseline seeds, search sd = seed sd\n")
    out.append(_markdown(["noise", "family-wise error", "without the guard", "power (8 sigma)"], rows))
    rows = []
    for searches, seeds in ((2, 3), (3, 6)):
        for spread in ("equal", "arm x3", "own x3", "base x3"):
            for law in LAWS:
                *errors, power = contrast_error(np.random.default_rng(1), searches, seeds, spread, law)
                name = f"{searches} searches x {seeds} seeds, {spread}, {law}"
                rows.append([name, *(_number(e, STUDIES) for e in errors), f"{power:.2f}"])
                progress(f"contrasts {name}")
    out.append("**Contrasts below a matrix**, 8 columns with their own rows and two controls, search sd = seed sd\n")
    head = ["design and noise", "own less other rows", "own beats one by one", "own less two controls"]
    out.append(_markdown([*head, f"power ({OWN_SHIFT:g} sigma)"], rows))
    return "\n".join(out)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/statistics.md")
    chosen = parser.parse_args(arguments)
    worst = max(agreement(), contrast_agreement())
    print(f"engine and restatement agree to {worst:.1e}", file=sys.stderr)
    text = tables(lambda line: print(line, file=sys.stderr, flush=True))
    print(text)
    if chosen.write:
        marked = re.compile(r"(<!-- calibration -->\n).*?(<!-- /calibration -->)", re.DOTALL)
        DOCS.write_text(marked.sub(lambda m: m[1] + "\n" + text + "\n" + m[2], DOCS.read_text()))


def _one(difference: Array, mean_square: Array, df: float, n: int, nb: int) -> Contrasts:
    loading = np.full_like(difference, np.sqrt((1 / nb) / (1 / n + 1 / nb)))
    return Contrasts(difference / np.sqrt(mean_square * (1 / n + 1 / nb)), np.full_like(difference, df), loading)


def _welch(
    difference: Array, arm: Array, arm_df, base: Array, base_df, n: int, nb: int, valid: bool = True
) -> Contrasts:
    a, b = arm / n, base / nb
    with np.errstate(invalid="ignore", divide="ignore"):
        df = (a + b) ** 2 / (a**2 / arm_df + b**2 / base_df)
    return Contrasts(difference / np.sqrt(a + b), df, np.sqrt(b / (a + b)), valid, shared=False)


def _larger(difference: Array, arm: Array, base: Array, pool: Array, pool_df: float, n: int, nb: int) -> Contrasts:
    """Each side the larger of its own unbiased mean square and the pool; equal estimates keep joint df."""
    arm, base = arm / c4(n - 1) ** 2, base / c4(nb - 1) ** 2
    own_arm, own_base = arm > pool, base > pool
    a, b = np.where(own_arm, arm, pool) / n, np.where(own_base, base, pool) / nb
    df_a, df_b = np.where(own_arm, n - 1.0, pool_df), np.where(own_base, nb - 1.0, pool_df)
    apart = (a + b) ** 2 / (a**2 / df_a + b**2 / df_b)
    df = np.where(own_arm | own_base, apart, pool_df)
    return Contrasts(difference / np.sqrt(a + b), df, np.sqrt(b / (a + b)))


def _dunnett(df: Array, loading: Array, shared: bool) -> Array:
    inverse = np.where(np.isinf(df), 0.0, 1 / np.maximum(df, 1.0))
    return np.exp(_CRITICAL[shared](np.stack([inverse, loading], axis=-1)))


def _grid(shared: bool) -> RegularGridInterpolator:
    inverse = np.array([0, 0.005, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.33, 0.4, 0.5, 0.6, 0.8, 1.0])
    loadings = np.array([0.0, 0.2, 0.4, 0.55, 0.65, 0.75, 0.85, 0.93, 0.98])
    values = [
        [np.log(critical_value(ALPHA, 1 / i if i else np.inf, [b] * ARMS, shared=shared)) for b in loadings]
        for i in inverse
    ]
    return RegularGridInterpolator((inverse, loadings), np.array(values), bounds_error=False, fill_value=None)


_CRITICAL = {shared: _grid(shared) for shared in (True, False)}


def _results(arms: Array, base: Array, searches: int = 0) -> list[Result]:
    found = [Result("base", "task", s, None, float(v)) for s, v in enumerate(base)]
    for i, runs in enumerate(arms):
        per = len(runs) // searches if searches else 1
        found += [Result(f"a{i}", "task", s, s // per if searches else None, float(v)) for s, v in enumerate(runs)]
    return found


def _number(error: float, draws: int = NULLS) -> str:
    """Bold where it lies above alpha by more than two standard errors of the simulation."""
    high = error > ALPHA + 2 * np.sqrt(ALPHA * (1 - ALPHA) / draws)
    return f"**{error:.3f}**" if high else f"{error:.3f}"


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    main()
