"""The calibration simulation restates the rules exactly, and docs/statistics.md holds what it found."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "statistics.md"


@pytest.fixture(scope="module")
def simulation(helpers):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tests/benchmarks")  # a script's neighbours are on its path
        return helpers("benchmarks/sim_calibration.py")


def rows():
    """Name -> cells, of every row of the tables in docs."""
    text = DOCS.read_text().split("<!-- calibration -->")[1].split("<!-- /calibration -->")[0]
    found = {}
    for design, block in re.findall(r"\*\*(1v3|3v3|6v6)\*\*.*?\n\n(.*?)(?=\n\n|\Z)", text, re.DOTALL):
        for line in block.splitlines()[2:]:
            name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            found[design, name.strip()] = cells
    return found


def test_the_restatement_is_the_engine(simulation):
    assert simulation.agreement(tables=1) < 1e-9
    assert simulation.contrast_agreement(draws=1) < 1e-9


def test_no_default_exceeds_its_alpha():
    table = rows()
    defaults = [cells for (_, name), cells in table.items() if name.startswith("auto, dunnett")]
    assert len(defaults) == 3 + 2 + 2  # three designs, two paired, two with the searches told
    published = [cells for (_, name), cells in table.items() if name.startswith("published means")]
    assert len(published) == 3
    for cells in (*defaults, *published):
        assert not any("**" in cell for cell in cells[:6]), cells
    text = DOCS.read_text()
    for title, lines in (("**One arm**", 6), ("**Transfer matrix**", 6), ("**Contrasts below a matrix**", 16)):
        block = text.split(title)[1].strip().split("\n\n")[1].splitlines()[2:]
        assert len(block) == lines
        decides = {"**Transfer matrix**": (1,), "**One arm**": range(1, 7)}.get(title, (1, 2, 3))
        assert not any("**" in line.split("|")[1:][i] for line in block for i in decides), block


def test_the_audits_rule_fails_its_own_data():
    cells = rows()["1v3", "audit (z, baseline sd), bonferroni"]
    assert float(cells[0].strip("*")) == pytest.approx(0.463, abs=0.02)


def test_every_offered_rule_is_in_the_tables(simulation):
    table = rows()
    for sigma in ("auto", "pooled", "own", "baseline"):
        for correction in ("dunnett", "bonferroni", "sidak", "holm", "hommel", "bh", "by", "none"):
            assert ("6v6", f"{sigma}, {correction}") in table


def test_the_tables_are_what_the_simulation_gives(simulation):
    error, _ = simulation.error_and_power(
        np.random.default_rng(1), lambda a, b: simulation.contrasts("auto", a, b), "dunnett", "3v3",
        spread="equal", law="normal",
    )  # fmt: skip
    assert f"{error:.3f}" == rows()["3v3", "auto, dunnett"][0]
