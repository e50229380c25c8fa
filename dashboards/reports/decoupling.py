"""Decoupling: where downstream results fall by more than the loss says, and where loss alone would have misled."""

from __future__ import annotations

from typing import Any

from dashboards.charts.plane import Dot, plane_figure
from dashboards.evidence import Evidence, Loss
from dashboards.loss_plane import Placed, Plane, loss_plane, task_planes
from dashboards.reports.decoupling_tasks import FAR, tasks_content, tasks_section
from dashboards.sheet import Entry, Picture, Section, Sheet, Table
from dashboards.words import counted, listed, p_words, plain, short
from sweeps.analysis import student
from sweeps.analysis.decoupling import LOSS_MASK

FIELDS: dict[str, type] = {
    "arm": str, "class": str, "loss_percent": float, "loss_error": float, "early_loss_percent": float,
    "compute_lost": float, "difference": float, "chance_corrected": float, "t": float, "n": int, "verdict": str,
    "predicted": float, "index": float, "masked": bool, "masked_by_t": bool, "warning": str,
}  # fmt: skip


def decoupling_sheet(evidence: Evidence, scale: str | None = None) -> Sheet:
    """The page of loss against downstream, at one scale (the first, where none is named).

    Raises:
        AnalysisError: no losses, or a metric that cannot be judged.
    """
    scale = scale if scale is not None else evidence.settings.get("scale", evidence.scales[0])
    plane, by_task = loss_plane(evidence, scale), task_planes(evidence, scale)
    where = f" at {scale}" if scale else ""
    far, masked = _far(plane), _masked(plane)
    banners = [("Exploratory.", f"{text}.") for text in evidence.exploratory]
    banners += [("Judged by loss alone.", f"{p.warning}.") for p in plane.placed if p.warning]
    return Sheet(
        kind="decoupling",
        name=evidence.name,
        title=f"does the loss tell what happens downstream{where}?",
        kicker=evidence.kicker,
        facts=(
            (str(len(plane.placed)), "arms with a loss"),
            (str(len(far)), "fall further than their loss says"),
            (str(len(masked)), "would have passed by loss"),
        ),
        quotes=(_far_words(evidence, plane), _masked_words(evidence, plane), _limit_words(evidence, plane)),
        banners=tuple(banners),
        notes=(*evidence.remarks, *evidence.beside(scale)),
        sections=tuple(
            s
            for s in (_plane(evidence, plane), _table(evidence, plane), tasks_section(by_task), _classes(plane))
            if s is not None
        ),
        fields=FIELDS,
        records=[_record(p, plane.beta) for p in plane.placed],
        content={
            "metric": evidence.metric,
            "baseline": evidence.options.baseline,
            "scale": scale,
            "slope": plane.beta,
            "slope_from": list(plane.fitted),
            "no_slope": plane.no_slope,
            "critical_t": plane.critical,
            "loss_error": plane.sigma_loss,
            "kendall": {kind: {"tau": t, "p": p, "arms": n} for kind, (t, p, n) in plane.kendall.items()},
            "by_task": tasks_content(by_task),
            "parity_checked": evidence.conduct.parity,
        },
        blanks=sum(p.verdict is None or p.verdict.difference is None for p in plane.placed),
    )


def _far(plane: Plane) -> list[str]:
    return [p.arm for p in plane.indexed if p.found is not None and p.found.index < FAR]


def _masked(plane: Plane) -> list[str]:
    return [p.arm for p in plane.placed if p.masked]


def _far_words(evidence: Evidence, plane: Plane) -> str:
    if plane.beta is None:
        return f"No slope of {evidence.metric} on loss can be given: {plane.no_slope}."
    indexed, far = plane.indexed, _far(plane)
    several, fall = len(plane.fitted) > 1, "falls" if len(far) == 1 else "fall"
    one = "arms that leave" if several else "arm that leaves"
    return (
        f"{len(far)} of {counted(len(indexed), 'arm')} {fall} further in {evidence.metric} than their loss predicts "
        f"({listed(far)}; index below −2, not corrected for their number), by a slope of {short(plane.beta)} a percent "
        f"from {len(plane.fitted)} {one} the attention output alone{'' if several else ', a slope without an error'}."
    )


def _masked_words(evidence: Evidence, plane: Plane) -> str:
    masked, by_t = _masked(plane), [p.arm for p in plane.placed if p.masked_by_t and not p.masked]
    too = f"; by its own t alone, which decides nothing, {listed(by_t)} falls too" if len(by_t) == 1 else ""
    too = f"; by their own t alone, which decides nothing, {listed(by_t)} fall too" if len(by_t) > 1 else too
    if not masked:
        return f"No arm within {LOSS_MASK:g} % of the baseline's loss is shown to fall in {evidence.metric}{too}."
    are = "lies" if len(masked) == 1 else "lie"
    return (
        f"Loss alone would have passed {listed(masked)}: {'it' if len(masked) == 1 else 'they'} {are} within "
        f"{LOSS_MASK:g} % of the baseline's loss, and {evidence.metric} is decided as worse{too}."
    )


def _limit_words(evidence: Evidence, plane: Plane) -> str:
    worst = max(plane.placed, key=lambda p: p.compute if p.compute < 1 else -1.0)
    percent = short(worst.loss.percent)
    text = (
        f"A relative loss hides size: {worst.arm}'s {percent} % is about what {worst.compute:.0%} less compute costs "
        "(if loss goes as compute to the −0.05)"
    )
    if evidence.conduct.parity:
        return f"{text}; the evaluation's loss was checked against the trainer's."
    return (
        f"{text}; that the evaluation path agrees with the trainer was not checked, and a mismatch would look the same."
    )


