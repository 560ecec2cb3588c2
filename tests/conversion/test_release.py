"""Release folders: what is written, and the folder of the first version."""

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from tiny_run import TEXTS, tiny

from transformer_jax import convert, evaluate
from transformer_jax.conversion.release import without_paths, write_release
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.inference.load import load_trained, named_parameters
from transformer_jax.model import parameter_shapes
from transformer_jax.storage.release import Release
from transformer_jax.storage.workdir import Workdir
from transformer_jax.translator import Translator

SOURCE = 'The black cat sat on the couch.'


def test_a_folder_of_the_first_version_translates_and_scores_as_it_did(release):
    translator = Translator.load(release)
    assert translator(SOURCE) == 'Le ve était pas dans dans dans dans'
    (score,) = translator.score([SOURCE], ['Le chat noir était assis sur le canapé.'])
    assert score.log_prob == pytest.approx(-82.56421, abs=1e-3)
    assert (translator.steps, translator.config.decode.beam_size) == ([800], 2)


def test_a_run_and_its_release_translate_and_score_the_same(run_command, workdir, tmp_path):
    arguments = ['--workdir', workdir, '--to', 'release', '--output', tmp_path / 'mine']
    code, out, err = run_command(convert, *arguments, '--license', 'cc-by-4.0')
    assert (code, out.splitlines()) == (
        0,
        [
            'read again: the weights are the same',
            f'{tmp_path / "mine"} holds the model as release',
        ],
    ), err
    assert sorted(os.listdir(tmp_path / 'mine')) == [
        'README.md',
        'config.json',
        'conversion.json',
        'model.safetensors',
        'vocabulary.model',
    ]
    run, mine = Translator.load(workdir), Translator.load(tmp_path / 'mine')
    assert mine(TEXTS, n_best=2) == run(TEXTS, n_best=2)
    code, out, _ = run_command(evaluate, '--workdir', tmp_path / 'mine')
    bleu = Workdir(workdir).read_results()['test']['bleu']
    assert (code, out.splitlines()[0].split()[1]) == (0, f'{bleu:.2f}')
    card = (tmp_path / 'mine' / 'README.md').read_text()
    assert 'license: "cc-by-4.0"' in card and f'| BLEU | {bleu:.2f} | `nrefs:1' in card


def test_bfloat16_rounds_the_weights_and_keeps_the_rest(run_command, release, tmp_path):
    arguments = ['--workdir', release, '--to', 'release', '--output', tmp_path / 'half']
    code, out, _ = run_command(convert, *arguments, '--dtype', 'bfloat16')
    assert (code, out.startswith('read again: rounding changed no weight by more than 0.00')) == (
        0,
        True,
    )
    before, after = load_trained(release), load_trained(tmp_path / 'half')
    read = named_parameters(after.params)
    for name, weights in named_parameters(before.params).items():
        # Round to nearest even: bfloat16 is the upper half of float32.
        bits = weights.view(np.uint32)
        rounded = (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32)
        np.testing.assert_array_equal(read[name], rounded)
    assert (after.config, after.steps) == (before.config, before.steps)
    size = os.path.getsize(tmp_path / 'half' / 'model.safetensors')
    assert size < 0.6 * os.path.getsize(release / 'model.safetensors')
    kept = ('license', 'data_note', 'test', 'vocabulary_digest', 'split_fingerprints')
    old, new = (json.loads((f / 'config.json').read_text()) for f in (release, tmp_path / 'half'))
    assert [old[name] for name in kept] == [new[name] for name in kept]


def test_a_release_loads_without_orbax_and_tensorflow(release):
    program = f"""
import sys
from transformer_jax.translator import Translator

Translator.load({str(release)!r})
print([name for name in ('orbax', 'optax', 'tensorflow') if name in sys.modules])
"""
    done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)
    assert done.stdout == '[]\n', done.stderr


def test_the_config_names_no_folder_of_the_machine():
    folder = '/home/me/secret'
    files = [f'{split}_{side}' for split in ('train', 'dev') for side in ('source', 'target')]
    files_corpus = {'corpus': 'files', **{name: f'{folder}/{name}.txt' for name in files}}
    folders = dict.fromkeys(('data_dir', 'manual_dir', 'cache_dir'), folder)
    for data in (
        {**files_corpus, **folders, 'vocabulary': f'{folder}/v.model'},
        {'corpus': 'huggingface', 'dataset': f'{folder}/set', **folders},
        {
            'shared_vocabulary': False,
            'source_vocabulary': f'{folder}/s.model',
            'target_vocabulary': f'{folder}/t.model',
        },
    ):
        origin = folder if 'dataset' in data else ''
        tied = 'all' if data.get('shared_vocabulary', True) else 'decoder'
        config = tiny(model={'tied_embeddings': tied}, data=data, train={'init_from': origin})
        written = without_paths(config)
        assert 'secret' not in json.dumps(written.to_dict())
        assert written.model == config.model
    assert without_paths(tiny(data=files_corpus)).data.dev_target == 'dev_target.txt'
    hub = tiny(data={'corpus': 'huggingface', 'dataset': 'wmt/wmt14'})
    assert without_paths(hub).data.dataset == 'wmt/wmt14'


def test_two_vocabularies_come_back_and_a_changed_byte_is_noticed(release, tmp_path):
    source = VocabularyPair.load(release).source
    target = Vocabulary.train(['Le chat dort.', 'Un chien mange.'], size=280)
    pair = VocabularyPair(source, target)
    config = tiny(model={'tied_embeddings': 'decoder'}, data={'shared_vocabulary': False})
    params = jax.tree.map(
        lambda like: np.full(like.shape, 0.5, like.dtype),
        parameter_shapes(config.model, pair.sizes),
    )
    write_release(
        tmp_path,
        config=config,
        vocabulary=pair,
        params=params,
        name='mine',
        release=Release([7]),
        dtype='bfloat16',
    )
    found = load_trained(tmp_path)
    jax.tree.map(np.testing.assert_array_equal, found.params, params)
    assert (found.vocabulary.digest, found.steps) == (pair.digest, [7])
    weights = tmp_path / 'model.safetensors'
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1  # still a number
    weights.write_bytes(content)
    with pytest.raises(UserError, match=r'damaged model.safetensors \(its SHA-256 is not the one'):
        load_trained(tmp_path)
    assert '360 (source) and 280 (target) pieces' in (tmp_path / 'README.md').read_text()
    shared = VocabularyPair(target, target)
    for name in ('source_vocabulary.model', 'target_vocabulary.model'):
        (tmp_path / name).unlink()
    shared.save(tmp_path)
    with pytest.raises(UserError, match='is not the vocabulary with which the model was trained'):
        load_trained(tmp_path)


def test_a_full_disk_leaves_no_folder(run_command, release, tmp_path, small_disk):
    restore = small_disk()
    arguments = ['--workdir', release, '--to', 'release', '--output', tmp_path / 'new']
    code, _, err = run_command(convert, *arguments)
    restore()
    assert (code, err.count('\n')) == (2, 1)
    assert 'cannot be written any more (File too large): free space' in err
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_cannot_be_chosen_in_a_release(release):
    for option in ({'checkpoints': 2}, {'average': 'best'}, {'steps': [800]}):
        with pytest.raises(UserError, match='which has one set of weights: leave it out'):
            load_trained(release, **option)
