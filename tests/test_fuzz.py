"""The short version of fuzz.py."""

from fuzz import KINDS, fuzz, report


def test_no_mistake_and_no_damage_ends_in_a_trace_or_hangs(tmp_path):
    results = fuzz(tmp_path, range(17 * len(KINDS)), workers=1)
    failures = [report(result) for result in results if result.failed]
    assert not failures, '\n' + '\n'.join(failures)
