"""What a translator's search can be asked for: each option, alone, in every batch and mesh."""

import dataclasses

import jax
import numpy as np
import pytest
from closeness import assert_close
from tiny_run import TEXTS

from transformer_jax.config import MeshConfig
from transformer_jax.errors import UserError
from transformer_jax.inference.load import TrainedModel
from transformer_jax.model import Transformer
from transformer_jax.sharding import make_mesh
from transformer_jax.translator import Sampling, Translator

pytestmark = pytest.mark.usefixtures('programs_kept')
# Two of them end in the middle of an output of the other texts.
PREFIXES = ['Le', '', 'Où est', '', 'Un chien']
OPTIONS = [
    {'length_norm': 'power', 'length_penalty': 1.0},
    {'coverage_penalty': 0.4},
    {'min_length': 9, 'no_repeat_ngram': 1, 'suppress_tokens': '▁le ▁la .'},
    {'prefixes': PREFIXES},
    {'sampling': Sampling(temperature=0.7, seed=5), 'no_repeat_ngram': 2},
    {'n_best': 4, 'mbr': 'chrf'},
]


@pytest.fixture(scope='module')
def other(translator):
    """A model of other sizes and the same vocabulary, which has learned nothing."""
    config = dataclasses.replace(
        translator.config,
        model=dataclasses.replace(translator.config.model, num_layers=2, d_model=16, num_heads=4),
    )
    tokens = np.zeros((1, 1), np.int32)
    module = Transformer(config.model, translator.vocabulary.target.size)
    params = jax.jit(module.init)(jax.random.key(3), tokens, tokens)['params']
    return TrainedModel(config, translator.vocabulary, params, [7])


def of_models(translator, other, **options):
    return Translator(
        translator.config,
        translator.vocabulary,
        translator.network.params[0],
        translator.steps,
        others=[other],
        **options,
    )


@pytest.fixture(scope='module')
def ensemble(translator, other):
    return of_models(translator, other)


def flat(results):
    return [(output.text, output.score) for outputs in results for output in outputs]


def assert_same(found, expected):
    assert [text for text, _ in flat(found)] == [text for text, _ in flat(expected)]
    assert_close([score for _, score in flat(found)], [score for _, score in flat(expected)])


def named(options):
    return '-'.join(options)


@pytest.mark.parametrize('options', OPTIONS, ids=named)
def test_batch_and_order_change_nothing(translator, options):
    expected = translator.translate(TEXTS, **options)
    assert expected != translator.translate(TEXTS)
    prefixes = options.get('prefixes') or [''] * len(TEXTS)
    alone = [
        translator.translate([text], **options | {'prefixes': [prefix]}, first_line=line)[0]
        for line, (text, prefix) in enumerate(zip(TEXTS, prefixes, strict=True), 1)
    ]
    assert_same(alone, expected)
    if 'sampling' not in options:  # a sample depends on its line
        turned = {'prefixes': prefixes[::-1]}
        assert_same(translator.translate(TEXTS[::-1], **options | turned)[::-1], expected)


@pytest.mark.parametrize(
    'options',
    [
        {
            'coverage_penalty': 0.4,
            'min_length': 9,
            'no_repeat_ngram': 2,
            'suppress_tokens': '.',
            'prefixes': PREFIXES,
            'n_best': 2,
        },
        {'sampling': Sampling(seed=5), 'no_repeat_ngram': 2, 'prefixes': PREFIXES},
    ],
    ids=named,
)
@pytest.mark.parametrize('mesh', [MeshConfig(2, 2, 2)])
def test_every_mesh_finds_what_one_device_finds(translator, other, options, mesh):
    meshes = make_mesh(devices=jax.devices()[:1]), make_mesh(mesh)
    alone, spread = (of_models(translator, other, mesh=one) for one in meshes)
    assert_same(spread.translate(TEXTS, **options), alone.translate(TEXTS, **options))


def test_outputs_begin_with_their_prefixes(translator):
    found = translator(TEXTS, prefixes=PREFIXES)
    assert all(map(str.startswith, found, PREFIXES))
    pieces = ['▁le', '▁la']
    [[output]] = translator.translate(TEXTS[:1], prefixes=[pieces])
    assert list(output.tokens[:2]) == pieces


def test_a_prefix_longer_than_the_text_leaves_room_for_the_rest(translator):
    prefix = 'le chat ' * 30
    [[output]] = translator.translate(['The cat.'], prefixes=[prefix])
    assert output.text.startswith(prefix.strip())
    assert not output.cut


