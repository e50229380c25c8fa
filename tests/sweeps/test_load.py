"""Sweep files are read, merged and checked, and every mistake is reported at once, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.errors import Problem, SweepError
from sweeps.load import load_sweep


def write(folder: Path, text: str, name: str = "study.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def mistakes(path: Path, *overrides: str, preset: str | None = None) -> tuple[Problem, ...]:
    with pytest.raises(SweepError) as caught:
        load_sweep(path, overrides, preset)
    return caught.value.problems


def test_a_minimal_file_needs_a_runner_only(tmp_path: Path) -> None:
    sweep = load_sweep(write(tmp_path, "runner: toy\n"))
    assert sweep.file.name == "study"
    assert sweep.file.seeds.values == (1,)
    assert sweep.settings == {"runner": "toy", "name": "study"}


def test_includes_lie_below_the_file_and_presets_and_overrides_above(tmp_path: Path) -> None:
    write(tmp_path, "config: {a: 1, b: 1, c: 1, d: 1}\n", "below.yaml")
    write(tmp_path, "config: {c: 3}\n", "for-mini.yaml")
    path = write(
        tmp_path,
        "include: below.yaml\nrunner: toy\nconfig: {b: 2, c: 2}\n"
        "presets: {mini: {include: for-mini.yaml, config: {d: 3, e: 3}}}\n",
    )
    assert load_sweep(path).settings["config"] == {"a": 1, "b": 2, "c": 2, "d": 1}
    sweep = load_sweep(path, ["preset=mini", "config.e=4"])
    assert sweep.settings["config"] == {"a": 1, "b": 2, "c": 3, "d": 3, "e": 4}
    assert sweep.settings == load_sweep(path, ["config.e=4"], preset="mini").settings
    assert sweep.source == {"file": str(path), "preset": "mini", "overrides": ["config.e=4"]}
    assert not {"include", "presets"} & sweep.settings.keys()


def test_a_shipped_recipe_and_its_presets_can_be_included_from_anywhere(tmp_path: Path) -> None:
    path = write(tmp_path, "include: compat-extras.yaml\nname: mine\nfactors: {rate: {own: {}}}\n")
    sweep = load_sweep(path, preset="mini")
    assert list(sweep.settings["factors"]["rate"]) == ["1", "1/3", "own"]
    assert sweep.settings["factors"]["task"]["addmod"]["task"]["p"] == 23


def test_what_a_preset_includes_lies_beside_the_file_it_stands_in(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    write(base, "config: {size: 1}\n", "small.yaml")
    write(base, "runner: toy\npresets: {mini: {include: [small.yaml]}}\n", "study.yaml")
    path = write(tmp_path, "include: base/study.yaml\n", "over.yaml")
    assert load_sweep(path, preset="mini").settings["config"] == {"size": 1}


def test_rules_of_files_and_presets_add_up_and_keep_their_lines(tmp_path: Path) -> None:
    """A preset that leaves something out says nothing about what the person left out before."""
    (tmp_path / "base.yaml").write_text(
        "runner: toy\n"
        "factors: {a: {x: {}, y: {}, z: {}}, b: {u: {}, v: {}}}\n"
        "exclude: [{when: {a: x, b: u}, reason: of base}]\n"
        "cells: [{when: {a: z}, config: {steps: 3}}]\n"
        "presets:\n"
        "  small:\n"
        "    exclude: [{when: {a: y, b: u}, reason: of its preset}]\n"
    )
    path = tmp_path / "mine.yaml"
    path.write_text(
        "include: base.yaml\n"
        "exclude:\n"
        "  - {when: {a: x, b: v}, reason: of mine}\n"
        "cells: [{when: {a: z}, config: {steps: 4}}]\n"
        "presets:\n"
        "  small:\n"
        "    exclude:\n"
        "      - {when: {a: y, b: v}, reason: of my preset}\n"
    )
    reasons = [rule.reason for rule in load_sweep(path).file.exclude]
    assert reasons == ["of base", "of mine"]
    sweep = load_sweep(path, preset="small")
    assert [rule.reason for rule in sweep.file.exclude] == ["of base", "of mine", "of its preset", "of my preset"]
    lines = [sweep.origins["exclude", n, "reason"] for n in range(4)]
    assert [(Path(origin.file).name, origin.line) for origin in lines] == [
        ("base.yaml", 3), ("mine.yaml", 3), ("base.yaml", 7), ("mine.yaml", 8),
    ]  # fmt: skip
    assert [rule.config["steps"] for rule in sweep.file.cells] == [3, 4], "the last one wins in a cell, as ever"
    # What is typed is meant as it stands, and null takes back what lies below.
    assert load_sweep(path, ["exclude=[]"], preset="small").file.exclude == ()
    assert [r.reason for r in load_sweep(path, ["exclude.1.reason=typed"]).file.exclude] == ["of base", "typed"]
    path.write_text("include: base.yaml\nexclude: null\n")
    assert load_sweep(path).file.exclude == ()
    assert [rule.reason for rule in load_sweep(path, preset="small").file.exclude] == ["of its preset"]


def test_a_mistake_in_an_added_rule_is_told_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("runner: toy\nexclude: [{when: {a: x}, reason: of base}]\n")
    path = tmp_path / "mine.yaml"
    path.write_text("include: base.yaml\nexclude:\n  - {when: {a: y}}\n")
    with pytest.raises(SweepError) as caught:
        load_sweep(path)
    (problem,) = caught.value.problems
    assert (Path(problem.file).name, problem.line, problem.message) == ("mine.yaml", 3, "this key is missing")


def test_interpolation_is_resolved_after_the_overrides(tmp_path: Path) -> None:
    path = write(tmp_path, "runner: toy\nvalues: {t: 10}\nconfig: {steps: '${values.t}', all: '${values}'}\n")
    assert load_sweep(path, ["values.t=7"]).settings["config"] == {"steps": 7, "all": {"t": 7}}


def test_every_mistake_is_reported_at_once_with_file_line_value_and_choices(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "runner: toy\n"
        "seedss: 3\n"
        "analysis:\n"
        "  test: dunett\n"
        "  alpha: 2\n"
        "values: {x: '${values.gone}'}\n"
        "pack: {max: 0}\n"
        "pack: {max: 1}\n",
    )
    found = mistakes(path, "analysis.looks=[0.5]", "tagz.a=b", "nonsense")
    by_where = {problem.where: problem for problem in found}
    assert [p.line for p in found if p.line is not None] == sorted(p.line for p in found if p.line is not None)
    assert by_where["seedss"].line == 2
    assert by_where["seedss"].suggestion == "seeds"
    assert (by_where["analysis.test"].line, by_where["analysis.test"].value) == (4, "dunett")
    assert by_where["analysis.test"].suggestion == "dunnett"
    assert by_where["analysis.alpha"].line == 5
    assert by_where["values.x"].line == 6
    assert by_where["pack.max"].line == 7
    assert (by_where["pack"].line, "line 7" in by_where["pack"].message) == (8, True)
    assert (by_where["tagz"].file, by_where["tagz"].suggestion) == ("override 2", "tags")
    assert by_where[""].file == "override 3"
    # The last one is not seen as long as another key of its block is wrong; all the rest is.
    assert len(found) == 8
    assert all(problem.file in (str(path), "override 2", "override 3") for problem in found)


def test_a_mistake_prints_as_file_line_key_value_and_choices(tmp_path: Path) -> None:
    path = write(tmp_path, "runner: toy\nanalysis: {goal: maxx}\n")
    assert str(mistakes(path)[0]) == (
        f"{path}:2: analysis.goal: not one of the choices, got 'maxx'; did you mean max? (choose from: max, min)"
    )


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("runner: toy\na: [1\n", 3, "not YAML"),
        ("- runner\n", 1, "mapping"),
        ("runner: toy\nvalues: &v {a: *v}\n", 2, "contains itself"),
        ("runner: toy\nvalues: {a: !!binary aGk=}\n", 2, "cannot be part"),
        ("runner: toy\nvalues: {a: .nan}\n", 2, "finite"),
        ("runner: toy\nname: a/b\n", 2, "must match"),
        ("runner: toy\nstages: {a: {runner: toy}}\n", 1, "either `runner` or `stages`"),
        ("runner: toy\nseeds: [1, 2, 1]\n", 2, "may stand here once: 1"),
        ("runner: toy\nfactors: {lr: {path: a.b, valuess: [1]}}\n", 2, "unknown key"),
        ("runner: toy\nfactors: {'a.b': [1]}\n", 2, "must match"),
        ("runner: toy\nvalues: {a: '${b'}\n", 2, "not an interpolation"),
        ("runner: toy\nvalues: {a: '???'}\n", 2, "must be given"),
        ("runner: toy\ninclude: gone.yaml\n", 2, "no such file"),
        ("runner: toy\ninclude: study.yaml\n", 2, "includes itself"),
    ],
)
def test_one_mistake_has_its_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    found = mistakes(write(tmp_path, text))
    assert any(problem.line == line and says in problem.message for problem in found), [str(p) for p in found]


def test_an_unknown_preset_names_the_known_ones(tmp_path: Path) -> None:
    path = write(tmp_path, "runner: toy\npresets: {mini: {}, smoke: {}}\n")
    (problem,) = mistakes(path, "preset=minni")
    assert (problem.value, problem.choices, problem.suggestion) == ("minni", ("mini", "smoke"), "mini")
    assert "only one preset" in mistakes(path, "preset=mini", "preset=smoke")[0].message


def test_a_file_that_is_not_there_names_the_recipes() -> None:
    with pytest.raises(SweepError, match=r"no such file or recipe.*did you mean compat\.yaml"):
        load_sweep("compt.yaml")


def test_bytes_that_are_not_utf8_are_a_mistake_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_bytes(b"runner: toy\nname: \xff\n")
    assert "not UTF-8" in mistakes(path)[0].message


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("lr.values=[0.1]", "override 1: lr: unknown key; write factors.lr"),
        ("steps=5", "override 1: steps: unknown key; write config.steps"),
        ("seedz=5", "override 1: seedz: unknown key; did you mean seeds? (choose from: "),
        ("seeds=", "override 1: seeds: has no value; write null to take a key away"),
        ("seeds=abc", "override 1: seeds: seeds are a number of them, or a list such as [1, 2], got 'abc'"),
        ("zip=lr", "override 1: zip: must be a list, such as [1, 2], got 'lr'"),
    ],
)
def test_what_is_typed_in_a_hurry_is_told_how_to_be_typed(tmp_path: Path, override: str, says: str) -> None:
    path = write(tmp_path, "runner: toy\nconfig: {steps: 3}\nfactors: {lr: {path: a.b, values: [1]}}\n")
    (problem,) = mistakes(path, override)
    assert str(problem).startswith(says)


def test_an_override_can_change_one_item_of_a_list(tmp_path: Path) -> None:
    path = write(tmp_path, "runner: toy\nvalues: {a: [1, 2, {b: 3}]}\n")
    settings = load_sweep(path, ["values.a.0=7", "values.a[2].b=8"]).settings
    assert settings["values"] == {"a": [7, 2, {"b": 8}]}


def test_numbers_that_no_float_or_word_can_hold_are_the_text_they_were_written_as(tmp_path: Path) -> None:
    path = write(tmp_path, "runner: toy\nvalues: {a: 3e563, b: 123456789012345678901234567890}\n")
    assert load_sweep(path).settings["values"] == {"a": "3e563", "b": "123456789012345678901234567890"}


def test_merge_keys_and_aliases_are_read_as_yaml_means_them(tmp_path: Path) -> None:
    path = write(tmp_path, "runner: toy\nvalues:\n  base: &b {x: 1, y: 1}\n  more: {<<: *b, y: 2}\n  same: *b\n")
    assert load_sweep(path).settings["values"] == {
        "base": {"x": 1, "y": 1},
        "more": {"x": 1, "y": 2},
        "same": {"x": 1, "y": 1},
    }


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("{test: permutation}", "nested_t, dunnett, welch, paired_t"),
        ("{test: audit}", "nested_t, dunnett, welch, paired_t"),
        ("{test: dunnett, correction: holm}", "test: dunnett means correction: dunnett, not holm"),
        ("{test: welch, sigma: pooled}", "test: welch means sigma: own, not pooled"),
    ],
)
def test_a_block_names_no_test_that_would_not_decide(tmp_path: Path, block: str, message: str) -> None:
    path = write(tmp_path, f"name: x\nrunner: toy\nanalysis: {block}\n")
    (problem,) = mistakes(path)
    assert problem.line == 3
    assert message in f"{problem.message}: {', '.join(map(str, problem.choices))}"
