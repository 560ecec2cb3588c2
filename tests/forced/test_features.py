"""The encoder's outputs for texts."""

import numpy as np
import pytest
from tiny_run import TEXTS

from transformer_jax.errors import UserError
from transformer_jax.translator import load_trained

pytestmark = pytest.mark.usefixtures('programs_kept')


def test_features_are_those_of_the_network(translator):
    features = translator.encode(TEXTS)
    states = translator.model.apply({'params': translator.params}, features.tokens, method='encode')
    np.testing.assert_allclose(
        features.states[features.mask], np.asarray(states)[features.mask], atol=1e-4
    )
    assert not features.states[~features.mask].any()
    ids = translator.vocabulary.source.encode(TEXTS)
    assert features.lengths.tolist() == [len(x) for x in ids]


def test_a_text_has_the_same_features_alone(translator):
    together = translator.encode(TEXTS).mean()
    alone = np.concatenate([translator.encode([text]).mean() for text in TEXTS])
    np.testing.assert_allclose(alone, together, atol=1e-4)


def test_no_texts_and_empty_texts_have_features(translator):
    assert translator.encode([]).mean().shape == (0, translator.config.model.d_model)
    assert translator.encode(['']).lengths.tolist() == [1]  # EOS


def test_a_long_text_is_cut_with_a_warning(translator, caplog):
    assert translator.encode(TEXTS[:1], max_source_length=3).lengths.tolist() == [3]
    assert 'is cut to the limit of 3' in caplog.text


def test_a_single_text_is_refused(translator):
    with pytest.raises(UserError, match='is a single text: give a list of texts'):
        translator.encode('The cat.')


def test_a_pair_of_vocabularies_says_which_side_to_take(workdir):
    with pytest.raises(AttributeError, match=r'take \.source\.encode or \.target\.encode'):
        load_trained(workdir).vocabulary.encode(TEXTS)
