"""Constituency trees in the bracket format of the Penn Treebank, and as rows of symbols.

A tree such as `(S (NP (DT The) (NN cat)) (VP (VBZ sleeps)))` becomes the symbols
`S NP XX XX /NP VP XX /VP /S` of Vinyals et al. (2015), which a decoder can write: a label opens a
constituent, `/` with the label closes it, and XX, or the part of speech, stands for the next word.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

WORD = 'XX'  # stands for a word if parts of speech are left out
_TOKEN = re.compile(r'[()]|[^\s()]+')
_WRAPPERS = ('', 'TOP', 'ROOT', 'S1')
_CONSTITUENTS = frozenset(
    """ADJP ADVP CONJP FRAG INTJ LST NAC NML NP NX PP PRN PRT QP RRC S SBAR SBARQ SINV SQ UCP VP
    WHADJP WHADVP WHNP WHPP X""".split()
)
_DEEPEST = 150  # constituents in one another; those of the Penn Treebank are at most about 40
# What stands for brackets in treebanks, because brackets are their format.
_BRACKETS = {'(': '-LRB-', ')': '-RRB-', '[': '-LSB-', ']': '-RSB-', '{': '-LCB-', '}': '-RCB-'}
# A space keeps a quotation mark and a word apart.
_TYPOGRAPHIC = str.maketrans({'’': "'", '‘': "'", '“': ' `` ', '”': " '' ", '…': '...'})
_PUNCTUATION = {',': ',', '.': '.', '?': '.', '!': '.', ':': ':', ';': ':', '--': ':', '...': ':'}
_QUOTES = {'``': '``', "''": "''"}
_WORD_TOKENS = re.compile(
    r"""-[LR][RSC]B-|n't\b|(?i:can(?=not\b))|(?:Mrs?|Ms|Dr|Prof|St|Jr|Sr|Inc|Ltd|Corp|Co|vs)\.|'(?:s|re|ve|ll|d|m)\b|(?:[A-Za-z]\.){2,}|\w+(?:[-.]\w+)*?(?=n't\b)|
    \w+(?:[-.,]\w+)*|\.\.\.|--|``|''|\S""",
    re.VERBOSE,
)


class Tree(NamedTuple):
    """A constituent, or a word with its part of speech.

    Attributes:
      label: for example 'NP', or 'NN' of a word.
      children: the constituents and words in it; empty for a word.
      word: the word; None for a constituent.
    """

    label: str
    children: tuple['Tree', ...] = ()
    word: str | None = None

    def __str__(self) -> str:
        """Return the tree in brackets, on one line."""
        if self.word is not None:
            return f'({self.label} {self.word})'
        return f'({" ".join([self.label, *map(str, self.children)])})'

    def leaves(self) -> Iterator['Tree']:
        """Yield the words, as trees of one word."""
        if self.word is not None:
            yield self
        for child in self.children:
            yield from child.leaves()

    def words(self) -> list[str]:
        """Return the words."""
        return [leaf.word for leaf in self.leaves()]


def read_trees(lines: Iterable[str]) -> Iterator[tuple[int, Tree]]:
    """Yield each tree of a text in brackets, with the line on which it begins.

    A tree may take several lines. A word with spaces gets '_' in their place. Outer brackets
    without a label, or with TOP or ROOT, are left out.

    Raises:
      ValueError: if brackets do not match, are too deep in one another, or something stands
        outside of them; the message begins with the line.
    """
    stack: list[tuple[list[str], list[Tree]]] = []  # texts and children of each open bracket
    first = 0
    for number, line in enumerate(lines, 1):
        for token in _TOKEN.findall(line):
            if token == '(':
                first = first if stack else number
                if len(stack) == _DEEPEST:  # no function could walk thousands
                    raise ValueError(
                        f'line {number}: more than {_DEEPEST} brackets are in one another'
                    )
                stack.append(([], []))
            elif not stack:
                raise ValueError(f'line {number}: {token[:40]!r} is outside of brackets')
            elif token != ')':
                stack[-1][0].append(token)
            else:
                tree = _closed(*stack.pop(), number)
                if stack:
                    stack[-1][1].append(tree)
                else:
                    yield first, _unwrapped(tree)
    if stack:
        raise ValueError(f'line {first}: {len(stack)} brackets of the tree are not closed')


def _closed(texts: list[str], children: list[Tree], line: int) -> Tree:
    if len(texts) > 1 and not children:
        return Tree(texts[0], (), '_'.join(texts[1:]))
    if len(texts) > 1 or not (children or texts):
        raise ValueError(
            f'line {line}: brackets hold {" ".join(texts)[:40]!r} and {len(children)} '
            'constituents, but must hold a label and a word, or a label and constituents'
        )
    return Tree(texts[0] if texts else '', tuple(children))


def _unwrapped(tree: Tree) -> Tree:
    while tree.label in _WRAPPERS and len(tree.children) == 1 and tree.children[0].word is None:
        (tree,) = tree.children
    return tree


def cleaned(tree: Tree) -> Tree | None:
    """Return a tree without function tags, indices and empty elements; None if nothing is left.

    It is what parsers learn and what evalb compares: 'NP-SBJ-1' becomes 'NP', and traces
    (-NONE-) and constituents that hold nothing else vanish.
    """
    if tree.label == '-NONE-':
        return None
    label = re.split(r'(?<!^)[-=|]', tree.label, maxsplit=1)[0] or tree.label
    if tree.word is not None:
        return Tree(tree.label if tree.label.startswith('-') else label, (), tree.word)
    children = tuple(child for child in map(cleaned, tree.children) if child is not None)
    return Tree(label, children) if children else None


def symbols(tree: Tree, tags: bool = False) -> list[str]:
    """Return a tree as a row of symbols.

    Args:
      tree: the tree.
      tags: whether parts of speech stand for the words; otherwise XX does.
    """
    if tree.word is not None:
        return [tree.label if tags else WORD]
    inside = [symbol for child in tree.children for symbol in symbols(child, tags)]
    return [tree.label, *inside, f'/{tree.label}']


class Restored(NamedTuple):
    """A tree made of symbols.

    Attributes:
      tree: the tree; it has all words, in order.
      repaired: whether brackets or words had to be added or left out.
    """

    tree: Tree
    repaired: bool


def restored(row: Sequence[str], words: Sequence[str]) -> Restored:
    """Return the tree that a row of symbols describes, with these words.

    A label opens a constituent, '/' with the label closes it, and every other symbol takes the next
    word. Brackets that are missing are added, those that match nothing are left out, and words
    without a symbol are added at the end, or symbols without a word left out.

    Args:
      row: symbols from `symbols` or from a model.
      words: the words of the sentence.
    """
    repaired = False
    left = list(reversed(words))
    opens = _openings(row)
    stack: list[tuple[str, list[Tree]]] = [('', [])]

    def close() -> None:
        nonlocal repaired
        label, children = stack.pop()
        if children:
            stack[-1][1].append(Tree(label, tuple(children)))
        else:
            repaired = True  # a constituent of nothing

    for place, symbol in enumerate(row):
        if place in opens:
            # A model that repeats itself may open hundreds, which no function could walk.
            if len(stack) > _DEEPEST:
                repaired = True
            else:
                stack.append((symbol, []))
        elif symbol.startswith('/') and len(symbol) > 1:
            label = symbol[1:]
            if label in (open_label for open_label, _ in stack[1:]):
                while stack[-1][0] != label:
                    repaired = True
                    close()
                close()
            else:
                repaired = True
        elif left:
            word = left.pop()
            stack[-1][1].append(Tree(_tag(word) if symbol == WORD else symbol, (), word))
        else:
            repaired = True
    if left:
        repaired = True
        # They belong to the sentence, so they go to its outermost constituent.
        while len(stack) > 2:
            close()
        children = stack[-1][1]
        rest = [Tree(_tag(word), (), word) for word in reversed(left)]
        if len(stack) == 1 and len(children) == 1 and children[0].word is None:
            children[0] = children[0]._replace(children=(*children[0].children, *rest))
        else:
            children.extend(rest)
    while len(stack) > 1:
        repaired = True
        close()
    (_, children) = stack.pop()
    if len(children) == 1 and children[0].word is None:
        return Restored(children[0], repaired)
    return Restored(Tree('S', tuple(children)), True)


def _openings(row: Sequence[str]) -> set[int]:
    """Return the places of symbols that open a constituent.

    Without parts of speech, it is every symbol that is neither a word nor closes. Otherwise it is
    those that the row closes somewhere, and the labels of the Penn Treebank's constituents, which
    a model may have failed to close.
    """
    closed = {symbol[1:] for symbol in row if symbol.startswith('/') and len(symbol) > 1}
    if WORD not in row:
        return {place for place, symbol in enumerate(row) if symbol in closed | _CONSTITUENTS}
    return {
        place
        for place, symbol in enumerate(row)
        if symbol in closed or (symbol != WORD and not symbol.startswith('/'))
    }


def _tag(word: str) -> str:
    """Return the part of speech of punctuation and brackets, which evalb leaves out, or XX."""
    if word in _BRACKETS.values():
        return word
    return _PUNCTUATION.get(word) or _QUOTES.get(word) or WORD


def treebank_words(text: str) -> list[str]:
    """Return the words of a raw text as treebanks divide it: "don't." is "do", "n't" and "."."""
    words, is_open = [], True
    for word in _WORD_TOKENS.findall(text.translate(_TYPOGRAPHIC)):
        if word == '"':
            word, is_open = ('``', False) if is_open else ("''", True)
        words.append(_BRACKETS.get(word, word))
    return words
