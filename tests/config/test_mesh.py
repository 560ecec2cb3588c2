"""The section mesh: values that it refuses and accepts."""

import re

import pytest

from transformer_jax.config import MeshConfig
from transformer_jax.errors import UserError


@pytest.mark.parametrize(
    'values, message',
    [
        (
            {'data': 0},
            'mesh.data=0 must be from 1 to 1,000,000, or -1 for all other devices.',
        ),
        ({'tensor': -2}, 'mesh.tensor=-2 must be from 1 to'),
        ({'fsdp': -1}, "mesh={'data': -1, 'fsdp': -1, 'tensor': 1} has more than one -1"),
    ],
)
def test_bad_values_are_refused(values, message):
    with pytest.raises(UserError, match=re.escape(message)):
        MeshConfig(**values)


def test_one_axis_may_take_the_remaining_devices():
    assert MeshConfig(data=2, fsdp=-1).fsdp == -1