def test_minimum_length_and_suppressed_tokens_are_kept(translator):
    for [output] in translator.translate(TEXTS, min_length=12):
        assert len(output.tokens) >= 12
    for [output] in translator.translate(TEXTS, suppress_tokens='. ▁le'):
        assert not {'.', '▁le'} & set(output.tokens)


def test_no_piece_occurs_twice_with_no_repeat_ngram_1(translator):
    for [output] in translator.translate(TEXTS * 2, no_repeat_ngram=1):
        assert len(set(output.tokens)) == len(output.tokens)


def test_constraints_that_allow_no_output_are_named(translator, caplog):
    least = 2 * translator.vocabulary.target.size
    assert translator(TEXTS[:1], no_repeat_ngram=1, min_length=least, max_extra_length=999) == ['']
    assert 'line 1: their constraints allow none: loosen min_length=1000' in caplog.text


def test_an_ensemble_of_a_model_with_itself_translates_as_it_does_alone(translator):
    itself = TrainedModel(
        translator.config, translator.vocabulary, translator.network.params[0], [1]
    )
    for how in ('probabilities', 'log_probabilities'):
        twice = of_models(translator, itself, ensemble=how)
        assert_same(twice.translate(TEXTS, n_best=2), translator.translate(TEXTS, n_best=2))


def test_an_ensemble_decides_otherwise_than_its_first_model(translator, ensemble):
    assert ensemble(TEXTS) != translator(TEXTS)
    assert ensemble.all_steps == [translator.steps, [7]]


def test_the_other_settings_of_a_model_do_not_matter_to_its_ensemble(translator, other, ensemble):
    train = dataclasses.replace(other.config.train, keep=1)
    decode = dataclasses.replace(other.config.decode, average_checkpoints=1)
    config = dataclasses.replace(other.config, train=train, decode=decode)
    changed = of_models(translator, other._replace(config=config))
    assert changed(TEXTS) == ensemble(TEXTS)


def test_the_coverage_of_an_ensemble_is_penalised(ensemble):
    assert flat(ensemble.translate(TEXTS)) != flat(ensemble.translate(TEXTS, coverage_penalty=1.0))


def test_n_best_never_repeats_a_text(translator):
    sampling = Sampling(temperature=0.3)
    found = translator(TEXTS[0], n_best=200, sampling=sampling)
    texts = [output.text for output in found]
    assert len(set(texts)) == len(texts) < 200
    assert [output.score for output in found] == sorted((x.score for x in found), reverse=True)


def test_mbr_chooses_one_of_the_n_best(translator):
    for options in ({}, {'sampling': Sampling(seed=1)}):
        for metric in ('chrf', 'bleu'):
            chosen = translator.translate(TEXTS, n_best=4, mbr=metric, **options)
            candidates = translator.translate(TEXTS, n_best=4, **options)
            for [output], outputs in zip(chosen, candidates, strict=True):
                assert output.text in [one.text for one in outputs]
                assert 0 <= output.score <= 100
    assert isinstance(translator(TEXTS[0], n_best=4, mbr='chrf'), str)


def test_lines_of_a_text_are_translated_one_by_one(translator):
    text = f'{TEXTS[0]}\n\n  {TEXTS[1]} \r\n{TEXTS[2]}'
    first, second, third = translator(TEXTS[:3])
    assert translator(text) == f'{first}\n\n  {second} \r\n{third}'
    [[output]] = translator.translate([text])
    parts = [outputs[0] for outputs in translator.translate(TEXTS[:3])]
    assert output.score == pytest.approx(sum(part.score for part in parts), rel=1e-5)
    assert output.tokens == sum((part.tokens for part in parts), ())


def test_paragraphs_are_translated_sentence_by_sentence(translator):
    pytest.importorskip('sentencex')
    text = f'{TEXTS[0]}  {TEXTS[2]}\n{TEXTS[3]}\n'
    first, second, third = translator([TEXTS[0], TEXTS[2], TEXTS[3]])
    assert translator([text, TEXTS[0]], paragraphs=True) == [
        f'{first}  {second}\n{third}\n',
        first,
    ]


