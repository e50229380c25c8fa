"""Random controls and published curves."""

import pytest
import torch
from torch.nn import functional

from models.config import RandomSplineActivation, SplineGrid
from models.curves import gelu_second_moment, initial_shape, random_values, second_moment
from models.errors import ModelError
from models.spline_file import read_spline_csv

GRID = SplineGrid()


def test_second_moments_against_known_values():
    identity = torch.linspace(-20, 20, 122, dtype=torch.float64)
    assert second_moment(identity, GRID) == pytest.approx(1.0, abs=1e-6)
    fine = SplineGrid(low=-10, high=10, knots=2001)
    assert second_moment(torch.linspace(-10, 10, 2001).relu(), fine) == pytest.approx(0.5, abs=1e-4)
    z = torch.randn(2_000_000, generator=torch.Generator().manual_seed(0))
    sampled = functional.gelu(z, approximate="tanh").square().mean().item()
    assert gelu_second_moment() == pytest.approx(sampled, rel=5e-3)


@pytest.mark.parametrize("target", [None, 2.5])
def test_random_curves_have_the_second_moment_asked_for(target):
    wanted = gelu_second_moment() if target is None else target
    for seed in range(5):
        values = random_values(RandomSplineActivation(seed=seed, second_moment=target))
        assert second_moment(values, GRID) == pytest.approx(wanted, rel=1e-6)


def test_random_curves_are_smooth_reproducible_and_different():
    first, again, other = (random_values(RandomSplineActivation(seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    bend = first[2:] - 2 * first[1:-1] + first[:-2]
    assert bend.std() < 0.1 * first.std()


def test_a_file_of_row_pairs_becomes_a_config(tmp_path):
    path = tmp_path / "curves.csv"
    path.write_text("-1.0,0.0,1.0\n2,0,4\n-2.0,-0.5,1.0\n1,2,3e-1\n")
    curve = read_spline_csv(path, 1)
    assert curve.grid == SplineGrid(low=-2.0, high=1.0, knots=3)
    assert curve.values == (1.0, 2.0, 0.3)
    assert initial_shape(curve).tolist() == [1.0, 2.0, 0.3]


@pytest.mark.parametrize(
    ("text", "curve", "message"),
    [
        ("0,1\n1,2\n", 1, "no curve 1; the file has 1"),
        ("0,1\n1,2\n", -1, "no curve -1"),
        ("0,1\n", 0, "pairs of rows"),
        ("", 0, "pairs of rows"),
        ("0,1,3\n1,2,3\n", 0, "not uniformly spaced"),
        ("1,0\n1,2\n", 0, "not uniformly spaced"),
        ("0,1\n1,2,3\n", 0, "2 knots but 3 values"),
        ("0,1\n1,x\n", 0, "could not convert"),
    ],
)
def test_files_that_hold_no_spline(tmp_path, text, curve, message):
    path = tmp_path / "curves.csv"
    path.write_text(text)
    with pytest.raises(ModelError, match=message):
        read_spline_csv(path, curve)
