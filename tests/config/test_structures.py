"""Lists and dicts of a config file, and the texts that they stand for."""

import pytest

from transformer_jax.config import Config
from transformer_jax.config.mixture import read_corpora, read_mix
from transformer_jax.errors import UserError


def config(**fields):
    written = Config().to_config_dict()
    written.data.corpus = 'files'
    if 'corpora' not in fields:
        written.data.train_source = 'all.tsv'
    for name, value in fields.items():
        written.data[name] = value
    return Config.from_mapping(written.to_dict())


def text(field, value):
    corpora = (
        {'corpora': 'web train_source=a.tsv\nnews train_source=b.tsv'} if field == 'mix' else {}
    )
    return getattr(config(**corpora, **{field: value}).data, field)


@pytest.mark.parametrize(
    ('field', 'value', 'expected'),
    [
        ('filters', ['ratio=3', 'duplicates'], 'ratio=3 duplicates'),
        ('filters', {'ratio': 3, 'digits': True, 'script': 'latin'}, 'ratio=3 digits script=latin'),
        ('filters', [], ''),
        ('augment', {'upper': 0.05, 'typos': 0.1}, 'upper=0.05 typos=0.1'),
        ('mix', {'web': 0.8, 'news': 1}, 'web=0.8 news=1'),
        ('mix', [{'web': 1, 'until': 20}, {'news': 1}], 'web=1 until 20; news=1'),
        ('filters', 'ratio=3', 'ratio=3'),
    ],
)
def test_lists_and_dicts_are_texts(field, value, expected):
    assert text(field, value) == expected


def test_parts_of_a_mixture_keep_their_values():
    parts = {
        'web': {'train_source': 'my web.tsv', 'filters': {'ratio': 3, 'duplicates': True}},
        'news': {'train_source': "the 'old'; one.tsv", 'tag': '<2fr>', 'dev_source': ''},
    }
    found = read_corpora(text('corpora', parts))
    assert found == {
        'web': {'train_source': 'my web.tsv', 'filters': 'ratio=3 duplicates'},
        'news': parts['news'],
    }
    assert list(found) == ['web', 'news']


def test_stages_of_a_mix_are_read_as_written():
    written = text('mix', [{'web': 0.5, 'until': 7}, {'news': 2}])
    assert [tuple(x) for x in read_mix(written, ['web', 'news'])] == [
        ({'web': 0.5}, 7),
        ({'news': 2.0}, None),
    ]


@pytest.mark.parametrize(
    ('field', 'value', 'message'),
    [
        ('corpora', ['web'], r'data\.corpora=.* must be a dict'),
        ('corpora', {'web': 'web.tsv'}, r"has 'web.tsv' for the part 'web'"),
        ('corpora', {'web': {'train_sorce': 'a'}}, r"'train_sorce'.*did you mean 'train_source'"),
        ('corpora', {'web': {'train_source': 5}}, r'has train_source=5: write a text'),
        ('corpora', {'my web': {}}, r"='my web' must be a text without spaces"),
        ('corpora', {'web': {'train_source': '\'"'}}, 'both kinds of quotation marks'),
        ('mix', ['web'], r'data\.mix=.* must be a dict'),
        ('mix', {'web': '1'}, r"has web='1': write a number"),
        ('mix', [{}, {'web': 1}], 'has a stage without a corpus'),
        ('mix', [{'until': 20}, {'web': 1}], 'has a stage without a corpus'),
        ('mix', [{'web': 1, 'until': 'x'}], r"has until='x': write the number of a step"),
        ('filters', {'ratio': False}, r'has ratio=False: write a number, a text, or True'),
        ('filters', [3], r'=3 must be a text'),
        ('augment', ['upper=1'], r'data\.augment=.* must be a dict'),
        ('augment', {'upper': True}, r'has upper=True: write a number'),
        ('filters', 5, r'data\.filters=5 is of type int but must be str'),
    ],
)
def test_other_forms_are_refused_with_the_field_and_the_remedy(field, value, message):
    with pytest.raises(UserError, match=message):
        text(field, value)
