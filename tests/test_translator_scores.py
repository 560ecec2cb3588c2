"""Scores, alignments and counts of combined options, each against a straightforward computation."""

import dataclasses
import functools
import math

import jax
import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF
from tiny_run import TEXTS

from transformer_jax.inference.load import TrainedModel
from transformer_jax.model import shift_right
from transformer_jax.translating.batch_decoder import BatchDecoder, DecodeResult
from transformer_jax.translator import Sampling, Translator

pytestmark = pytest.mark.usefixtures('programs_kept')

PARAGRAPH = f'{TEXTS[0]}  {TEXTS[1]} {TEXTS[2]}'
SENTENCES = TEXTS[:3]
SAMPLING = Sampling(temperature=1.3, top_k=40, seed=4)
PREFIXES = ['Le', '', 'Où est', '', 'Un chien']
OPTIONS = [
    {},
    {'n_best': 3},
    {'length_norm': 'power', 'length_penalty': 1.2},
    {'length_norm': 'none', 'n_best': 2},
    {'prefixes': PREFIXES, 'n_best': 2},
    {'prefixes': [['▁le'], '', ['▁la'], [], 'Un']},
    {'min_length': 9, 'no_repeat_ngram': 1, 'suppress_tokens': '▁le .', 'prefixes': PREFIXES},
    {'max_source_length': 5, 'n_best': 2},
    {'max_extra_length': 0, 'max_source_length': 6},
    {'sampling': SAMPLING, 'n_best': 4},
    {'sampling': SAMPLING, 'prefixes': PREFIXES, 'max_source_length': 6},
    {'sampling': SAMPLING, 'min_length': 9, 'no_repeat_ngram': 2, 'suppress_tokens': '▁le'},
]


@pytest.fixture(scope='module')
def other(translator):
    """The trained model with noise in its weights."""
    dice = np.random.default_rng(0)
    params = jax.tree.map(
        lambda x: np.asarray(x + 0.1 * np.std(x) * dice.normal(size=x.shape), np.float32),
        translator.network.params[0],
    )
    return TrainedModel(translator.config, translator.vocabulary, params, [7])


@pytest.fixture(scope='module', params=['probabilities', 'log_probabilities'])
def ensemble(request, translator, other):
    first = translator.network.params[0]
    return Translator(
        translator.config, translator.vocabulary, first, others=[other], ensemble=request.param
    )


@functools.cache
def forward(module):
    return jax.jit(module.apply)


def log_prob_of(model, source, ids):
    """Return the log-probability of an output's ids, by one forward pass of each model."""
    source, target = (np.pad(x, (0, 64 - len(x)))[None].astype(np.int32) for x in (source, ids))
    predictions = []
    for params in model.network.params:
        logits = forward(model.model)({'params': params}, source, shift_right(target))
        predictions.append(np.asarray(jax.nn.log_softmax(logits[0]), float))
    if model.network.ensemble.ensemble == 'probabilities':
        together = np.log(np.mean(np.exp(predictions), axis=0))
    else:
        together = np.mean(predictions, axis=0)
        together -= np.log(np.sum(np.exp(together), axis=-1, keepdims=True))
    return float(sum(together[t, token] for t, token in enumerate(ids)))


def ids_of(model, output):
    vocabulary = model.vocabulary
    return [*vocabulary.target.ids_of_pieces(output.tokens, 'output'), vocabulary.eos_id]


def encode_target(model, text):
    return model.vocabulary.target.encode([text])[0][:-1]


def source_of(model, text, limit=0):
    ids = model.vocabulary.source.encode([text])[0]
    return ids if not limit else [*ids[: min(limit, len(ids)) - 1], ids[-1]]


def expected_score(model, text, output, options):
    ids = ids_of(model, output)
    total = log_prob_of(model, source_of(model, text, options.get('max_source_length')), ids)
    if 'sampling' in options:
        return total
    decode = model.config.decode
    alpha = options.get('length_penalty', decode.length_penalty)
    norm = options.get('length_norm', decode.length_norm)
    return (
        total / {'gnmt': ((5 + len(ids)) / 6) ** alpha, 'power': len(ids) ** alpha, 'none': 1}[norm]
    )


def named(options):
    return '-'.join(options) or 'none'


def assert_scores(model, options):
    for text, outputs in zip(TEXTS, model.translate(TEXTS, **options), strict=True):
        for output in outputs:
            expected = expected_score(model, text, output, options)
            assert output.score == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize('options', OPTIONS, ids=named)
def test_a_score_is_the_log_probability_of_the_output_by_the_length_penalty(translator, options):
    assert_scores(translator, options)


@pytest.mark.parametrize(
    'options',
    [{'n_best': 2, 'prefixes': PREFIXES, 'max_source_length': 6}, {'sampling': SAMPLING}],
    ids=named,
)
def test_a_score_of_an_ensemble_is_that_of_its_mean_prediction(ensemble, options):
    assert_scores(ensemble, options)


