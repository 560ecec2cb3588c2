"""Round trips: a model exported for Hugging Face and imported again is the same, to the byte."""

import json

import numpy as np
import pytest
import safetensors.numpy
from conversion.random_models import random_model, separate

from transformer_jax.conversion.huggingface.from_huggingface import read_model
from transformer_jax.conversion.huggingface.to_huggingface import save_huggingface
from transformer_jax.errors import UserError
from transformer_jax.inference.load import named_parameters


@pytest.mark.parametrize(
    'changes',
    [
        {},  # the paper's model: interleaved positions, no biases in attention
        {'positions': 'sinusoidal_halves', 'attention_bias': True, 'output_bias': True},
        {'vocabulary': separate, 'tied_embeddings': 'decoder', 'output_bias': True},
        {'vocabulary': separate, 'tied_embeddings': 'none', 'decoder_start': 'zero'},
    ],
    ids=['paper', 'biases', 'decoder', 'none'],
)
def test_round_trip_gives_identical_bytes(tmp_path, changes):
    vocabulary = changes.pop('vocabulary', None)
    original = random_model(vocabulary and vocabulary(), **changes)
    save_huggingface(original, tmp_path)
    model = read_model(tmp_path)
    before, after = named_parameters(original.params), named_parameters(model.parameters())
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, err_msg=name)
    assert model.vocabulary.digest == original.vocabulary.digest
    assert (model.config.model, model.config.decode.beam_size) == (
        original.config.model,
        original.config.decode.beam_size,
    )


def test_biases_that_were_trained_elsewhere_are_kept(tmp_path):
    save_huggingface(random_model(), tmp_path)
    path = tmp_path / 'model.safetensors'
    tensors = safetensors.numpy.load_file(path)
    tensors['model.encoder.layers.1.self_attn.v_proj.bias'][:] = 0.5
    safetensors.numpy.save_file(tensors, path)
    model = read_model(tmp_path)
    assert model.config.model.attention_bias
    bias = model.parameters()['encoder']['layer_1']['self_attention']['value_bias']
    assert (bias == 0.5).all()


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'format': 99}, r'format 99, of a later version'),
        ({'steps': 'all'}, r"config.json.* cannot be read \('steps' is a text"),
        ({'vocabulary_digest': 'ab'}, r"another vocabulary than the one with digest 'ab'"),
    ],
)
def test_a_folder_that_was_changed_is_refused(tmp_path, change, message):
    save_huggingface(random_model(), tmp_path)
    path = tmp_path / 'config.json'
    config = json.loads(path.read_text())
    config['transformer_jax'] |= change
    path.write_text(json.dumps(config))
    with pytest.raises(UserError, match=message):
        read_model(tmp_path)


@pytest.mark.parametrize(
    ('file', 'change', 'message'),
    [
        ('config.json', {'encoder_attention_heads': 5}, 'has encoder_attention_heads=5, but the'),
        ('config.json', {'activation_function': 'swish'}, "has activation_function='swish', but"),
        ('vocab.json', {'new': 9}, 'vocab.json.* has other pieces than the vocabulary of the key'),
    ],
)
def test_files_that_contradict_the_key_are_refused(tmp_path, file, change, message):
    save_huggingface(random_model(), tmp_path)
    path = tmp_path / file
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UserError, match=message):
        read_model(tmp_path)
