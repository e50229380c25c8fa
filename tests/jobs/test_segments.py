"""Metric rows of several attempts as one curve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobs.durable import read_log
from jobs.facts import FailureClass, close_attempt
from jobs.segments import Segment, merge_segments
from jobs.state import read_pack


def rows(run: str, *steps: int, value: float = 0.0) -> list[dict[str, Any]]:
    return [{"run": run, "step": step, "loss": value + step} for step in steps]


def test_7_12_segments_with_overlap() -> None:
    """Three pieces; each later one wins from its first step on."""
    segments = [
        Segment(0, ["a"], rows("a", 1, 2, 3, 4, 5)),
        Segment(3, ["a"], rows("a", 4, 5, 6, 7, value=100)),
        Segment(6, ["a"], rows("a", 7, 8, value=200)),
    ]
    merged = merge_segments(segments)
    assert [(row["step"], row["loss"]) for row in merged] == [
        (1, 1), (2, 2), (3, 3), (4, 104), (5, 105), (6, 106), (7, 207), (8, 208),
    ]  # fmt: skip
    assert merge_segments(segments) == merged, "reading twice changes nothing"


def test_a_later_piece_that_got_less_far_still_wins() -> None:
    merged = merge_segments([Segment(0, ["a"], rows("a", 2, 4, 6)), Segment(2, ["a"], rows("a", 4, value=9))])
    assert [row["step"] for row in merged] == [2, 4]


def test_a_fresh_start_drops_what_was_before() -> None:
    merged = merge_segments([Segment(0, ["a"], rows("a", 0, 1, 2)), Segment(0, ["a"], rows("a", 1, value=5))])
    assert [(row["step"], row["loss"]) for row in merged] == [(1, 6)]


def test_a_member_that_had_finished_keeps_its_rows() -> None:
    """It finished at 5; the pack died and began again at 3 without it."""
    merged = merge_segments(
        [Segment(0, ["a", "b"], [*rows("a", 4, 5), *rows("b", 4, 5)]), Segment(3, ["b"], rows("b", 4, value=1))]
    )
    assert [(row["run"], row["step"]) for row in merged] == [("a", 4), ("a", 5), ("b", 4)]


def test_two_rows_of_one_step_are_one() -> None:
    twice = [{"run": "a", "step": 1, "train/loss": 1.0}, {"run": "a", "step": 1, "test/accuracy": 0.5}]
    assert merge_segments([Segment(0, ["a"], twice)]) == [
        {"run": "a", "step": 1, "train/loss": 1.0, "test/accuracy": 0.5}
    ]


def test_a_killed_and_resumed_pack_has_the_curve_of_an_undisturbed_one(make_pack: Callable[..., Any]) -> None:
    configs = [{"steps": 12}, {"steps": 8, "metric_every": 3}]

    def curve(pack: Any) -> list[dict[str, Any]]:
        segments = []
        for record in read_pack(pack.path):
            begun = [fact.step for fact in record.facts if fact.fact == "started"]
            if begun:
                active = set(record.members) - record.done
                segments.append(Segment(begun[0], active, read_log(pack.attempt(record.number).metrics)[0]))
        return merge_segments(segments)

    plain = make_pack(*configs, name="undisturbed")
    assert plain.run_here(plain.launch()) == 0
    pack = make_pack(*configs)
    for fault in ({"error_at": 8}, {"error_at": 10}):
        assert pack.run_here(pack.launch(checkpoint_steps=3, settings={"toy": fault})) == 1
    last = pack.launch()
    close_attempt(last, by="loop", outcome="lost", failure=FailureClass.LOST)
    assert pack.run_here(pack.launch(checkpoint_steps=3)) == 0
    assert curve(pack) == curve(plain)
