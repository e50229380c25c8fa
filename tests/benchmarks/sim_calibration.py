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
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import special
from sim_contrasts import OWN_SHIFT, STUDIES, contrast_agreement, contrast_error
from sim_rules import ALPHA, DESIGNS, Array, Contrasts, contrasts, draw, nested, pairs, rejected

from sweeps.analysis.comparison import compare
from sweeps.analysis.corrections import BY_P_VALUES
from sweeps.analysis.options import Options
from sweeps.analysis.results import Result
from sweeps.analysis.summaries import Summary, compare_summaries
from sweeps.analysis.transfer import transfer_matrix

SHIFT = {"1v3": 20.0, "3v3": 4.0, "6v6": 4.0}
SPREADS = ("equal", "arm x3", "base x3")
LAWS = ("normal", "t3")
NULLS, SHIFTED, MATRICES, MOVED = 8000, 2000, 400, 40
LONE = 5
"""How many times `NULLS` tables of a single arm."""
SMALL = 1e-4
"""One sigma of the matrix's accuracies, small enough for them to stay within [0, 1]."""
DOCS = Path(__file__).parents[2] / "docs" / "statistics.md"


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
