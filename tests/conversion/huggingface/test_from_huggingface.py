"""Import of Hugging Face's Marian folders: values, ids, settings, and what is refused."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conversion import marian_files

from transformer_jax.conversion.huggingface.from_huggingface import read_model, recognises
from transformer_jax.errors import UserError
from transformer_jax.model import Transformer

# Ids of Hugging Face, and ours: padding has moved from the end to 0.
SOURCE = [2, 3, 4, 6, 0]
INPUTS = [marian_files.PAD, 5, 2, 2]


def logits(model):
    """What the imported model computes for SOURCE and INPUTS, by Hugging Face's ids."""
    module = Transformer.of(model.config.model, model.vocabulary.sizes)
    source, inputs = (
        jnp.array([[(i + 1) % len(marian_files.PIECES) for i in ids]]) for ids in (SOURCE, INPUTS)
    )
    found = jax.jit(module.apply)({'params': model.parameters()}, source, inputs)[0]
    return np.concatenate([found[:, 1:], found[:, :1]], axis=1)


@pytest.mark.parametrize(
    ('tied', 'activation', 'function'),
    [
        ('all', 'swish', None),
        ('decoder', 'relu', lambda x: np.maximum(x, 0)),
        ('none', 'gelu', lambda x: x * (1 + np.vectorize(math.erf)(x / 2**0.5)) / 2),
    ],
)
def test_imported_model_computes_the_formulas(tmp_path, tied, activation, function):
    tensors = marian_files.arrays(tied)
    config = {
        'share_encoder_decoder_embeddings': tied == 'all',
        'tie_word_embeddings': tied != 'none',
        'activation_function': activation,
    }
    table = {piece: k for k, piece in enumerate(marian_files.PIECES)}
    marian_files.write_huggingface(
        tmp_path, tensors, config=config, files={'target_vocab.json': table}
    )
    model = read_model(tmp_path)
    assert (model.config.model.tied_embeddings, model.config.model.decoder_start) == (tied, 'zero')
    expected = marian_files.forward(
        tensors,
        SOURCE,
        INPUTS,
        positions=marian_files.huggingface_positions,
        epsilon=1e-5,
        activation=function,
    )
    np.testing.assert_allclose(logits(model), expected, rtol=1e-4, atol=1e-4)


def test_padding_moves_to_id_0_and_the_order_of_the_others_stays(tmp_path):
    tensors = marian_files.arrays()
    marian_files.write_huggingface(tmp_path, tensors)
    model = read_model(tmp_path)
    assert model.vocabulary.target.table == ('<pad>', *marian_files.PIECES[:-1])
    params = model.parameters()
    assert not params['embedding'][0].any()
    np.testing.assert_array_equal(params['embedding'][1:], tensors['model.shared.weight'][:-1])
    np.testing.assert_array_equal(params['output_bias'][1:], tensors['final_logits_bias'][0, :-1])
    (ids,) = model.vocabulary.source.encode(['a a'])
    assert ids.tolist() == [3, 3, 1]
    assert model.vocabulary.target.decode([3, 7, 1]) == 'a no'


def test_sides_with_different_ids_of_eos_get_the_same(tmp_path):
    table = {'<unk>': 0, '▁a': 1, '</s>': 2, '▁b': 3, 'c': 4, "'": 5, '▁no': 6, '<pad>': 7}
    config = {'share_encoder_decoder_embeddings': False}
    tensors = marian_files.arrays('decoder')
    marian_files.write_huggingface(
        tmp_path, tensors, config=config, files={'target_vocab.json': table}
    )
    model = read_model(tmp_path)
    assert model.vocabulary.eos_id == 1
    assert model.vocabulary.target.table[:4] == ('<pad>', '</s>', '<unk>', '▁a')
    name = 'model.decoder.embed_tokens.weight'
    np.testing.assert_array_equal(model.parameters()['embedding'][1], tensors[name][2])


def test_search_is_taken_over_from_generation_config(tmp_path):
    generation = {
        'num_beams': 3,
        'length_penalty': 0.8,
        'no_repeat_ngram_size': 4,
        'bad_words_ids': [[marian_files.PAD], [5], [2, 3]],
        'min_new_tokens': 2,
        'suppress_tokens': [4],
        'repetition_penalty': 1.2,
    }
    marian_files.write_huggingface(tmp_path, marian_files.arrays(), generation=generation)
    model = read_model(tmp_path)
    decode = model.config.decode
    assert (decode.beam_size, decode.length_norm, decode.length_penalty) == (3, 'power', 0.8)
    assert (decode.min_length, decode.no_repeat_ngram, decode.suppress_tokens) == (2, 4, "' c")
    assert model.notes == (
        'repetition_penalty=1.2 of its search has no equal here and is left out.',
        'bad_words_ids=[2, 3] of several tokens are left out.',
    )
    data = model.config.data
    assert (data.source_language, data.target_language, data.corpus) == ('en', 'fr', 'none')


