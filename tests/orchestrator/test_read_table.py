"""Anybody's table: which column is what, and mistakes named by their place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orchestrator.gather.read_table import Row, find_columns, read_rows, to_results
from sweeps.analysis.errors import AnalysisError

CSV = "# made up\nmethod,seed,score,size\nbase,0,0.5,1b\n\nbase,1,,1b\nnew,0,nan,1b\nnew,1,0.7,1b\n"


@pytest.fixture
def written(tmp_path: Path):
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def results(path: Path, **chosen):
    rows = read_rows(path)
    return to_results(rows, find_columns(rows, str(path), **chosen))


def test_a_csv_explains_itself(written) -> None:
    found = results(written("r.csv", CSV))
    assert [(r.arm, r.seed, r.value, r.scale) for r in found] == [
        ("base", 0, 0.5, "1b"),
        ("base", 1, None, "1b"),
        ("new", 0, None, "1b"),
        ("new", 1, 0.7, "1b"),
    ]
    assert [r.reason for r in found] == [None, "no score in the table", "non-finite score (nan)", None]
    assert {r.task for r in found} == {"score"}


def test_jsonl_tsv_and_parquet_say_the_same(written, tmp_path: Path) -> None:
    lines = '{"arm": "a", "seed": 3, "x": 0.25}\n\n{"arm": "b", "seed": 3, "x": null}\n'
    pq.write_table(pa.table({"arm": ["a", "b"], "seed": [3, 3], "x": [0.25, None]}), tmp_path / "r.parquet")
    tables = [
        results(written("r.jsonl", lines)),
        results(written("r.tsv", "arm\tseed\tx\na\t3\t0.25\nb\t3\tNA\n")),
        results(tmp_path / "r.parquet"),
    ]
    assert tables[0] == tables[1] == tables[2]
    assert [(r.seed, r.value) for r in tables[0]] == [(3, 0.25), (3, None)]


def test_labels_of_seeds_and_searches_are_numbered(written) -> None:
    text = "arm,seed,search,x\na,first,9,1\na,second,9,2\na,first,12,3\n"
    assert [(r.seed, r.search) for r in results(written("r.csv", text))] == [(0, 9), (1, 9), (0, 12)]


def test_rows_without_seeds_are_numbered_on_demand(written) -> None:
    path = written("r.csv", "arm,x\na,1\na,2\nb,3\n")
    with pytest.raises(AnalysisError, match=r"which column holds the seed.*--seed-column none"):
        results(path)
    assert [(r.arm, r.seed) for r in results(path, seed="none")] == [("a", 0), ("a", 1), ("b", 0)]


def test_reasons_and_divergences(written) -> None:
    text = "arm,seed,x,status,diverged\na,0,1,finished,false\na,1,,running,\na,2,,diverged (step 9),\nb,0,,nan,true\n"
    found = results(written("r.csv", text), metric="x")
    assert [(r.reason, r.diverged) for r in found] == [
        (None, False),
        ("running", False),
        ("diverged (step 9)", True),
        ("nan", True),
    ]


def test_an_arm_has_one_config(written) -> None:
    with pytest.raises(AnalysisError, match="arm 'a' mixes the configs 'c1' and 'c2'"):
        results(written("r.csv", "arm,seed,x,config\na,0,1,c1\na,1,1,c2\n"), metric="x")
    with pytest.raises(AnalysisError, match="config 'c1' stands under the arms 'a' and 'b'"):
        results(written("r.csv", "arm,seed,x,config\na,0,1,c1\nb,1,1,c1\n"), metric="x")


@pytest.mark.parametrize(
    ("name", "text", "chosen", "message"),
    [
        ("r.csv", "arm,seed,x\na,0,one\n", {"metric": "x"}, r"r\.csv line 2: x is 'one', which is no number"),
        ("r.csv", "arm,seed,x\na,0\n", {}, r"line 2: 2 cells under a header of 3"),
        ("r.csv", "arm,arm,x\na,0,1\n", {}, "names 'arm' twice"),
        ("r.csv", "arm,seed,x\n", {}, "no rows"),
        ("r.csv", "arm,seed,x\n,0,1\n", {}, r"line 2: no arm \(column 'arm' is empty\)"),
        ("r.csv", "arm,seed,x,y\na,0,1,2\n", {}, "which column is the metric.*one of x, y"),
        ("r.csv", "arm,seed,x\na,0,1\n", {"arm": "who"}, "no column 'who' for the arm; its columns are arm, seed, x"),
        ("r.csv", "who,seed,x\na,0,1\n", {}, "which column holds the arm.*--arm-column one of who, seed, x"),
        ("r.csv", "arm,seed,x,diverged\na,0,1,maybe\n", {"metric": "x"}, "diverged is 'maybe'; write true or false"),
        ("r.jsonl", '{"arm": "a"}\n{"arm": NaN}\n', {}, "line 2: no JSON"),
        ("r.jsonl", "[1]\n", {}, "line 1: each line must be an object"),
        ("r.parquet", "no parquet", {}, "no Parquet file"),
        ("r.xlsx", "x", {}, r"cannot read \.xlsx; give \.csv, \.tsv, \.parquet"),
    ],
)
def test_mistakes_name_place_value_and_fix(written, name, text, chosen, message) -> None:
    with pytest.raises(AnalysisError, match=message):
        results(written(name, text), **chosen)


def test_a_table_in_another_encoding_names_the_line_and_the_fix(tmp_path: Path) -> None:
    """What a spreadsheet of another age writes."""
    path = tmp_path / "results.csv"
    path.write_bytes("\ufeffarm,seed,score\nbase,1,0.5\n".encode() + "modèle,1,0.6\n".encode("latin-1"))
    with pytest.raises(AnalysisError, match=r"results.csv line 3: byte 0xe8 is not UTF-8; save the table as UTF-8"):
        read_rows(path)
    path.write_bytes(b"arm,seed,score\nbase,1," + b"5" * 200_000 + b"\n")
    with pytest.raises(AnalysisError, match=r"results.csv row 2: cannot be read as a table: field larger"):
        read_rows(path)


def test_an_absent_file(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="no such file"):
        read_rows(tmp_path / "absent.csv")


def test_a_table_of_flags_has_no_metric() -> None:
    rows = [Row("row 1", {"arm": "a", "seed": 0, "good": True})]
    with pytest.raises(AnalysisError, match="give --metric a numeric one of arm, seed, good"):
        find_columns(rows, "table")


def test_what_a_run_logged_before_its_end_is_no_value(written) -> None:
    text = "arm,seed,status,x\na,0,finished,0.5\na,1,running,0.9\na,2,FAILED: oom,0.8\na,3,completed,0.6\n"
    found = results(written("r.csv", text))
    assert [r.value for r in found] == [0.5, None, None, 0.6]
    assert [r.reason for r in found] == [
        None,
        "running, x so far not counted",
        "FAILED: oom, x so far not counted",
        None,
    ]


@pytest.mark.parametrize(
    ("name", "delimiter", "message"),
    [
        ("r.csv", ";", r"separated by ';', and a .csv is read with commas; save it with commas"),
        ("r.csv", "\t", r"separated by tabs, and a .csv is read with commas; name it .tsv"),
        ("r.csv", "|", r"separated by '\|'"),
        ("r.tsv", ",", r"separated by commas, and a .tsv is read with tabs; name it .csv"),
    ],
)
def test_another_delimiter_is_named(written, name: str, delimiter: str, message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        read_rows(written(name, "arm,seed,x\na,0,0.5\n".replace(",", delimiter)))
