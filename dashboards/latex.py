"""Tables as LaTeX text for the ``booktabs`` package; nothing here needs LaTeX."""

from __future__ import annotations

import re

from dashboards.sheet import Table

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "<": r"$<$",
    ">": r"$>$",
    "†": r"$\dagger$",
    "→": r"$\rightarrow$",
    "σ": r"$\sigma$",
    "ρ": r"$\rho$",
    "β": r"$\beta$",
    "²": r"$^2$",
    "√": r"$\surd$",
    "●": r"$\bullet$",
    "“": "``",
    "”": "''",
    "…": r"\ldots{}",
    "–": "--",
}


def escaped(text: str) -> str:
    """Text as LaTeX prints it."""
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def latex(table: Table, label: str) -> str:
    """A whole ``table`` environment: caption, label, ``tabular`` between top and bottom rules.

    Decided cells are bold, undecided ones grey; the first line below a cell's number goes into small type beside it.
    """
    rows = [" & ".join(_entry(e.text, e.below, e.kind) for e in row) + r" \\" for row in table.cells]
    head = " & ".join(rf"\textbf{{{escaped(word)}}}" if word else "" for word in table.head) + r" \\"
    lines = [
        "% needs \\usepackage{booktabs,xcolor}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(table.caption)}}}",
        rf"\label{{tab:{re.sub(r'[^a-z0-9]+', '-', label.lower()).strip('-')}}}",
        rf"\begin{{tabular}}{{{table.align}}}",
        r"\toprule",
        head,
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _entry(text: str, below: str, kind: str) -> str:
    made = escaped(text)
    if "undecided" in kind.split():
        made = rf"\textcolor{{gray}}{{{made}}}"
    elif "decided" in kind.split():
        made = rf"\textbf{{{made}}}"
    small = escaped(below.partition("\n")[0])
    return made + (rf" {{\scriptsize {small}}}" if small else "")
