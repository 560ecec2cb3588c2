"""Import of Marian's own models: values, vocabularies, settings, and what is refused."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conversion import marian_files

from transformer_jax.conversion.marian.from_marian import read_model, recognises
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


def prenorm_arrays():
    """Arrays of a model of Marian's task transformer-base-prenorm, with last norms of 2 and 3."""
    arrays = marian_files.marian_arrays(marian_files.arrays())
    for name in [name for name in arrays if '_ln_' in name]:
        arrays[f'{name}_pre'] = arrays.pop(name)
    for side, scale in (('encoder', 2), ('decoder', 3)):
        arrays[f'{side}_top_ln_scale'] = np.full((1, 8), scale, np.float32)
        arrays[f'{side}_top_ln_bias'] = np.zeros((1, 8), np.float32)
    return arrays


PRENORM = {
    'transformer-preprocess': 'n',
    'transformer-postprocess': 'da',
    'transformer-postprocess-top': 'n',
}


def test_models_of_the_prenorm_task_normalise_before_each_layer(tmp_path):
    arrays = prenorm_arrays()
    marian_files.write_marian(tmp_path, arrays, options=PRENORM)
    model = read_model(tmp_path)
    params = model.parameters()
    assert model.config.model.norm == 'pre'
    np.testing.assert_array_equal(
        params['encoder']['layer_0']['feed_forward_residual']['norm']['scale'],
        arrays['encoder_l1_ffn_ffn_ln_scale_pre'][0],
    )
    assert params['encoder']['norm']['scale'].tolist() == [2] * 8
    assert params['decoder']['norm']['scale'].tolist() == [3] * 8


@pytest.mark.parametrize(
    'letters',
    [('d', 'dan', ''), ('', 'an', ''), ('d', 'adn', 'd')],
)
def test_dropout_among_the_letters_changes_nothing(tmp_path, letters):
    options = dict(zip(PRENORM, letters, strict=True))
    arrays = marian_files.marian_arrays(marian_files.arrays())
    marian_files.write_marian(tmp_path, arrays, options=options)
    assert read_model(tmp_path).config.model.norm == 'post'


@pytest.mark.parametrize(
    'letters',
    [('n', 'dan', ''), ('n', 'da', ''), ('', 'dna', ''), ('', 'dhn', ''), (None, 'dan', '')],
)
def test_other_orders_of_norms_are_refused(tmp_path, letters):
    options = dict(zip(PRENORM, letters, strict=True))
    marian_files.write_marian(tmp_path, prenorm_arrays(), options=options)
    with pytest.raises(UserError, match=r'transformer-postprocess-top=.* normalise after each'):
        read_model(tmp_path)


LAUGHS = '\n'.join(f'a{k}: &a{k} [{", ".join([f"*a{k - 1}"] * 9)}]' for k in range(1, 12))


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('normalize: {}', r'normalize=\{\}, which must be a number'),
        (f'normalize: {"9" * 400}', r'which must be a number'),
        (
            'beam-size: 10000000000',
            r'decoder.yml.* cannot be imported: decode.beam_size=10000000000',
        ),
        ('a: &a [*a]', 'nested too deeply'),
        ('[' * 100_000, 'nested too deeply'),
        (f'a0: &a0 [x]\n{LAUGHS}\nx: {{<<: [*a11]}}', 'more than 10,000 values'),
        ('normalize: 2001-99-99', 'decoder.yml.* cannot be read'),
        ('- 1', 'it is a list'),
        ('', 'it is null'),
        ('models: ["\\0"]', 'names the file'),
        ('models: ["\\ud800"]', 'half a character'),
        ('vocabs: [3, 4]', 'names the file 3'),
    ],
)
def test_odd_yaml_is_refused(tmp_path, text, message):
    marian_files.write_marian(tmp_path, marian_files.marian_arrays(marian_files.arrays()))
    (tmp_path / 'decoder.yml').write_text(text)
    with pytest.raises(UserError, match=message):
        read_model(tmp_path)


def test_a_normalize_of_null_is_none(tmp_path):
    arrays = marian_files.marian_arrays(marian_files.arrays())
    marian_files.write_marian(tmp_path, arrays, settings={'normalize': None})
    assert read_model(tmp_path).config.decode.length_penalty == 0


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'dim-vocabs': [10**10, 10**10]}, '8 pieces only|7 pieces only'),
        ({'enc-depth': 900, 'dec-depth': 900}, 'arrays, and the options of the model make 900'),
        ({'transformer-dim-ffn': 10**10}, 'model.yml.* cannot be imported: model.d_ff=10000000000'),
    ],
)
def test_huge_sizes_are_refused_before_memory_is_taken(tmp_path, options, message):
    arrays = marian_files.marian_arrays(marian_files.arrays())
    marian_files.write_marian(tmp_path, arrays, options=options)
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
