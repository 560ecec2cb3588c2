"""A release folder of a stranger is data: what is wrong with it is said in a sentence."""

import json
import os
import shutil
import struct

import numpy as np
import pytest
from tiny_run import TEXTS

from transformer_jax.errors import UserError
from transformer_jax.inference.load import load_trained, named_parameters
from transformer_jax.storage.weights import write_weights
from transformer_jax.translator import Translator


@pytest.fixture
def copy(release, tmp_path):
    """A copy of the release folder."""
    return shutil.copytree(release, tmp_path / 'mine')


def refused(folder, sentence):
    with pytest.raises(UserError, match=sentence) as error:
        load_trained(folder)
    assert str(error.value).startswith(("workdir='", "vocabulary of the workdir='", "'"))


def change_json(folder, **changes):
    saved = json.loads((folder / 'config.json').read_text()) | changes
    (folder / 'config.json').write_text(json.dumps(saved))


def with_weights(folder, change):
    """Write the folder's weights again, after `change` of the arrays by name."""
    weights = named_parameters(load_trained(folder).params)
    change(weights)
    write_weights(folder / 'model.safetensors', weights)


def test_a_format_of_the_future_is_refused(copy):
    change_json(copy, format=2, config='of another shape')
    refused(copy, r'is a release folder of format 2, and this .* reads format 1 at most: install')


def test_a_folder_of_hugging_face_is_told_from_a_release(copy):
    (copy / 'config.json').write_text('{"model_type": "marian"}')
    refused(copy, "holds a model of Hugging Face's transformers: import it .* --from='.*mine'")


@pytest.mark.parametrize(
    ('changes', 'sentence'),
    [
        (
            {'format': '1'},
            r"config.json that cannot be read \('format' is a text\): get the folder",
        ),
        ({'steps': 800}, r"config.json that cannot be read \('steps' is the number 800\)"),
        ({'test': {'bleu': 3}}, r"config.json that cannot be read \('test' is an object\)"),
        ({'vocabulary_digest': 'other'}, 'is not the vocabulary with which the model was trained'),
    ],
)
def test_a_damaged_config_is_refused(copy, changes, sentence):
    change_json(copy, **changes)
    refused(copy, sentence)


@pytest.mark.parametrize(
    ('name', 'sentence'),
    [
        ('model.safetensors', r'without a readable model.safetensors \(No such file'),
        ('vocabulary.model', r'vocabulary.model. cannot be read \(No such file'),
        ('config.json', 'holds no trained model'),
    ],
)
def test_a_missing_file_is_named(copy, name, sentence):
    (copy / name).unlink()
    refused(copy, sentence)


def test_a_pipe_in_place_of_the_weights_is_refused(copy):
    (copy / 'model.safetensors').unlink()
    os.mkfifo(copy / 'model.safetensors')
    refused(copy, 'without a readable model.safetensors')


@pytest.mark.parametrize('kept', [0, 7, 100, -1])
def test_a_cut_file_is_refused(copy, kept):
    content = (copy / 'model.safetensors').read_bytes()
    (copy / 'model.safetensors').write_bytes(content[:kept])
    refused(copy, 'has a damaged model.safetensors')


def test_sizes_are_checked_before_arrays_are_read(copy):
    terabyte = {'dtype': 'F32', 'shape': [2**19, 2**19], 'data_offsets': [0, 2**40]}
    header = json.dumps({'embedding': terabyte}).encode()
    with (copy / 'model.safetensors').open('wb') as file:
        file.write(struct.pack('<Q', len(header)) + header)
        file.truncate(8 + len(header) + 2**40)  # a sparse file, which takes no disk
    refused(copy, r'does not fit its config.json and vocabulary: \S+ is missing')
    header = header.replace(b'524288, 524288', b'1, 99999999999')
    (copy / 'model.safetensors').write_bytes(struct.pack('<Q', len(header)) + header)
    refused(copy, 'has a damaged model.safetensors')


@pytest.mark.parametrize(
    ('change', 'sentence'),
    [
        (lambda w: w.pop('encoder/layer_0/feed_forward/inner/kernel'), 'inner/kernel is missing'),
        (lambda w: w.update(more=w['embedding']), "there is 'more' as well"),
        (lambda w: w.update(embedding=w['embedding'].T), r'embedding is float32 \[16, 360\] and'),
        (lambda w: w['embedding'].fill(np.nan), 'embedding in model.safetensors has values that'),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(copy, change, sentence):
    with_weights(copy, change)
    refused(copy, sentence)


def test_weights_of_another_dtype_are_refused(copy):
    content = (copy / 'model.safetensors').read_bytes()
    (copy / 'model.safetensors').write_bytes(content.replace(b'"F32"', b'"I32"'))
    refused(copy, r'is I32 \[\d.* and should be float32 \[')


def test_releases_of_one_vocabulary_are_an_ensemble(release, tmp_path):
    other = shutil.copytree(release, tmp_path / 'other')
    with_weights(other, lambda weights: weights['embedding'].__imul__(0.5))
    (of_one,), (of_two,) = (
        Translator.load(folders).score(TEXTS[:1], ['Le chat dort.'])
        for folders in (release, [release, other])
    )
    assert of_two.tokens == of_one.tokens and of_two.log_prob != of_one.log_prob


@pytest.mark.parametrize('kind', ['ctranslate2', 'stablehlo'])
def test_an_export_for_other_programs_is_told_from_a_run(tmp_path, kind):
    (tmp_path / 'conversion.json').write_text(json.dumps({'kind': kind}))
    with pytest.raises(UserError, match=f"is an export of the kind '{kind}', which other programs"):
        load_trained(tmp_path)
