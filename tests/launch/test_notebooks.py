"""The notebooks run from top to bottom, and show what their texts say."""

import json
import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / 'launch' / 'notebooks'
NOTEBOOKS = sorted(FOLDER.glob('*.ipynb'))


def cells(path):
    return json.loads(path.read_text(encoding='utf-8'))['cells']


def code(path):
    return [''.join(cell['source']) for cell in cells(path) if cell['cell_type'] == 'code']


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Call it with the number of a notebook; returns its names and what it prints."""
    import matplotlib

    matplotlib.use('Agg')
    import matplotlib.pyplot as plt

    monkeypatch.setattr(plt, 'show', lambda: plt.close('all'))
    # A folder such as a notebook is opened in.
    (tmp_path / 'configs').mkdir()
    (tmp_path / 'configs' / 'demo.py').touch()
    (tmp_path / 'launch' / 'notebooks').mkdir(parents=True)
    monkeypatch.chdir(tmp_path / 'launch' / 'notebooks')

    def run(number):
        names = {}
        for cell in code(NOTEBOOKS[number - 1]):
            exec(compile(cell, NOTEBOOKS[number - 1].name, 'exec'), names)
        return names, capsys.readouterr().out

    return run


def test_there_are_five():
    assert [path.name[0] for path in NOTEBOOKS] == list('12345')


@pytest.mark.slow
def test_1_prints_the_numbers_of_the_worked_example(run):
    names, printed = run(1)
    for numbers in ('[0.063 0.468 0.468]', '[0.136 0.432 0.432]', '[1.937 6.683 1.595]'):
        assert numbers in printed
    assert float(abs(names['mixed'] - names['by_module'][0]).max()) < 1e-5
    entropy = {kind: numbers[:, 0] for kind, numbers in names['found'].items()}
    assert entropy['unscaled'][-1] < 0.5 < 2 < entropy['scaled'][-1]


@pytest.mark.slow
def test_2_finds_both_cosines_and_the_linear_step(run):
    names, printed = run(2)
    assert 'the loop 0.8600, the formula of the paper 0.7225' in printed
    assert abs(names['moved'] - names['positions'][7:97]).max() < 1e-4
    assert names['difference'] > 0.1  # with positions, the last of the two
    assert 'positions=none      : largest difference after shuffling 0.00000' in printed


@pytest.mark.slow
def test_3_learns_its_tasks(run):
    names, printed = run(3)
    assert names['exact'] > 0.95
    assert names['accuracy'] > 0.9
    assert '7 8 continued: 7 8 7 8 7 8' in printed
    with_warmup, without = (
        names['curves'][name][-20:].mean() for name in ('with warm-up', 'without')
    )
    assert with_warmup < without


@pytest.mark.slow
def test_4_looks_inside_the_packaged_model(run):
    names, printed = run(4)
    assert "Je n'ai jamais vu un si beau ciel bleu." in printed
    assert 'Ma maison est vieille, mais elle est belle.' in printed
    assert names['lost'].shape == (3, 4, 4) and names['lost'].max() > 0.02
    assert 0 < names['bleu'] < 100
    assert names['page'].read_text(encoding='utf-8').startswith('<!DOCTYPE html>')


@pytest.mark.slow
def test_5_prints_all_tables(run, monkeypatch):
    from transformer_jax.paper import table1

    measure = table1.measure
    monkeypatch.setattr(table1, 'measure', lambda: measure((16, 64), repeats=1))
    names, printed = run(5)
    assert set(names['times']) == {'self-attention', 'recurrent', 'convolutional'}
    for part in ('O(n^2 d)', 'GNMT + RL', 'A-heads-16', 'Luong et al. (2015)'):
        assert part in printed


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs_and_paths(path):
    assert all(cell['outputs'] == [] for cell in cells(path) if cell['cell_type'] == 'code')
    assert len({cell['id'] for cell in cells(path)}) == len(cells(path))
    text = path.read_text(encoding='utf-8')
    assert '/home/' not in text and '/tmp/' not in text
    badge = (
        f'colab.research.google.com/github/OWNER/REPOSITORY/blob/main/launch/notebooks/{path.name}'
    )
    assert badge in ''.join(cells(path)[0]['source'])
    answers = ''.join(cells(path)[-1]['source'])
    assert '<details><summary>Answers</summary>' in answers


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda path: path.stem)
def test_without_a_checkout_it_asks_what_to_clone(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r'OWNER/REPOSITORY.* cannot be cloned: set it to the URL'):
        exec(code(path)[0], {})
    assert os.listdir(tmp_path) == []