@pytest.mark.parametrize('options', OPTIONS, ids=named)
def test_an_output_is_cut_if_it_has_all_tokens_that_its_source_and_prefix_allow(
    translator, options
):
    found = translator.translate(TEXTS, align=True, **options)
    extra = options.get('max_extra_length', translator.config.decode.max_extra_length)
    prefixes = options.get('prefixes', [''] * len(TEXTS))
    for text, prefix, outputs in zip(TEXTS, prefixes, found, strict=True):
        source = source_of(translator, text, options.get('max_source_length'))
        forced = prefix if isinstance(prefix, list) else encode_target(translator, prefix)
        longest = max(len(source), len(forced) + 1)
        for output in outputs:
            assert output.cut == (len(output.tokens) + 1 == longest + extra)
            # Each output word has a source word, none of which was cut off.
            words = translator.vocabulary.source.source_words(text)[: len(source) - 1]
            assert {s for s, _ in output.alignment} <= {*words}
            assert sorted(t for _, t in output.alignment) == [*range(len(output.text.split()))]


@pytest.mark.parametrize(
    'options',
    [
        {'n_best': 3},
        {'length_norm': 'none', 'max_source_length': 5},
        {'coverage_penalty': 0.4, 'n_best': 2},
        {'prefixes': ['Un'], 'n_best': 2},
        {'mbr': 'chrf', 'n_best': 4},
        {'mbr': 'bleu', 'n_best': 3, 'prefixes': ['Un']},
        {'max_extra_length': 0},
    ],
    ids=named,
)
def test_a_paragraph_has_the_sum_or_the_mean_of_its_sentences_scores(translator, options):
    pytest.importorskip('sentencex')
    [found] = translator.translate([PARAGRAPH], paragraphs=True, align=True, **options)
    apart = options | {'prefixes': [*options.get('prefixes', ['']), '', '']}
    parts = translator.translate(SENTENCES, align=True, **apart)
    assert len(found) == max(map(len, parts))
    for rank, output in enumerate(found):
        each = [outputs[min(rank, len(outputs) - 1)] for outputs in parts]
        assert output.text == '{}  {} {}'.format(*(part.text for part in each))
        assert output.tokens == sum((part.tokens for part in each), ())
        assert output.cut == any(part.cut for part in each)
        words, outs, alignment = 0, 0, []
        for part, sentence in zip(each, SENTENCES, strict=True):
            alignment += [(words + s, outs + t) for s, t in part.alignment]
            words, outs = words + len(sentence.split()), outs + len(part.text.split())
        assert output.alignment == tuple(sorted(alignment))
        scores, weights = [x.score for x in each], [len(x.text) for x in each]
        if 'mbr' in options:
            expected = np.average(scores, weights=weights)
            assert 0 <= output.score <= 100
        else:
            expected = sum(scores)
        assert output.score == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize('metric', ['chrf', 'bleu'])
@pytest.mark.parametrize(
    'options',
    [
        {'n_best': 2},
        {'n_best': 4, 'prefixes': PREFIXES},
        {'n_best': 3, 'max_source_length': 5, 'length_norm': 'power'},
    ],
    ids=named,
)
def test_mbr_takes_the_best_expected_metric_by_the_probability_of_each_text(
    translator, metric, options
):
    assert_mbr(translator, metric, options)


def test_mbr_takes_the_probabilities_of_an_ensemble(ensemble):
    assert_mbr(ensemble, 'chrf', {'n_best': 4})


def assert_mbr(model, metric, options):
    scorer = BLEU(effective_order=True, force=True) if metric == 'bleu' else CHRF()
    chosen = model.translate(TEXTS, mbr=metric, align=True, **options)
    candidates = model.translate(TEXTS, align=True, **options)
    # All outputs of the beam: those that spell the same text count together.
    beams = all_outputs(model, options)
    for text, beam, outputs, [best] in zip(TEXTS, beams, candidates, chosen, strict=True):
        source = source_of(model, text, options.get('max_source_length'))
        weights = {output.text: 0.0 for output in outputs}
        for ids in beam:
            spelt = model.vocabulary.target.decode(ids)
            if spelt in weights:
                weights[spelt] += math.exp(log_prob_of(model, source, ids))
        utilities = [
            sum(
                weight * scorer.sentence_score(output.text, [other]).score
                for other, weight in weights.items()
            )
            / sum(weights.values())
            for output in outputs
        ]
        assert best.score == pytest.approx(max(utilities), abs=0.01)
        [same] = [x for x in outputs if x.text == best.text]
        assert best == same._replace(score=best.score)
        assert utilities[outputs.index(same)] == pytest.approx(max(utilities), abs=0.01)


def all_outputs(model, options):
    """Return the ids of all finished outputs of the beam of each text."""
    decode = dataclasses.replace(
        model.config.decode,
        **{k: v for k, v in options.items() if k not in ('n_best', 'prefixes')},
    )
    search = model.segments.search_options(decode, n_best=options['n_best'])
    prefixes = [encode_target(model, x) for x in options.get('prefixes', [''] * len(TEXTS))]
    sources = [np.array(source_of(model, x, decode.max_source_length), np.int32) for x in TEXTS]
    found = sorted(model.decoder(sources, search, prefixes=prefixes), key=lambda x: x.index)
    return [
        [
            ids[: np.count_nonzero(ids)].tolist()
            for ids, score in zip(result.tokens, result.scores, strict=True)
            if score > -np.inf
        ]
        for result in found
    ]


