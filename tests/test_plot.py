"""The command `plot`."""

import os
import shutil

import pytest

from transformer_jax import plot
from transformer_jax.inspection import curves


def test_a_picture_of_two_runs(run_command, workdir, tmp_path, monkeypatch):
    other, output = tmp_path / 'other', tmp_path / 'curves.png'
    shutil.copytree(workdir, other)
    drawn = []
    monkeypatch.setattr(
        plot, 'draw_curves', lambda runs: drawn.extend(runs) or curves.draw_curves(runs)
    )
    arguments = '--workdir', workdir, '--workdir', other, '--output', output
    code, out, err = run_command(plot, *arguments)
    assert (code, out, err) == (0, f'{output} shows {workdir}, {other}\n', '')
    assert output.read_bytes().startswith(b'\x89PNG')
    assert [run.name for run in drawn] == [workdir.name, 'other']
    assert drawn[0].records[-1]['step'] == 120 and drawn[0].test is not None
    assert drawn[0].floor == curves.loss_floor(0.1, 500)


def test_runs_of_one_name_are_told_apart_by_their_paths(tmp_path):
    paths = [str(tmp_path / 'a' / 'run'), str(tmp_path / 'b' / 'run')]
    assert [name for name, _ in plot._names(paths)] == paths


@pytest.mark.parametrize(
    ('changes', 'problem'),
    [
        ({'--output': 'a.jpg'}, "--output='a.jpg' must end in .png."),
        ({'--output': 'no/folder/a.png'}, 'cannot be written (No such file or directory)'),
        ({'--workdir': 'nothing'}, "--workdir='nothing' has no metrics yet"),
        ({'--workdir': 'tatoeba_en_fr'}, "--workdir='tatoeba_en_fr' has no metrics yet"),
    ],
)
def test_mistakes_get_a_sentence_and_no_file(
    run_command, workdir, tmp_path, monkeypatch, changes, problem
):
    monkeypatch.chdir(tmp_path)
    flags = {'--workdir': workdir, '--output': 'a.png'} | changes
    code, _, err = run_command(plot, *(x for pair in flags.items() for x in pair))
    assert code == 2 and problem in err
    assert os.listdir(tmp_path) == []
