"""Trees in brackets, as symbols, and back."""

import gzip

import pytest

from transformer_jax.config import DataConfig
from transformer_jax.data.corpora.corpus import open_corpus
from transformer_jax.errors import UserError
from transformer_jax.parsing.trees import (
    Tree,
    cleaned,
    read_trees,
    restored,
    symbols,
    treebank_words,
)

CAT = '(S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .))'
ROW = 'S NP XX XX /NP VP XX /VP XX /S'


def tree(text):
    ((_, found),) = read_trees([text])
    return found


def test_a_tree_is_read_and_written():
    found = tree(f'( {CAT} )')
    assert found.label == 'S' and found.words() == ['The', 'cat', 'sleeps', '.']
    assert found.children[0] == Tree('NP', (Tree('DT', (), 'The'), Tree('NN', (), 'cat')))
    assert str(found) == CAT


def test_trees_may_take_several_lines_and_share_one():
    lines = ['(TOP (S (NP', '  (NN Cats)) (VP (VBP', 'sleep))))', '', '(X (Y a)) (X (Y b))']
    assert [(n, str(found)) for n, found in read_trees(lines)] == [
        (1, '(S (NP (NN Cats)) (VP (VBP sleep)))'),
        (5, '(X (Y a))'),
        (5, '(X (Y b))'),
    ]


@pytest.mark.parametrize(
    ('lines', 'message'),
    [
        (['(S (NN a)', '(NN b)'], 'line 1: 1 brackets of the tree are not closed'),
        (['(S (NN a))', ') '], r"line 2: '\)' is outside of brackets"),
        (['cat'], "line 1: 'cat' is outside of brackets"),
        (['(S', '(NP x (NN a)))'], "line 2: brackets hold 'NP x' and 1 constituents"),
        (['()'], 'line 1: brackets hold'),
        (['(S (NN a))', '(' * 100_000], 'line 2: more than 150 brackets are in one another'),
    ],
)
def test_wrong_brackets_are_named_with_their_line(lines, message):
    with pytest.raises(ValueError, match=message):
        list(read_trees(lines))


def test_function_tags_indices_and_traces_are_cleaned():
    found = cleaned(tree('(S (NP-SBJ-1 (-NONE- *)) (NP=2 (-LRB- -LRB-) (NN-X a)) (VP (V b)))'))
    assert str(found) == '(S (NP (-LRB- -LRB-) (NN a)) (VP (V b)))'
    assert cleaned(tree('(S (NP (-NONE- *)))')) is None


def test_a_tree_becomes_symbols():
    assert ' '.join(symbols(tree(CAT))) == ROW
    assert ' '.join(symbols(tree(CAT), tags=True)) == 'S NP DT NN /NP VP VBZ /VP . /S'


def test_symbols_become_the_tree_again():
    words = tree(CAT).words()
    found, repaired = restored(symbols(tree(CAT), tags=True), words)
    assert (str(found), repaired) == (CAT, False)
    found, repaired = restored(ROW.split(), words)
    # Without parts of speech, those of punctuation are known by the words.
    assert (str(found), repaired) == ('(S (NP (XX The) (XX cat)) (VP (XX sleeps)) (. .))', False)


@pytest.mark.parametrize(
    ('row', 'wanted'),
    [
        ('S NP XX XX /NP VP XX', '(S (NP (XX a) (XX b)) (VP (XX c)))'),  # never closed
        ('S NP XX XX VP XX /S', '(S (NP (XX a) (XX b) (VP (XX c))))'),  # closed by the outer one
        ('S XX XX /VP XX /S', '(S (XX a) (XX b) (XX c))'),  # closes nothing
        ('S XX NP /NP XX XX /S', '(S (XX a) (XX b) (XX c))'),  # nothing in it
        ('S XX XX /S', '(S (XX a) (XX b) (XX c))'),  # a word without a symbol
        ('S XX XX XX XX /S', '(S (XX a) (XX b) (XX c))'),  # a symbol without a word
        ('NP XX /NP NP XX XX /NP', '(S (NP (XX a)) (NP (XX b) (XX c)))'),  # two trees
        ('', '(S (XX a) (XX b) (XX c))'),
        ('S NP DT NN /NP VP VBZ', '(S (NP (DT a) (NN b)) (VP (VBZ c)))'),
    ],
)
def test_malformed_rows_are_repaired_and_keep_all_words(row, wanted):
    found, repaired = restored(row.split(), ['a', 'b', 'c'])
    assert (str(found), repaired) == (wanted, True)


