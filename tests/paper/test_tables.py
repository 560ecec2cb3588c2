"""Tables 1, 2 and 4 of the paper."""

import pytest

from transformer_jax.paper import __main__ as paper
from transformer_jax.paper import table1, tables


def test_table_2_has_every_baseline_and_our_flops():
    rows = {line[:30].strip(): line.split() for line in tables.table2().splitlines()[1:11]}
    assert [row.model for row in tables.TABLE_2] == list(rows)
    assert rows['GNMT + RL'][-5:] == ['24.6', '39.92', '2.3e+19', '1.4e+20', '-']
    assert rows['Transformer, big'][-5:-1] == ['28.4', '41.8', '2.3e+19', '2.3e+19']
    # The same order as the paper's estimate, and below it.
    assert 0.2 < tables.total_flops('base') / 3.3e18 < 1
    assert 0.2 < tables.total_flops('big') / 2.3e19 < 1


def test_the_flops_of_a_whole_training_match_a_count_by_hand():
    # Base: 25,000 tokens on each side; 2 FLOPs a weight and token, 3 passes, 100,000 steps.
    attention, feed_forward = 4 * 512 * 512, 2 * 512 * 2048
    weights = 6 * (3 * attention + 2 * feed_forward) + 37_000 * 512
    assert tables.total_flops('base') == pytest.approx(6 * weights * 25_000 * 1e5, rel=0.02)


def test_table_4_has_both_transformers():
    assert [line.split()[-1] for line in tables.table4().splitlines() if 'Transf' in line] == [
        '91.3',
        '92.7',
    ]


def test_layers_are_measured_and_compared():
    times = table1.measure((16, 32), repeats=1)
    assert list(times) == ['self-attention', 'recurrent', 'convolutional']
    assert all(ms > 0 for of_length in times.values() for ms in of_length.values())
    assert 'milliseconds, length' in table1.measured(times)
    (axes,) = table1.draw(times).axes
    assert [line.get_label() for line in axes.get_lines()] == list(times)


@pytest.mark.parametrize(
    ('first', 'second', 'wanted'),
    [
        ({16: 1.0, 32: 2.0, 64: 6.0}, {16: 3.0, 32: 3.0, 64: 3.0}, 40.0),
        ({16: 1.0, 32: 2.0}, {16: 3.0, 32: 3.0}, None),  # never
        ({16: 4.0, 32: 5.0}, {16: 3.0, 32: 3.0}, None),  # from the start
    ],
)
def test_the_crossing_point_lies_between_two_measured_lengths(first, second, wanted):
    assert table1.crossing_point(first, second) == wanted


def test_table_1_is_printed_measured_and_drawn(run_command, tmp_path, monkeypatch):
    picture = tmp_path / 'a.png'
    times = {name: {16: 1.0, 32: 2.0} for name in ('self-attention', 'recurrent', 'convolutional')}
    monkeypatch.setattr(table1, 'measure', lambda: times)
    code, out, _ = run_command(paper, '--table', '1', '--measure', '--output', picture)
    assert code == 0 and 'O(n^2 d)' in out and out.endswith(f'{picture} shows these times\n')
    assert picture.read_bytes().startswith(b'\x89PNG')


@pytest.mark.parametrize(
    ('flags', 'message'),
    [
        (['--table', '5'], 'invalid choice'),
        (['--table', '2', '--measure'], '--measure is for --table=1, but --table=2'),
        (['--table', '1', '--output', 'a.png'], "--output='a.png' is for --measure: add it."),
        (['--table', '1', '--measure', '--output', 'a.pdf'], "--output='a.pdf' must end in .png."),
    ],
)
def test_mistakes_get_a_sentence(run_command, flags, message):
    code, _, err = run_command(paper, *flags)
    assert code == 2 and message in err


@pytest.mark.parametrize(
    ('own', 'other', 'words'),
    [
        ({16: 1.0, 32: 4.0}, {16: 2.0, 32: 2.0}, 'from about 21 positions'),
        ({16: 4.0, 32: 5.0}, {16: 3.0, 32: 3.0}, 'at all measured lengths'),
        ({16: 1.0, 32: 2.0}, {16: 3.0, 32: 3.0}, 'at none of the longest lengths'),
    ],
)
def test_it_is_said_where_self_attention_costs_more(own, other, words):
    text = table1.measured({'self-attention': own, 'recurrent': other})
    assert f'Self-attention costs more than the recurrent layer {words}.' in text


def test_a_folder_that_does_not_exist_is_named_before_anything_is_measured(run_command):
    code, _, err = run_command(paper, '--table=1', '--measure', '--output=no/a.png')
    assert code == 2 and "--output='no/a.png': its folder does not exist" in err
