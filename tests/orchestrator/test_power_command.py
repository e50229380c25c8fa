"""`orchestrate power`: seeds for an effect, effects for seeds, and where the noise floor is from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from orchestrator.cli.main import Context
from orchestrator.cli.power import command
from sweeps.analysis.errors import AnalysisError


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command, list(arguments), obj=Context(Path("nowhere"), 0), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def answer(*arguments: str) -> dict[str, Any]:
    return json.loads(run(*arguments, "--json"))


def test_what_three_seeds_of_twenty_arms_detect() -> None:
    plan = ["--seeds", "3", "--arms", "19", "--sigma", "0.00208"]
    assert answer(*plan)["detectable"] == pytest.approx(0.0126, abs=5e-5)
    text = run(*plan)
    assert "3 seeds an arm against 3 of the baseline see effects from 0.0126 with 80% power" in text
    assert "(the default rule, Dunnett)" in text
    assert "equality can be shown within" in text
    assert answer(*plan, "--pooled")["detectable"] == pytest.approx(0.00693, abs=5e-6)  # audits.md 3.4
    assert answer(*plan, "--own")["detectable"] == pytest.approx(0.01415, abs=5e-6)
    assert "compare --sigma pooled; its default rule decides by the larger noise" in run(*plan, "--pooled")


def test_seeds_for_an_effect() -> None:
    plan = ["--effect", "0.0093", "--arms", "19", "--sigma", "0.00208"]
    found = answer(*plan, "--own")
    assert (found["seeds"], found["runs"]) == (4, 80)
    assert answer(*plan, "--pooled")["seeds"] == 2
    assert answer(*plan)["seeds"] == 4
    assert "4 seeds an arm (80 runs) see an effect of 0.0093 with 80% power, alpha 0.05 over 19 arms" in run(*plan)


def test_single_runs_lean_on_the_baseline() -> None:
    plan = ["--seeds", "1", "--baseline-seeds", "3", "--sigma", "0.00208"]
    assert answer(*plan, "--pooled")["detectable"] == pytest.approx(0.01358, abs=5e-6)  # audits.md 3.4
    assert answer(*plan)["detectable"] > 2 * 0.01358  # a single run may be four times as noisy


def test_without_a_noise_floor_effects_are_in_seed_sds() -> None:
    assert "effects from 3.9 seed sd" in run("--seeds", "3")


def test_the_noise_floor_of_finished_results(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text(
        "arm,seed,x\n" + "".join(f"{a},{s},{s + (a == 'new')}\n" for a in ("base", "new") for s in range(3))
    )
    found = answer("--from", str(path), "--baseline", "base", "--effect", "5")
    assert (found["sigma"], found["seeds"]) == (pytest.approx(1.0), 3)
    assert "noise floor 1 [0.599, 2.87]" in run("--from", str(path), "--baseline", "base", "--effect", "5")
    path.write_text("arm,seed,x\nbase,0,1\nnew,0,2\n")
    with pytest.raises(AnalysisError, match="no arm has two seeds"):
        run("--from", str(path), "--baseline", "base", "--effect", "5")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --effect to learn the seeds, or --seeds"),
        (["--effect", "1", "--seeds", "3"], "one of them"),
        (["--effect", "1", "--sigma", "1", "--from", "x.csv"], "two noise floors"),
        (["--effect", "1", "--sigma", "-1"], "sigma is -1.0"),
        (["--seeds", "1"], "decides nothing with 1 baseline seeds"),
        (["--seeds", "1", "--pooled"], "no degree of freedom"),
        (["--seeds", "3", "--own", "--pooled"], "not both"),
        (["--effect", "0"], "an effect of 0"),
    ],
)
def test_bad_input(arguments: list[str], message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        run(*arguments)
