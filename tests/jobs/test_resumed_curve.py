"""The curve of a pack that was killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobs.facts import FailureClass, close_attempt
from orchestrator.gather.curves import merged_points


def test_a_killed_and_resumed_pack_has_the_curve_of_an_undisturbed_one(make_pack: Callable[..., Any]) -> None:
    configs = [{"steps": 12}, {"steps": 8, "metric_every": 3}]

    def curve(pack: Any) -> list[tuple[Any, ...]]:
        logs = [(number, pack.attempt(number).metrics) for number in range(1, 5)]
        return [point[:-1] for point in merged_points(logs, pack.runs)]  # all but the attempt

    plain = make_pack(*configs, name="undisturbed")
    assert plain.run_here(plain.launch()) == 0
    pack = make_pack(*configs)
    for fault in ({"error_at": 8}, {"error_at": 10}):
        assert pack.run_here(pack.launch(checkpoint_steps=3, settings={"toy": fault})) == 1
    last = pack.launch()
    close_attempt(last, by="loop", outcome="lost", failure=FailureClass.LOST)
    assert pack.run_here(pack.launch(checkpoint_steps=3)) == 0
    assert curve(pack) == curve(plain)
