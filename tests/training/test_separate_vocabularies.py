"""A run whose languages have a vocabulary each, from training to translation."""

import os
import shutil

import pytest
from tiny_run import TEXTS, remembered, stop_at, tiny

from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.storage.workdir import Workdir
from transformer_jax.training import train
from transformer_jax.training.checks import resume_checks
from transformer_jax.translator import Translator

pytestmark = pytest.mark.usefixtures('programs_kept')


def config(**changes):
    sections = {
        'model': {'tied_embeddings': 'decoder', 'decoder_start': 'zero'},
        'data': {'shared_vocabulary': False, 'vocab_size': 360, 'num_buckets': 1},
        'train': {'steps': 6},
    }
    return tiny(**{name: sections.get(name, {}) | changes.get(name, {}) for name in sections})


@pytest.fixture(scope='module')
def run(run_of):
    return run_of('separate', config())


def test_stopped_and_resumed_it_ends_with_the_same_bytes(run, tmp_path, monkeypatch):
    stop_at(monkeypatch, 5)
    with pytest.raises(KeyboardInterrupt):
        train(config(), tmp_path)
    monkeypatch.undo()
    train(config(), tmp_path)
    assert remembered(tmp_path) == remembered(run)
    vocabularies = sorted(name for name in os.listdir(tmp_path) if name.endswith('.model'))
    assert vocabularies == ['source_vocabulary.model', 'target_vocabulary.model']


def test_it_translates_and_scores(run):
    translator = Translator.load(run)
    assert not translator.vocabulary.shared
    params = translator.network.params[0]
    assert params['source_embedding'].shape == params['embedding'].shape == (360, 16)
    outputs = [best for best, *_ in translator.translate(TEXTS, align=True)]
    target = translator.vocabulary.target
    scores = translator.score(TEXTS, [output.text for output in outputs])
    for output, score in zip(outputs, scores, strict=True):
        ids = target.encode([output.text])[0]
        assert score.pieces == (*target.pieces(ids), '</s>')
        assert output.text == target.decode(target.ids_of_pieces(output.tokens, 'output'))


def test_its_weights_start_a_run_with_its_vocabularies_only(run):
    origin = {'train': {'init_from': str(run)}}
    inherited = resume_checks.inherited_vocabulary(config(**origin))
    assert inherited.digest == VocabularyPair.load(run).digest
    shared = tiny(model={'decoder_start': 'zero', 'tied_embeddings': 'decoder'}, **origin)
    with pytest.raises(
        UserError, match=r'another model .*data\.shared_vocabulary: True against Fa'
    ):
        resume_checks.inherited_vocabulary(shared)


def test_another_vocabulary_in_the_folder_is_refused(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / 'run')
    source, target = (folder / f'{side}_vocabulary.model' for side in ('source', 'target'))
    shutil.copy(source, target)
    with pytest.raises(UserError, match=r'source_vocabulary\.model. is not the vocabulary with'):
        Translator.load(folder)
    with pytest.raises(UserError, match=r'source_vocabulary\.model. is not the vocabulary that'):
        train(config(train={'steps': 8}), folder)
    assert Workdir(folder).vocabulary == source


def test_named_files_must_be_those_of_the_run(run):
    folder, saved = Workdir(run), Workdir(run).read_run()
    named = {
        'source_vocabulary': str(run / 'source_vocabulary.model'),
        'target_vocabulary': str(run / 'target_vocabulary.model'),
    }
    swapped = dict(zip(named, reversed(named.values()), strict=True))
    assert resume_checks.required_vocabulary(folder, config(data=named), saved)
    with pytest.raises(UserError, match=r"data\.source_vocabulary='.*' is not the vocabulary that"):
        resume_checks.required_vocabulary(folder, config(data=swapped), saved)
