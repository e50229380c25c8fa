"""A report as plain data: sections of words, tables and pictures, three sentences to quote, and flat records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One cell of a table.

    Attributes:
        text: what is printed; never empty (say why there is nothing).
        below: a second, smaller line.
        style: CSS of the cell, such as a background.
        kind: CSS classes: "decided", "undecided", "empty", "good", "bad", "muted".
        title: what a pointer over the cell is told.
    """

    text: str
    below: str = ""
    style: str = ""
    kind: str = ""
    title: str = ""


@dataclass(frozen=True)
class Table:
    """A small table.

    Attributes:
        head: one word or two a column.
        rows: one entry a column; bare text is an entry without ornaments.
        align: one letter a column, "l", "r" or "c".
        caption: for LaTeX, and above the table on the page.
        look: "plain", or "matrix" for coloured cells with a row head.
        name: file name of its LaTeX; empty: none is written.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[Entry | str, ...], ...]
    align: str
    caption: str = ""
    look: str = "plain"
    name: str = ""

    @property
    def cells(self) -> list[list[Entry]]:
        return [[e if isinstance(e, Entry) else Entry(e) for e in row] for row in self.rows]


@dataclass(frozen=True)
class Picture:
    """A figure of a page: how to draw it (called once), its file name, and words for who cannot see it."""

    name: str
    draw: Callable[[], Any]
    alt: str
    key: str = ""
    narrow: bool = False


@dataclass(frozen=True)
class Section:
    """A titled part of a page."""

    title: str
    small: str = ""
    words: tuple[str, ...] = ()
    parts: tuple[Table | Picture, ...] = ()
    notes: tuple[str, ...] = ()
    folded: bool = False


@dataclass(frozen=True)
class Sheet:
    """A whole report.

    Attributes:
        kind: matrix, means, audit, scale, decoupling or factorial.
        name: the sweep's or the table's.
        title: heading.
        kicker: line above it: where the numbers come from.
        facts: number and word, below the heading.
        quotes: three sentences a reader can quote; they claim no more than the tests allow.
        banners: what a reader must know first ("Exploratory. ...").
        notes: further remarks below the heading.
        sections: the page.
        fields: column -> Python type of the records.
        records: what CSV and Parquet hold; every record has every column, None where there is no value.
        content: what JSON holds beside the above.
        blanks: records that lack a number (``report --strict`` counts them).
    """

    kind: str
    name: str
    title: str
    quotes: tuple[str, ...]
    sections: tuple[Section, ...]
    fields: Mapping[str, type]
    records: Sequence[Mapping[str, Any]]
    kicker: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    banners: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    content: Mapping[str, Any] = field(default_factory=dict)
    blanks: int = 0
