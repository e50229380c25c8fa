"""What a comparison over items says of other items than these."""

from collections.abc import Sequence
from dataclasses import replace

from sweeps.analysis.comparison import Comparison
from sweeps.analysis.items import item_error
from sweeps.analysis.resampling import two_components
from sweeps.analysis.results import Result


def with_item_errors(found: Comparison, results: Sequence[Result]) -> Comparison:
    """Remark on each verdict the error of having drawn just these items; nothing changes without items.

    Args:
        found: the comparison of the runs' means.
        results: the same runs item by item.
    """
    if all(r.item is None for r in results):
        return found
    verdicts = []
    for v in found.verdicts:
        error = None if v.difference is None else item_error(results, v.arm, found.options.baseline, v.task, v.scale)
        if error is not None:
            remark = f"of these items: drawing others has a standard error of {error:.3g} beside the seeds'"
            if v.difference is not None and v.standard_error is not None and v.df is not None:
                low, high = two_components(v.difference, v.standard_error**2, v.df, error**2, found.level)
                remark += f", [{low:+.4g}, {high:+.4g}] with both"
            v = replace(v, notes=(*v.notes, remark))
        verdicts.append(v)
    return replace(found, verdicts=tuple(verdicts))