def _plane(evidence: Evidence, plane: Plane) -> Section:
    dots = [
        Dot(p.arm, p.kind, p.loss.percent, _half(p.loss), p.verdict.difference, _interval(p.verdict))
        for p in plane.placed
        if p.verdict is not None and p.verdict.difference is not None
    ]
    if not dots:
        return Section("Loss and downstream", words=("No arm has both a loss and a downstream value.",))
    key = "shaded: a loss within 3 % and a metric that falls"
    key += " · dashed: what the loss predicts" if plane.beta is not None else ""
    key += " · dotted: chance" if plane.floor is not None else ""
    return Section(
        "Loss and downstream",
        f"{evidence.metric} against {evidence.options.baseline}",
        parts=(
            Picture(
                "plane",
                lambda: plane_figure(dots, plane.beta, plane.floor, evidence.metric),
                "Each arm's relative loss and downstream difference",
                key,
                narrow=True,
            ),
        ),
    )


def _half(loss: Loss) -> float | None:
    return None if loss.error is None else 2 * loss.error


def _interval(verdict: Any) -> float | None:
    if verdict.standard_error is None or verdict.df is None:
        return None
    return verdict.standard_error * student.critical(0.025, verdict.df)


def _table(evidence: Evidence, plane: Plane) -> Section:
    early = any(p.early is not None for p in plane.placed)
    corrected = any(p.corrected is not None for p in plane.placed)
    head = [
        "arm",
        "class",
        "loss, %",
        *([f"below {evidence.early_positions}, %"] if early else []),
        "as compute",
        evidence.metric,
    ]
    head += ["above chance"] if corrected else []
    head += ["predicted", "index", ""]
    rows = []
    for p in plane.placed:
        v = p.verdict
        difference = Entry("none", "" if v is None else v.reason or v.verdict, kind="empty")
        if v is not None and v.difference is not None:
            difference = Entry(short(v.difference), v.verdict, kind="decided" if v.decided else "undecided")
        error = "" if p.loss.error is None else f"± {plain(p.loss.error, 2)}"
        row: list[Entry | str] = [p.arm, Entry(p.kind, kind="muted"), Entry(short(p.loss.percent), error)]
        row += [Entry("not given", kind="empty") if p.early is None else short(p.early.percent)] if early else []
        row += [f"{short(-100 * p.compute, 2)} %", difference]
        if corrected:
            row.append(Entry("none", kind="empty") if p.corrected is None else short(p.corrected))
        rows.append((*row, *_index_entries(p, plane.beta, plane.fitted == (p.arm,))))
    notes = ["as compute: change of compute that such a loss stands for, if loss goes as compute to the power −0.05."]
    if plane.beta is not None:
        notes.append(
            f"predicted: slope {short(plane.beta)} a percent, the median of metric / loss over {listed(plane.fitted)}; "
            "index: what is left, over its standard error (seeds of both sides"
            + (", and of the loss)." if plane.sigma_loss else "; the loss is taken as exact).")
        )
    if corrected:
        notes.append("above chance: (A − chance) / (1 − chance), arm less baseline.")
    if not early:
        notes.append(f"No loss below position {evidence.early_positions} was given; short prompts depend on that one.")
    if plane.without_loss:
        notes.append(f"Without a loss: {listed(plane.without_loss, 12)}.")
    caption = f"{evidence.name}: loss and {evidence.metric} against {evidence.options.baseline}"
    align = "ll" + "r" * (len(head) - 3) + "l"
    return Section("Arm by arm", "most decoupled first",
                   parts=(Table(tuple(head), tuple(rows), align, caption, name="decoupling"),),
                   notes=tuple(notes))  # fmt: skip


def _index_entries(p: Placed, beta: float | None, alone: bool) -> tuple[Entry | str, ...]:
    if p.found is None or beta is None:
        return Entry("none", kind="empty"), Entry("none", kind="empty"), Entry(p.warning or "not indexed", kind="empty")
    number, kind = p.found.index, "bad" if p.found.index < FAR else ""
    word = "follows its loss"
    if p.masked:
        word = "would have passed by loss"
    elif alone:
        word = "sets the slope"
    elif number < FAR:
        word = "falls further than its loss"
    elif number > -FAR:
        word = "better than its loss"
    index = f"{number:+.1f}".replace("-", "−")
    return short(beta * p.loss.percent), Entry(index, kind=kind), Entry(word, kind=kind)


def _classes(plane: Plane) -> Section | None:
    if not plane.kendall:
        return None
    rows = tuple((kind, str(n), short(tau, 2), p_words(p)) for kind, (tau, p, n) in plane.kendall.items())
    return Section(
        "Order by class",
        words=("Kendall's tau of lower loss with better metric, in classes of three or more arms.",),
        parts=(Table(("class", "arms", "tau", "p"), rows, "lrrr", "Loss and metric by class", name="classes"),),
    )


def _record(p: Placed, beta: float | None) -> dict[str, Any]:
    v = p.verdict
    return {
        "arm": p.arm, "class": p.kind, "loss_percent": p.loss.percent, "loss_error": p.loss.error,
        "early_loss_percent": p.early.percent if p.early else None, "compute_lost": p.compute,
        "difference": v.difference if v else None, "chance_corrected": p.corrected,
        "t": v.statistic if v else None, "n": v.n if v else 0, "verdict": v.verdict if v else "not run",
        "predicted": None if beta is None else beta * p.loss.percent,
        "index": p.found.index if p.found else None, "masked": p.masked, "masked_by_t": p.masked_by_t,
        "warning": p.warning,
    }  # fmt: skip
