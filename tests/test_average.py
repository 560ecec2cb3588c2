"""The command `average`."""

import errno
import json
import re
import shutil

import jax
import numpy as np
import pytest
from tiny_run import TEXTS

from transformer_jax import average, evaluate
from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.errors import UserError
from transformer_jax.inference.load import load_trained
from transformer_jax.storage.workdir import Workdir
from transformer_jax.training import train
from transformer_jax.translator import Translator


def test_the_mean_of_given_steps_translates_as_load_with_these_steps(
    run_command, workdir, tmp_path
):
    output = tmp_path / 'mean'
    arguments = ['--workdir', workdir, '--output', output, '--steps', '60']
    code, out, _ = run_command(average, *arguments)
    assert (code, out) == (0, f'{output} holds the mean of steps [60]\n')
    found, wanted = Translator.load(output), Translator.load(workdir, steps=[60])
    assert found(TEXTS, n_best=2) == wanted(TEXTS, n_best=2)


def test_averaged_weights_can_be_scored_but_not_trained(run_command, workdir, tmp_path):
    output = tmp_path / 'mean'
    run_command(average, '--workdir', workdir, '--output', output)
    code, out, _ = run_command(evaluate, '--workdir', output)
    test = Workdir(workdir).read_results()['test']  # for the mean of the same two checkpoints
    assert (code, out.splitlines()[0].split()[1]) == (0, f'{test["bleu"]:.2f}')
    config = Workdir(output).read_run().config
    with pytest.raises(UserError, match='holds averaged weights, which cannot be trained'):
        train(config, output)


def test_the_mean_of_averaged_weights_keeps_their_steps(run_command, workdir, tmp_path):
    mean, again = tmp_path / 'mean', tmp_path / 'again'
    run_command(average, '--workdir', workdir, '--output', mean)
    _, out, _ = run_command(average, '--workdir', mean, '--output', again)
    assert out == f'{again} holds the mean of steps [60, 120]\n'
    assert Workdir(again).read_average() == {'workdir': str(workdir), 'steps': [60, 120]}


def test_the_mean_of_a_model_in_bfloat16_is_written_in_float32(run_command, workdir, tmp_path):
    run, output = tmp_path / 'run', tmp_path / 'mean'
    shutil.copytree(workdir, run)
    saved = json.loads((run / 'config.json').read_text())
    saved['config']['model']['dtype'] = 'bfloat16'
    (run / 'config.json').write_text(json.dumps(saved))
    run_command(average, '--workdir', run, '--output', output)
    weights, wanted = (load_trained(folder)[2] for folder in (output, workdir))
    jax.tree.map(np.testing.assert_array_equal, weights, wanted)


@pytest.mark.parametrize(
    ('arguments', 'sentence'),
    [
        (['--steps', '60,90'], 'are not all saved in .*: choose among 60, 120'),
        (['--steps', '60,60'], "--steps='60,60' has a step twice"),
        (['--steps', 'all'], "--steps='all' must be steps with commas"),
        (['--steps', '9' * 5000], 'must be steps with commas'),
        (['--steps', '60', '--average', 'best'], "--steps='60' already chooses the checkpoints"),
        (['--checkpoints', '0'], 'checkpoints=0 must be a whole number from 1 to 1,000,000'),
    ],
)
def test_a_mistake_writes_nothing_and_gives_one_sentence(
    run_command, workdir, tmp_path, arguments, sentence
):
    output = tmp_path / 'mean'
    code, out, err = run_command(average, '--workdir', workdir, '--output', output, *arguments)
    assert (code, out, err.count('\n')) == (2, '', 1)
    assert re.search(sentence, err)
    assert not output.exists()


def test_averaged_weights_have_no_best_checkpoint(run_command, workdir, tmp_path):
    run_command(average, '--workdir', workdir, '--output', tmp_path / 'mean')
    with pytest.raises(UserError, match='has no checkpoint with a dev score, by which to choose'):
        Translator.load(tmp_path / 'mean', average='best')


def test_an_existing_output_folder_is_refused(run_command, workdir):
    arguments = ['--workdir', workdir, '--output', workdir]
    code, _, err = run_command(average, *arguments)
    assert code == 2 and 'exists already' in err


def test_a_release_has_nothing_to_average(run_command, release, tmp_path):
    code, _, err = run_command(average, '--workdir', release, '--output', tmp_path / 'mean')
    assert code == 2 and 'which has one set of weights, and no checkpoints to average' in err


def test_a_full_disk_leaves_no_output_folder(run_command, workdir, tmp_path, monkeypatch):
    def save_weights(*_):
        raise OSError(errno.ENOSPC, 'No space left on device')

    monkeypatch.setattr(Checkpoints, 'save_weights', save_weights)
    code, _, err = run_command(average, '--workdir', workdir, '--output', tmp_path / 'mean')
    assert code == 2
    assert err.startswith(
        f"error: --output='{tmp_path / 'mean'}' cannot be written any more (No sp"
    )
    assert err.endswith('then run the same command again.\n')
    assert not (tmp_path / 'mean').exists()


def test_a_folder_name_that_is_too_long_is_reported(run_command, workdir, tmp_path):
    arguments = ['--workdir', workdir, '--output', tmp_path / ('x' * 300)]
    code, _, err = run_command(average, *arguments)
    assert code == 2 and 'cannot be made (File name too long): choose another place.' in err
