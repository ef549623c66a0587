"""Tables: numbers to three digits, rows of the right length."""

import pytest

from course_utils import Table


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (0.12345, "0.123"),
        (1e-5, "1.0e-05"),
        (12345.6, "12,346"),
        (1234, "1,234"),
        (True, "yes"),
        ("a", "a"),
        (float("nan"), "NaN"),
        (float("inf"), "inf"),
        (-3.14159, "-3.14"),
        (2e7, "2.0e+07"),
    ],
)
def test_numbers_are_shown_to_three_digits(value, shown):
    assert Table(("column",), [(value,)]).cells == [[shown]]


def test_a_row_of_the_wrong_length_is_an_error():
    with pytest.raises(ValueError, match="got 1 cells for 2 columns"):
        Table(("a", "b"), [(1,)])