def test_the_n_best_of_several_lines_join_the_n_best_of_each(translator):
    found = translator(f'{TEXTS[0]}\n{TEXTS[1]}', n_best=3)
    each = translator.translate(TEXTS[:2], n_best=3)
    for rank, output in enumerate(found):
        assert output.text == '\n'.join(outputs[rank].text for outputs in each)


def test_words_of_outputs_are_aligned_with_words_of_their_texts(translator, ensemble):
    for model in (translator, ensemble):
        for outputs, text in zip(model.translate(TEXTS, align=True, n_best=2), TEXTS, strict=True):
            for output in outputs:
                sources, targets = zip(*output.alignment, strict=True)
                assert max(sources) < len(text.split())
                assert sorted(targets) == list(range(len(output.text.split())))


def test_without_align_there_is_no_alignment_and_an_empty_text_has_an_empty_one(translator):
    assert translator.translate(TEXTS[:1])[0][0].alignment is None
    assert translator.translate([''], align=True)[0][0].alignment == ()


def test_a_call_with_align_gives_a_translation(translator):
    assert translator(TEXTS[0], align=True) == translator.translate(TEXTS[:1], align=True)[0][0]


def test_an_alignment_does_not_depend_on_its_batch(translator):
    together = translator.translate(TEXTS, align=True)
    alone = [translator.translate([text], align=True)[0] for text in TEXTS]
    assert [x[0].alignment for x in together] == [x[0].alignment for x in alone]


def test_words_are_counted_through_the_lines_of_a_text(translator):
    [[first], [second]] = translator.translate(TEXTS[:2], align=True)
    [[output]] = translator.translate([f'{TEXTS[0]}\n{TEXTS[1]}'], align=True)
    source, target = len(TEXTS[0].split()), len(first.text.split())
    assert output.alignment == (
        *first.alignment,
        *((s + source, t + target) for s, t in second.alignment),
    )


def test_layer_heads_and_shift_choose_the_attention():
    translator = Translator.load('tatoeba_en_fr')  # its outputs have many words
    found = {
        tuple(output.alignment for [output] in translator.translate(TEXTS, align=True, **options))
        for options in (
            {},
            {'alignment_layer': 1},
            {'alignment_heads': '1'},
            {'alignment_shift': True},
        )
    }
    assert len(found) == 4


@pytest.mark.parametrize(
    'options, sentence',
    [
        ({'beam_sise': 3}, "beam_sise is no option of translate: did you mean 'beam_size'?"),
        ({'nbest': 3}, "nbest is no option of translate: did you mean 'n_best'?"),
        ({'length_norm': 'gnm'}, "decode.length_norm='gnm' must be one of gnmt, power, none"),
        (
            {'suppress_tokens': '▁le xyzzy'},
            "pieces separated by spaces: 'xyzzy' is no piece of the",
        ),
        ({'suppress_tokens': '</s>'}, "decode.suppress_tokens='</s>' has EOS"),
        ({'prefixes': ['a', 'b']}, 'must be a list with one prefix for each of the 1 texts'),
        ({'prefixes': 'a'}, "prefixes='a' must be a list with a prefix a text."),
        ({'prefixes': 5}, 'prefixes=5 must be a list with a prefix a text.'),
        ({'prefixes': ['Le\nUn']}, "prefix of line 1, 'Le\\nUn', has a line end"),
        ({'prefixes': [5]}, 'prefixes: 5 is neither a str nor a list of str.'),
        ({'prefixes': [['▁xyzzy']]}, "prefix of line 1: '▁xyzzy' is no piece"),
        ({'mbr': 'comet', 'n_best': 2}, "mbr='comet' must be one of chrf, bleu"),
        ({'mbr': 'chrf'}, 'n_best=1 must be from 2 to 1,024 with mbr=chrf'),
        ({'alignment_layer': 3}, 'decode.alignment_layer=3 must be at most model.num_layers=1'),
        ({'alignment_heads': '1 9'}, "decode.alignment_heads='1 9' must be at most"),
        ({'alignment_heads': '0'}, "decode.alignment_heads='0' must be numbers of heads from 1"),
    ],
)
def test_a_bad_option_is_refused(translator, options, sentence):
    with pytest.raises(UserError) as error:
        translator.translate([TEXTS[0]], **options)
    assert sentence in str(error.value)


def test_an_unknown_ensemble_is_refused(translator, other):
    with pytest.raises(UserError, match="ensemble='mean' must be one of probabilities, log_"):
        of_models(translator, other, ensemble='mean')
