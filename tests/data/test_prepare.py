"""Data are prepared once, from the content of files, and every problem is logged or raised."""

import logging
import os
import shutil

import numpy as np
import pytest
import sentencepiece

from transformer_jax.config import DataConfig
from transformer_jax.data import prepare as module
from transformer_jax.data.prepare import prepare
from transformer_jax.errors import UserError


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / 'corpus'
    folder.mkdir()
    (folder / 'train.en').write_text(''.join(f'the number {n}\n' for n in range(90)) + 'none\n')
    (folder / 'train.fr').write_text(''.join(f'le nombre {n}\n' for n in range(90)) + '\n')
    return folder


def config(folder, **changes):
    settings = {
        'corpus': 'files',
        'train_source': str(folder / 'train.en'),
        'train_target': str(folder / 'train.fr'),
        'dev_size': 2,
        'test_size': 3,
        'vocab_size': 290,
        'max_length': 20,
        'tokens_per_batch': 160,
        'num_buckets': 1,
        'cache_dir': str(folder.parent / 'cache'),
    }
    return DataConfig(**settings | changes)


def test_a_config_gives_vocabulary_pairs_and_batches(folder):
    data = prepare(config(folder))
    assert data.vocabulary.sizes == (290, 290)
    assert (len(data.dev), len(data.test)) == (2, 3)
    assert len(data.store) + len(data.dev) + len(data.test) + data.store.empty == 91
    assert data.plan.batches_per_epoch > 1


def test_the_second_time_everything_comes_from_the_cache(folder, monkeypatch):
    first = prepare(config(folder))
    monkeypatch.setattr(module.Vocabulary, 'train', None)
    monkeypatch.setattr('transformer_jax.data.batching.token_store.write_store', None)
    monkeypatch.setattr('transformer_jax.data.corpora.held_out.HeldOutCorpus._select', None)
    assert prepare(config(folder)).fingerprint == first.fingerprint


def test_a_changed_file_changes_the_fingerprint(folder):
    first = prepare(config(folder))
    text = (folder / 'train.fr').read_text()
    (folder / 'train.fr').write_text(text.replace('nombre 7', 'chiffre 7'))
    assert prepare(config(folder)).fingerprint != first.fingerprint


def test_moved_files_keep_the_fingerprint(folder, tmp_path):
    shutil.copytree(folder, tmp_path / 'moved')
    moved = config(tmp_path / 'moved')
    assert prepare(moved).fingerprint == prepare(config(folder)).fingerprint


def test_the_vocabulary_of_a_resumed_run_is_kept(folder):
    small = prepare(config(folder, vocab_size=280)).vocabulary
    assert prepare(config(folder), small).vocabulary is small


def test_a_given_vocabulary_file_is_used(folder, tmp_path):
    prepare(config(folder, vocab_size=280)).vocabulary.target.save(tmp_path / 'given.model')
    given = config(folder, vocabulary=str(tmp_path / 'given.model'))
    assert prepare(given).vocabulary.sizes == (280, 280)


def test_a_vocabulary_of_other_languages_gives_a_warning(folder, caplog):
    own = prepare(config(folder)).vocabulary
    assert 'no pieces' not in caplog.text
    caplog.clear()
    (folder / 'train.fr').write_text(''.join(f'число {n}\n' for n in range(91)))
    with caplog.at_level(logging.WARNING, 'transformer_jax'):
        prepare(config(folder, target_language='ru'), own)
    (record,) = caplog.records
    # 10 of the 15 tokens of a line are bytes; two spaces, two digits and EOS are not.
    assert "no pieces for many characters of 'ru': 67 % of its tokens" in record.getMessage()


def test_a_dev_set_equal_to_the_training_set_gives_a_warning(folder, caplog):
    shutil.copy(folder / 'train.en', folder / 'dev.en')
    with caplog.at_level(logging.WARNING, 'transformer_jax'):
        prepare(
            config(
                folder,
                dev_source=str(folder / 'dev.en'),
                dev_target=str(folder / 'train.fr'),
                test_source=str(folder / 'train.en'),
                test_target=str(folder / 'dev.en'),
            )
        )
    assert 'The dev set is the training set: its scores' in caplog.text
    assert 'The test set' not in caplog.text


def test_pairs_that_are_left_out_are_counted_in_a_warning(folder, caplog):
    (folder / 'train.en').write_text('long ' * 50 + '\n' + (folder / 'train.en').read_text())
    (folder / 'train.fr').write_text('long ' * 50 + '\n' + (folder / 'train.fr').read_text())
    prepare(config(folder, dev_size=1, test_size=1, seed=3))
    assert 'Left out 1 of 89 training pairs, longer than data.max_length=20 tokens.' in caplog.text
    assert 'Left out 1 training pairs with an empty side.' in caplog.text


