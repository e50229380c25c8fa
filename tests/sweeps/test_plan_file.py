"""plan.jsonl: written from a design, read back, recognised when nothing changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeps.design import Design
from sweeps.errors import SweepError
from sweeps.expand import expand
from sweeps.load import load_sweep
from sweeps.plan_file import digest_of, plan_bytes, read_plan

TEXT = """
factors: {task: {a: {note: a}, b: {note: b}}}
stages:
  make: {runner: toy, seeds: {name: make_seed, values: 2}, config: {products: [p]}}
  use: {runner: toy, config: {consumes: [i]}, needs: {i: {stage: make, product: p}}, pack: {max: 9}}
exclude: [{when: {stage: use, task: b, make_seed: 2}, reason: it is late}]
notices: {news: be careful}
resources: {cpus: 2}
"""


def plan_lines(design: Design) -> list[bytes]:
    return plan_bytes(design).splitlines(keepends=True)


@pytest.fixture
def design(tmp_path: Path) -> Design:
    path = tmp_path / "study.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return expand(load_sweep(path))


def test_every_line_is_a_record_told_apart_by_its_first_key(design: Design) -> None:
    records = [json.loads(line) for line in plan_lines(design)]
    kinds = [next(iter(record)) for record in records]
    assert kinds == ["plan", *["cell"] * 4, *["run"] * 7, *["pack"] * 5, "skipped", "notice"]
    assert set(records[0]) == {"plan", "sweep", "digest", "source", "settings", "analysis", "stages"}


def test_a_plan_reads_back_as_it_was_designed(design: Design) -> None:
    plan = read_plan(plan_lines(design))
    assert list(plan.runs) == [run.id for run in design.runs]
    for run in design.runs:
        assert plan.spec(run.id).id == run.id
        assert plan.spec(run.id).inputs == run.spec.inputs
        assert plan.labels(run.id) == design.labels(run)
    assert tuple(plan.packs.values()) == design.packs
    assert set(plan.pack_of) == set(plan.runs)
    assert plan.skipped == design.skipped
    assert plan.notices == design.notices == ("be careful",)
    consumer = design.packs[-1]
    assert plan.needs(consumer.id) == {ref.run for run in design.runs for ref in run.spec.inputs.values()}
    assert plan.needs(design.packs[0].id) == set()


def test_the_digest_changes_with_the_plan_and_only_then(design: Design, tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    first = plan_lines(design)[0]
    again = plan_lines(expand(load_sweep(path)))[0]
    assert digest_of(first) == digest_of(again) == json.loads(first)["digest"]
    seen = {digest_of(first)}
    for override in ("tags.a=b", "execution.threads=3", "stages.make.seeds.values=3", "analysis.alpha=0.01"):
        seen.add(digest_of(plan_lines(expand(load_sweep(path, [override])))[0]))
    assert len(seen) == 5
    assert digest_of(b"garbage") is None
    assert digest_of(b"[]\n") is None


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "line 1"),
        ([b'{"plan": 99}'], "version 1"),
        ([b'{"plan": 1}', b"{oops"], "line 2"),
        ([b'{"plan": 1}', b"[]"], "line 2"),
        ([b'{"plan": 1}', b'{"dance": 1}'], "'dance'"),
    ],
)
def test_what_is_no_plan_is_refused(lines: list[bytes], says: str) -> None:
    with pytest.raises(SweepError, match=says):
        read_plan(lines)
