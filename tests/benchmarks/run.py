"""`make bench`: every benchmark file's rows in one table. Ratios against floors measured in the same run.

Never a pass or fail by time: the column *target* says what is aimed at, a person reads the rest.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent


def rows_of(path: Path) -> list[dict[str, object]]:
    """Run one ``bench_*.py``: its ``main()`` returns rows of id, what, ratio, target, seconds."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module.main()


def main() -> None:
    """Arguments: names of files to run (``pack``, ``plan``, ...); none for all. ``--json`` prints rows as JSON."""
    wanted = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    rows: list[dict[str, object]] = []
    for path in sorted(HERE.glob("bench_*.py")):
        if wanted and path.stem.removeprefix("bench_") not in wanted:
            continue
        print(f"{path.stem} ...", file=sys.stderr, flush=True)
        begin = time.perf_counter()
        rows += rows_of(path)
        print(f"{path.stem}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    if "--json" in sys.argv:
        print(json.dumps(rows, indent=1))
        return
    table = Table(title=f"Benchmarks on {platform.machine()}, Python {platform.python_version()}")
    for name in ("id", "what", "ratio", "target", "seconds"):
        table.add_column(name, justify="right" if name in ("ratio", "seconds") else "left")
    for row in rows:
        cells = [row.get(name, "") for name in ("id", "what", "ratio", "target", "seconds")]
        table.add_row(*(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells))
    Console(width=max(100, Console().width)).print(table)


if __name__ == "__main__":
    main()
