"""Draws curves of training: python -m transformer_jax.plot --workdir=DIR --output=curves.png."""

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformer_jax import command_line
from transformer_jax.errors import UserError, user_path
from transformer_jax.inspection.curves import Run, draw_curves, loss_floor
from transformer_jax.inspection.figures import save_png
from transformer_jax.runtime.signals import answer_signals
from transformer_jax.storage.bucket_workdir import open_workdir
from transformer_jax.storage.workdir import SavedRun, Workdir
from transformer_jax.terminal.line_output import check_output
from transformer_jax.training.logs.metrics_writer import read_metrics


def main(arguments: Sequence[str]) -> None:
    """Write one picture with the curves of one run or several."""
    parser = command_line.Parser(
        command='plot',
        description='Draws loss, BLEU, learning rate and speed over the steps of training, of one\n'
        "run or several, finished or not. Needs pip install 'transformer_jax[plots]'.",
    )
    parser.add_argument(
        '--workdir',
        required=True,
        action='append',
        help='folder of a run; give it several times to compare runs',
    )
    parser.add_argument('--output', required=True, help='picture to write, .png')
    flags = parser.parse_args(arguments)
    path = user_path(flags.output, '--output')
    if path.suffix.lower() != '.png':
        raise UserError(f'--output={flags.output!r} must end in .png.')
    check_output(flags.output, {}, flags.workdir)
    _run(flags, path)


def _run(flags: Namespace, path: Path) -> None:
    from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair

    runs = []
    for name, folder in _names(flags.workdir):
        saved, records = _read(folder)
        size, results = VocabularyPair.load(folder.path).target.size, folder.read_results()
        floor = loss_floor(saved.config.optimizer.label_smoothing, size)
        runs.append(Run(name, records, floor, None if results is None else results['test']))
    figure = draw_curves(runs)
    try:
        save_png(figure, path)
    except OSError as error:
        raise UserError(
            f'--output={flags.output!r} cannot be written ({error.strerror}): choose another place.'
        ) from error
    command_line.print_result(f'{path} shows {", ".join(flags.workdir)}')


def _names(workdirs: Sequence[str]) -> list[tuple[str, Workdir]]:
    """Return each folder with a name for the legend: its last part if that tells runs apart."""
    folders = [open_workdir(workdir, '--workdir') for workdir in workdirs]
    names = [Path(os.path.abspath(workdir)).name for workdir in workdirs]
    if len(set(names)) < len(names):
        names = list(workdirs)
    return list(zip(names, folders, strict=True))


def _read(folder: Workdir) -> tuple[SavedRun, list[dict[str, Any]]]:
    """Return the run in a folder and the records of its metrics."""
    saved = folder.read_run()
    try:
        records = read_metrics(folder.metrics)
    except OSError as error:
        raise UserError(f'{folder}: metrics.jsonl cannot be read ({error.strerror}).') from error
    if saved is None or not records:
        raise UserError(
            f'{folder} has no metrics yet: name the folder of a run that has trained for '
            'train.log_every steps.'
        )
    return saved, records


if __name__ == '__main__':
    answer_signals()
    command_line.run(main)
