"""The notebooks run from top to bottom in a kernel of Jupyter, and show what their texts say."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / 'launch' / 'notebooks'
NOTEBOOKS = sorted(FOLDER.glob('*.ipynb'))


def cells(path):
    return json.loads(path.read_text(encoding='utf-8'))['cells']


def code(path):
    return [''.join(cell['source']) for cell in cells(path) if cell['cell_type'] == 'code']


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Call it with the number of a notebook, and expressions to evaluate at its end."""
    import nbformat
    from nbclient import NotebookClient

    # A folder such as a notebook is opened in.
    (tmp_path / 'configs').mkdir()
    (tmp_path / 'configs' / 'demo.py').touch()
    (tmp_path / 'launch' / 'notebooks').mkdir(parents=True)
    for name in ('JUPYTER_CONFIG_DIR', 'JUPYTER_DATA_DIR', 'JUPYTER_RUNTIME_DIR', 'IPYTHONDIR'):
        monkeypatch.setenv(name, str(tmp_path / 'jupyter'))
    monkeypatch.setenv('PYTHONPATH', str(FOLDER.parents[1]))
    monkeypatch.delenv('MPLBACKEND', raising=False)
    # Models of minutes need optimized programs, unlike the rest of the tests.
    monkeypatch.delenv('XLA_FLAGS')

    def run(number, before='', **facts):
        notebook = nbformat.read(NOTEBOOKS[number - 1], as_version=4)
        notebook.cells.insert(2, nbformat.v4.new_code_cell(before))
        values = ', '.join(f'{name!r}: {expression}' for name, expression in facts.items())
        last = f'import json\n\nprint(json.dumps({{{values}}}))'
        notebook.cells.append(nbformat.v4.new_code_cell(last))
        resources = {'metadata': {'path': str(tmp_path / 'launch' / 'notebooks')}}
        NotebookClient(notebook, timeout=600, kernel_name='python3', resources=resources).execute()
        outputs = [x for cell in notebook.cells for x in cell.get('outputs', [])]
        printed = ''.join(x.text for x in outputs if x.get('name') == 'stdout')
        found = json.loads(printed.splitlines()[-1])
        found['pictures'] = sum('image/png' in x.get('data', {}) for x in outputs)
        return found, printed

    return run


def test_there_are_five():
    assert [path.name[0] for path in NOTEBOOKS] == list('12345')


@pytest.mark.slow
def test_1_prints_the_numbers_of_the_worked_example(run):
    found, printed = run(
        1,
        difference='float(abs(mixed - by_module[0]).max())',
        entropy='{kind: numbers[-1, 0] for kind, numbers in found.items()}',
    )
    for numbers in ('[0.063 0.468 0.468]', '[0.136 0.432 0.432]', '[1.937 6.683 1.595]'):
        assert numbers in printed
    assert found['difference'] < 1e-5
    assert found['entropy']['unscaled'] < 0.5 < 2 < found['entropy']['scaled']
    assert found['pictures'] == 4


@pytest.mark.slow
def test_2_finds_both_cosines_and_the_linear_step(run):
    found, printed = run(
        2, error='float(abs(moved - positions[7:97]).max())', shuffled='difference'
    )
    assert 'the loop 0.8600, the formula of the paper 0.7225' in printed
    assert found['error'] < 1e-4
    assert found['shuffled'] > 0.1  # with positions, the last of the two
    assert 'positions=none      : largest difference after shuffling 0.00000' in printed
    assert found['pictures'] == 3


@pytest.mark.slow
def test_3_learns_its_tasks(run):
    found, printed = run(
        3,
        exact='float(exact)',
        accuracy='float(accuracy)',
        ends='{name: float(curve[-20:].mean()) for name, curve in curves.items()}',
    )
    assert found['exact'] > 0.95
    assert found['accuracy'] > 0.9
    assert '7 8 continued: 7 8 7 8 7 8' in printed
    assert found['ends']['with warm-up'] < found['ends']['without']
    assert found['pictures'] == 3


@pytest.mark.slow
def test_4_looks_inside_the_packaged_model(run):
    found, printed = run(
        4, shape='lost.shape', most='lost.max()', bleu='bleu', page='str(page.absolute())'
    )
    assert "Je n'ai jamais vu un si beau ciel bleu." in printed
    assert 'Ma maison est vieille, mais elle est belle.' in printed
    assert found['shape'] == [3, 4, 4] and found['most'] > 0.02
    assert 0 < found['bleu'] < 100
    assert Path(found['page']).read_text(encoding='utf-8').startswith('<!DOCTYPE html>')
    assert found['pictures'] == 2


@pytest.mark.slow
def test_5_prints_all_tables(run):
    shorter = (
        'from transformer_jax.paper import table1\n\nmeasure = table1.measure\n'
        'table1.measure = lambda: measure((16, 64), repeats=1)'
    )
    found, printed = run(5, shorter, layers='list(times)')
    assert found['layers'] == ['self-attention', 'recurrent', 'convolutional']
    for part in ('O(n^2 d)', 'GNMT + RL', 'A-heads-16', 'Luong et al. (2015)'):
        assert part in printed
    assert found['pictures'] == 2


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs_and_paths(path):
    assert all(cell['outputs'] == [] for cell in cells(path) if cell['cell_type'] == 'code')
    assert len({cell['id'] for cell in cells(path)}) == len(cells(path))
    text = path.read_text(encoding='utf-8')
    assert '/home/' not in text and '/tmp/' not in text
    place = re.escape(f'/blob/main/launch/notebooks/{path.name}')
    badge = re.search(f'colab.research.google.com/github/([^/]+/[^/]+){place}', text)
    assert f"REPOSITORY = 'https://github.com/{badge[1]}'" in code(path)[0]
    texts = [''.join(cell['source']) for cell in cells(path) if cell['cell_type'] == 'markdown']
    assert texts[0].startswith(f'# {path.name[0]}. ')
    assert '<details><summary>Answers</summary>' in texts[-1]
    # A number that the builder of the notebook has not filled in.
    assert not re.search(r'@[A-Z]+@', text)


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda path: path.stem)
def test_without_a_checkout_it_asks_what_to_clone(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    unnamed = re.sub(r"github\.com/[^']+", 'github.com/OWNER/REPOSITORY', code(path)[0])
    with pytest.raises(SystemExit, match=r'OWNER/REPOSITORY.* cannot be cloned: set it to the URL'):
        exec(unnamed, {})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize('url', ['https://github.com/a/b.c.git', 'git@github.com:a/b.c'])
def test_the_command_of_the_readme_names_the_clone(url, tmp_path):
    readme = (FOLDER.parent / 'look.md').read_text(encoding='utf-8')
    (command,) = (line for line in readme.splitlines() if line.startswith('sed -i'))
    (tmp_path / 'launch' / 'notebooks').mkdir(parents=True)
    copy = tmp_path / 'launch' / 'notebooks' / '1.ipynb'
    copy.write_text('/OWNER/REPOSITORY/\nOWNER/REPOSITORY\n', encoding='utf-8')
    git = ['git', '-C', str(tmp_path)]
    subprocess.run([*git, 'init', '--quiet'], check=True)
    subprocess.run([*git, 'remote', 'add', 'origin', url], check=True)
    subprocess.run(['bash', '-c', command], cwd=tmp_path, check=True)
    assert copy.read_text(encoding='utf-8') == '/a/b.c/\na/b.c\n'
