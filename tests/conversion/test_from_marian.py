"""Import of Marian's own models: values, vocabularies, settings, and what is refused."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conversion import marian_files

from transformer_jax.conversion.from_marian import read_model, recognises
from transformer_jax.conversion.piece_tables import read_table
from transformer_jax.errors import UserError
from transformer_jax.model import Transformer

SOURCE = [2, 3, 4, 6, 0]
INPUTS = [marian_files.PAD, 5, 2, 2]


@pytest.mark.parametrize(
    ('tied', 'activation', 'function'),
    [
        ('all', 'swish', None),
        ('none', 'gelu', lambda x: x * (1 + np.vectorize(math.erf)(x / 2**0.5)) / 2),
    ],
)
def test_imported_model_computes_the_formulas(tmp_path, tied, activation, function):
    tensors = marian_files.arrays(tied)
    options = {'tied-embeddings-all': tied == 'all', 'transformer-ffn-activation': activation}
    marian_files.write_marian(tmp_path, marian_files.marian_arrays(tensors), options=options)
    model = read_model(tmp_path)
    expected = marian_files.forward(
        tensors,
        SOURCE,
        INPUTS,
        positions=marian_files.marian_positions,
        epsilon=1e-9,
        activation=function,
    )
    module = Transformer.of(model.config.model, model.vocabulary.sizes)
    source, inputs = (jnp.array([[(i + 1) % 8 for i in ids]]) for ids in (SOURCE, INPUTS))
    found = jax.jit(module.apply)({'params': model.parameters()}, source, inputs)[0]
    np.testing.assert_allclose(found[:, 1:], expected[:, :-1], rtol=1e-4, atol=1e-4)
    # Marian has no padding, so it may not take part in the softmax.
    np.testing.assert_allclose(found[:, 0], -100)


def test_a_matrix_of_the_output_may_lie_either_way(tmp_path):
    arrays = marian_files.marian_arrays(marian_files.arrays('none'))
    arrays['decoder_ff_logit_out_W'] = arrays.pop('decoder_ff_logit_out_Wt').T
    marian_files.write_marian(tmp_path, arrays, options={'tied-embeddings-all': False})
    found = read_model(tmp_path).parameters()['output_embedding']
    np.testing.assert_array_equal(found[1:], arrays['decoder_ff_logit_out_W'].T)
    assert not found[0].any()


def test_search_is_taken_over_from_decoder_yml(tmp_path):
    arrays = marian_files.marian_arrays(marian_files.arrays())
    marian_files.write_marian(tmp_path, arrays, settings={'beam-size': 12, 'normalize': 0.6})
    decode = read_model(tmp_path).config.decode
    assert (decode.beam_size, decode.length_norm, decode.length_penalty) == (12, 'power', 0.6)
    assert decode.suppress_tokens == '<unk>'  # Marian gives it on demand only
    marian_files.write_marian(tmp_path, arrays, settings={'allow-unk': True})
    assert read_model(tmp_path / 'decoder.yml').config.decode.suppress_tokens == ''


def test_the_limit_of_outputs_that_marian_has_is_stated(tmp_path):
    arrays = marian_files.marian_arrays(marian_files.arrays())
    marian_files.write_marian(tmp_path, arrays)
    (note,) = read_model(tmp_path).notes
    assert 'at 3 times' in note and '128 tokens more' in note
    marian_files.write_marian(tmp_path, arrays, settings={'max-length-factor': 1.5})
    assert 'at 1.5 times' in read_model(tmp_path).notes[0]


def test_pieces_that_yaml_takes_for_other_values_are_kept(tmp_path):
    file = tmp_path / 'vocab.yml'
    lines = [
        'no',
        '~',
        '<<',
        '1',
        '1e3',
        '=',
        "''''",
        '"\\""',
        '"\\x85"',
        '"\\\\x41"',
        '"a:b"',
        'é',
    ]
    file.write_text(''.join(f'{line}: {k}\n' for k, line in enumerate(lines)), encoding='utf-8')
    assert list(read_table(file)) == [
        *('no', '~', '<<', '1', '1e3', '=', "'", '"', '\x85', '\\x41', 'a:b', 'é'),
    ]


def test_a_line_without_an_id_is_named(tmp_path):
    file = tmp_path / 'vocab.yml'
    file.write_text('a: 0\nb\n')
    with pytest.raises(UserError, match=r"line 2 is 'b', not a piece, a colon and an id"):
        read_table(file)


def test_sentencepiece_vocabularies_have_their_own_ids(tmp_path):
    arrays = marian_files.marian_arrays(marian_files.arrays())
    settings = {'vocabs': ['vocab.spm', 'vocab.spm']}
    marian_files.write_marian(tmp_path, arrays, settings=settings)
    (tmp_path / 'vocab.spm').write_bytes(marian_files.sentencepiece_model())
    with pytest.raises(UserError, match=r'vocab.spm.* pieces, but the model has 7 embeddings'):
        read_model(tmp_path)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'type': 's2s'}, r"type='s2s', and only models with 'transformer'"),
        ({'transformer-decoder-autoreg': 'rnn'}, r"transformer-decoder-autoreg='rnn'"),
        ({'transformer-preprocess': 'n'}, r"transformer-preprocess='n'"),
        ({'transformer-postprocess': 'da'}, r"transformer-postprocess='da'"),
        ({'transformer-postprocess-emb': 'nd'}, r"transformer-postprocess-emb='nd'"),
        ({'transformer-train-position-embeddings': True}, r'position-embeddings=True'),
        ({'transformer-ffn-depth': 3}, r'transformer-ffn-depth=3'),
        ({'transformer-decoder-dim-ffn': 6}, r'transformer-decoder-dim-ffn=6'),
        ({'dec-depth': 1}, r'dec-depth=1, and only models with 2'),
        ({'right-left': True}, r'right-left=True'),
        ({'transformer-tied-layers': [1, 1]}, r'transformer-tied-layers=\[1, 1\]'),
        ({'dim-vocabs': [7, 7, 7]}, r'dim-vocabs=\[7, 7, 7\]'),
        ({'dim-vocabs': [6, 6]}, r'ids that are not from 0 to 5'),
        ({'dim-emb': 16}, r'has a \[7, 8\] array Wemb'),
        ({'tied-embeddings-all': False}, r'has no encoder_Wemb'),
    ],
)
def test_other_models_are_refused(tmp_path, options, message):
    arrays = marian_files.marian_arrays(marian_files.arrays())
    marian_files.write_marian(tmp_path, arrays, options=options)
    assert recognises(tmp_path)
    with pytest.raises(UserError, match=message):
        read_model(tmp_path)


@pytest.mark.parametrize(
    ('settings', 'message'),
    [
        ({'models': ['a.npz', 'b.npz']}, r'has 2 models'),
        ({'word-penalty': 0.5}, r'word-penalty=0.5'),
        ({'vocabs': ['a.fsv', 'b.fsv']}, r'vocabulary of another kind'),
        ({'vocabs': ['a.yml', 'b.yml']}, r'a.yml.* cannot be read'),
    ],
)
def test_other_settings_are_refused(tmp_path, settings, message):
    arrays = marian_files.marian_arrays(marian_files.arrays())
    marian_files.write_marian(tmp_path, arrays, settings=settings)
    with pytest.raises(UserError, match=message):
        read_model(tmp_path)


def test_files_outside_the_folder_are_not_read(tmp_path):
    arrays = marian_files.marian_arrays(marian_files.arrays())
    (tmp_path / 'in').mkdir()
    marian_files.write_marian(tmp_path / 'in', arrays, settings={'vocabs': ['../v.yml'] * 2})
    (tmp_path / 'in/vocab.yml').rename(tmp_path / 'v.yml')
    with pytest.raises(UserError, match=r'in/v.yml.* cannot be read'):
        read_model(tmp_path / 'in')


def test_quantised_models_and_pickles_are_refused(tmp_path):
    arrays = marian_files.marian_arrays(marian_files.arrays())
    quantised = {**arrays, 'Wemb': arrays['Wemb'].astype(np.int8)}
    marian_files.write_marian(tmp_path, quantised)
    with pytest.raises(UserError, match='before it was quantised'):
        read_model(tmp_path)
    marian_files.write_marian(tmp_path, {**arrays, 'x': np.array([{}], object)})
    with pytest.raises(UserError, match=r'model.npz.* arrays of .*object'):
        read_model(tmp_path)


def test_a_folder_without_sentencepiece_models_is_refused(tmp_path):
    marian_files.write_marian(tmp_path, marian_files.marian_arrays(marian_files.arrays()))
    (tmp_path / 'source.spm').unlink()
    with pytest.raises(UserError, match=r'source.spm.* SentencePiece models, source.spm and'):
        read_model(tmp_path)
