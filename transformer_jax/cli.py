"""The program `transformer-jax`: each of its commands is a module of this package.

`transformer-jax train ARGS` does what `python -m transformer_jax.main ARGS` does, and
`transformer-jax NAME ARGS` does what `python -m transformer_jax.NAME ARGS` does.
"""

import runpy
import sys
from collections.abc import Sequence

from transformer_jax import command_line
from transformer_jax._version import __version__
from transformer_jax.errors import UserError, did_you_mean, shown

_COMMANDS = {
    'train': 'train a translator, or resume its training',
    'translate': 'translate lines of text',
    'serve': 'translate for programs and browsers, over HTTP',
    'evaluate': 'score a trained model: BLEU, chrF, loss and perplexity',
    'score': 'score given translations with their log-probabilities',
    'average': 'write a model that is the mean of checkpoints',
    'convert': 'write a model for other programs, or import one of theirs',
    'paper': 'print the tables of the paper with our own numbers beside them',
    'corpus': 'say what a corpus is made of',
    'attention': 'show what layers and heads attend to',
    'plot': 'draw the curves of training runs',
    'benchmark': 'measure training and decoding',
}
_HELP = '\n'.join(
    [
        'usage: transformer-jax COMMAND ...',
        '',
        'The Transformer of "Attention Is All You Need" in JAX and Flax.',
        '',
        *(f'  {name:12}{purpose}' for name, purpose in _COMMANDS.items()),
        '',
        'transformer-jax COMMAND --help lists the flags of a command.',
    ]
)


def main() -> None:
    """Run the command that sys.argv names."""
    name = sys.argv[1] if len(sys.argv) > 1 else ''
    if name not in _COMMANDS:
        command_line.run(_without_command)
        return
    del sys.argv[1]
    runpy.run_module(f'transformer_jax.{command_line.module_of(name)}', run_name='__main__')


def _without_command(arguments: Sequence[str]) -> None:
    if arguments and arguments[0] in ('-h', '--help', 'help'):
        command_line.print_result(_HELP)
    elif arguments and arguments[0] == '--version':
        command_line.print_result(f'transformer_jax {__version__}')
    elif arguments:
        near = did_you_mean(arguments[0], _COMMANDS)
        raise UserError(
            f'command={shown(arguments[0])} must be one of {", ".join(_COMMANDS)}{near}'
        )
    else:
        raise UserError('there is no command: see transformer-jax --help.')


if __name__ == '__main__':
    main()
