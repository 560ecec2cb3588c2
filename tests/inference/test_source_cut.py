import numpy as np
import pytest

from transformer_jax.inference.source_cut import cut_source

IDS = np.array([5, 6, 7, 8, 1], np.int32)


@pytest.mark.parametrize(('limit', 'kept'), [(3, [5, 6, 1]), (2, [5, 1])])
def test_a_long_source_keeps_its_beginning_and_eos_and_its_line_is_named(caplog, limit, kept):
    cut = cut_source(IDS, limit, line=7)
    assert (cut.tolist(), cut.dtype) == (kept, np.int32)
    assert f'Line 7 has 5 tokens and is cut to the limit of {limit}.' in caplog.text


@pytest.mark.parametrize('limit', [0, 5, 9])
def test_a_source_within_the_limit_stays_as_it_is(caplog, limit):
    assert cut_source(IDS, limit, line=7) is IDS
    assert caplog.text == ''
