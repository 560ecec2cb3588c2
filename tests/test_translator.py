"""Promises 2 and 8 for translation: raw text in, raw text out."""

import jax
import jax.numpy as jnp
import pytest
from tiny_run import TEXTS

from transformer_jax.config import Config, DataConfig, DecodeConfig, MeshConfig, ModelConfig
from transformer_jax.errors import UserError
from transformer_jax.model import Transformer
from transformer_jax.runtime import memory, program_cache
from transformer_jax.sharding import make_mesh
from transformer_jax.translator import Sampling, Translation, Translator

pytestmark = pytest.mark.usefixtures('programs_kept')


@pytest.mark.parametrize('mesh', [MeshConfig(1, 8, 1), MeshConfig(4, 1, 2), MeshConfig(2, 2, 2)])
def test_every_mesh_translates_as_one_device_does(translator, mesh):
    alone, spread = (
        Translator(translator.config, translator.vocabulary, translator.network.params[0], mesh=m)
        for m in (make_mesh(devices=jax.devices()[:1]), make_mesh(mesh))
    )
    expected, found = (t.translate(TEXTS[:2], n_best=2) for t in (alone, spread))
    assert [[x.text for x in outputs] for outputs in found] == [
        [x.text for x in outputs] for outputs in expected
    ]
    assert found[0][0].score == pytest.approx(expected[0][0].score, rel=1e-4)


def test_sentences_are_divided_among_all_devices(translator):
    assert translator.network.mesh.shape == {'data': 8, 'fsdp': 1, 'tensor': 1}


def test_a_text_gives_a_text_and_a_list_a_list(translator):
    alone = translator(TEXTS[0])
    assert isinstance(alone, str)
    assert translator([TEXTS[0]]) == [alone]
    assert translator([]) == []


def test_texts_may_come_from_an_iterator(translator):
    assert translator(iter(TEXTS)) == translator(TEXTS)
    assert translator.translate(iter(TEXTS[:1])) == translator.translate(TEXTS[:1])


@pytest.mark.parametrize(
    'texts, sentence',
    [
        ('The cat.', "texts='The cat.' is a single text: give a list of texts."),
        (b'The cat.', "texts=b'The cat.' is a single text: give a list of texts."),
        (5, 'texts=5 is no text: give a str, or a list of str.'),
        (['The cat.', None], 'text 2 is of type NoneType: give a str.'),
        (['The \ud83d cat.'], r"text 1 has '\ud83d' at position 4, which is half a character"),
    ],
)
def test_anything_but_texts_is_refused(translator, texts, sentence):
    with pytest.raises(UserError) as error:
        translator.translate(texts)
    assert sentence in str(error.value)


def test_outputs_come_in_the_order_of_their_texts(translator):
    outputs = translator(TEXTS)
    assert len(set(outputs)) > 2
    assert outputs[0] == outputs[4]


def test_a_translation_does_not_depend_on_its_batch(translator):
    together = translator(TEXTS * 5)
    assert together == translator(TEXTS) * 5
    assert together[: len(TEXTS)] == [translator(text) for text in TEXTS]
    assert translator(TEXTS[::-1])[::-1] == translator(TEXTS)


def test_an_empty_text_stays_empty(translator):
    # Normalisation leaves nothing of a space without width.
    assert translator(['', TEXTS[0], '  \t ', '\u200b']) == ['', translator(TEXTS[0]), '', '']


def test_n_best_outputs_come_best_first_with_scores_and_tokens(translator):
    found = translator(TEXTS[1], n_best=4)
    assert [type(one) for one in found] == [Translation] * 4
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    assert len({one.text for one in found}) > 1
    assert found[0].text == translator(TEXTS[1])
    assert ''.join(found[0].tokens).replace('▁', ' ').strip() == found[0].text


def test_a_text_far_longer_than_any_in_training_is_translated(translator, workdir):
    assert translator('the cat ' * 200) != ''


def test_an_unseen_character_is_translated(translator):
    assert isinstance(translator('The ☃ 猫 sleeps.'), str)


def test_a_text_cut_to_the_limit_is_reported_by_line(translator, caplog):
    decode = translator.config.decode.__class__(max_source_length=8, max_extra_length=10)
    config = Config(model=translator.config.model, decode=decode)
    limited = Translator(config, translator.vocabulary, translator.network.params[0])
    limited.translate(['The cat.', 'the cat ' * 20], first_line=5)
    assert {record.getMessage() for record in caplog.records} == {
        f'Line 6 has {len(translator.vocabulary.source.encode(["the cat " * 20])[0])} tokens '
        'and is cut to the limit of 8.'
    }


def test_a_call_may_set_the_source_limit(translator):
    limit = len(translator.vocabulary.source.encode(['the cat'])[0])
    [[cut]] = translator.translate(['the cat ' * 20], max_source_length=limit)
    [[whole]] = translator.translate(['the cat'], max_source_length=0)
    assert (cut.tokens, cut.text) == (whole.tokens, whole.text)


