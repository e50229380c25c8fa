"""Numbers for people, and colours they can read."""

from __future__ import annotations

import pytest

from dashboards.colours import diverging, ink_on
from dashboards.words import OWN, between, hours, level_words, percent, signed


@pytest.mark.parametrize(
    ("value", "expected"), [(12.34, "+12.3"), (-0.44, "−0.4"), (0.01, "0.0"), (-0.01, "0.0"), (None, "none")]
)
def test_signed_points(value: float | None, expected: str) -> None:
    assert signed(value) == expected


def test_own_units_keep_three_digits() -> None:
    assert signed(-0.01234, OWN) == "−0.0123"


def test_an_interval_wider_than_a_difference_can_be_says_so() -> None:
    assert between(-2.0, 3.14) == "−2.0 to +3.1"
    assert between(-1382.1, 99.9) == "< −100 to +99.9"
    assert between(-100.1, 1303.5) == "< −100 to > +100"
    assert between(-1382.1, 1303.5, OWN) == "−1.38e+03 to +1.3e+03"


def test_small_words() -> None:
    assert level_words("0.3333333333333333") == level_words("1/3") == "1/3"
    assert level_words("1.0") == "1"
    assert level_words("nan") == "nan"
    assert level_words("gelu") == "gelu"
    assert percent(0.1234) == "12.3 %"
    assert [hours(x) for x in (0.001, 0.5, 2.0)] == ["4 s", "30.0 min", "2.0 h"]


def test_colours_tell_signs_apart_and_can_be_read() -> None:
    assert diverging(1.0) != diverging(-1.0)
    assert diverging(0.0, decided=False) == "#ffffff"
    assert diverging(0.0) != "#ffffff"  # a decided cell is never as pale as nothing
    for share in (-1.0, -0.5, 0.0, 0.5, 1.0):
        background = diverging(share)
        assert contrast(background, ink_on(background)) > 3.0


def contrast(one: str, other: str) -> float:
    """WCAG 2: (L1 + 0.05) / (L2 + 0.05)."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
