"""Programs for any platform do not depend on the machine that traces them."""

import jax
import pytest
from tiny_model import SOURCE, TARGET, VOCAB, shapes_of, tiny

from transformer_jax.model import Transformer
from transformer_jax.model.kernels.platform import for_any_platform, target_platform


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_programs_for_any_platform_are_the_same_on_all_machines(monkeypatch, dtype):
    model = Transformer(tiny(num_layers=1, dtype=dtype), VOCAB)
    variables = shapes_of(model, SOURCE, TARGET)
    programs = set()
    for backend in ('cpu', 'gpu', 'tpu'):
        monkeypatch.setattr(jax, 'default_backend', lambda backend=backend: backend)
        with for_any_platform():
            program = jax.make_jaxpr(lambda *x: model.apply(*x))(variables, SOURCE, TARGET)
        programs.add(str(program))
    assert len(programs) == 1


def test_the_platform_is_the_default_backend_outside():
    with for_any_platform():
        assert target_platform() == 'any'
    assert target_platform() == jax.default_backend()
