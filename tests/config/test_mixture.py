"""data.corpora, data.mix, data.tag and data.augment say what they mean, or what is wrong."""

import pytest

from transformer_jax.config import Config, DataConfig
from transformer_jax.config.mixture import MixStage, read_corpora, read_mix
from transformer_jax.errors import UserError

TWO = 'web train_source=web/*.tsv tag=<2fr>\nnews corpus=tfds dataset=wmt14'


def test_a_part_has_a_line_with_its_name_and_fields():
    text = "\n  web train_source='my web.tsv' filters='ratio=3 digits'\n\n news dataset=x; c\n"
    assert read_corpora(text) == {
        'web': {'train_source': 'my web.tsv', 'filters': 'ratio=3 digits'},
        'news': {'dataset': 'x'},
        'c': {},
    }


def test_quotes_hold_what_separates_and_a_backslash_is_only_itself():
    text = """a train_source="it's; here.tsv"; b train_source=C:\\data\\x.tsv"""
    assert read_corpora(text) == {
        'a': {'train_source': "it's; here.tsv"},
        'b': {'train_source': 'C:\\data\\x.tsv'},
    }


def test_a_part_takes_the_other_fields_from_the_section():
    parts = DataConfig(corpus='files', corpora=TWO, max_length=99, mix='web=1').parts()
    assert [part.max_length for part in parts.values()] == [99, 99]
    assert (parts['web'].corpus, parts['news'].corpus) == ('files', 'tfds')
    assert parts['web'].tag == '<2fr>' and not parts['news'].mix


@pytest.mark.parametrize(
    ('text', 'stages'),
    [
        ('web=0.8 news=0.2', [MixStage({'web': 0.8, 'news': 0.2}, None)]),
        ('web=3 until 20; news=1', [MixStage({'web': 3}, 20), MixStage({'news': 1}, None)]),
    ],
)
def test_a_mix_has_stages(text, stages):
    assert read_mix(text, ['web', 'news']) == stages


@pytest.mark.parametrize(
    ('fields', 'problem'),
    [
        ({'corpora': 'web train_source=a'}, 'must have two parts or more'),
        (
            {'corpora': "web train_source='a\nb dataset=x"},
            'has a quotation mark without',
        ),
        ({'corpora': 'web=1 a=2'}, 'has no name at the beginning'),
        ({'corpora': 'a dataset=x\na dataset=y'}, "names two parts 'a'"),
        ({'corpora': 'a train_file=x'}, "has 'train_file=x' in the part 'a'.* 'train_"),
        ({'corpora': 'a corpus=files\nb dataset=x'}, "in the part 'a': data.train_source=''"),
        ({'corpora': 'a corpus=phrasebook\nb dataset=x'}, 'which must be'),
        ({'corpora': TWO, 'corpus': 'files', 'dev_source': 'd'}, 'move it there'),
        (
            {'corpora': TWO, 'corpus': 'files', 'mix': 'web=1 new=2'},
            "none of web, news: did you mean 'news'",
        ),
        ({'corpora': TWO, 'corpus': 'files', 'mix': 'web'}, 'with a number above 0'),
        ({'corpora': TWO, 'corpus': 'files', 'mix': 'web=-1'}, 'with a number above 0'),
        ({'corpora': TWO, 'corpus': 'files', 'mix': 'web=1; news=1'}, 'must end every stage but'),
        ({'corpora': TWO, 'corpus': 'files', 'mix': 'web=1 until 9'}, 'must end every stage but'),
        (
            {'corpora': TWO, 'corpus': 'files', 'mix': 'web=1 until 9; web=2 until 9; news=1'},
            'after a step above 9',
        ),
        ({'corpora': TWO, 'corpus': 'files', 'mix': 'web=1', 'temperature': 5.0}, 'has no effect'),
        ({'corpora': 'a dataset=x dataset=y\nb dataset=z'}, "has dataset twice in the part 'a'"),
        ({'corpora': TWO, 'corpus': 'files', 'mix': 'web=1 web=2'}, "names 'web' twice"),
        ({'corpora': TWO, 'corpus': 'files', 'mix': ' ; '}, 'has no stage'),
        ({'corpora': TWO, 'corpus': 'files', 'mix': 'web=1e10'}, 'at most 1e9'),
        ({'corpus': 'phrasebook', 'tag': '<2fr>'}, "is not for data.corpus='phrasebook'"),
        ({'corpus': 'trees', 'train_source': 'a', 'augment': 'upper=0.1'}, 'is not for'),
        ({'mix': 'a=1'}, r"data\.mix='a=1' is for data\.corpora, which is empty"),
        ({'temperature': 2.0}, 'is for data.corpora, which is empty'),
        ({'tag': '2fr'}, "must have the form of '<2fr>'"),
    ],
)
def test_mistakes_are_named(fields, problem):
    with pytest.raises(UserError, match=problem):
        DataConfig(**fields)


def test_a_mixture_has_no_epochs():
    data = DataConfig(corpus='files', corpora=TWO, mix='web=1')
    with pytest.raises(UserError, match=r'train\.epochs=2 has no meaning for a mixture'):
        Config.from_mapping({'data': vars(data), 'train': {'epochs': 2}})
    Config.from_mapping({'data': vars(data) | {'mix': ''}, 'train': {'epochs': 2}})
