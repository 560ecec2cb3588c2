"""Patience, and the scores of dev and test."""

import re

import pytest
from tiny_run import stop_at, tiny

from transformer_jax.checkpointing.dev_scores import quality
from transformer_jax.training import train
from transformer_jax.training.logs.metrics_writer import read_metrics
from transformer_jax.training.scoring import evaluation
from transformer_jax.translating.translation_metrics import Scores

pytestmark = pytest.mark.usefixtures('programs_kept')
ONE_SHAPE = {'num_buckets': 1}  # for models that no other test compiles


def test_a_run_out_of_patience_ends_and_stays_ended(tmp_path, monkeypatch, caplog):
    def score(*_, target_language):
        assert target_language == config.data.target_language
        return Scores(2.0, 'tok:13a', 1.0, '')  # never better than the first

    monkeypatch.setattr(evaluation, 'score', score)
    config = tiny(train={'patience': 1, 'steps': 100, 'eval_every': 3})
    assert train(config, tmp_path)['step'] == 12  # the first after the warm-up
    (tmp_path / 'results.json').unlink()
    assert train(config, tmp_path)['step'] == 12
    assert 'train.patience=1 has run out' in caplog.text


@pytest.mark.parametrize(
    ('bleu', 'loss', 'ends'),
    [
        ([5.0, 6.0, 5.0], [3.0, 2.0, 1.0], True),  # a lower loss no longer counts
        ([0.0, 0.1, 0.0], [3.0, 2.0, 1.0], False),
        ([0.0, 0.1, 0.0], [3.0, 2.0, 2.0], True),
        ([5.0, 6.0, 7.0], [1.0, 2.0, 3.0], False),
        ([0.0, 0.0], [None, 2.0], False),
        ([0.0, 0.0], [2.0, None], True),
    ],
)
def test_patience_wants_a_higher_bleu_or_a_lower_loss_while_bleu_is_near_zero(bleu, loss, ends):
    records = [
        {'kind': 'dev', 'step': 20 + k, 'bleu': x, 'loss': y}
        for k, (x, y) in enumerate(zip(bleu, loss, strict=True))
    ]
    config = tiny(train={'patience': 1})
    assert evaluation.out_of_patience(config, records) == ends


def test_a_run_may_end_before_its_first_evaluation(tmp_path, monkeypatch):
    best = {'decode': {'beam_size': 2, 'average_checkpoints': 1, 'average': 'best'}}
    stop_at(monkeypatch, 5)
    with pytest.raises(KeyboardInterrupt):
        train(tiny(**best), tmp_path)
    monkeypatch.undo()
    results = train(tiny(**best, train={'steps': 3}), tmp_path)
    assert (results['step'], results['averaged_checkpoints']) == (3, [3])


def test_long_references_and_cut_outputs_are_counted(tmp_path, caplog):
    config = tiny(data=ONE_SHAPE, train={'steps': 1}, decode={'max_extra_length': 0})
    results = train(config, tmp_path)
    assert re.search(r'max_extra_length=0 .*: \d+ of 400 \(train\), \d of 8 \(dev\), ', caplog.text)
    assert 0 < results['test']['cut_outputs'] <= 8
    assert 'outputs ended at the limit of max_extra_length=0' in caplog.text


def test_checkpoints_of_a_parser_are_compared_by_f1(tmp_path):
    words = ('cat', 'NN'), ('cats', 'NNS'), ('it', 'PRP'), ('him', 'PRP'), ('May', 'NNP')
    trees = [
        f'(S (NP ({t1} {w1})) (VP (VB see) (NP ({t2} {w2}))))\n'
        for w1, t1 in words
        for w2, t2 in words
    ]
    (tmp_path / 'trees.mrg').write_text(''.join(trees))
    data = {'corpus': 'trees', 'train_source': str(tmp_path / 'trees.mrg'), 'vocab_size': 290}
    data |= {'shared_vocabulary': False, 'target_vocabulary_type': 'word', 'num_buckets': 1}
    config = tiny(
        model={'tied_embeddings': 'decoder'}, data=data, train={'steps': 6, 'eval_every': 3}
    )
    results = train(config, tmp_path / 'run')
    dev = [r for r in read_metrics(tmp_path / 'run' / 'metrics.jsonl') if r['kind'] == 'dev']
    # An untrained model writes nothing of use, so the repaired trees have their outer bracket only.
    assert [record['f1'] > record['bleu'] for record in dev] == [True, True]
    assert results['best_dev']['f1'] == max(record['f1'] for record in dev)
    assert results['test']['f1'] > 0
    assert quality({'bleu': 50.0, 'f1': 40.0}) == 40.0 and quality({'bleu': 50.0}) == 50.0
