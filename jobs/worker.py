"""``python -P -m jobs.worker <attempt dir>``: carry out one attempt. Exit codes: ``jobs.facts.ExitCode``.

Only the signal handlers are imported before they are installed; all else comes after.
"""

from __future__ import annotations

import faulthandler
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
    from jobs.attempt import carry_out

    return carry_out(Path(argv[0]))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
