"""Averages checkpoints: python -m transformer_jax.average --workdir=DIR --output=DIR."""

import dataclasses
from argparse import Namespace
from collections.abc import Sequence

from transformer_jax import command_line
from transformer_jax.errors import UserError
from transformer_jax.runtime.signals import answer_signals
from transformer_jax.storage.new_folder import NewFolder
from transformer_jax.storage.pretrained import model_folder
from transformer_jax.storage.release import read_release
from transformer_jax.storage.workdir import Workdir


def main(arguments: Sequence[str]) -> None:
    """Write a folder that translates with the mean of some checkpoints."""
    parser = command_line.Parser(
        command='average',
        description='Writes a new folder that translates and scores with the mean of checkpoints:\n'
        'the latest, the best by dev BLEU, or those of --steps (default: as decode.average of the\n'
        'config).',
    )
    parser.add_argument('--workdir', required=True, help='folder of a trained run')
    command_line.add_checkpoint_flags(parser)
    parser.add_argument('--output', required=True, help='folder to write')
    command_line.add_steps_flag(parser)
    flags = parser.parse_args(arguments)
    steps = command_line.checkpoint_steps(flags)
    output = NewFolder(flags.output, checkpoints=True)
    folder = model_folder(flags.workdir)
    if read_release(folder) is not None:
        raise UserError(
            f'{folder} is a release folder, which has one set of weights, and no checkpoints to '
            'average: use it as it is.'
        )
    _run(flags, steps, folder, output)


def _run(flags: Namespace, steps: list[int] | None, folder: Workdir, output: NewFolder) -> None:
    from transformer_jax.checkpointing.manager import Checkpoints
    from transformer_jax.inference.load import load_trained
    from transformer_jax.sharding import data_mesh

    data_mesh()  # orbax would report missing devices with a trace
    _, vocabulary, weights, steps = load_trained(
        flags.workdir, checkpoints=flags.checkpoints, average=flags.average, steps=steps
    )
    run = folder.read_run()
    decode = dataclasses.replace(run.config.decode, average_checkpoints=1, average='latest')
    config = dataclasses.replace(run.config, decode=decode)
    with output.writing() as path:
        written = Workdir(path)
        vocabulary.save(written.path)
        manager = Checkpoints(written.checkpoints)
        manager.save_weights(steps[-1], weights)
        manager.close()
        average = {'workdir': folder.place, 'steps': steps}
        written.write_average(folder.read_average() or average)
        written.write_run(
            dataclasses.replace(run, config=config, vocabulary_digest=vocabulary.digest)
        )
    command_line.print_result(f'{output} holds the mean of steps {steps}')


if __name__ == '__main__':
    answer_signals()
    command_line.run(main)
