"""``python -P -m jobs.worker <attempt dir>``: carry out one attempt. Exit codes: ``jobs.facts.ExitCode``.

Only the signal handlers are imported before they are installed; all else comes after. A pack may train for seconds
only, so what every process pays is kept small: torch makes some hundred thousand objects that stay, and Python's
collector looks neither while they are made nor at them afterwards, nor does Python take them apart at the end.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
from pathlib import Path

from jobs import signals


def main(argv: list[str]) -> int:
    """Returns the exit code."""
    signals.install()
    faulthandler.enable()
    if len(argv) != 1:
        print("usage: python -P -m jobs.worker ATTEMPT_DIR", file=sys.stderr)
        return 2
    gc.disable()
    from jobs.attempt import carry_out

    return carry_out(Path(argv[0]), imported=_imported)


def _imported() -> None:
    gc.freeze()
    gc.enable()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the attempt is closed and all is on disk