def test_mbr_counts_samples_equally_and_a_text_as_often_as_it_was_drawn(translator):
    sampling = Sampling(temperature=0.8, seed=2)
    draws = [translator.translate(TEXTS[:1], sampling=sampling, n_best=n)[0] for n in range(1, 13)]
    # Of n draws, the last one is what n - 1 lack, or a text that was drawn before.
    [best] = translator.translate(TEXTS[:1], sampling=sampling, n_best=12, mbr='chrf')[0]
    search = translator.segments.search_options(
        translator.config.decode, n_best=12, sampling=sampling
    )
    [result] = translator.decoder([source_of(translator, TEXTS[0])], search, lines=[(1, 0)])
    texts = [translator.vocabulary.target.decode(ids.tolist()) for ids in result.tokens]
    assert {*texts} == {x.text for x in draws[-1]} and len(texts) == 12
    chrf = CHRF()
    means = {x: np.mean([chrf.sentence_score(x, [y]).score for y in texts]) for x in texts}
    assert best.score == pytest.approx(max(means.values()), abs=0.01)
    assert means[best.text] == pytest.approx(max(means.values()), abs=0.01)


def test_draws_of_a_sentence_in_a_line_do_not_depend_on_their_number(translator):
    lines = '\n'.join(SENTENCES)
    one = translator(lines, sampling=SAMPLING)
    many = translator(lines, sampling=SAMPLING, n_best=60)
    drawn = [{output.text.split('\n')[k] for output in many} for k in range(3)]
    assert all(text in texts for text, texts in zip(one.split('\n'), drawn, strict=True))


def test_the_coverage_penalty_is_added_to_the_divided_log_probability(translator):
    decode = translator.config.decode
    for text, [output] in zip(
        TEXTS, translator.translate(TEXTS, coverage_penalty=0.4), strict=True
    ):
        found = translator.attention(text, output.text)
        ids = ids_of(translator, output)
        assert list(found.target[:-1]) == list(output.tokens)
        seen = found.cross[max(0, len(found.cross) - 2)].mean(axis=0).sum(axis=0)
        coverage = 0.4 * np.log(np.minimum(seen, 1)).sum()
        penalty = ((5 + len(ids)) / 6) ** decode.length_penalty
        expected = log_prob_of(translator, source_of(translator, text), ids) / penalty + coverage
        assert output.score == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize('limit', [0, 5])
def test_given_targets_have_the_scores_that_a_search_gives_them(ensemble, limit):
    outputs = [best for best, *_ in ensemble.translate(TEXTS, max_source_length=limit)]
    scores = ensemble.score(TEXTS, [x.text for x in outputs], max_source_length=limit)
    alpha = ensemble.config.decode.length_penalty
    for output, score in zip(outputs, scores, strict=True):
        if score.pieces == (*output.tokens, '</s>'):
            expected = output.score * ((5 + score.tokens) / 6) ** alpha
            assert score.log_prob == pytest.approx(expected, rel=1e-4)


def test_an_output_that_does_not_exist_is_the_least_likely(translator):
    vocabulary = translator.vocabulary.target
    pieces = vocabulary.pieces(range(2, vocabulary.size))
    impossible = {'suppress_tokens': ' '.join(pieces), 'min_length': 1}
    [[failed]] = translator.translate(TEXTS[:1], **impossible)
    assert (failed.text, failed.score) == ('', -math.inf)
    [[empty]] = translator.translate([''], **impossible)
    assert (empty.text, empty.score) == ('', 0.0)
    for options, expected in (({}, -math.inf), ({'mbr': 'chrf', 'n_best': 2}, 0.0)):
        [[both]] = translator.translate(['\n'.join(TEXTS[:2])], **impossible, **options)
        assert both.score == expected


def test_mbr_counts_all_outputs_of_the_beam_that_spell_the_same_text(translator, monkeypatch):
    target = translator.vocabulary.target
    spelt = [['▁le'], ['▁la'], ['▁', 'l', 'e']]
    tokens = np.zeros((3, 4), np.int32)
    for row, pieces in zip(tokens, spelt, strict=True):
        row[: len(pieces) + 1] = [*target.ids_of_pieces(pieces, 'output'), target.eos_id]
    log_probs = np.log(np.array([0.2, 0.3, 0.4], np.float32))
    scores = np.array([-1.0, -2.0, -3.0], np.float32)
    monkeypatch.setattr(
        BatchDecoder,
        '__call__',
        lambda *args, **_: iter([DecodeResult(0, tokens, scores, log_probs)]),
    )
    [[best]] = translator.translate(['a'], n_best=2, mbr='chrf')
    other = CHRF().sentence_score('le', ['la']).score
    assert (best.text, best.score) == (
        'le',
        pytest.approx((0.6 * 100 + 0.3 * other) / 0.9, abs=0.01),
    )
