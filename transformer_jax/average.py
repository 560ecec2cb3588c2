"""Averages checkpoints: python -m transformer_jax.average --workdir=DIR --output=DIR."""

import contextlib
import dataclasses
import os
import re
import shutil
from collections.abc import Sequence

from transformer_jax import command_line
from transformer_jax.errors import UserError
from transformer_jax.runtime.signals import answer_signals
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
    parser.add_argument('--steps', help='steps of the checkpoints, for example 800,900,1000')
    flags = parser.parse_args(arguments)
    if flags.steps is not None and (flags.checkpoints is not None or flags.average is not None):
        raise UserError(
            f'--steps={flags.steps!r} already chooses the checkpoints: leave out --checkpoints and '
            '--average.'
        )
    # Because importing orbax takes seconds, mistakes are answered before.
    from transformer_jax.checkpointing.manager import Checkpoints
    from transformer_jax.inference.load import load_trained
    from transformer_jax.sharding import data_mesh

    output = Workdir(flags.output, field='--output')
    if os.path.lexists(output.path):
        raise UserError(f'--output={flags.output!r} exists already: name a new folder.')
    output.check_writable()
    steps = None if flags.steps is None else _parse_steps(flags.steps)
    folder = Workdir(flags.workdir)
    data_mesh()  # orbax would report missing devices with a trace
    _, vocabulary, weights, steps = load_trained(
        flags.workdir, checkpoints=flags.checkpoints, average=flags.average, steps=steps
    )
    run = folder.read_run()
    decode = dataclasses.replace(run.config.decode, average_checkpoints=1, average='latest')
    config = dataclasses.replace(run.config, decode=decode)
    try:
        output.path.mkdir(parents=True)
    except OSError as error:
        raise UserError(
            f'--output={flags.output!r} cannot be made ({error.strerror}): choose another place.'
        ) from error
    with contextlib.ExitStack() as stack, output.failures_to_write(kept=''):
        stack.callback(shutil.rmtree, output.path, ignore_errors=True)  # unless it is complete
        vocabulary.save(output.path)
        manager = Checkpoints(output.checkpoints)
        manager.save_weights(steps[-1], weights)
        manager.close()
        average = {'workdir': str(folder.path), 'steps': steps}
        output.write_average(folder.read_average() or average)
        output.write_run(
            dataclasses.replace(run, config=config, vocabulary_digest=vocabulary.digest)
        )
        stack.pop_all()
    command_line.print_result(f'{output.path} holds the mean of steps {steps}')


def _parse_steps(text: str) -> list[int]:
    if not re.fullmatch(r'\d{1,18}(,\d{1,18})*', text):
        raise UserError(
            f'--steps={text[:80]!r} must be steps with commas between them, for example '
            '800,900,1000.'
        )
    steps = [int(step) for step in text.split(',')]
    if len(set(steps)) < len(steps):
        raise UserError(f'--steps={text!r} has a step twice: name each once.')
    return steps


if __name__ == '__main__':
    answer_signals()
    command_line.run(main)