@pytest.mark.parametrize(
    ('generation', 'message'),
    [
        ({'length_penalty': 'x'}, r"length_penalty='x', which must be a number"),
        ({'num_beams': 2.5}, r'num_beams=2.5, which must be a whole number'),
        ({'bad_words_ids': 7}, r"generation_config.json.*'bad_words_ids' is "),
        ({'bad_words_ids': [[999]]}, r'bad_words_ids with 999, but ids are 0 to 7'),
        ({'suppress_tokens': [8]}, r'suppress_tokens with 8, but ids are 0 to 7'),
    ],
)
def test_odd_settings_of_the_search_are_refused(tmp_path, generation, message):
    marian_files.write_huggingface(tmp_path, marian_files.arrays(), generation=generation)
    with pytest.raises(UserError, match=message):
        read_model(tmp_path)


def test_padding_is_out_of_the_softmax_if_hugging_face_renormalises(tmp_path):
    marian_files.write_huggingface(
        tmp_path, marian_files.arrays(), generation={'renormalize_logits': True}
    )
    assert read_model(tmp_path).parameters()['output_bias'][0] == -100


def test_language_codes_are_listed_and_checked(tmp_path):
    table = [*marian_files.PIECES[:5], '>>fra<<', '>>oci<<', '<pad>']
    marian_files.write_huggingface(tmp_path, marian_files.arrays(), table=table)
    source = read_model(tmp_path).vocabulary.source
    assert source.language_codes == ('>>fra<<', '>>oci<<')
    assert source.encode(['>>oci<< a'])[0].tolist() == [7, 3, 1]
    with pytest.raises(UserError, match=r'must begin with the language .*>>fra<<, >>oci<<'):
        source.encode(['a'])


def test_an_output_matrix_that_is_another_one_is_not_tied(tmp_path):
    tensors = marian_files.arrays()
    tensors['lm_head.weight'] = tensors['model.shared.weight'] + 1
    marian_files.write_huggingface(tmp_path, tensors)
    model = read_model(tmp_path)
    assert model.config.model.tied_embeddings == 'none'
    np.testing.assert_array_equal(
        model.parameters()['output_embedding'][1:], tensors['lm_head.weight'][:-1]
    )


def test_trained_start_stays_and_old_positions_are_ignored(tmp_path):
    tensors = marian_files.arrays()
    tensors['model.shared.weight'][marian_files.PAD] = 0.5
    tensors['model.encoder.embed_positions.weight'] = np.ones((512, 8), np.float32)
    marian_files.write_huggingface(tmp_path, tensors)
    model = read_model(tmp_path)
    assert model.config.model.decoder_start == 'padding'
    assert model.parameters()['embedding'][0].tolist() == [0.5] * 8


def test_licence_of_the_model_card_is_kept(tmp_path):
    marian_files.write_huggingface(tmp_path, marian_files.arrays())
    (tmp_path / 'README.md').write_text('---\nlanguage: \n- no\nlicense: apache-2.0\n---\n# x\n')
    assert read_model(tmp_path).license == 'apache-2.0'


@pytest.mark.parametrize(
    ('config', 'message'),
    [
        ({'model_type': 'm2m_100'}, r"model_type='m2m_100', and only models with 'marian'"),
        ({'scale_embedding': False}, r'scale_embedding=False, and only models with True'),
        ({'static_position_embeddings': False}, r'static_position_embeddings=False'),
        ({'normalize_before': True}, r'normalize_before=True'),
        ({'decoder_layers': 1}, r'decoder_layers=1, and only models with 2'),
        ({'decoder_ffn_dim': 16}, r'decoder_ffn_dim=16'),
        ({'activation_function': 'gelu_new'}, r"activation_function='gelu_new'"),
        ({'d_model': '8'}, r"d_model='8', which must be a whole number"),
        ({'decoder_start_token_id': 0}, r'decoder_start_token_id=0, and only models that start'),
        ({'vocab_size': 9}, r'has an? \[8, 8\] array|have 9|\[9, 8\]'),
        (
            {'d_model': 10**12},
            r'config.json.* cannot be imported: model.d_model=1000000000000 must',
        ),
        ({'encoder_layers': 0, 'decoder_layers': 0}, r'encoder_layers=0, which must be 1 or more'),
        ({'vocab_size': 6}, r'ids that are not from 0 to 5'),
        ({'encoder_ffn_dim': 13, 'decoder_ffn_dim': 13}, r'fc1.weight'),
        ({'encoder_layers': 1, 'decoder_layers': 1}, r'arrays that this importer does not'),
        ({'encoder_layers': 3, 'decoder_layers': 3}, r'has no model.encoder.layers.2'),
        ({'share_encoder_decoder_embeddings': False}, r'target_vocab.json.* is missing'),
    ],
)
def test_other_models_are_refused(tmp_path, config, message):
    marian_files.write_huggingface(tmp_path, marian_files.arrays(), config=config)
    assert recognises(tmp_path)
    with pytest.raises(UserError, match=message):
        read_model(tmp_path)


