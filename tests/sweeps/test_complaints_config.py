"""Section 5 of the collected complaints about neighbouring tools (config, overrides, names), and 7.14 (expanding): each
has its test here."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from pydantic import BaseModel

from jobs import runners
from jobs.identity import content_id
from jobs.runners import RUNNERS, Runner, RunShape
from sweeps.errors import SweepError
from sweeps.expand import expand
from sweeps.load import load_sweep
from sweeps.overrides import spell
from sweeps.plan_file import plan_bytes, read_plan


class Optim(BaseModel, extra="forbid", frozen=True):
    lr: float = 0.1
    betas: tuple[float, ...] = (0.9, 0.999)


class Config(BaseModel, extra="forbid", frozen=True):
    arch: str = "plain"
    optim: Optim = Optim()
    packing: bool = True
    layers: tuple[int, ...] = ()
    text: str | None = None
    anything: Any = 0


def describe(config: Config) -> RunShape:
    return RunShape(config.arch, parameters=1, flops_per_step=1.0, steps=1)


@pytest.fixture(autouse=True)
def _runner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUNNERS, "mine", Runner("mine:Config", "mine:describe", "mine:run"))
    known = {"mine:Config": Config, "mine:describe": describe}
    load = runners.load
    monkeypatch.setattr(runners, "load", lambda target: known[target] if target in known else load(target))


def study(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / "study.yaml"
    path.write_text("runner: mine\n" + text, encoding="utf-8")
    return path


def read(path: Path, *overrides: str) -> Any:
    return load_sweep(path, overrides).settings["values"]["x"]


def test_5_01_three_spellings_of_a_number_are_one_run_and_a_notice(tmp_path: Path) -> None:
    path = study(tmp_path, "factors: {lr: {path: optim.lr, values: [1e-4, 1.0e-4, 0.0001]}}\n")
    design = expand(load_sweep(path))
    assert len(design.runs) == 1
    assert any("factors.lr lists 3 values, 1 of them different" in notice for notice in design.notices)
    for text in ("1e-4", "1.0e-4", "'1e-4'"):
        again = expand(load_sweep(path, [f"factors.lr.values=[{text}]"]))
        assert again.runs[0].id == design.runs[0].id


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | FLOATS | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)


def back(text: str) -> Any:
    node = OmegaConf.from_dotlist([f"x={text}"])
    return OmegaConf.to_container(node, resolve=True)["x"]  # type: ignore[index]


@settings(max_examples=200, deadline=None)
@given(VALUES)
@example("1e-05")
@example("${x}")
@example("\\${x}")
@example("\\\\${x} ${")
@example({"a ${b}": ["null", None, "None"]})
@example("\x85\u2028\ufeff😀")
def test_5_02_every_value_we_print_can_be_pasted_back(value: Any) -> None:
    again = back(spell(value))
    if "???" in repr(value):
        return  # OmegaConf's own mark for a missing value has no other spelling
    assert again == value
    assert repr(again) == repr(value)


@settings(max_examples=200, deadline=None)
@given(FLOATS)
def test_5_02_every_float_we_print_is_the_same_float(value: float) -> None:
    again = back(spell(value))
    assert (again, type(again)) == (value, float)


def test_5_03_text_that_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    path = study(tmp_path, "tags: {note: 1E234, other: 3e563, flag: on}\nconfig: {text: 3e563}\n")
    sweep = load_sweep(path, ["tags.more=1E234"])
    assert sweep.file.tags == {"note": "1E234", "other": "3e563", "flag": "on", "more": "1E234"}
    assert expand(sweep).cells[0].config == {"text": "3e563"}


def test_5_03_no_id_of_ours_is_ever_a_number() -> None:
    ids = [content_id(prefix, number) for prefix in "rpc" for number in range(3400)]
    assert len(ids) >= 10_000
    assert all(re.fullmatch(r"[a-z][0-9a-f]{15}", name) for name in ids)
    assert all(OmegaConf.create(f"- {name}")[0] == name for name in ids[::37])


def test_5_04_the_same_file_gives_the_same_plan_in_any_process(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("runner: toy\nfactors: {level: [0.1, 0.2], note: [a, b]}\nseeds: 2\npack: {by: [level], max: 3}\n")
    program = (
        "import hashlib, sys, logging\n"
        "logging.basicConfig(level=sys.argv[2])\n"
        "from sweeps.expand import expand; from sweeps.load import load_sweep\n"
        "from sweeps.plan_file import plan_bytes\n"
        "print(hashlib.sha256(plan_bytes(expand(load_sweep(sys.argv[1])))).hexdigest())\n"
    )
    seen = set()
    for level, hashing in (("DEBUG", "1"), ("ERROR", "2")):
        done = subprocess.run(
            [sys.executable, "-c", program, str(path), level], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": hashing, "PATH": ""},
        )  # fmt: skip
        seen.add(done.stdout)
    assert len(seen) == 1


def test_5_05_a_key_that_only_one_level_has_is_checked_in_its_cells_only(tmp_path: Path) -> None:
    text = "factors:\n  task:\n    copy: {}\n    add: {}\n  arch:\n"
    text += "    plain: {}\n    wide: {widht: 3}\n    odd: {optim: {lrr: 1}}\n"
    with pytest.raises(SweepError) as caught:
        expand(load_sweep(study(tmp_path, text)))
    found = {problem.where.partition(" ")[0]: problem for problem in caught.value.problems}
    assert set(found) == {"factors.arch.wide.widht", "factors.arch.odd.optim.lrr"}
    wide = found["factors.arch.wide.widht"]
    assert "2 cells, first mine task=copy arch=wide" in wide.where
    assert (wide.line, wide.file) == (8, str(tmp_path / "study.yaml"))
    assert "arch" in wide.choices
    assert found["factors.arch.odd.optim.lrr"].suggestion == "lr"


def test_5_06_resources_of_a_cell_are_honoured(tmp_path: Path) -> None:
    text = (
        "factors: {size: {small: {arch: '1B'}, large: {arch: '3B'}}}\nresources: {cpus: 2, gpus: 1}\npack: {max: 8}\n"
        "cells: [{when: {size: large}, resources: {gpus: 8, nodes: 2}, execution: {threads: 4}}]\n"
    )
    design = expand(load_sweep(study(tmp_path, text)))
    small, large = design.packs
    assert (small.resources, small.execution) == ({"cpus": 2, "gpus": 1}, {})
    assert (large.resources, large.execution) == ({"cpus": 2, "gpus": 8, "nodes": 2}, {"threads": 4})
    with pytest.raises(SweepError, match=r"config\.resources .*unknown key"):
        expand(load_sweep(study(tmp_path, "config: {resources: {gpus: 8}}\n")))


def test_5_07_a_boolean_arrives_as_a_boolean(tmp_path: Path) -> None:
    design = expand(load_sweep(study(tmp_path, "config: {packing: false}\n")))
    plan = read_plan(plan_bytes(design).splitlines())
    assert plan.cells[0]["config"] == {"packing": False}
    assert runners.validate_config("mine", plan.cells[0]["config"]).packing is False  # type: ignore[attr-defined]


def test_5_08_lists_nested_keys_and_odd_text_arrive_as_they_were_written(tmp_path: Path) -> None:
    text = (
        "config:\n  layers: [2, 2]\n  optim: {betas: [0.9, 0.95]}\n"
        "  anything: {none: null, empty: [], quote: 'a\"b''c', backslash: 'a\\b', literal: '\\${x}'}\n"
    )
    config = expand(load_sweep(study(tmp_path, text))).cells[0].config
    assert config == {
        "layers": [2, 2],
        "optim": {"betas": [0.9, 0.95]},
        "anything": {"none": None, "empty": [], "quote": "a\"b'c", "backslash": "a\\b", "literal": "${x}"},
    }


@pytest.mark.parametrize("value", [None, "null", "None", True, "true", False, "", "~", "no"])
def test_5_09_null_and_booleans_and_the_words_for_them_are_different(tmp_path: Path, value: Any) -> None:
    path = study(tmp_path, f"values: {{x: {spell(value)}}}\n")
    for again in (read(path), read(path, f"values.x={spell(value)}")):
        assert (again, type(again)) == (value, type(value))


def test_5_09_null_and_the_words_for_it_are_different_runs(tmp_path: Path) -> None:
    path = study(tmp_path, 'factors: {anything: [null, "null", "None", true, "true"]}\n')
    design = expand(load_sweep(path))
    assert len(design.runs) == 5
    assert [cell.labels["anything"] for cell in design.cells] == [None, "null", "None", True, "true"]


def test_5_11_odd_characters_in_paths_and_levels_never_reach_an_id(tmp_path: Path) -> None:
    folder = tmp_path / "a b%c'd (é)"
    path = study(folder, "factors: {text: ['a b%c''d (é)', 'x&y']}\nseeds: 2\n")
    design = expand(load_sweep(path))
    assert design.source["file"] == str(path)
    names = [run.id for run in design.runs] + [pack.id for pack in design.packs]
    assert all(re.fullmatch(r"[rp][0-9a-f]{15}", name) for name in names)
    plan = read_plan(plan_bytes(design).splitlines())
    assert {plan.labels(run)["text"] for run in plan.runs} == {"a b%c'd (é)", "x&y"}


def test_5_12_a_slash_in_a_level_stays_a_label(tmp_path: Path) -> None:
    design = expand(load_sweep(study(tmp_path, "factors: {task: {math/gsm8k: {text: math/gsm8k}}}\n")))
    assert design.cells[0].labels == {"task": "math/gsm8k"}
    assert "/" not in design.runs[0].id + design.packs[0].id
    with pytest.raises(SweepError, match="name"):
        load_sweep(study(tmp_path, "name: math/gsm8k\n"))


def test_5_13_sixty_parameters_with_long_values_make_no_long_name(tmp_path: Path) -> None:
    factors = "".join(f"  p{k}: {{x: {{anything: {{a{k}: {'v' * 200}}}}}}}\n" for k in range(60))
    design = expand(load_sweep(study(tmp_path, "factors:\n" + factors)))
    assert len(design.cells[0].labels) == 60
    assert len(design.cells[0].config["anything"]) == 60
    assert max(len(name) for name in (design.runs[0].id, design.packs[0].id)) == 16
    with pytest.raises(SweepError, match="name"):
        load_sweep(study(tmp_path, f"name: {'n' * 61}\n"))


def test_7_14_ten_thousand_cells_are_expanded_in_seconds_and_in_linear_time(tmp_path: Path) -> None:
    def seconds(levels: int) -> float:
        values = ", ".join(str(n) for n in range(levels))
        path = study(tmp_path, f"factors: {{anything: [{values}], packing: [true, false], arch: [a, b, c, d, e]}}\n")
        begin = time.process_time()
        design = expand(load_sweep(path))
        spent = time.process_time() - begin
        assert len(design.cells) == len(design.runs) == 10 * levels
        return spent

    few = min(seconds(100) for _ in range(3))
    many = seconds(1_000)
    assert many < 5.0
    assert many / few < 25, "ten times the cells; a quadratic expansion takes a hundred times as long"
