"""Comparison of floats that holds on every processor."""

import numpy as np


def assert_close(actual, expected, tolerance=1e-5):
    """Assert that arrays differ by at most `tolerance` times the largest finite number expected.

    Processors add the terms of a product in different orders. So a small sum of large terms has the
    error of the large ones, and neither a fixed number nor a share of the sum itself bounds it.
    """
    expected = np.asarray(expected)
    finite = np.abs(expected[np.isfinite(expected)])
    np.testing.assert_allclose(
        actual, expected, rtol=0, atol=tolerance * float(finite.max(initial=0))
    )