@pytest.mark.parametrize('name', ['vocab.json', 'source.spm', 'model.safetensors', 'config.json'])
def test_missing_and_damaged_files_are_named(tmp_path, name):
    marian_files.write_huggingface(tmp_path, marian_files.arrays())
    (tmp_path / name).write_bytes(b'\x00\x01')
    with pytest.raises(UserError, match=name):
        read_model(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(UserError, match=name):
        read_model(tmp_path)


def test_values_that_are_not_finite_are_refused(tmp_path):
    tensors = marian_files.arrays()
    tensors['model.encoder.layers.0.fc1.bias'][3] = np.nan
    marian_files.write_huggingface(tmp_path, tensors)
    with pytest.raises(UserError, match=r'safetensors.* not finite in .*fc1\.bias'):
        read_model(tmp_path).parameters()


def test_a_table_with_an_id_twice_is_refused(tmp_path):
    marian_files.write_huggingface(tmp_path, marian_files.arrays())
    table = {piece: k for k, piece in enumerate(marian_files.PIECES)} | {'c': 2}
    (tmp_path / 'vocab.json').write_text(json.dumps(table))
    with pytest.raises(UserError, match='pieces with the same id'):
        read_model(tmp_path)


@pytest.mark.parametrize('name', ['source.spm', 'target.spm'])
def test_an_empty_sentencepiece_model_is_refused(tmp_path, name):
    marian_files.write_huggingface(tmp_path, marian_files.arrays())
    (tmp_path / name).write_bytes(b'')
    with pytest.raises(UserError, match=f'{name}.* is empty, not a SentencePiece model'):
        read_model(tmp_path)


@pytest.mark.parametrize(
    ('config', 'message'),
    [
        ({'vocab_size': 10**10}, r'8 pieces only, and the model has 10,000,000,000 embeddings'),
        ({'encoder_layers': 900, 'decoder_layers': 900}, r'arrays, and the options .* 900 layers'),
        ({'x': '\ud800'}, r'config.json.* half a character'),
    ],
)
def test_huge_sizes_and_half_characters_are_refused(tmp_path, config, message):
    marian_files.write_huggingface(tmp_path, marian_files.arrays(), config=config)
    with pytest.raises(UserError, match=message):
        read_model(tmp_path)


@pytest.mark.parametrize(
    ('name', 'content'),
    [
        ('added_tokens.json', {'</s>': 0, '<term>': 7}),
        ('tokenizer_config.json', {'added_tokens_decoder': {'7': {'content': '<term>'}}}),
        ('tokenizer_config.json', {'additional_special_tokens': ['</s>', '<term>']}),
        ('special_tokens_map.json', {'additional_special_tokens': [{'content': '<term>'}]}),
        ('tokenizer.json', {'added_tokens': [{'id': 7, 'content': '<term>'}]}),
        ('tokenizer.json', {'added_tokens': '<term>'}),
    ],
)
def test_added_tokens_are_refused_by_name(tmp_path, name, content):
    marian_files.write_huggingface(tmp_path, marian_files.arrays(), files={name: content})
    with pytest.raises(UserError, match=rf"{name}' adds '<term>' to the pieces of vocab\.json"):
        read_model(tmp_path)


def test_added_tokens_that_are_pieces_are_read(tmp_path):
    added = {'added_tokens_decoder': {'0': {'content': marian_files.PIECES[0]}}}
    files = {'tokenizer_config.json': added, 'added_tokens.json': {'<pad>': marian_files.PAD}}
    marian_files.write_huggingface(tmp_path, marian_files.arrays(), files=files)
    assert read_model(tmp_path).vocabulary.source.size == len(marian_files.PIECES)
