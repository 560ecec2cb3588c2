"""The section data: values that it refuses and accepts."""

import re

import pytest

from transformer_jax.config import DataConfig
from transformer_jax.errors import UserError


@pytest.mark.parametrize(
    'values, message',
    [
        ({'corpus': 'file'}, "phrasebook, trees, none: did you mean 'files'?"),
        (
            {'normalization': 'nfc'},
            "data.normalization='nfc' must be one of nmt_nfkc, nmt_nfkc_cf, nfkc, nfkc_cf, ",
        ),
        ({'subword_sampling_sides': 'target_'}, 'must be one of both, source, target'),
        ({'max_length': 1}, 'data.max_length=1 must be from 2 to 1,000,000.'),
        (
            {'tokens_per_batch': 799, 'max_length': 100},
            'data.tokens_per_batch=799 holds fewer than 8 sentences of data.max_length=100: '
            'set it to 800 or more, or lower data.max_length.',
        ),
        (
            {'corpus': 'files'},
            "data.train_source='' must name a file, because data.corpus is 'files'.",
        ),
        (
            {'corpus': 'files', 'train_source': 'a', 'dev_target': 'b'},
            "data.dev_target='b' requires data.dev_source: set it too.",
        ),
        (
            {'corpus': 'files', 'train_source': 'a', 'test_target': 'b'},
            "data.test_target='b' requires data.test_source: set it too.",
        ),
        (
            {'shared_vocabulary': False, 'vocabulary': 'a.model'},
            "data.vocabulary='a.model' is one vocabulary for both languages, but "
            'data.shared_vocabulary is False: name data.source_vocabulary and '
            'data.target_vocabulary, or set it to True.',
        ),
        (
            {'source_vocabulary': 'a.model', 'target_vocabulary': 'b.model'},
            "data.source_vocabulary='a.model' is for one language, but data.shared_vocabulary is "
            'True: set it to False, or name a vocabulary for both languages in data.vocabulary.',
        ),
        (
            {'shared_vocabulary': False, 'target_vocabulary': 'b.model'},
            "data.target_vocabulary='b.model' requires data.source_vocabulary: set it too, or "
            'leave out both to train them.',
        ),
        (
            {'corpus': 'tfds', 'dataset': ''},
            "data.dataset='' must name a dataset, because data.corpus is 'tfds'.",
        ),
        (
            {'corpus': 'huggingface', 'dataset': ''},
            "must name a dataset, because data.corpus is 'huggingface'.",
        ),
        (
            {'dev_source': 'a', 'dev_target': 'b'},
            "data.dev_source='a' is for data.corpus='files', but data.corpus is 'tfds': change",
        ),
    ],
)
def test_bad_values_are_refused(values, message):
    with pytest.raises(UserError, match=re.escape(message)):
        DataConfig(**values)


def test_both_sides_may_have_the_same_language():
    assert DataConfig(source_language='de', target_language='de').source_language == 'de'


def test_values_at_their_limits_are_accepted():
    DataConfig(tokens_per_batch=800, max_length=100)
    DataConfig(max_length=2, character_coverage=0.98)
    DataConfig(corpus='files', train_source='a', dev_source='b', dev_target='c')
    DataConfig(corpus='phrasebook', dataset='')