def test_a_max_length_below_every_pair_is_refused(folder):
    with pytest.raises(UserError, match=r'data\.max_length=2 is shorter than every training pair'):
        prepare(config(folder, max_length=2))


def test_sampled_lengths_come_from_the_cache_unless_it_is_damaged(folder, monkeypatch, caplog):
    first = prepare(config(folder, subword_sampling=0.1, max_length=40, tokens_per_batch=320))
    [path] = (folder.parent / 'cache').glob('lengths-*.npy')
    whole = path.read_bytes()
    plain = module.SubwordSampler.planned_lengths
    monkeypatch.setattr(module.SubwordSampler, 'planned_lengths', None)
    again = prepare(config(folder, subword_sampling=0.1, max_length=40, tokens_per_batch=320))
    assert again.plan.buckets == first.plan.buckets
    assert again.subword_sampler.rate == 0.1
    monkeypatch.setattr(module.SubwordSampler, 'planned_lengths', plain)
    for left in (whole[: len(whole) // 2], b''):
        path.write_bytes(left)
        caplog.clear()
        prepare(config(folder, subword_sampling=0.1, max_length=40, tokens_per_batch=320))
        assert path.read_bytes() == whole
        assert 'are damaged: drawing them again' in caplog.text


def test_cached_lengths_are_never_unpickled(folder, caplog):
    sampled = config(folder, subword_sampling=0.1, max_length=40, tokens_per_batch=320)
    prepare(sampled)
    [path] = (folder.parent / 'cache').glob('lengths-*.npy')
    np.save(path, np.array([{}], object), allow_pickle=True)
    prepare(sampled)
    assert 'are damaged: drawing them again' in caplog.text


def test_only_the_sides_asked_for_are_sampled(folder):
    for sides, drawn in (('both', {'source', 'target'}), ('source', {'source'})):
        data = prepare(config(folder, subword_sampling=0.5, subword_sampling_sides=sides))
        batch = data.plan.epoch(0)[0]
        first, second = (data.subword_sampler.arrays(batch, epoch, 0) for epoch in (0, 1))
        assert {side for side in first if (first[side] != second[side]).any()} == drawn


@pytest.mark.parametrize('kind', ['char', 'word'])
def test_vocabularies_of_characters_or_words_cannot_be_sampled(folder, kind):
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / 'train.en'),
        model_prefix=str(folder / kind),
        model_type=kind,
        vocab_size=20,
        hard_vocab_limit=False,
        unk_id=2,
        pad_id=0,
        eos_id=1,
        bos_id=-1,
        minloglevel=2,
    )
    given = config(folder, vocabulary=str(folder / f'{kind}.model'), subword_sampling=0.1)
    with pytest.raises(UserError, match=r'data.subword_sampling=0.1 needs a vocabulary of BPE'):
        prepare(given)


@pytest.mark.parametrize('entry', ['vocabulary-*.model', 'tokens-*/source.offsets'])
def test_a_pipe_in_the_cache_is_replaced_at_once(folder, caplog, entry):
    first = prepare(config(folder))
    [path] = (folder.parent / 'cache').glob(entry)
    path.unlink()
    os.mkfifo(path)
    assert prepare(config(folder)).fingerprint == first.fingerprint
    assert 'not a regular file' in caplog.text


def test_each_side_may_have_a_vocabulary_of_its_own_text(folder, monkeypatch):
    given = config(folder, shared_vocabulary=False, vocab_size=286)
    data = prepare(given)
    source, target = data.vocabulary.source, data.vocabulary.target
    assert (source.size, target.size) == (286, 286)
    for ids, vocabulary, words in (
        (data.store.source, source, 'the number '),
        (data.store.target, target, 'le nombre '),
    ):
        line = ids.tokens[ids.offsets[0] : ids.offsets[1]]
        assert vocabulary.decode(line.tolist()).startswith(words)
    # Each has pieces of the words of its language, and not of those of the other.
    assert len(source.encode(['the number'])[0]) < len(target.encode(['the number'])[0])
    assert len(target.encode(['le nombre'])[0]) < len(source.encode(['le nombre'])[0])
    monkeypatch.setattr(module.Vocabulary, 'train', None)  # the second time, from the cache
    assert prepare(given).fingerprint == data.fingerprint


def test_two_given_vocabulary_files_are_used(folder, tmp_path):
    pair = prepare(config(folder, shared_vocabulary=False, vocab_size=286)).vocabulary
    names = {'source_vocabulary': 'a.model', 'target_vocabulary': 'b.model'}
    names = {field: str(tmp_path / name) for field, name in names.items()}
    pair.source.save(names['source_vocabulary'])
    pair.target.save(names['target_vocabulary'])
    given = config(folder, shared_vocabulary=False, **names)
    assert prepare(given).vocabulary.digest == pair.digest
    os.remove(names['target_vocabulary'])
    with pytest.raises(UserError, match=r"data\.target_vocabulary='.*b\.model' cannot be read"):
        prepare(given)
