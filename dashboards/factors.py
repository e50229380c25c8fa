"""Factors of a table as 0/1 columns: as the table states them, or one for each level beside the first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dashboards.table_rows import TableRows, Value, words
from sweeps.analysis.errors import AnalysisError

NO_FACTOR = ("seed", "search_seed", "reason", "run", "diverged")
MOST_LEVELS = 6
"""A column with more levels than this is a measurement, unless the table names it as a factor."""
_CONDITION = re.compile(r"^\s*(?P<name>[^:]+):\s*(?P<column>[\w.]+)\s*(?P<sign><=|>=|!=|=|<|>)\s*(?P<level>.+?)\s*$")


@dataclass(frozen=True)
class Indicator:
    """A named condition on one column, such as ``GQA: kv_heads < 32``."""

    name: str
    column: str
    sign: str
    level: str

    def holds(self, row: Mapping[str, Value]) -> bool:
        value = row.get(self.column)
        if self.sign in ("=", "!="):
            same = words(value) == self.level
            return same if self.sign == "=" else not same
        if not isinstance(value, float):
            raise AnalysisError(f"{self.name}: {self.column} is {value!r}, no number to compare with {self.level}")
        limit = float(self.level)
        return {"<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit}[self.sign]


@dataclass(frozen=True)
class Design:
    """What is regressed on what.

    Attributes:
        outcome: the measured column.
        rows: those with an outcome.
        factors: columns that describe a run.
        harmful: stated harmful choices, whose count is a model of its own; empty where none were stated.
        terms: all indicators, the harmful ones first.
        interactions: pairs of term names.
        replicate: column in which replicates differ (a seed or an initialisation), or None.
        dropped: rows without an outcome.
        nested: column of searches that runs share, which least squares does not know of.
        published: words on the published R^2 of the count, empty where the table states none.
    """

    outcome: str
    rows: tuple[Mapping[str, Value], ...]
    factors: tuple[str, ...]
    harmful: tuple[Indicator, ...]
    terms: tuple[Indicator, ...]
    interactions: tuple[tuple[str, str], ...]
    replicate: str | None
    dropped: int
    published: str = ""
    nested: str | None = None


def design(table: TableRows, outcome: str | None = None) -> Design:
    """Read a table's design.

    Raises:
        AnalysisError: no outcome, no factor, or a condition that cannot be read.
    """
    said = table.settings
    name = outcome or said.get("metric")
    if name is None:
        raise AnalysisError(f"say which column of {table.file} is the outcome: --metric ({', '.join(table.columns)})")
    table.need(name, "outcome", "--metric")
    rows = tuple(row for row in table.rows if isinstance(row.get(name), float))
    replicate = said.get("replicate") or table.first(("seed",))
    factors = _factors(table, rows, name, replicate)
    harmful = _conditions(said.get("harmful", ""), table)
    stated = (*harmful, *_conditions(said.get("other", ""), table))
    terms = stated or tuple(_levels(factors, rows, _conditions(said.get("reference", ""), table)))
    if not terms:
        raise AnalysisError(f"{table.file} has no factor with two levels beside {name!r}")
    pairs = [part.split(" x ") for part in said.get("interactions", "").split(",") if part.strip()]
    interactions = tuple((pair[0].strip(), pair[1].strip()) for pair in pairs if len(pair) == 2)
    known = {t.name for t in terms}
    for pair in interactions:
        if not set(pair) <= known:
            raise AnalysisError(f"interaction {' x '.join(pair)}: the terms are {', '.join(sorted(known))}")
    stated_r = said.get("published_r_squared")
    published = f" (published: R² = {stated_r})" if stated_r else ""
    return Design(name, rows, factors, harmful, terms, interactions, replicate, len(table.rows) - len(rows), published,
                  said.get("nested"))  # fmt: skip


def _factors(
    table: TableRows, rows: Sequence[Mapping[str, Value]], outcome: str, replicate: str | None
) -> tuple[str, ...]:
    if named := table.settings.get("factors"):
        return tuple(table.need(part.strip(), "factors", "#: factors") for part in named.split(","))
    free = [c for c in table.columns if c not in (outcome, replicate, *NO_FACTOR)]
    levels = {c: [words(row.get(c)) for row in rows] for c in free}
    labels = [name.strip() for name in table.settings.get("labels", "").split(",")]
    varied = [c for c in free if len(set(levels[c])) > 1 and (c in labels or len(set(levels[c])) <= MOST_LEVELS)]
    return tuple(c for i, c in enumerate(varied) if not _told(c, i, varied, levels))


def _told(column: str, place: int, varied: Sequence[str], levels: Mapping[str, list[str]]) -> bool:
    """Whether another factor already tells this one's level (an arm its class): both cannot be terms."""
    for index, other in enumerate(varied):
        pairs = set(zip(levels[other], levels[column], strict=True))
        finer, same = len(pairs) == len(set(levels[other])), len(pairs) == len(set(levels[column]))
        if other != column and finer and (not same or index < place):
            return True
    return False


def _conditions(text: str, table: TableRows) -> tuple[Indicator, ...]:
    made = []
    for part in text.split(";"):
        if not part.strip():
            continue
        match = _CONDITION.match(part)
        if match is None:
            raise AnalysisError(f"{table.file}: {part.strip()!r} is no condition; write it as `GQA: kv_heads < 32`")
        table.need(match["column"], f"condition {match['name'].strip()!r}", "#: harmful")
        made.append(Indicator(match["name"].strip(), match["column"], match["sign"], match["level"]))
    return tuple(made)


def _levels(
    factors: Sequence[str], rows: Sequence[Mapping[str, Value]], reference: Sequence[Indicator]
) -> list[Indicator]:
    """One indicator for each level beside the stated one, or the most frequent (the first of equally frequent ones)."""
    stated, made = {r.column: r.level for r in reference}, []
    for factor in factors:
        counts = Counter(words(row.get(factor)) for row in rows)
        usual = stated.get(factor) or max(counts, key=lambda level: counts[level])
        made += [Indicator(f"{factor} = {level}", factor, "=", level) for level in counts if level != usual]
    return made