def test_a_text_too_long_for_the_memory_is_reported(translator, monkeypatch):
    monkeypatch.setattr(memory, 'CHECK_FROM_TOKENS', 64)
    monkeypatch.setattr(memory, 'device_memory', lambda device: 10_000)
    with pytest.raises(UserError, match=r'^line 6, with \d+ tokens, needs .* of 0\.01 MiB: split'):
        translator.translate(['The cat.', 'the cat ' * 40], first_line=5)


def test_a_beam_too_wide_for_the_memory_is_reported_before_the_search(translator, monkeypatch):
    needs = []
    needed_memory = memory.needed_memory

    def noting(program):
        needs.append(needed_memory(program))
        return needs[-1]

    monkeypatch.setattr(memory, 'needed_memory', noting)
    monkeypatch.setattr(translator.decoder, '_positions', 500)
    translator.check(['The cat.'], beam_size=100)
    encoding, searching = needs
    assert searching > encoding
    monkeypatch.setattr(memory, 'device_memory', lambda device: encoding)
    with pytest.raises(
        UserError, match=r'^line 1, with \d+ tokens, needs .* or lower beam_size\.$'
    ):
        translator('The cat.', beam_size=101)


def test_check_finds_texts_too_long_for_the_memory(translator, monkeypatch):
    monkeypatch.setattr(memory, 'CHECK_FROM_TOKENS', 64)
    monkeypatch.setattr(memory, 'device_memory', lambda device: 10_000)
    translator.check(['The cat.'])
    with pytest.raises(UserError, match=r'^a line of up to 128 tokens needs .* 0\.01 MiB: split'):
        translator.check(['The cat.', 'the cat ' * 40])


def test_learned_positions_translate_a_text_up_to_their_limit(translator):
    # A text of 43 tokens is padded, but not beyond the end of the table.
    model = ModelConfig(
        num_layers=1, d_model=16, d_ff=16, num_heads=2, positions='learned', max_positions=46
    )
    config = Config(
        model=model,
        data=DataConfig(max_length=46),
        decode=DecodeConfig(max_extra_length=3, beam_size=2),
    )
    vocabulary, tokens = translator.vocabulary, jnp.zeros((1, 1), jnp.int32)
    module = Transformer.of(model, vocabulary.sizes)
    params = module.init(jax.random.key(0), tokens, tokens)['params']
    [[found]] = Translator(config, vocabulary, params).translate(['the cat ' * 60])
    assert 0 < len(found.tokens) <= 46


@pytest.mark.parametrize(
    ('options', 'sentence'),
    [
        ({'n_best': 5}, 'n_best=5 must be from 1 to the beam size, which is 4'),
        ({'n_best': 0}, 'n_best=0 must be from 1'),
        ({'n_best': 2.0}, 'n_best=2.0 must be a whole number'),
        (
            {'n_best': 10**12, 'sampling': Sampling()},
            'n_best=1000000000000 must be from 1 to 10,000 when sampling.',
        ),
        ({'n_best': 0, 'sampling': Sampling()}, 'n_best=0 must be from 1 to 10,000 when sampling.'),
        ({'beam_size': 0}, 'decode.beam_size=0 must be from 1 to 1,000.'),
        ({'length_penalty': -1.0}, 'decode.length_penalty=-1.0 must be from 0 to 10.'),
        ({'sampling': True}, 'sampling=True must be a Sampling()'),
    ],
)
def test_a_bad_option_is_refused(translator, options, sentence):
    with pytest.raises(UserError, match='must be') as error:
        translator(TEXTS[0], **options)
    assert sentence in str(error.value)


def test_outputs_without_a_finite_score_give_a_warning(translator, caplog):
    huge = jax.tree.map(lambda x: jnp.full_like(x, 1e38), translator.network.params[0])
    diverged = Translator(translator.config, translator.vocabulary, huge)
    assert diverged(TEXTS[:1]) == ['']
    assert '1 lines have no translation, the first of them is line 1: the scores of' in caplog.text


def test_an_output_that_reaches_the_limit_is_marked_as_cut(translator):
    texts = [*TEXTS, 'The']  # one token, to which no output fits
    lengths = [len(ids) for ids in translator.vocabulary.source.encode(texts)]
    seen = set()
    for extra in (0, 100):
        for length, [output] in zip(
            lengths, translator.translate(texts, max_extra_length=extra), strict=True
        ):
            assert output.cut == (len(output.tokens) + 1 == length + extra)
            seen.add(output.cut)
    assert seen == {True, False}


def test_a_text_needs_no_new_program_after_prepare(translator, monkeypatch):
    options = {'beam_size': 3, 'n_best': 2}
    [ids] = translator.vocabulary.source.encode([TEXTS[2]])
    translator.prepare(lengths=[len(ids)], **options)

    def look_up(*_, **__):
        raise AssertionError('a program is loaded or compiled')

    monkeypatch.setattr(program_cache.ProgramCache, 'load', look_up)
    translator(TEXTS[2], **options)
