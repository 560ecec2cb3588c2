"""Pictures need matplotlib only when they are asked for."""

import sys

import pytest

from transformer_jax.errors import UserError
from transformer_jax.inspection.figures import new_figure, save_png


def test_a_figure_becomes_a_png_file(tmp_path):
    figure = new_figure('--png', 4, 2)
    figure.add_subplot().plot([1, 2])
    save_png(figure, tmp_path / 'a.png')
    assert (tmp_path / 'a.png').read_bytes().startswith(b'\x89PNG')
    assert [path.name for path in tmp_path.iterdir()] == ['a.png']


def test_without_matplotlib_the_error_names_the_flag_and_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, 'matplotlib.figure', None)
    with pytest.raises(UserError, match=r"--png needs matplotlib: pip install '.*\[plots\]'"):
        new_figure('--png', 4, 2)
