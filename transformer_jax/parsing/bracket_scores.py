"""Labelled bracket scores of constituency trees, by the rules of evalb.

evalb (Sekine and Collins, 1997) with COLLINS.prm is how parsers have been scored since Collins
(1997): function tags are cut off, punctuation is left out, ADVP and PRT count as one label, and a
sentence whose words differ from the reference counts as an error and not in the scores.
"""

import collections
import dataclasses
import re
from collections.abc import Sequence
from typing import NamedTuple

from transformer_jax.parsing.trees import Tree, restored

_CUTOFF = 40  # words of the sentences in evalb's second summary


@dataclasses.dataclass(frozen=True)
class Rules:
    """What evalb's parameter files say; the default is COLLINS.prm.

    Attributes:
      deleted: labels that are left out: constituents without what is in them, and words.
      equal_labels: pairs of labels that count as one.
      equal_words: pairs of words that count as one.
    """

    deleted: frozenset[str] = frozenset(['TOP', '-NONE-', ',', ':', '``', "''", '.'])
    equal_labels: tuple[tuple[str, str], ...] = (('ADVP', 'PRT'),)
    equal_words: tuple[tuple[str, str], ...] = ()


COLLINS = Rules()


class SentenceScore(NamedTuple):
    """A line of evalb's output.

    Attributes:
      length: words of the reference, without empty elements.
      status: 0 if it counts; 1 for other words than the reference has; 2 for no tree.
      matched: brackets of both.
      gold: brackets of the reference; 0 unless status is 0.
      test: brackets of the output; 0 unless status is 0.
      crossing: brackets of the output that cross one of the reference.
      words: words that count.
      tags: words with the part of speech of the reference.
      gold_anyway: brackets of the reference, whatever the status.
    """

    length: int
    status: int
    matched: int
    gold: int
    test: int
    crossing: int
    words: int
    tags: int
    gold_anyway: int


class BracketScores(NamedTuple):
    """The scores of a set of sentences, in percent.

    Attributes:
      recall: of the sentences that count.
      precision: likewise.
      f1: likewise.
      f1_with_errors: F1 if sentences that fail have found none of their brackets.
      complete: share of the sentences that count whose brackets are all the same.
      tagging: share of right parts of speech.
      sentences: number of sentences.
      errors: how many have other words than their reference, or no tree.
    """

    recall: float
    precision: float
    f1: float
    f1_with_errors: float
    complete: float
    tagging: float
    sentences: int
    errors: int


def score_sentence(gold: Tree | None, test: Tree | None, rules: Rules = COLLINS) -> SentenceScore:
    """Score an output.

    Args:
      gold: the reference; None for an empty line.
      test: the output; None for an empty line.
      rules: what counts.
    """
    if gold is None:
        return SentenceScore(0, 2, 0, 0, 0, 0, 0, 0, 0)
    length = sum(leaf.label != '-NONE-' for leaf in gold.leaves())
    gold_words, gold_brackets = _read(gold, rules)
    wrong = SentenceScore(length, 1, 0, 0, 0, 0, len(gold_words), 0, len(gold_brackets))
    if test is None:
        return wrong._replace(status=2)
    words, brackets = _read(test, rules)
    same = {word: min(pair) for pair in rules.equal_words for word in pair}
    texts = [[same.get(word, word) for _, word in side] for side in (gold_words, words)]
    if texts[0] != texts[1]:
        return wrong
    left, matched = collections.Counter(gold_brackets), 0
    for bracket in brackets:
        if left[bracket]:
            left[bracket] -= 1
            matched += 1
    spans = {(start, end) for _, start, end in gold_brackets}
    crossing = sum(
        any(a < start < b < end or start < a < end < b for a, b in spans)
        for _, start, end in brackets
    )
    tags = sum(a == b for (a, _), (b, _) in zip(gold_words, words, strict=True))
    counts = matched, len(gold_brackets), len(brackets), crossing, len(words), tags
    return SentenceScore(length, 0, *counts, len(gold_brackets))


def summary(scores: Sequence[SentenceScore], longest: int | None = None) -> BracketScores:
    """Return the scores of sentences together.

    Args:
      scores: of each sentence.
      longest: leaves out sentences with more words, for example 40; None leaves out none.
    """
    chosen = [x for x in scores if longest is None or x.length <= longest]
    valid = [x for x in chosen if x.status == 0]
    matched, gold, test = (sum(getattr(x, n) for x in valid) for n in ('matched', 'gold', 'test'))
    every = sum(x.gold_anyway for x in chosen)
    whole = sum(x.matched == x.gold == x.test for x in valid)
    return BracketScores(
        recall=_percent(matched, gold),
        precision=_percent(matched, test),
        f1=_percent(2 * matched, gold + test),
        f1_with_errors=_percent(2 * matched, every + test),
        complete=_percent(whole, len(valid)),
        tagging=_percent(sum(x.tags for x in valid), sum(x.words for x in valid)),
        sentences=len(chosen),
        errors=len(chosen) - len(valid),
    )


def score_rows(
    sources: Sequence[str], rows: Sequence[str], references: Sequence[str]
) -> tuple[list[SentenceScore], list[SentenceScore]]:
    """Score the symbols that a model wrote, see `data.trees.symbols`.

    Args:
      sources: words of each sentence, separated by spaces.
      rows: symbols that the model wrote, separated by spaces.
      references: symbols of the right trees.

    Returns:
      The scores of all trees, malformed ones repaired; and the same with malformed ones as errors.
    """
    repaired, strict = [], []
    for source, row, reference in zip(sources, rows, references, strict=True):
        words = source.split()
        gold, found = (restored(text.split(), words) for text in (reference, row))
        score = score_sentence(gold.tree, found.tree)
        repaired.append(score)
        wrong = score._replace(status=1, matched=0, gold=0, test=0, crossing=0, tags=0)
        strict.append(wrong if found.repaired else score)
    return repaired, strict


def in_words(repaired: Sequence[SentenceScore], strict: Sequence[SentenceScore]) -> str:
    """Return the scores of `score_rows` for people, in lines."""
    lines = []
    for name, longest in (('', None), (f', up to {_CUTOFF} words', _CUTOFF)):
        found, without = summary(repaired, longest), summary(strict, longest)
        lines.append(
            f'labelled F1{name:17} {found.f1:6.2f} (recall {found.recall:.2f}, precision '
            f'{found.precision:.2f}, {found.complete:.2f} % complete) of {found.sentences:,}; '
            f'the {without.errors:,} malformed are repaired; {without.f1_with_errors:.2f} if they '
            f'count as 0, {without.f1:.2f} of the {found.sentences - without.errors:,} others alone'
        )
    return '\n'.join(lines)


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def _read(tree: Tree, rules: Rules) -> tuple[list[tuple[str, str]], list[tuple[str, int, int]]]:
    """Return the words that count with their labels, and the brackets with their spans."""
    same = {label: min(pair) for pair in rules.equal_labels for label in pair}
    words: list[tuple[str, str]] = []
    brackets: list[tuple[str, int, int]] = []

    def walk(node: Tree) -> None:
        # evalb cuts a label at the first '-' or '=', but not at its beginning.
        label = re.split('[-=]', node.label, maxsplit=1)[0] or node.label
        if node.word is not None:
            if label not in rules.deleted:
                words.append((same.get(label, label), node.word))
            return
        start = len(words)
        for child in node.children:
            walk(child)
        # A forest has no label.
        if label and label not in rules.deleted and len(words) > start:
            brackets.append((same.get(label, label), start, len(words)))

    walk(tree)
    return words, brackets
