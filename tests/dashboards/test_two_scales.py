"""The scale and decoupling pages, from published facts and from a table of runs with known answers."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import ModuleType

import pytest

from dashboards.evidence import Trace
from dashboards.norms import watched
from dashboards.report import report_content, write_report
from dashboards.sheet_files import sheet_json, write_sheet
from dashboards.sweep_evidence import sweep_evidence
from dashboards.table_rows import find_table
from jobs.workspace import Workspace
from orchestrator.cli.table_sheets import sheet_of_table
from orchestrator.gather.parquet import gather
from sweeps.analysis.errors import AnalysisError
from sweeps.tables import read_runs

ARMS = (  # name, class, effect small, effect large (None: every seed diverges), loss small, loss large
    ("base", "baseline", 0.0, 0.0, 0.0, 0.0),
    ("gated", "attention output", 0.04, 0.05, -0.02, -0.02),
    ("geglu", "MLP", 0.02, 0.03, -0.02, -0.03),
    ("sigmoid", "attention output", -0.10, -0.14, 0.03, 0.04),
    ("attnres", "residual", -0.03, -0.05, 0.05, 0.06),
    ("peri", "norm", -0.02, 0.02, 0.02, -0.02),
    ("hyper", "residual", 0.03, None, -0.01, None),
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = ["method,class,size,seed,accuracy,loss,diverged,reason"]
    for size in ("60M", "200M"):
        for number, (arm, kind, small, large, loss_small, loss_large) in enumerate(ARMS):
            for seed in range(4):
                noise = 0.003 * ((7 * seed + 3 * number) % 5 - 2)
                effect, loss = (small, loss_small) if size == "60M" else (large, loss_large)
                if effect is None or loss is None:
                    rows.append(f"{arm},{kind},{size},{seed},,,1,diverged at step 900")
                    continue
                rows.append(f"{arm},{kind},{size},{seed},{0.5 + effect + noise:.4f},{3 + loss - noise / 2:.4f},0,")
    path = tmp_path / "ladder.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def shipped(kind: str):
    path = find_table("audit.csv")
    assert path is not None
    return sheet_of_table(path, kind=kind)


def test_the_published_rank_correlation_says_nothing() -> None:
    """audits.md section 4: rho -0.27 with n = 10 has p 0.45 and reaches from -0.77 to 0.43."""
    sheet = shipped("scale")
    found = sheet_json(sheet)["spearman"]
    assert found["p"] == pytest.approx(0.4458, abs=0.01)
    assert found["p_permutation"] == pytest.approx(0.448, abs=0.01)
    assert (found["low"], found["high"]) == (pytest.approx(-0.77, abs=0.01), pytest.approx(0.43, abs=0.01))
    assert found["critical"] == pytest.approx(0.648, abs=0.001)
    assert "permutation p 0.45" in sheet.quotes[1]
    assert "cannot be told from unrelated ones, nor from moderate transfer" in sheet.quotes[1]
    assert "p 0.00098, and arms that share one baseline more often)." in sheet.quotes[0]


def test_the_published_divergences_and_their_alarm() -> None:
    sheet = shipped("scale")
    content = sheet_json(sheet)
    assert content["diverged"] == [3, 13, pytest.approx(0.050, abs=0.001), pytest.approx(0.538, abs=0.001)]
    records = {r["arm"]: r for r in sheet.records}
    assert (records["SSMax"]["nan_step"], records["SSMax"]["verdict_large"]) == (5800, "diverged")
    assert 800 < records["SSMax"]["alarm_lead"] < 1500
    assert records["HybridNorm"]["alarm_lead"] is None
    assert "needs another rate" in sheet.quotes[2]


def test_effects_at_two_scales(table: Path, tmp_path: Path) -> None:
    sheet = sheet_of_table(table, metric="accuracy", baseline="base", scale_column="size", arm_column="method")
    assert sheet.kind == "scale"  # two scales are what this table has
    content = sheet_json(sheet)
    assert content["same_sign"] == [4, 5]  # peri turns
    assert content["spearman"]["n"] == 5
    assert content["diverged"][:2] == [1, 6]
    records = {r["arm"]: r for r in sheet.records}
    assert records["gated"]["small"] == pytest.approx(0.04, abs=0.01)
    assert (records["gated"]["rank_small"], records["gated"]["rank_large"]) == (1, 1)
    assert records["hyper"]["large"] is None
    assert (records["hyper"]["diverged"], records["hyper"]["rank_small"]) == (4, None)
    written = write_sheet(sheet, tmp_path / "page")
    page = re.sub(r"data:image[^\"]+", "", written.page.read_text())
    assert not re.search(r"\b(nan|NaN|None|inf)\b", page)
    assert {"scales.svg", "ranks.svg", "scale.tex", "scale.parquet"} <= {path.name for path in written.files}


def test_one_scale_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("arm,seed,accuracy\na,1,0.5\na,2,0.6\nb,1,0.5\nb,2,0.7\n")
    with pytest.raises(AnalysisError, match="--scale-column"):
        sheet_of_table(path, kind="scale", metric="accuracy", baseline="a")


def test_a_trace_that_is_too_short_has_no_alarm_and_a_reason() -> None:
    assert watched(Trace("a", (10,), (1.0,)), 0).reason == "fewer than two finite norms"
    short = watched(Trace("a", (0, 50), (1.0, 2.0)), 0)
    assert short.reason == "ended before it settled"
    assert short.alarm is not None
    assert short.alarm.warn is None


def test_the_published_losses_hide_two_failures() -> None:
    sheet = shipped("decoupling")
    records = {r["arm"]: r for r in sheet.records}
    assert {a for a, r in records.items() if r["masked"]} == {"Sigmoid Attention"}
    assert {a for a, r in records.items() if r["masked_by_t"]} == {"Sigmoid Attention", "SSMax"}
    assert "by its own t alone, which decides nothing, SSMax falls too" in sheet.quotes[1]
    assert sheet.quotes[0].startswith("2 of 2 arms fall further")  # AttnRes sets the slope and lies on it
    assert records["Sigmoid Attention"]["compute_lost"] == pytest.approx(0.38, abs=0.01)
    assert records["AttnRes"]["compute_lost"] == pytest.approx(0.91, abs=0.01)
    assert sheet_json(sheet)["slope"] == pytest.approx(-0.0613 / 13, rel=1e-3)
    assert records["Sigmoid Attention"]["index"] < -20
    assert "1 arm that leaves the attention output alone, a slope without an error" in sheet.quotes[0]
    assert "was not checked, and a mismatch would look the same" in sheet.quotes[2]


def test_decoupling_of_runs(table: Path) -> None:
    asked = {"metric": "accuracy", "baseline": "base", "scale_column": "size", "arm_column": "method"}
    records = {r["arm"]: r for r in sheet_of_table(table, kind="decoupling", **asked).records}
    assert records["sigmoid"]["masked"]
    assert records["sigmoid"]["index"] < -2
    assert not records["gated"]["masked"]
    assert records["sigmoid"]["loss_percent"] == pytest.approx(1.0, abs=0.2)
    assert records["sigmoid"]["loss_error"] > 0


def test_a_verdict_that_rests_on_loss_is_warned_of(table: Path) -> None:
    asked = {"baseline": "base", "scale_column": "size", "arm_column": "method", "loss_column": "loss"}
    sheet = sheet_of_table(table, kind="decoupling", metric="accuracy", **asked)
    assert not [word for word, _ in sheet.banners if word == "Judged by loss alone."]
    text = table.read_text().replace("gated,attention output,60M", "gated,attention output,60M")
    rows = [re.sub(r"(gated,attention output,60M,\d),[\d.]+,", r"\1,,", line) for line in text.splitlines()]
    table.write_text("\n".join(rows) + "\n")
    warned = sheet_of_table(table, kind="decoupling", metric="accuracy", **asked).banners
    assert any("gated changes the attention output and is judged by loss alone" in said for _, said in warned)


def test_without_losses_there_is_no_decoupling(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("arm,seed,accuracy\na,1,0.5\na,2,0.6\nb,1,0.5\nb,2,0.7\n")
    with pytest.raises(AnalysisError, match="--loss-column"):
        sheet_of_table(path, kind="decoupling", metric="accuracy", baseline="a")


def test_a_ladder_sweep_gets_the_same_pages(tmp_path: Path, synthetic: ModuleType) -> None:
    made = []
    for number, (arm, kind, small, large, loss_small, loss_large) in enumerate(ARMS):
        for size, effect, loss in (("60M", small, loss_small), ("200M", large, loss_large)):
            for seed in range(3):
                labels = {"architecture": arm, "scale": size, "class": kind}
                noise = 0.003 * ((7 * seed + 3 * number) % 5 - 2)
                if effect is None or loss is None:
                    points = tuple({"step": s, "train/gradient_norm": 1.0 + s} for s in (10, 20, 30))
                    made.append(synthetic.Made(labels, seed=seed, failure="diverged", points=(points,)))
                    continue
                summary = {"test/accuracy": 0.5 + effect + noise, "validation/loss": 3 + loss - noise / 2}
                summary["validation/loss_first_16"] = 4 + loss
                made.append(synthetic.Made(labels, seed=seed, summary=summary))
    analysis = {"metric": "test/accuracy", "baseline": {"architecture": "base"}, "arm": "architecture",
                "correction": "dunnett"}  # fmt: skip
    synthetic.write_plain(tmp_path, made, analysis)
    gather(Workspace(tmp_path), "plain")
    content = report_content(tmp_path, "plain", "scale")
    assert content["scales"] == ["60M", "200M"]
    assert content["same_sign"] == [4, 5]
    hyper = next(r for r in content["records"] if r["arm"] == "hyper")
    assert (hyper["diverged"], hyper["started"]) == (3, 3)
    evidence = sweep_evidence(tmp_path, "plain", read_runs(tmp_path, "plain"), {})
    (trace, *_) = (t for t in evidence.traces if t.arm == "hyper")
    assert math.isnan(trace.norms[-1])  # a diverged run's norms end where it fell
    assert trace.steps[-1] == hyper["nan_step"]
    loss = report_content(tmp_path, "plain", "decoupling")
    sigmoid = next(r for r in loss["records"] if r["arm"] == "sigmoid")
    assert sigmoid["early_loss_percent"] == pytest.approx(100 * 0.03 / 4, rel=0.05)
    page = write_report(tmp_path, "plain", tmp_path / "page", kind="decoupling").page.read_text()
    assert "below 16, %" in page
    assert {r["arm"] for r in loss["records"] if r["masked"]} >= {"sigmoid"}
    factorial = report_content(tmp_path, "plain", kind="factorial")
    assert any("sigmoid" in r["term"] and r["decided"] for r in factorial["records"])


def test_decoupling_task_by_task(tmp_path: Path) -> None:
    """An arm that follows its loss on one task and falls far below it on the other."""
    rows = ["arm,class,task,seed,accuracy,loss"]
    for arm, kind, first, second, loss in (
        ("base", "baseline", 0.0, 0.0, 0.0),
        ("gate", "attention output", -0.021, -0.30, 0.02),
        ("norm", "norm", -0.02, -0.02, 0.02),
        ("mlp", "MLP", -0.04, -0.04, 0.04),
    ):
        rows += [
            f"{arm},{kind},{task},{seed},{0.6 + effect + 0.002 * (seed * 7 % 5 - 2)},{2 + loss}"
            for task, effect in (("piqa", first), ("arc", second)) for seed in range(4)
        ]  # fmt: skip
    path = tmp_path / "tasks.csv"
    path.write_text("\n".join(rows) + "\n")
    sheet = sheet_of_table(path, kind="decoupling", metric="accuracy", baseline="base")
    by_task = sheet_json(sheet)["by_task"]
    assert abs(by_task["piqa"]["arms"]["gate"]["index"]) < 2
    assert by_task["arc"]["arms"]["gate"]["index"] < -20
    assert by_task["arc"]["slope"] == pytest.approx(-0.02, rel=0.05)
    (section,) = (s for s in sheet.sections if s.title == "Task by task")
    assert section.small == "1 of 6 entries fall further than their loss"
    page = re.sub(r"data:image[^\"]+", "", write_sheet(sheet, tmp_path / "page").page.read_text())
    assert not re.search(r"\b(nan|NaN|None|inf)\b", page)


def test_an_arm_whose_runs_did_not_all_finish_is_named(table: Path) -> None:
    lines = table.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("peri,norm,200M,2"))
    lines[at] = "peri,norm,200M,2,nan,3.0,0,"
    table.write_text("\n".join(lines) + "\n")
    sheet = sheet_of_table(table, kind="scale", baseline="base", metric="accuracy")
    assert (
        "that finished at 60M and 200M (of peri without the runs that have no value) keep the sign" in sheet.quotes[0]
    )
    other = sheet_of_table(table, kind="decoupling", baseline="base", metric="accuracy")
    assert "Not on this page: 200M (see --kind scale)." in other.notes
