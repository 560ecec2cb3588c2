"""The notebook runs from top to bottom, on a run that takes seconds."""

import json
from pathlib import Path

import matplotlib
import pytest
from tiny_run import tiny

from transformer_jax.config import loading

NOTEBOOK = Path(__file__).parents[2] / 'launch' / 'colab.ipynb'
CELLS = json.loads(NOTEBOOK.read_text(encoding='utf-8'))['cells']
CODE = [''.join(cell['source']) for cell in CELLS if cell['cell_type'] == 'code']


@pytest.fixture
def beside_a_checkout(tmp_path, monkeypatch):
    """A folder such as the notebook is opened in."""
    (tmp_path / 'configs').mkdir()
    (tmp_path / 'configs' / 'demo.py').touch()
    (tmp_path / 'launch').mkdir()
    monkeypatch.chdir(tmp_path / 'launch')


@pytest.mark.slow
@pytest.mark.usefixtures('programs_kept')
def test_it_runs_from_top_to_bottom(beside_a_checkout, monkeypatch, capsys):
    matplotlib.use('Agg')
    monkeypatch.setattr(loading, 'load_config', lambda name: tiny(decode={'beam_size': 3}))
    names = {}
    for code in CODE:
        exec(code, names)
    printed = capsys.readouterr().out
    assert 'test BLEU' in printed
    # The numbers that tests/model/test_attention.py has by hand.
    assert '[0.063 0.468 0.468]' in printed and '[1.937 6.683 1.595]' in printed
    source, target, weights = names['attention_weights']('The cat sleeps.')
    for name, shape in (
        ('encoder', (2, len(source), len(source))),
        ('decoder', (2, len(target), len(target))),
        ('cross', (2, len(target), len(source))),
    ):
        (layer,) = weights[name]
        assert layer.shape == shape
        assert layer.sum(axis=-1) == pytest.approx(1.0)


def test_without_a_checkout_it_asks_what_to_clone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"REPOSITORY='' cannot be cloned: set it"):
        exec(CODE[0], {})


def test_it_is_kept_without_outputs():
    assert all(cell['outputs'] == [] for cell in CELLS if cell['cell_type'] == 'code')
