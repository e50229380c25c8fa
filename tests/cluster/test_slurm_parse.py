"""What Slurm printed on a real cluster, read."""

from __future__ import annotations

import pytest

from cluster.backend import JobReport, JobState
from cluster.slurm.parse import account_rows, config_values, key_values, queue_rows, split_id
from cluster.slurm.verdict import NEVER_BEGAN, verdict_of


@pytest.mark.parametrize(
    ("text", "job", "tasks", "whole"),
    [
        ("12", "12", None, True),
        ("12_3", "12", [3], True),
        ("1228_[2-5%2]", "1228", [2, 3, 4, 5], True),
        ("3_[1-7:2]", "3", [1, 3, 5, 7], True),
        ("25_[5-6,9]", "25", [5, 6, 9], True),
        ("1_[2,6,9,17,", "1", [2, 6, 9, 17], False),
        ("1_[2,6-7,...]", "1", [2, 6, 7], False),
        ("2_[0,5,10%2]", "2", [0, 5, 10], True),
    ],
)
def test_ids(text: str, job: str, tasks: list[int] | None, whole: bool) -> None:
    assert split_id(text) == (job, tasks, whole)


def test_what_is_no_id_is_refused() -> None:
    with pytest.raises(ValueError):
        split_id("JOBID")


def test_queue_lines() -> None:
    text = (
        "5_0|RUNNING|None|node001|orc-b1|orchestrate:/a|b/b1\n"
        "5_[1-2%1]|PENDING|JobArrayTaskLimit||orc-b1|orchestrate:/a|b/b1\n"
        "9|PENDING|ReqNodeNotAvail, UnavailableNodes:node003||other|(null)\n"
        "slurm_load_jobs error: nonsense\n"
    )
    rows = list(queue_rows(text))
    assert [row.id for row in rows] == ["5_0", "5_1", "5_2", "9"]
    assert rows[0].comment == "orchestrate:/a|b/b1"
    assert rows[3].reason == "ReqNodeNotAvail, UnavailableNodes:node003"
    assert rows[3].comment == ""


def verdict(text: str) -> JobReport:
    return verdict_of(account_rows(text))


TAIL = "Unknown|Unknown|3|orc-b1|"


@pytest.mark.parametrize(
    ("text", "cause", "code", "signal", "says"),
    [
        (f"4_0|TIMEOUT|0:0|0:0|node001|{TAIL}\n4_0.batch|CANCELLED|0:9||node001|{TAIL}", "timeout", None, None, ""),
        (f"3_0|FAILED|0:9|0:0|node001|{TAIL}\n3_0.batch|CANCELLED|0:9||node001|{TAIL}", "signal", None, 9, ""),
        (f"2_0|FAILED|3:0|0:0|node001|{TAIL}\n2_0.batch|FAILED|3:0||node001|{TAIL}", "exit", 3, None, ""),
        (f"1_0|COMPLETED|0:0|0:0|node001|{TAIL}", "exit", 0, None, ""),
        (f"7_0|OUT_OF_MEMORY|0:125|0:0|node001|{TAIL}", "out_of_memory", None, None, ""),
        # Out of memory in a step: the job itself says something else, once even COMPLETED.
        (
            f"8_0|FAILED|1:0|0:125|node001|{TAIL}\n8_0.0|OUT_OF_MEMORY|0:125||node001|{TAIL}",
            "out_of_memory", None, None, "step 0 of the job ran out of memory",
        ),
        (
            f"8_0|COMPLETED|0:0|0:125|node001|{TAIL}\n8_0.0|OUT_OF_MEMORY|0:125||node001|{TAIL}",
            "out_of_memory", 0, None, "step 0 of the job ran out of memory",
        ),
        (f"9_0|NODE_FAIL|0:0|0:0|node002|{TAIL}\n9_0.batch|CANCELLED|||node002|{TAIL}", "node_failure", None, None, ""),
        ("5_0|CANCELLED by 0|0:0|0:0|node001|2026-11-30T04:35:17|x|3|n|", "cancelled", None, None, "root (uid 0)"),
        ("6_0|CANCELLED by 0|0:0|0:0|None assigned|None|2026-11-30T04:35:17|0|n|", "launch_failed", None, None,
         NEVER_BEGAN),
        (
            "66_0|CANCELLED by 0|0:0|0:0|node002|2026-11-30T04:35:17|x|0|n|\n"
            "66_0.batch|CANCELLED|||node002|x|x|0|batch|",
            "prolog_failed", None, None, "prolog",
        ),
        (f"17_0|FAILED|0:53|0:0|node001|{TAIL}", "launch_failed", None, None, "output file"),
        ("55_0|DEADLINE|1:0|0:0|None assigned|None|2026-11-30T04:51:17|0|n|", "deadline", None, None, ""),
        (f"11_0|PREEMPTED|0:0|0:0|node003|{TAIL}", "preempted", None, None, ""),
        (f"12_0|BOOT_FAIL|0:0|0:0|node003|{TAIL}", "boot_failure", None, None, ""),
    ],
)  # fmt: skip
def test_recorded_endings(text: str, cause: str, code: int | None, signal: int | None, says: str) -> None:
    report = verdict(text)
    assert report.state is JobState.ENDED
    assert (report.cause, report.exit_code, report.signal) == (cause, code, signal)
    assert says in report.reason


def test_a_requeued_job_has_a_row_a_run_and_the_last_counts() -> None:
    text = (
        f"10_0|NODE_FAIL|0:0|0:0|node002|{TAIL}\n10_0.batch|CANCELLED|||node002|{TAIL}\n"
        f"10_0|REQUEUED|0:0|0:0|node002|{TAIL}\n"
        f"10_0|COMPLETED|0:0|0:0|node003|{TAIL}\n10_0.batch|COMPLETED|0:0||node003|{TAIL}\n"
    )
    rows = account_rows(text)
    assert [row.word for row in rows] == ["NODE_FAIL", "REQUEUED", "COMPLETED"]
    assert rows[0].steps.keys() == rows[2].steps.keys() == {"batch"}
    report = verdict_of(rows)
    assert report.word == "COMPLETED"
    assert report.details["restarts"] == 2
    assert report.details["earlier"] == "NODE_FAIL REQUEUED"


def test_waiting_elements_are_one_accounting_row() -> None:
    rows = account_rows("1228_[2-4%2]|PENDING|0:0|0:0|None assigned|Unknown|Unknown|0|orc-b1|\n")
    assert [row.id for row in rows] == ["1228_2", "1228_3", "1228_4"]


def test_config_and_key_values() -> None:
    config = config_values("Configuration data as of now\nMaxArraySize            = 1001\nKillWait = 30 sec\n")
    assert config == {"MaxArraySize": "1001", "KillWait": "30 sec"}
    line = (
        "JobId=5 JobState=PENDING Reason=launch_failed_requeued_held ReqNodeList=(null) NodeList=node001 Comment=a b c "
    )
    found = key_values(line)
    assert found["NodeList"] == "node001"
    assert found["ReqNodeList"] == "(null)"
    assert found["Comment"] == "a b c"
