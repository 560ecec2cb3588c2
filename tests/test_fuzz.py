"""A short run of fuzz.py."""

import pytest
from fuzz import KINDS, fuzz, report


@pytest.mark.slow
def test_every_mistake_and_damage_gives_an_answer_without_a_trace(tmp_path):
    results = fuzz(tmp_path, range(8 * len(KINDS)), workers=1)
    failures = [report(result) for result in results if result.failed]
    assert not failures, '\n' + '\n'.join(failures)
