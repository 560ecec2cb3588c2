import random

import pytest
from growth import is_linear
from office_files import reversed_words, with_gaps

from transformer_jax.documents.ranges import RangedText
from transformer_jax.translating.placeholders.marked_text import Piece
from transformer_jax.translating.placeholders.paired_marks import Side


def ranged(source):
    """Return a text; '[x' begins a range, 'x]' ends it; '<x' and 'x>' may cross."""

    def side_of(point):
        name = point.strip('[]<>')
        role = 'begin' if point[0] in '[<' else 'end'
        crosses = point[0] == '<' or point[-1] == '>'
        return None if point == '*' else Side(role, '', name, crosses=crosses)

    return RangedText(pieces_of(source), side_of)


def pieces_of(source):
    parts = [x for x in source.split('_') if x]
    is_point = [x == '*' or x[0] in '[<' or x[-1] in ']>' for x in parts]
    return [Piece('', (), x) if p else Piece(x) for x, p in zip(parts, is_point, strict=True)]


def written(pieces):
    return ''.join(piece.text or (piece.point or '') for piece in pieces)


def translation(source, translate=reversed_words):
    text = ranged(source)
    output = translate(text.text)
    return written(text.translated(output.text, output.alignment))


@pytest.mark.parametrize(
    ('source', 'expected'),
    [
        ('a _[x_b c_x]_ d', 'D [xC Bx] A'),
        ('[x_a_x]_ b', 'B [xAx]'),
        ('a _[x_[y_b_y]_ c_x]_ d', 'D [xC [yBy]x] A'),
        ('a _[x_b_x]_ _[y_c_y]_ d', 'D [yCy] [xBx] A'),
        ('a _[x_*_ b_x]_ c', 'C [x* Bx] A'),
        ('a _<x_b _<y_c_x>_ d_y>_ e', 'E <yD <xCy> Bx> A'),
        ('(_[x_a_x]_) b', 'B ([xAx])'),
        ('a _[x_ b _x]_ c', 'C [xBx] A'),
        ('a _[x_ b _x]_.', '[xBx]. A'),
        ('a _[x__x]_ b', '[xx] B A'),
        ('a _[x_ _*_x]_ b', '[x *x] B A'),
        ('a _[x_b', '[xB A'),
        ('a _x]_b', 'x]B A'),
    ],
)
def test_a_range_encloses_the_words_that_it_enclosed(source, expected):
    assert translation(source) == expected


@pytest.mark.parametrize(
    ('order', 'expected'),
    [
        ([0, 1, 2, 3], '[xA Bx] [yCy] D'),
        ([1, 0, 2, 3], '[xB Ax] [yCy] D'),
        ([2, 0, 3, 1], '[yCy] [xA D Bx]'),
        ([0, 2, 1, 3], '[xAx] [yCy] B D'),
        ([3, 2], 'D [yC[xx]y]'),
    ],
)
def test_ranges_do_not_cross(order, expected):
    text = ranged('[x_a_ _b_x]_ _[y_c_y]_ d')
    words = text.text.split()
    assert words == ['a', 'b', 'c', 'd']
    alignment = [(source, target) for target, source in enumerate(order)]
    output = ' '.join(words[k].upper() for k in order)
    assert written(text.translated(output, alignment)) == expected


def random_ranges(draw, depth=0):
    found = []
    for _ in range(draw.randrange(1, 4)):
        kind, name = draw.randrange(6), str(draw.randrange(10**9))
        if kind < 3 or depth > 3:
            found += [draw.choice(['a ', 'b, ', '(c', 'd', ' e', '. '])]
        elif kind < 5:
            found += [f'[{name}', *random_ranges(draw, depth + 1), f'{name}]']
        else:
            found += ['*']
    return found


@pytest.mark.parametrize('seed', range(5))
def test_ranges_stay_within_one_another_whatever_the_alignment_is(seed):
    draw = random.Random(seed)
    for _ in range(200):
        parts = random_ranges(draw)
        for name in 'xyz':  # these may cross the others
            begin, end = sorted(draw.choices(range(len(parts) + 1), k=2))
            parts = [*parts[:begin], f'<{name}', *parts[begin:end], f'{name}>', *parts[end:]]
        text = ranged('_'.join(parts))
        output = with_gaps(text.text)
        words = output.text.split()
        draw.shuffle(words)
        pairs = [pair for pair in output.alignment if draw.random() < 0.7]
        found = [piece.point or piece.text for piece in text.translated(' '.join(words), pairs)]
        points = [x for x in found if x[-1:] in [*'*]>'] or x[:1] in [*'[<']]
        assert sorted(points) == sorted(x for x in parts if x[-1] in '*]>' or x[0] in '[<')
        stack = []
        for x in points:
            if x[0] == '[':
                stack.append(x[1:])
            elif x[-1] == ']':
                assert stack.pop() == x[:-1]
        assert not stack
        for name in 'xyz':
            assert points.index(f'<{name}') < points.index(f'{name}>')
        assert ''.join(''.join(x for x in found if x not in points).split()) == ''.join(words)


@pytest.mark.parametrize(
    ('before', 'after'),
    [
        ('[x_a_x]_ ', ''),
        ('[x_a ', 'x]_'),
        ('[x_', 'x]_'),
        ('<x_a ', 'x>_'),
        ('<x_', 'x>_'),
        ('*_[x_', 'b_x]_'),
        ('[x_x]_*_', ''),
    ],
)
def test_many_ranges_take_no_long_time(before, after):
    def work(source):
        translation(source, with_gaps)

    assert is_linear(work, lambda size: f'{before * size}a{after * size}_b', 700)