def test_a_row_that_repeats_itself_is_no_tower():
    found, repaired = restored(['NP'] * 900 + ['XX'], ['a', 'b'])
    assert found.words() == ['a', 'b'] and str(found).count('(NP') == 150 and repaired


def test_raw_text_is_divided_as_treebanks_do():
    words = treebank_words(
        'I don\'t think (he said) that "it\'s" 3.5 well-known things, e.g. a U.S. cat...'
    )
    wanted = "I do n't think -LRB- he said -RRB- that `` it 's '' 3.5 well-known things , e.g. a"
    assert words == [*wanted.split(), 'U.S.', 'cat', '...']
    assert treebank_words(' '.join(words)) == words
    assert treebank_words('I don’t.') == ['I', 'do', "n't", '.']
    assert treebank_words('“Mr. Bell cannot,” he said…') == [
        *('``', 'Mr.', 'Bell', 'can', 'not', ',', "''", 'he', 'said', '...')
    ]
    assert treebank_words('Canned can. Stop') == ['Canned', 'can', '.', 'Stop']


def corpus(path, **changes):
    languages = {'source_language': 'en', 'target_language': 'en'}
    return open_corpus(DataConfig(corpus='trees', train_source=str(path), **languages, **changes))


def test_a_file_of_trees_is_a_corpus(tmp_path):
    path = tmp_path / 'train.mrg.gz'
    with gzip.open(path, 'wt') as file:
        file.write(''.join(f'( {CAT.replace("cat", f"cat{n}")} )\n' for n in range(400)))
    found = corpus(path, dev_size=5, test_size=5)
    pairs = list(found.pairs('train'))
    assert len(pairs) == 390 and len(list(found.pairs('dev'))) == 5
    assert all(target == ROW and source.startswith('The cat') for source, target in pairs)
    with_tags = corpus(path, dev_size=5, test_size=5, tree_tags=True)
    assert next(with_tags.pairs('train'))[1] == 'S NP DT NN /NP VP VBZ /VP . /S'
    assert with_tags.fingerprint('train') != found.fingerprint('train')


def test_a_pattern_names_several_files(tmp_path):
    for name in ('b', 'a'):
        (tmp_path / f'{name}.mrg').write_text(f'{CAT.replace("cat", name)}\n')
    files = {'dev_source': str(tmp_path / 'b.mrg'), 'test_source': str(tmp_path / 'a.mrg')}
    found = corpus(tmp_path / '*.mrg', **files)
    assert [source for source, _ in found.pairs('train')] == ['The a sleeps .', 'The b sleeps .']
    assert 'a.mrg' in found.names['train'] and 'b.mrg' in found.names['train']
    with pytest.raises(UserError, match=r'none\*\.mrg'):
        list(corpus(tmp_path / 'none*.mrg', **files).pairs('train'))


def test_a_damaged_file_is_named_with_its_line(tmp_path):
    path = tmp_path / 'train.mrg'
    path.write_text(f'{CAT}\n{CAT[:-1]}\n')
    with pytest.raises(UserError, match=r"train\.mrg', line 2: 1 brackets .* not closed: fix"):
        list(corpus(path, dev_source=str(path), test_source=str(path)).pairs('train'))


def test_a_target_file_is_refused():
    with pytest.raises(UserError, match=r"data\.train_target='b' is for data\.corpus='files'"):
        DataConfig(corpus='trees', train_source='a', train_target='b')
