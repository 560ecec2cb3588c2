"""What is refused or warned of before step 1."""

import dataclasses
import re
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_run import tiny, two_buckets

from transformer_jax.data.prepare import prepare
from transformer_jax.errors import UserError
from transformer_jax.runtime import memory
from transformer_jax.training import run, train, trainer
from transformer_jax.training.checks import preflight
from transformer_jax.training.checks.preflight import shapes_table
from transformer_jax.training.compile import CompiledStep

pytestmark = pytest.mark.usefixtures('programs_kept')
ONE_SHAPE = {'num_buckets': 1}  # for models that no other test compiles


def test_a_vocabulary_that_cannot_write_the_references_is_warned_of(tmp_path, caplog):
    source, target = tmp_path / 'train.en', tmp_path / 'train.zh'
    source.write_text(''.join(f'hello {n}\n' for n in range(200)))
    target.write_text(''.join(f'你好，世界 {n}！\n' for n in range(200)), encoding='utf-8')
    data = {
        'corpus': 'files',
        'target_language': 'zh',
        'train_source': str(source),
        'train_target': str(target),
        'dev_size': 10,
        'test_size': 10,
        'train_size': 1,
        'vocab_size': 300,
    }
    train(tiny(data=ONE_SHAPE | data, train={'steps': 1}), tmp_path / 'run')
    assert re.search(r"writes '你好,世界 \d+!' for '你好，世界 \d+！', because", caplog.text)
    assert re.search(
        r'a BLEU of \d\d\.\d on dev, not 100\. A vocabulary trained with data', caplog.text
    )


@pytest.mark.parametrize(
    ('changed', 'reason'),
    [
        ({'a ☃ cat sat here': ([5, 2], 'a ⁇ cat sat here')}, 'it does not know a character'),
        (
            {
                'a ☃ cat sat here': ([5, 2], 'a ⁇ cat sat here'),
                'a ﬁne cat sat': ([5, 6], 'a fine cat sat'),
            },
            'its normalization changes the text',
        ),
    ],
)
def test_an_unknown_character_is_not_taken_for_normalization(changed, reason, caplog):
    vocabulary = SimpleNamespace(
        unknown_id=2,
        encode=lambda texts: [np.array(changed[x][0]) for x in texts],
        decode=lambda ids: next(x for own, x in changed.values() if own == ids.tolist()),
    )
    preflight.warn_of_normalization(vocabulary, [*changed], 'en')
    assert f'because {reason}: a perfect translation' in caplog.text


def test_a_shape_too_large_for_the_device_is_refused_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, 'device_memory', lambda device, held: 10_000)
    with pytest.raises(UserError, match=r'tokens_per_batch=512 .* MiB on a device of 0.01'):
        train(tiny(), tmp_path)
    monkeypatch.undo()
    # The remedy works in the same folder.
    smaller = tiny(data={'num_buckets': 1}, train={'steps': 1})
    assert train(smaller, tmp_path)['step'] == 1


def test_a_test_set_that_cannot_be_scored_is_refused_before_training(tmp_path, monkeypatch):
    def with_long_test(*args):
        return dataclasses.replace(prepare(*args), test=[('the cat ' * 200, 'le chat ' * 200)])

    monkeypatch.setattr(trainer, 'prepare', with_long_test)
    monkeypatch.setattr(memory, 'CHECK_FROM_TOKENS', 256)
    monkeypatch.setattr(memory, 'device_memory', lambda device: 10_000)
    with pytest.raises(UserError, match=r"^pair 1 of the test set, which starts with 'the cat"):
        train(tiny(), tmp_path)
    assert not (tmp_path / 'config.json').exists()


def test_empty_micro_batches_are_warned_of(tmp_path, caplog):
    config = tiny(data=ONE_SHAPE, train={'steps': 1, 'accumulate_steps': 16})
    train(config, tmp_path)
    assert re.search(
        r'train\.accumulate_steps=16 splits batches of \d+ .* into 128 parts', caplog.text
    )


def test_a_model_whose_state_does_not_fit_is_refused_before_it_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(run, 'initial_state', None)  # so that making it would fail
    monkeypatch.setattr(trainer, 'device_memory', lambda device: 10_000)
    with pytest.raises(UserError, match=r'make [\d,]+ parameters, which with the moments of Adam'):
        train(tiny(), tmp_path)


def test_the_table_has_a_row_for_each_shape():
    plan = two_buckets()
    steps = {
        b: CompiledStep(None, None, rows, 1e9, 2**30)
        for b, rows in zip(plan.buckets, (80, 16), strict=True)
    }
    assert [line.split() for line in shapes_table(steps, plan).splitlines()[1:]] == [
        ['80', '5', '6', str(300 // 80), '1.0', '1.00'],
        ['16', '30', '30', '10', '1.0', '1.00'],
    ]
