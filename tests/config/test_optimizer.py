"""The section `optimizer`."""

import re

import pytest

from transformer_jax.config import OptimizerConfig
from transformer_jax.errors import UserError


@pytest.mark.parametrize(
    ('values', 'message'),
    [
        (
            {'schedule': 'cosin', 'learning_rate': 1e-3},
            "optimizer.schedule='cosin' must be one of noam, constant, linear, cosine: did you "
            "mean 'cosine'?",
        ),
        ({'schedule': 'constant'}, "optimizer.schedule='constant' needs optimizer.learning_rate"),
        ({'learning_rate': 2e-4}, "optimizer.learning_rate=0.0002 is for other schedules than 'n"),
        (
            {'schedule': 'constant', 'learning_rate': 1e-3, 'learning_rate_scale': 2.0},
            "optimizer.learning_rate_scale=2.0 is for the schedule 'noam'",
        ),
    ],
)
def test_bad_values_are_refused(values, message):
    with pytest.raises(UserError, match=re.escape(message)):
        OptimizerConfig(**values)
