"""What a person looks for in a log."""

from __future__ import annotations

from orchestrator.telling import pattern_of, telling_lines

LOG = """\
orc-p0123456789abcd-a1: 2 of 2 runs, from step 0
step 1\rstep 2\rstep 3
Traceback (most recent call last):
  File "early.py", line 1, in first
    tried()
KeyError: 'an earlier one that was caught'
going on
Traceback (most recent call last):
  File "/scratch/ws/code/0123456789abcdef/jobs/attempt.py", line 90, in run
    load(runner)(session)
  File "/scratch/ws/code/0123456789abcdef/jobs/toy.py", line 70, in strike
    raise ValueError(
        "told"
    ^^^^^^
ValueError: the toy was told to fail
and why
"""


def test_the_last_traceback_by_its_last_frame_and_its_error() -> None:
    assert telling_lines(LOG) == [
        '  File "jobs/toy.py", line 70, in strike',
        "    raise ValueError(",
        "ValueError: the toy was told to fail",
        "and why",
    ]
    assert telling_lines(LOG, most=2) == telling_lines(LOG)[:2]


def test_without_a_traceback_the_last_lines_that_say_anything() -> None:
    assert telling_lines("orc-p1-a1: 2 of 2 runs, from step 0\n\n") == []
    assert telling_lines("a\nb\n\n  \nc 1 %\rc 100 %\r\nd\n") == ["b", "c 100 %", "d"]
    assert telling_lines("Traceback (most recent call last):\n") == []
    assert telling_lines('Traceback (most recent call last):\n  File "a.py", line 1, in f\n') == [
        '  File "a.py", line 1, in f'
    ], "cut by a kill"


def test_messages_that_differ_in_numbers_and_ids_are_one_kind() -> None:
    assert pattern_of("loss is nan at step 3") == pattern_of("loss is nan at step 1200")
    assert pattern_of("input rdeadbeef0123456 at 0x7f12 took 1.5e-3") == "input # at # took #"
    assert pattern_of("loss is nan") != pattern_of("gradient is nan")
