"""The longest rows on every GPU; kernels/test_kernels.py has one of them."""

import pytest
from kernels.test_kernels import assert_nothing_spills


@pytest.mark.parametrize("capability", [80, 100, 120])
def test_the_longest_rows_spill_nothing(tmp_path, capability):
    assert_nothing_spills(tmp_path, capability)
