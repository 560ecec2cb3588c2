"""A translator into several languages, which a tag before the text or an option names."""

import pytest
from tiny_run import TEXTS

from transformer_jax.errors import UserError
from transformer_jax.translating.mbr import MbrChooser

pytestmark = pytest.mark.usefixtures('programs_kept')

FRENCH = {'target_language': 'fr'}


def test_a_text_needs_a_tag_or_a_target_language(polyglot):
    with pytest.raises(UserError, match=r'must begin with the language .*, one of >>fra<<'):
        polyglot(TEXTS[:2])
    assert polyglot('') == ''


def test_the_target_languages_are_those_of_the_tags(polyglot, translator):
    assert polyglot.target_languages == {'fr': '>>fra<<', 'zh-Hans': '>>cmn_Hans<<'}
    assert translator.target_languages == {'fr': ''}


@pytest.mark.parametrize('code', ['fr', 'fra', 'FR', 'fr-FR', 'fr_CA', '>>fra<<'])
def test_a_target_language_is_a_tag_before_each_text(polyglot, code):
    expected = polyglot.translate([f'>>fra<< {text}' for text in TEXTS], align=True)
    assert polyglot.translate(TEXTS, align=True, target_language=code) == expected


def test_a_language_that_needs_no_tag_may_be_named(translator):
    assert translator.translate(TEXTS, target_language='fra') == translator.translate(TEXTS)


@pytest.mark.parametrize('asked', ['de', '>>deu<<', '', 5])
def test_a_language_that_the_model_lacks_is_refused(polyglot, asked):
    ask = {'target_language': asked}
    sentence = f"target_language={asked!r} is no language .* choose one of 'fr', 'zh-Hans'"
    for call in (
        lambda: polyglot.translate(TEXTS, **ask),
        lambda: polyglot.score(TEXTS, TEXTS, **ask),
        lambda: polyglot.attention(TEXTS, **ask),
        lambda: polyglot.encode(TEXTS, **ask),
        lambda: polyglot.check_options(**ask),
    ):
        with pytest.raises(UserError, match=sentence):
            call()


def test_a_tag_in_a_text_wins_over_the_target_language(polyglot):
    chinese = f'>>cmn_Hans<< {TEXTS[1]}'
    expected = polyglot.translate([f'>>fra<< {TEXTS[0]}', chinese])
    assert polyglot.translate([TEXTS[0], chinese], **FRENCH) == expected


@pytest.mark.parametrize('options', [{}, {'paragraphs': True}])
def test_a_tag_holds_for_all_lines_and_sentences_after_it(polyglot, options):
    lines = [TEXTS[1], TEXTS[2], f'>>cmn_Hans<<{TEXTS[3]}', TEXTS[0]]
    separator = ' ' if options else '\n'
    text = separator.join(['>>fra<<', *lines] if options else lines)
    tags = ['>>fra<<', '>>fra<<', '>>cmn_Hans<<', '>>cmn_Hans<<']
    apart = polyglot(
        [f'{tag} {line.removeprefix(tag)}' for line, tag in zip(lines, tags, strict=True)]
    )
    assert polyglot(text, **FRENCH, **options) == separator.join(apart)


def test_a_tag_alone_translates_to_nothing(polyglot):
    assert polyglot([' >>fra<< ', f'>>fra<<\n{TEXTS[0]}']) == [
        '',
        polyglot(TEXTS[0], **FRENCH),
    ]


def test_an_empty_text_stays_empty_with_a_target_language(polyglot):
    assert polyglot(['', '  \t ', '\u200b'], **FRENCH) == ['', '', '']


def test_alignments_do_not_count_tags(polyglot):
    text = f'{TEXTS[1]}\n{TEXTS[2]}'
    apart = polyglot.translate(TEXTS[1:3], align=True, **FRENCH)
    [[first], [second]] = apart
    words, outputs = len(TEXTS[1].split()), len(first.text.split())
    moved = {(words + s, outputs + t) for s, t in second.alignment}
    expected = tuple(sorted({*first.alignment} | moved))
    assert {t for _, t in first.alignment} == {*range(outputs)}
    for given in (f'>>fra<< {text}', text, f'>>fra<<\n{text}'):
        [[both]] = polyglot.translate([given], align=True, **FRENCH)
        assert (both.text, both.alignment) == (f'{first.text}\n{second.text}', expected)


def test_scores_take_the_tag_with_the_source(polyglot, translator):
    (written,) = polyglot.score([f'>>fra<< {TEXTS[0]}'], [TEXTS[1]])
    (named,) = polyglot.score([TEXTS[0]], [TEXTS[1]], **FRENCH)
    (chinese,) = polyglot.score([f'>>cmn_Hans<< {TEXTS[0]}'], [TEXTS[1]], **FRENCH)
    (without,) = translator.score([TEXTS[0]], [TEXTS[1]])
    assert written == named
    assert len({written.log_prob, chinese.log_prob, without.log_prob}) == 3


def test_features_take_the_tag_with_the_text(polyglot):
    named, written = (
        polyglot.encode([text], **options)
        for text, options in ((TEXTS[0], FRENCH), (f'>>fra<< {TEXTS[0]}', {}))
    )
    assert (named.states == written.states).all()


@pytest.mark.parametrize('target', [None, 'Le chat dort.'])
def test_attention_shows_the_tag_as_no_word_of_the_text(polyglot, target):
    found = polyglot.attention(TEXTS[0], target, **FRENCH)
    assert found.source[0] == '>>fra<<'
    assert (found.text, found.source_words[:2], found.source_words[-2:]) == (
        TEXTS[0],
        (None, 0),
        (2, None),
    )
    written = polyglot.attention(f'>>fra<< {TEXTS[0]}', target)
    assert (written.text, written.source_words) == (found.text, found.source_words)
    assert (written.cross == found.cross).all()


def test_the_words_of_bleu_are_those_of_the_target_language(polyglot, monkeypatch):
    seen = []
    submit = MbrChooser.submit
    monkeypatch.setattr(
        MbrChooser, 'submit', lambda *args: seen.append((args[1], args[-1])) or submit(*args)
    )
    polyglot.translate([TEXTS[0], f'>>cmn_Hans<< {TEXTS[0]}'], mbr='bleu', n_best=2, **FRENCH)
    assert sorted(seen) == [(0, 'fr'), (1, 'zh-Hans')]
