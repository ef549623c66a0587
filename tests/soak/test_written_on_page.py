"""Of each exercise on a page eleven mistakes; tools/test_written_on_page.py has four."""

import pytest
from written_on_page import assert_judged_as_in_jupyterlab

from tools.site.exercises import WRITTEN_ON_PAGE


@pytest.mark.parametrize("name", WRITTEN_ON_PAGE)
def test_eleven_mistakes_get_the_verdict_of_check(name, tmp_path, site):
    assert_judged_as_in_jupyterlab(name, tmp_path, site, 11)
