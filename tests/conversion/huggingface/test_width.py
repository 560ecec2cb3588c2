"""The width of a model in another order: the same values, in other places."""

import numpy as np
import pytest

from transformer_jax.conversion.huggingface.width import halves_order, permute_width


def test_halves_are_the_even_columns_and_then_the_odd_ones():
    assert halves_order(6).tolist() == [0, 2, 4, 1, 3, 5]


def test_each_axis_of_the_width_is_permuted():
    params = {
        'embedding': np.array([[1, 2, 3, 4]]),
        'output_bias': np.array([1, 2, 3, 4]),  # of the vocabulary
        'attention': {
            'query': np.arange(4)[:, None, None],
            'output': np.arange(4)[None, None],
            'output_bias': np.array([1, 2, 3, 4]),
            'query_bias': np.array([[1, 2, 3, 4]]),  # of heads
        },
        'norm': {'scale': np.array([1, 2, 3, 4])},
    }
    found = permute_width(params, halves_order(4))
    assert found['embedding'].tolist() == [[1, 3, 2, 4]]
    assert found['output_bias'].tolist() == [1, 2, 3, 4]
    assert found['attention']['query'].ravel().tolist() == [0, 2, 1, 3]
    assert found['attention']['output'].ravel().tolist() == [0, 2, 1, 3]
    assert found['attention']['output_bias'].tolist() == [1, 3, 2, 4]
    assert found['attention']['query_bias'].tolist() == [[1, 2, 3, 4]]
    assert found['norm']['scale'].tolist() == [1, 3, 2, 4]


def test_a_parameter_of_unknown_axes_is_an_error():
    with pytest.raises(ValueError, match='gate/kernel is a parameter whose axes are not known'):
        permute_width({'gate': {'kernel': np.zeros((4, 4))}}, halves_order(4))
