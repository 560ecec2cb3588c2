import pytest

from transformer_jax.config import DataConfig
from transformer_jax.translating.target_languages import TargetLanguages


class FakeVocabulary:
    """What `TargetLanguages` uses of a vocabulary."""

    def __init__(self, *tags, needed=False):
        self.tags, self.language_codes = tags, tags if needed else ()

    def take_tag(self, text):
        first, _, rest = text.partition(' ')
        return (first, rest) if first in self.tags else ('', text)


def parts(*fields):
    return {
        'corpus': 'files',
        'corpora': '\n'.join(
            f'part{k} train_source=a train_target=b {line}' for k, line in enumerate(fields)
        ),
    }


@pytest.mark.parametrize(
    'tags, data, expected',
    [
        ([], {}, {'de': ''}),
        # The tags say their languages.
        (['<2fr>', '<2de>'], parts('tag=<2fr>', 'tag=<2de>'), {'fr': '<2fr>', 'de': '<2de>'}),
        (
            ['<2fra>', '<2pt_br>'],
            parts('tag=<2fra>', 'tag=<2pt_br>'),
            {'fr': '<2fra>', 'pt-BR': '<2pt_br>'},
        ),
        # A part without a tag.
        (['<2fr>'], parts('tag=<2fr>', ''), {'fr': '<2fr>', 'de': ''}),
        # A domain is no language, but what a part calls one is.
        (['<2web>'], parts('tag=<2web>', ''), {'de': ''}),
        (['<2web>', '<2law>'], parts('tag=<2web>', 'tag=<2law>'), {'de': ''}),
        (
            ['<2tlh>', '<2de>'],
            parts('tag=<2tlh> target_language=tlh', 'tag=<2de>'),
            {'tlh': '<2tlh>', 'de': '<2de>'},
        ),
        # A vocabulary of another run.
        (['<2de>', '<2fr>'], {}, {'de': '', 'fr': '<2fr>'}),
    ],
)
def test_tags_are_found_by_language(tags, data, expected):
    languages = TargetLanguages(FakeVocabulary(*tags), DataConfig(**data))
    assert languages.tags == expected


def test_two_tags_of_one_language_are_kept_apart():
    vocabulary = FakeVocabulary('>>zho<<', '>>cmn<<', '>>cmn_Hans<<', needed=True)
    languages = TargetLanguages(vocabulary, DataConfig())
    assert languages.tags == {'zh': '>>zho<<', 'cmn': '>>cmn<<', 'zh-Hans': '>>cmn_Hans<<'}
    assert [languages.tag(code) for code in ('zh', 'zho', 'cmn', 'cmn_hans')] == [
        '>>zho<<',
        '>>zho<<',
        '>>cmn<<',
        '>>cmn_Hans<<',
    ]


def test_a_tag_that_is_no_language_may_be_asked_for():
    languages = TargetLanguages(FakeVocabulary('<2web>'), DataConfig(**parts('tag=<2web>', '')))
    assert languages.tag('<2web>') == '<2web>'
    assert languages.language('<2web>') == languages.language('') == 'de'
    assert languages.tag(None) == ''
