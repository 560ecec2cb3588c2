"""Trees in place of the symbols that a parser writes."""

import dataclasses
import logging

import pytest

from transformer_jax import translate
from transformer_jax.config import Config, DataConfig
from transformer_jax.errors import UserError
from transformer_jax.parsing.output import Parsing
from transformer_jax.translating.outputs import Translation

PARSER = Config(data=DataConfig(corpus='trees', train_source='a'))
ROW = 'S NP XX XX /NP VP XX /VP XX /S'


def parsed(output_format, rows=(ROW,), text='The cat sleeps.'):
    parsing = Parsing.of(PARSER, output_format)
    texts = parsing.words([text] * len(rows))
    assert texts[0] == 'The cat sleeps .'
    results = parsing.trees(texts, [[Translation(row, 0.0, ())] for row in rows])
    return parsing, parsing.lines([found.text for outputs in results for found in outputs])


def test_trees_are_brackets_on_a_line():
    assert parsed(None)[1] == ['(S (NP (XX The) (XX cat)) (VP (XX sleeps)) (. .))']


def test_trees_are_drawn():
    assert parsed('pretty')[1] == [
        'S',
        '├── NP',
        '│   ├── XX The',
        '│   └── XX cat',
        '├── VP',
        '│   └── XX sleeps',
        '└── . .',
        '',
    ]


def test_symbols_stay_as_they_are():
    assert parsed('symbols')[1] == [ROW]


def test_repaired_trees_are_counted(caplog):
    caplog.set_level(logging.WARNING, 'transformer_jax')
    parsing, _ = parsed(None, [ROW, 'S XX', ROW])
    parsing.warn()
    assert '1 of 3 trees were malformed' in caplog.text


def test_a_parser_takes_a_sentence_a_line():
    with pytest.raises(UserError, match='--paragraphs is for translators'):
        Parsing.of(PARSER, None, paragraphs=True)


def test_a_translator_has_no_trees(run_command):
    texts = ["It's."]
    assert Parsing.of(Config(), None).words(texts) == texts
    with pytest.raises(UserError, match=r'--output_format=pretty is for a parser \(data\.corpus='):
        Parsing.of(dataclasses.replace(Config()), 'pretty')
    code, _, err = run_command(
        translate, '--workdir', 'tatoeba_en_fr', '--output_format=pretty', stdin=b'Hi.\n'
    )
    assert code == 2 and 'leave it out' in err
