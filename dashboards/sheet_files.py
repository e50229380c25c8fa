"""A report's files: one self-contained page, its pictures, and the same numbers as CSV, Parquet, JSON and LaTeX."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined

from dashboards.charts.style import rendered
from dashboards.latex import latex
from dashboards.sheet import Picture, Sheet, Table
from jobs.durable import replace_file
from sweeps.tables import records_parquet

MISSING = "NA"
"""What a CSV holds where there is no number; the reason stands in its own column."""


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes:
        page: the page.
        files: every other file.
        content: what the JSON holds; ``without_number`` counts the cells that hold a reason and no number.
    """

    page: Path
    files: tuple[Path, ...]
    content: dict[str, Any]

    def file(self, name: str) -> Path:
        """A written file by its name; KeyError if there is none."""
        return {path.name: path for path in (self.page, *self.files)}[name]


def sheet_json(sheet: Sheet) -> dict[str, Any]:
    """What ``report --json`` prints: plain data, no NaN, no infinity."""
    return {
        "report": sheet.kind,
        "name": sheet.name,
        "title": sheet.title,
        "quotes": list(sheet.quotes),
        "warnings": [f"{word} {text}" for word, text in sheet.banners],
        "notes": list(sheet.notes),
        "without_number": sheet.blanks,
        **sheet.content,
        "records": [dict(record) for record in sheet.records],
    }


def write_sheet(sheet: Sheet, out: Path) -> Written:
    """Write all files of a report into a folder, each replaced whole; the same sheet gives the same bytes."""
    out.mkdir(parents=True, exist_ok=True)
    files: dict[str, bytes] = {}
    pictures: dict[str, str] = {}
    for picture in _parts(sheet, Picture):
        figure = picture.draw()
        files[f"{picture.name}.svg"] = svg = rendered(figure, "svg")
        files[f"{picture.name}.png"] = rendered(figure, "png", dpi=160)
        pictures[picture.name] = _address(svg)
    content = sheet_json(sheet)
    files[f"{sheet.kind}.csv"] = as_csv(sheet.records, list(sheet.fields))
    files[f"{sheet.kind}.parquet"] = records_parquet(sheet.records, sheet.fields)
    files[f"{sheet.kind}.json"] = orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n"
    for table in _parts(sheet, Table):
        if table.name:
            files[f"{table.name}.tex"] = latex(table, f"{sheet.name}-{table.name}").encode()
    page = templates().get_template("sheet.html").render(sheet=sheet, pictures=pictures, files=sorted(files))
    for name, data in files.items():
        replace_file(out / name, data)
    replace_file(out / "index.html", page.encode())
    return Written(out / "index.html", tuple(out / name for name in files), content)


def as_csv(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    """Records as CSV with ``NA`` where there is no value."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(columns)
    for record in records:
        writer.writerow([MISSING if record[name] is None else record[name] for name in columns])
    return sink.getvalue().encode()


def templates(**filters: Any) -> Environment:
    """The pages' templates."""
    environment = Environment(
        loader=PackageLoader("dashboards"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    environment.tests["picture"] = lambda part: isinstance(part, Picture)
    return environment


def _parts(sheet: Sheet, kind: type) -> list[Any]:
    return [part for section in sheet.sections for part in section.parts if isinstance(part, kind)]


def _address(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()
