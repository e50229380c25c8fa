"""Every complaint of users of neighbouring tools that we claim to be immune to has a test named after its number.

The numbers are those of the project's collection of complaints. A test's name begins with the numbers it answers for:
``test_1_02_and_1_03_a_busy_controller_...`` (or ``test_complaint_7_02_...``).
"""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"^\s*(?:async )?def test_(?:complaint_)?((?:\d_\d\d_(?:and_)?)+)", re.MULTILINE)


def numbers(section: int, last: int) -> set[str]:
    return {f"{section}.{number:02d}" for number in range(1, last + 1)}


CLAIMED = (
    numbers(1, 9)  # submitting
    | numbers(2, 14)  # knowing the state
    | numbers(3, 9)  # time limits, preemption, signals
    | numbers(4, 10)  # checkpoints and resume
    | numbers(5, 13)  # configuration and names
    | numbers(6, 11)  # environment, ports, devices
    | numbers(7, 15)  # tracking and dashboards
    | numbers(8, 8)  # pipelines, retries, reports
)


def found() -> dict[str, list[str]]:
    """Number -> files with a test that begins with it."""
    tests: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for match in NAMED.finditer(path.read_text()):
            for section, number in re.findall(r"(\d)_(\d\d)_", match[1]):
                tests.setdefault(f"{section}.{number}", []).append(str(path.relative_to(TESTS)))
    return tests


def test_every_claimed_complaint_has_a_test_with_its_number() -> None:
    assert sorted(CLAIMED - found().keys()) == []


def test_no_test_carries_a_number_that_is_not_claimed() -> None:
    """A number that nobody claims is a slip of the pen, or a claim that this list does not hold yet."""
    assert {number: files for number, files in found().items() if number not in CLAIMED} == {}
