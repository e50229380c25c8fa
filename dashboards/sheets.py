"""The kinds of report that are made from evidence, each imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

from dashboards.evidence import Evidence
from dashboards.sheet import Sheet

SHEETS = {
    "audit": "dashboards.reports.audit:audit_sheet",
    "scale": "dashboards.reports.scale:scale_sheet",
    "decoupling": "dashboards.reports.decoupling:decoupling_sheet",
}


def sheet_of(kind: str, evidence: Evidence) -> Sheet:
    """The sheet of one of the kinds in ``SHEETS``."""
    module, _, function = SHEETS[kind].partition(":")
    return getattr(import_module(module), function)(evidence)
