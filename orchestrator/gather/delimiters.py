"""A table whose cells are separated by something else than its ending says, named as that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sweeps.analysis.errors import AnalysisError

_NAMES = {";": "';'", "\t": "tabs", "|": "'|'", ",": "commas"}
_RENAMED = {"\t": "name it .tsv", ",": "name it .csv"}


def check_delimiter(path: Path, header: Sequence[str]) -> None:
    """Refuse a header of a single cell that holds another delimiter.

    Raises:
        AnalysisError: naming the delimiter found, the one that the ending stands for, and what to do.
    """
    other = next((d for d in _NAMES if len(header) == 1 and d in header[0]), None)
    if other is None:
        return
    ending = path.suffix.lower()
    mend = _RENAMED.get(other, "save it with commas (and decimal points), or with tabs as .tsv")
    raise AnalysisError(
        f"{path}: its header is separated by {_NAMES[other]}, and a {ending} is read with "
        f"{'tabs' if ending == '.tsv' else 'commas'}; {mend}"
    )
