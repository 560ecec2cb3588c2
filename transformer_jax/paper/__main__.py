"""Prints the tables of the paper: python -m transformer_jax.paper --table=1."""

from argparse import Namespace
from collections.abc import Sequence

from transformer_jax import command_line
from transformer_jax.errors import UserError, user_path
from transformer_jax.inspection.figures import new_figure, save_png
from transformer_jax.runtime.signals import answer_signals


def main(arguments: Sequence[str]) -> None:
    """Print a table, and measure or draw Table 1 if asked to."""
    parser = command_line.Parser(
        command='paper',
        description='Prints a table of the paper, with our own numbers beside it: 1 (complexity of '
        'layers),\n2 (BLEU and cost), 3 (variations of the model) or 4 (parsing). Each row of '
        'Table 3 is a\nconfig: train --config=table3:ROW trains it.',
    )
    parser.add_argument(
        '--table', type=int, choices=(1, 2, 3, 4), default=3, help='which table (default: 3)'
    )
    parser.add_argument(
        '--measure',
        action='store_true',
        help='with --table=1, measure layers over sentence lengths on the first device',
    )
    parser.add_argument(
        '--output',
        help="with --measure, a picture to write, .png; needs pip install 'transformer_jax[plots]'",
    )
    flags = parser.parse_args(arguments)
    if flags.measure and flags.table != 1:
        raise UserError(f'--measure is for --table=1, but --table={flags.table}: leave one out.')
    if flags.output is not None and not flags.measure:
        raise UserError(f'--output={flags.output!r} is for --measure: add it.')
    if flags.output is not None and not flags.output.lower().endswith('.png'):
        raise UserError(f'--output={flags.output!r} must end in .png.')
    if flags.output is not None:  # measuring takes a minute
        new_figure('--output', 1, 1)
        if not user_path(flags.output, '--output').absolute().parent.is_dir():
            raise UserError(f'--output={flags.output!r}: its folder does not exist: make it first.')
    _run(flags)


def _run(flags: Namespace) -> None:
    from transformer_jax.paper import table1, tables
    from transformer_jax.sharding import data_mesh

    data_mesh()  # JAX would report missing devices with a trace
    text = {1: table1.table, 2: tables.table2, 3: tables.table3, 4: tables.table4}[flags.table]()
    command_line.print_result(text)
    if not flags.measure:
        return
    times = table1.measure()
    command_line.print_result(f'\n{table1.measured(times)}')
    if flags.output is not None:
        figure, path = table1.draw(times), user_path(flags.output, '--output')
        try:
            save_png(figure, path)
        except OSError as error:
            raise UserError(
                f'--output={flags.output!r} cannot be written ({error.strerror}): choose another '
                'place.'
            ) from error
        command_line.print_result(f'{path} shows these times')


if __name__ == '__main__':
    answer_signals()
    command_line.run(main)
