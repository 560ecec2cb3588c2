"""Bracket scores are those of evalb."""

import pytest

from transformer_jax.parsing.bracket_scores import COLLINS, Rules, score_sentence, summary
from transformer_jax.parsing.trees import Tree, cleaned, read_trees

# The rules of evalb's own sample.
SAMPLE = Rules(
    frozenset(['TOP', '-NONE-', ',', ':', '``', "''"]), (('T', 'TT'),), (('This', 'this'),)
)
GOLD = '(S (A (P this)) (B (Q is) (A (R a) (T test))))'
LONG = ' '.join(['(A (P this)) (B (Q is) (A (R a) (T test)))'] * 11)


def read(text):
    """Return a line as a tree; several trees in a line are a forest."""
    trees = [tree for _, tree in read_trees([text])]
    if not trees:
        return None
    return trees[0] if len(trees) == 1 else Tree('', tuple(trees))


# Output | reference if it is another | length, status, matched, gold, test, crossing, words, tags.
# The numbers are those of evalb for its own sample, line by line.
LINES = [
    (GOLD, GOLD, (4, 0, 4, 4, 4, 0, 4, 4)),
    ('(S (A (P this)) (B (Q is) (C (R a) (T test))))', GOLD, (4, 0, 3, 4, 4, 0, 4, 4)),
    ('(S (A (P this)) (B (Q is) (A (R a) (U test))))', GOLD, (4, 0, 4, 4, 4, 0, 4, 3)),
    ('(S (C (P this)) (B (Q is) (A (R a) (U test))))', GOLD, (4, 0, 3, 4, 4, 0, 4, 3)),
    ('(S (A (P this)) (B (Q is) (R a) (A (T test))))', GOLD, (4, 0, 3, 4, 4, 0, 4, 4)),
    ('(S (A (P this) (Q is)) (A (R a) (T test)))', GOLD, (4, 0, 2, 4, 3, 1, 4, 4)),
    ('(S (P this) (Q is) (R a) (T test))', GOLD, (4, 0, 1, 4, 1, 0, 4, 4)),
    ('(P this) (Q is) (R a) (T test)', GOLD, (4, 0, 0, 4, 0, 0, 4, 4)),
    ('(S (A (P this)) (B (Q is) (A (A (R a) (T test)))))', GOLD, (4, 0, 4, 4, 5, 0, 4, 4)),
    (
        '(S (A (P this)) (B (Q is) (A (A (A (A (A (R a) (T test))))))))',
        GOLD,
        (4, 0, 4, 4, 8, 0, 4, 4),
    ),
    ('', GOLD, (4, 2, 0, 0, 0, 0, 4, 0)),
    ('(S (A (P this)) (B (Q was) (A (A (R a) (T test)))))', GOLD, (4, 1, 0, 0, 0, 0, 4, 0)),
    ('(S (A (P this)) (B (Q is) (U not) (A (A (R a) (T test)))))', GOLD, (4, 1, 0, 0, 0, 0, 4, 0)),
    ('', GOLD, (4, 2, 0, 0, 0, 0, 4, 0)),
    (f'(TOP {GOLD})', GOLD, (4, 0, 4, 4, 4, 0, 4, 4)),
    ('(S (A (P this)) (NONE *) (B (Q is) (A (R a) (T test))))', GOLD, (4, 1, 0, 0, 0, 0, 4, 0)),
    (
        '(S (A (P this)) (S (NONE abc) (A (NONE *))) (B (Q is) (A (R a) (T test))))',
        GOLD,
        (4, 1, 0, 0, 0, 0, 4, 0),
    ),
    ('(S (A (P this)) (B (Q is) (A (R a) (TT test))))', GOLD, (4, 0, 4, 4, 4, 0, 4, 4)),
    ('(S (A (P This)) (B (Q is) (A (R a) (T test))))', GOLD, (4, 0, 4, 4, 4, 0, 4, 4)),
    ('(S (A (P That)) (B (Q is) (A (R a) (T test))))', GOLD, (4, 1, 0, 0, 0, 0, 4, 0)),
    (
        GOLD,
        '(S (A-SBJ-1 (P this)) (B-WHATEVER (Q is) (A (R a) (T test))))',
        (4, 0, 4, 4, 4, 0, 4, 4),
    ),
    (f'(S {LONG})', f'(S {LONG})', (44, 0, 34, 34, 34, 0, 44, 44)),
    (f'{GOLD[:-1]} (-NONE- *))', f'{GOLD[:-1]} (-NONE- *))', (4, 0, 4, 4, 4, 0, 4, 4)),
    (f'{GOLD[:-1]} (: *))', f'{GOLD[:-1]} (: *))', (5, 0, 4, 4, 4, 0, 4, 4)),
]


@pytest.mark.parametrize(('test', 'gold', 'numbers'), LINES)
def test_each_line_of_evalbs_sample_has_its_numbers(test, gold, numbers):
    assert score_sentence(read(gold), read(test), SAMPLE)[:8] == numbers


@pytest.fixture(scope='module')
def sample():
    return [score_sentence(read(gold), read(test), SAMPLE) for test, gold, _ in LINES]


def test_the_summary_is_that_of_evalbs_sample(sample):
    found = summary(sample)
    assert (found.sentences, found.errors) == (24, 7)  # 5 errors and 2 skipped
    numbers = found.recall, found.precision, found.complete, found.tagging
    assert [round(x, 2) for x in numbers] == [87.76, 90.53, 52.94, 98.15]
    short = summary(sample, 40)
    numbers = short.recall, short.precision, short.complete, short.tagging
    assert [round(x, 2) for x in numbers] == [81.25, 85.25, 50.0, 96.88]


def test_sentences_that_fail_count_as_zero_in_the_other_f1(sample):
    found = summary(sample)
    assert found.f1 == pytest.approx(100 * 2 * 86 / (98 + 95))
    # Seven references of four brackets are missed altogether.
    assert found.f1_with_errors == pytest.approx(100 * 2 * 86 / (98 + 7 * 4 + 95))


def test_collins_leaves_out_punctuation_and_takes_advp_for_prt():
    gold = '(S (NP (NN It)) (VP (VBZ goes) (PRT (RP on)) (. .)))'
    test = '(S (NP (NN It)) (VP (VBZ goes) (ADVP (RB on))) (. .))'
    found = score_sentence(read(gold), read(test), COLLINS)
    assert (found.matched, found.gold, found.test, found.words, found.tags) == (4, 4, 4, 3, 2)


def test_function_tags_and_traces_do_not_count():
    gold = '(S (NP-SBJ-1 (NN It)) (VP (VBZ is) (S (NP (-NONE- *)))))'
    test = cleaned(read(gold))
    assert str(test) == '(S (NP (NN It)) (VP (VBZ is)))'
    found = score_sentence(read(gold), test)
    assert (found.length, found.matched, found.gold, found.test) == (2, 3, 3, 3)
