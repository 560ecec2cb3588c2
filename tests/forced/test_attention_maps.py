"""The attention of all layers and heads for a text and an output."""

import sys

import numpy as np
import pytest
from closeness import assert_close

from transformer_jax.errors import UserError
from transformer_jax.forced.teacher_forcing import TeacherForcing
from transformer_jax.inference.network import CrossAttention
from transformer_jax.translator import Translator

TEXT, TARGET = 'The cat sleeps near the table.', 'Le chat dort.'


@pytest.fixture(scope='module')
def translator():
    return Translator.load('tatoeba_en_fr')


@pytest.fixture(scope='module')
def found(translator):
    return translator.attention(TEXT, TARGET)


def test_tokens_are_those_that_the_model_reads_and_predicts(translator, found):
    pieces = tuple(translator.vocabulary.target.pieces(found_ids(translator, TARGET)))
    assert found.target == (*pieces, '</s>')
    assert found.inputs == ('<start>', *pieces)
    assert found.source[-1] == '</s>' and ''.join(found.source[:-1]).startswith('▁The▁cat')
    assert (found.text, found.output) == (TEXT, TARGET)
    assert found.source_words[-1] is None and found.source_words[0] == 0
    assert found.target_words == translator_words(translator, TARGET)


def found_ids(translator, text):
    (ids,) = translator.vocabulary.target.encode([text])
    return ids.tolist()


def translator_words(translator, text):
    return tuple(translator.vocabulary.target.output_words(found_ids(translator, text)))


def test_weights_of_each_query_add_up_to_1_and_look_at_no_later_input(found):
    s, t = len(found.source), len(found.target)
    shapes = {'encoder': (4, 4, s, s), 'decoder': (4, 4, t, t), 'cross': (4, 4, t, s)}
    for name, shape in shapes.items():
        weights = getattr(found, name)
        assert weights.shape == shape and weights.dtype == np.float32
        assert_close(weights.sum(-1), 1.0)
    assert not np.triu(found.decoder, 1).any()


def test_cross_attention_is_the_one_that_aligns_words(translator, found):
    ids = [
        side.encode([text]) for side, text in zip(sides(translator), (TEXT, TARGET), strict=True)
    ]
    forcing = TeacherForcing(translator.network)
    ((_, weights),) = forcing.attention(*ids, CrossAttention(layer=3, heads=(1, 2)))
    np.testing.assert_allclose(weights, found.cross[2, 1:3].mean(0), rtol=1e-4, atol=1e-6)


def sides(translator):
    return translator.vocabulary.source, translator.vocabulary.target


def test_log_probabilities_are_those_of_score(translator, found):
    (score,) = translator.score([TEXT], [TARGET])
    np.testing.assert_allclose(found.log_probs, score.log_probs, rtol=1e-4, atol=1e-5)


def test_without_a_target_the_output_is_that_of_translate(translator):
    found = translator.attention(TEXT, beam_size=1)
    (outputs,) = translator.translate([TEXT], beam_size=1)
    assert found.target == (*outputs[0].tokens, '</s>')
    # Greedy search takes the most likely token at each step.
    assert tuple(best for (best, _), *_ in found.top) == found.target
    probabilities = np.array([[p for _, p in step] for step in found.top])
    assert probabilities.shape == (len(found.target), 5)
    assert (np.diff(probabilities) <= 0).all() and (probabilities.sum(1) <= 1 + 1e-5).all()
    np.testing.assert_allclose(np.log(probabilities[:, 0]), found.log_probs, rtol=1e-4, atol=1e-5)


def test_other_texts_of_a_batch_change_nothing(translator, found):
    texts = ['Hello.', TEXT, '', 'Two\nlines']
    batch = translator.attention(texts, ['Salut.', TARGET, '', 'Deux lignes'])
    assert_close(batch[1].cross, found.cross)
    assert batch[2].source == batch[2].target == ('</s>',)
    assert [step for step, _ in enumerate(batch[2].top)] == [0]
    assert batch[3].text == 'Two lines'


def test_more_targets_than_texts_and_ensembles_are_refused(translator):
    with pytest.raises(UserError, match='there are 1 texts but 2 targets: give a target for each'):
        translator.attention(['a'], ['b', 'c'])
    with pytest.raises(UserError, match='that of one model, but 2 are loaded'):
        Translator.load(['tatoeba_en_fr'] * 2).attention('a', 'b')


def test_bertviz_gets_a_tensor_of_one_sentence_for_each_layer(found):
    torch = pytest.importorskip('torch', reason='torch is not installed')
    arguments = found.bertviz()
    assert arguments['decoder_tokens'] == list(found.inputs)
    assert len(arguments['cross_attention']) == 4
    assert torch.equal(arguments['cross_attention'][1][0], torch.tensor(found.cross[1]))


def test_without_torch_bertviz_is_answered_with_a_sentence(found, monkeypatch):
    monkeypatch.setitem(sys.modules, 'torch', None)
    with pytest.raises(UserError, match='bertviz needs torch: pip install torch bertviz'):
        found.bertviz()
