import pytest

from transformer_jax.config import Config, ModelConfig, OptimizerConfig, VocabSizes
from transformer_jax.model.flops import forward_flops, step_flops, training_flops


def test_one_layer_by_hand():
    config = ModelConfig(num_layers=1, d_model=4, d_ff=8, num_heads=2)  # d_k = d_v = 2
    # A source of 3 tokens and a target of 2, a vocabulary of 10; a product of [m, k] and [k, n] is
    # 2 m k n.
    encoder = 3 * (4 * 2 * 4 * 4 + 2 * 2 * 4 * 8) + 2 * (2 * 3 * 3 * 4)
    decoder_self = 2 * (4 * 2 * 4 * 4) + 2 * (2 * 3 * 4)  # 3 of its 4 pairs are not in the future
    decoder_source = (2 + 3) * (2 * 2 * 4 * 4) + 2 * (2 * 2 * 3 * 4)
    decoder_inner = 2 * (2 * 2 * 4 * 8)
    output = 2 * 2 * 4 * 10
    expected = encoder + decoder_self + decoder_source + decoder_inner + output
    assert forward_flops(config, 10, [3], [2]) == expected
    assert training_flops(config, 10, [3], [2]) == 3 * expected


def test_the_flops_of_sentences_add_up():
    config = ModelConfig(num_layers=2, d_model=8, d_ff=16, num_heads=2, d_k=3, d_v=5)
    both = forward_flops(config, 10, [3, 7], [2, 9])
    assert both == forward_flops(config, 10, [3], [2]) + forward_flops(config, 10, [7], [9])


def test_only_the_target_vocabulary_costs_flops():
    config = ModelConfig(num_layers=1, d_model=8, d_ff=16, num_heads=2, tied_embeddings='none')
    both = forward_flops(config, VocabSizes(target=10, source=99), [3], [2])
    assert both == forward_flops(config, 10, [3], [2])


def test_base_takes_about_six_flops_per_parameter_and_token():
    # The usual estimate, of a token that passes half of the layers.
    lengths = [25] * 1000
    flops = training_flops(ModelConfig(), 37_000, lengths, lengths)
    assert flops == pytest.approx(6 * 63_045_632 * 25_000, rel=0.02)


def test_a_step_with_r_drop_takes_two_passes():
    plain, r_drop = Config(), Config(optimizer=OptimizerConfig(r_drop=5.0))
    once = training_flops(plain.model, 100, [3], [2])
    assert step_flops(plain, 100, [3], [2]) == once
    assert step_flops(r_drop, 100, [3], [2]) == 2 * once
