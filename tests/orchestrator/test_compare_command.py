"""`orchestrate compare` by its three doors: a table, an MLflow experiment, a sweep."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator.cli.compare import CORRECTIONS
from sweeps.analysis import corrections
from sweeps.analysis.errors import AnalysisError

Compare = Callable[..., str]
Verdicts = Callable[..., dict[str, Any]]


def test_the_choices_are_the_engines() -> None:
    assert CORRECTIONS == corrections.CORRECTIONS


def test_every_arm_gets_a_verdict_in_words(table: str, compare: Compare) -> None:
    text = compare(table, "--baseline", "baseline")
    assert "Against baseline, softpick (+0.0093) better; sigmoid (-0.162) worse." in text
    assert "hybrid: undecided (1 seed; about" in text
    assert "ssmax: diverged (1 non-finite climb (nan))" in text
    assert "Dunnett over 4 contrasts" in text
    assert "noise floor of climb: baseline 0.4829 (n = 3, sd 0.00226" in text


def test_flags_reach_the_engine(table: str, verdicts: Verdicts) -> None:
    own = verdicts(table, "--baseline", "baseline", "--sigma", "own", "--correction", "none")
    assert own["softpick"]["p"] == pytest.approx(0.00729909, abs=1e-8)
    assert own["hybrid"]["headline"].startswith("undecided (1 seed; one seed of hybrid has no spread")
    nineteen = ["--correction", "bonferroni", "--family", "19"]
    known = verdicts(table, "--baseline", "baseline", "--sigma", "known:0.00208", *nineteen)
    assert known["hybrid"]["p_adjusted"] == pytest.approx(19 * known["hybrid"]["p"])
    assert known["hybrid"]["df"] is None  # infinite
    paired = verdicts(table, "--baseline", "baseline", "--paired", "--sigma", "own")
    assert paired["softpick"]["statistic"] == pytest.approx(16.108073, abs=1e-6)
    margin = verdicts(table, "--baseline", "baseline", "--margin", "0.1", "--lower-is-better")
    assert margin["softpick"]["verdict"] == "worse"
    assert margin["hybrid"]["verdict"] == "equivalent"


def test_a_look_spends_alpha(table: str, compare: Compare) -> None:
    document = json.loads(compare(table, "--baseline", "baseline", "--look", "1/2", "--json"))
    assert document["level"] == pytest.approx(0.00305, abs=1e-5)
    with pytest.raises(AnalysisError, match="write K/N"):
        compare(table, "--baseline", "baseline", "--look", "half")


def test_the_audits_protocol(table: str, compare: Compare) -> None:
    arguments = [table, "--baseline", "baseline", "--protocol", "audit", "--family", "19"]
    lines = {a["arm"]: a for a in json.loads(compare(*arguments, "--json"))}
    sigma = 0.00226495
    assert lines["softpick"]["z"] == pytest.approx(0.0093 / sigma, rel=1e-5)
    assert lines["softpick"]["p_bonferroni"] == pytest.approx(19 * lines["softpick"]["p"])
    assert lines["sigmoid"]["log_p"] < -2000
    assert (lines["ssmax"]["left_out"], lines["softpick"]["left_out"]) == ("1 non-finite climb (nan)", None)
    text = compare(*arguments)
    assert "survives" in text
    assert "1e-1109" in text
    assert "0.6226" in text
    assert "|z| beyond 3.008 survives (3.000 by Sidak)" in text  # audits.md 3.2
    assert "ssmax: left out, 1 non-finite climb (nan)" in text
    assert re.search(r"calls one different with a chance of 0\.4[67], not 0\.05 \(simulated\)", text)  # audits.md 3.3


def test_no_p_value_is_printed_as_zero(tmp_path: Path, compare: Compare) -> None:
    path = tmp_path / "far.csv"
    rows = [f"{a},{s},{m + d}" for a, m in (("base", 0.0), ("far", 77.7)) for s, d in enumerate((-1.0, 0.0, 1.0))]
    path.write_text("\n".join(["arm,seed,x", *rows]))
    (line,) = json.loads(compare(str(path), "--baseline", "base", "--protocol", "audit", "--json"))
    assert (line["z"], line["p"]) == (pytest.approx(77.7), 0.0)
    shown = compare(str(path), "--baseline", "base", "--protocol", "audit")
    assert shown.count("1e-1313") == 3  # p, Bonferroni, Sidak
    known = next(
        x for x in compare(str(path), "--baseline", "base", "--sigma", "known:0.1").splitlines() if "3 v 3" in x
    )
    assert known.split()[-5:] == ["<", "1e-300", "<", "1e-300", "better"]


def test_a_loss_is_better_when_lower(tmp_path: Path, compare: Compare, verdicts: Verdicts) -> None:
    path = tmp_path / "r.csv"
    rows = [f"{a},{s},{m + s / 100}" for a, m in (("base", 1.0), ("low", 0.5)) for s in range(3)]
    path.write_text("\n".join(["arm,seed,validation_loss", *rows]))
    arguments = [str(path), "--baseline", "base"]
    document = json.loads(compare(*arguments, "--json"))
    assert document["verdicts"][0]["verdict"] == "better"
    assert "lower is taken as better" in document["notes"][0]
    assert verdicts(*arguments, "--higher-is-better")["low"]["verdict"] == "worse"


def test_what_was_left_out_or_mixed_is_said(tmp_path: Path, compare: Compare) -> None:
    path = tmp_path / "r.csv"
    rows = [
        f"{a},{s},{g},{1e-3 if (a, s) != ('new', 1) else 3e-4},{0.5 + s / 100 + i / 5}"
        for i, (a, g) in enumerate((("base", "p"), ("new", "p"), ("other", "q")))
        for s in range(3)
    ]
    path.write_text("\n".join(["arm,seed,group,lr,x", *rows]))
    arguments = [str(path), "--baseline", "base", "--metric", "x"]
    text = compare(*arguments, "--where", "group=p")
    assert "only rows with group=p, 6 of 9: the family is what is left" in text
    assert "lr differs between the runs of arm 'new': 0.001, 0.0003; choose with --where lr=..." in text
    rows = [f"{a},{s},{p},0.{s}{p}{i}" for i, a in enumerate(("base", "new")) for s in (1, 2) for p in (3, 4)]
    path.write_text("\n".join(["arm,seed,Prompt,x", *rows]))
    items = [str(path), "--baseline", "base", "--metric", "x", "--item-column", "Prompt"]
    assert json.loads(compare(*items, "--json"))["notes"] == []  # a column that the comparison uses is not mixed


def test_the_checklist(table: str, compare: Compare) -> None:
    text = compare(table, "--baseline", "baseline", "--checklist")
    assert "one scale only" in text
    assert "one seed or none of hybrid, sigmoid, ssmax" in text
    states = {
        i["code"]: i["state"] for i in json.loads(compare(table, "--baseline", "baseline", "--checklist", "--json"))
    }
    assert (states["R5"], states["R7"], states["R9"]) == ("met", "lacking", "unknown")
    for correction, state in (("holm", "met"), ("none", "lacking")):
        items = json.loads(
            compare(table, "--baseline", "baseline", "--checklist", "--correction", correction, "--json")
        )
        assert next(i["state"] for i in items if i["code"] == "R9") == state
    with pytest.raises(AnalysisError, match="baseline 'gelu' is no arm"):
        compare(table, "--baseline", "gelu", "--checklist")


def test_rows_can_be_chosen(tmp_path: Path, compare: Compare, verdicts: Verdicts) -> None:
    path = tmp_path / "r.jsonl"
    rows = [
        {"arm": a, "seed": s, "x": s + (a == "new") * 9, "set": k}
        for a in ("base", "new")
        for s in range(3)
        for k in "pq"
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert verdicts(str(path), "--baseline", "base", "--where", "set=p", "--metric", "x")["new"]["n"] == 3
    for condition, message in (
        ("set", "write COLUMN=VALUE"),
        ("sett=p", "no column 'sett'"),
        ("set=z", "it holds p, q"),
    ):
        with pytest.raises(AnalysisError, match=message):
            compare(str(path), "--baseline", "base", "--where", condition, "--metric", "x")


def test_items_say_how_far_they_reach(tmp_path: Path, verdicts: Verdicts) -> None:
    path = tmp_path / "r.jsonl"
    right = {"base": (0, 0, 1, 1), "new": (1, 0, 1, 1)}  # differences by item: 1, 0, 0, 0
    rows = [
        {"arm": a, "seed": s, "item": i, "x": x + s / 100}
        for a, xs in right.items()
        for s in range(3)
        for i, x in enumerate(xs)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = verdicts(str(path), "--baseline", "base", "--metric", "x")["new"]
    assert (found["difference"], found["n"]) == (pytest.approx(0.25), 3)
    assert "drawing others has a standard error of 0.25 beside" in found["words"]  # sd 0.5 / sqrt 4


def test_chance_levels(tmp_path: Path, compare: Compare) -> None:
    path = tmp_path / "r.csv"
    path.write_text("arm,seed,task,x,diverged\n" + "".join(
        f"{a},{s},{t},{0.5 + s / 100},\n" for a in ("base", "new") for s in range(3) for t in ("copy", "add"))
        + "new,3,copy,,true\nbase,3,copy,0.53,\n")  # fmt: skip
    arguments = [str(path), "--baseline", "base", "--metric", "x"]
    found = json.loads(compare(*arguments, "--chance", "0.3", "--chance", "copy=0.1", "--json"))["verdicts"]
    copy = next(v for v in found if v["task"] == "copy")
    assert copy["mean"] == pytest.approx((0.50 + 0.51 + 0.52 + 0.1) / 4)
    for text, message in (("copy=lots", "write a number"), ("mano=0.1", "no task 'mano'; there are add, copy")):
        with pytest.raises(AnalysisError, match=message):
            compare(*arguments, "--chance", text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which arm is the baseline.*one of baseline, hybrid"),
        (["--baseline", "gelu"], "baseline 'gelu' is no arm"),
        (["--baseline", "baseline", "--metric", "loss"], "no column 'loss' for the metric"),
        (["--baseline", "baseline", "--sigma", "known:x"], "must be a positive number"),
    ],
)
def test_bad_input_is_one_error(table: str, arguments: list[str], message: str, compare: Compare) -> None:
    with pytest.raises(AnalysisError, match=message):
        compare(table, *arguments)


def test_the_real_command_exits_2_with_one_line(table: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from orchestrator.cli.main import main

    with pytest.raises(SystemExit) as stopped:
        main(["compare", table, "--baseline", "gelu"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith(f"error: {table}: baseline 'gelu' is no arm")


def test_nothing_of_that_name(tmp_path: Path, compare: Compare) -> None:
    with pytest.raises(
        AnalysisError, match=r"'compat' is no file, no mlflow:EXPERIMENT and no sweep .*\(it has none\)"
    ):
        compare("compat", root=tmp_path)


def test_an_mlflow_experiment(tmp_path: Path, compare: Compare) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow.entities import Metric, Param
        from mlflow.tracking import MlflowClient

        uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
        client = MlflowClient(tracking_uri=uri)
        experiment = client.create_experiment("study")
        for arm, values in (("base", (0.50, 0.51, 0.52)), ("new", (0.70, 0.71, 0.72))):
            for seed, value in enumerate(values):
                made = client.create_run(experiment).info.run_id
                params = [Param("arm", arm), Param("seed", str(seed))]
                client.log_batch(made, [Metric("accuracy", value, 0, 0)], params)
                client.set_terminated(made)
        late = client.create_run(experiment).info.run_id
        client.log_batch(late, [], [Param("arm", "new"), Param("seed", "3")])
        half = client.create_run(experiment).info.run_id
        client.log_batch(half, [Metric("accuracy", 0.99, 0, 0)], [Param("arm", "new"), Param("seed", "4")])
        arguments = ["--tracking-uri", uri, "--baseline", "base", "--metric", "accuracy"]
        document = json.loads(compare("mlflow:study", *arguments, "--json"))
        (found,) = document["verdicts"]
        assert found["difference"] == pytest.approx(0.2)
        assert "1 running" in found["headline"]
        assert document["exploratory"] == "runs without a value: 1 running, 1 running, accuracy so far not counted"
        assert "without a value of accuracy, which enter no mean: 2 of 8 (" in document["notes"][0]
        with pytest.raises(AnalysisError, match=r"mlflow:other: no such experiment; there are .*study"):
            compare("mlflow:other", *arguments)


@pytest.fixture(scope="module")
def synthetic(helpers: Callable[[str], ModuleType]) -> ModuleType:
    return helpers("dashboards/synthetic.py")


def test_a_sweep_by_its_name(tmp_path: Path, synthetic: ModuleType, compare: Compare) -> None:
    made = [
        synthetic.Made({"arm": "ab"[i % 2]}, seed=i // 2, summary={"test/accuracy": 0.5 + i % 2 * 0.3 + i / 1000})
        for i in range(8)
    ]
    synthetic.write_plain(tmp_path, made, {"metric": "test/accuracy", "baseline": {"arm": "a"}, "looks": [0.5, 1.0]})
    document = json.loads(compare("plain", "--json", root=tmp_path))
    (found,) = document["verdicts"]
    assert (found["arm"], found["verdict"], found["n"]) == ("b", "better", 4)
    assert found["difference"] == pytest.approx(0.301)
    assert document["metric"] == "test/accuracy"
    assert document["level"] == pytest.approx(0.049, abs=5e-4)  # the last of two looks


def test_a_sweep_is_compared_as_it_was_planned(tmp_path: Path, synthetic: ModuleType, compare: Compare) -> None:
    from sweeps.schema import Analysis

    made = [
        synthetic.Made(
            {"arm": "abc"[i % 3]}, seed=i // 3,
            summary={"test/loss": 0.5 + i % 3 * 0.3 + i * 7 % 5 / 1000, "test/accuracy": 0.5 + i * 7 % 5 / 1000},
        )
        for i in range(12)
    ]  # fmt: skip
    block = Analysis(metric="test/loss", goal="min", baseline={"arm": "b"}, margin=0.01)
    synthetic.write_plain(tmp_path, made, block.model_dump(mode="json"))
    document = json.loads(compare("plain", "--json", root=tmp_path))
    assert {v["arm"]: v["verdict"] for v in document["verdicts"]} == {"a": "better", "c": "worse"}
    said = document["options"]
    assert (said["sigma"], said["correction"], said["margin"]) == ("auto", "dunnett", 0.01)
    assert not any("exploratory" in note for note in document["notes"])
    for flags, departure in (
        (["--baseline", "c"], "baseline = 'c', planned 'b'"),
        (["--sigma", "known:0.1"], "sigma = 'known:0.1', planned 'auto'"),
        (["--margin", "0.5"], "margin = 0.5, planned 0.01"),
        (["--look", "1/2"], "look = 1/2, planned at 1"),
    ):
        assert f"exploratory: {departure}" in json.loads(compare("plain", "--json", *flags, root=tmp_path))["notes"]
    other = json.loads(compare("plain", "--json", "--metric", "test/accuracy", root=tmp_path))
    assert (other["options"]["lower_is_better"], other["options"]["margin"]) == (False, None)


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ({}, ("auto", "dunnett", False)),
        ({"correction": "holm"}, ("auto", "holm", False)),
        ({"sigma": "pooled"}, ("pooled", "dunnett", False)),
        ({"test": "nested_t", "correction": "holm", "sigma": "pooled"}, ("pooled", "holm", False)),
        ({"test": "welch"}, ("own", "dunnett", False)),
        ({"test": "paired_t", "correction": "by"}, ("auto", "by", True)),
        ({"test": "dunnett"}, ("auto", "dunnett", False)),
    ],
)
def test_what_the_sweep_file_says_decides_even_where_it_says_a_default(
    tmp_path: Path, synthetic: ModuleType, said: dict[str, str], rule: tuple[str, str, bool], compare: Compare
) -> None:
    from sweeps.schema import Analysis

    made = [
        synthetic.Made({"arm": "abc"[i % 3]}, seed=i // 3, summary={"test/accuracy": 0.5 + i * i % 7 / 100})
        for i in range(12)
    ]
    synthetic.write_plain(tmp_path, made, Analysis(**{"baseline": {"arm": "a"}, **said}).planned())
    document = json.loads(compare("plain", "--json", root=tmp_path))
    options = document["options"]
    assert (options["sigma"], options["correction"], options["paired"]) == rule
    assert not any("exploratory" in note for note in document["notes"])


def test_a_verdict_names_its_permutation_and_its_look(tmp_path: Path, compare: Compare) -> None:
    path = tmp_path / "r.csv"
    rows = [f"{a},{s},{0.5 + s / 100 + (a == 'b') * (s * s % 5) / 50}" for a in "ab" for s in (1, 2, 3)]
    path.write_text("\n".join(["arm,seed,x", *rows]))
    text = compare(str(path), "--baseline", "a", "--look", "1/3")
    assert "at look 1 of 3 planned" in text
    assert "(it cannot go below 0.1)" in text
    rows[4] = "b,2,0.3,true,fell at step 40"
    path.write_text("\n".join(["arm,seed,x,diverged,reason", *(r if r.count(",") > 2 else r + ",," for r in rows)]))
    (found,) = json.loads(compare(str(path), "--baseline", "a", "--json"))["verdicts"]
    assert found["headline"] == (
        "diverged (1 of 3 seeds diverged: fell at step 40, at 0.3 when it fell (no chance level to count it at))"
    )


def test_one_number_in_two_spellings_is_not_two(tmp_path: Path, compare: Compare) -> None:
    path = tmp_path / "r.csv"
    rows = [
        f"{arm},{seed},{0.5 + i / 10}"
        for i, (arm, seed) in enumerate((("a", "1"), ("a", "1.0"), ("b", "1"), ("b", "2")))
    ]
    path.write_text("arm,seed,x\n" + "\n".join(rows))
    with pytest.raises(AnalysisError, match=r"column 'seed' writes one seed as '1' and as '1[.]0'; write it one way"):
        compare(str(path), "--baseline", "a")
    path.write_text(
        "arm,seed,x\n" + "".join(f"{a},{s}.0,{0.5 + s / 10 + (a == 'b')}\n" for a in "ab" for s in (1, 2, 3))
    )
    (found,) = json.loads(compare(str(path), "--baseline", "a", "--paired", "--json"))["verdicts"]
    assert found["n"] == 3
    path.write_text("arm,seed,x\n2,1,0.1\n2.0,2,0.2\n3,1,0.1\n3,2,0.3\n")
    with pytest.raises(AnalysisError, match=r"one arm as '2' and as '2[.]0'"):
        compare(str(path), "--baseline", "3")
