"""Converts models, to other forms and from them: python -m transformer_jax.convert.

--workdir=DIR --to=KIND --output=DIR   writes a trained model in another form
--from=DIR --workdir=DIR               makes a work directory of another program's model
"""

import argparse
import dataclasses
import importlib
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from transformer_jax import command_line
from transformer_jax.conversion.hub import model_path
from transformer_jax.errors import UserError, shown
from transformer_jax.runtime.signals import answer_signals
from transformer_jax.storage.new_folder import NewFolder


@dataclasses.dataclass(frozen=True)
class Kind:
    """A form of models. Its module in `transformer_jax.conversion` is imported when it is needed.

    The module of a target has `export(original: Original, folder: Path, **options) -> str`. It
    writes into a folder that is empty, and that gets its name once it is complete. The module of a
    source has `recognises(path: Path) -> bool` and `import_model(path: Path, folder: Path, *,
    license: str, data_note: str, **options) -> str`. `export` and `import_model` return lines for
    stdout about what they found.

    Attributes:
      module: name of the module.
      purpose: what it is, for --help.
      options: names of the flags, among those that not all kinds have, that it takes. A flag that
        was not given is no option of the call.
    """

    module: str
    purpose: str
    options: tuple[str, ...] = ()

    def load(self) -> ModuleType:
        """Return the module."""
        return importlib.import_module(f'transformer_jax.conversion.{self.module}')


TARGETS = {
    'release': Kind(
        'release',
        'a folder to keep and to hand out, with a model card',
        ('dtype',),
    ),
    'huggingface': Kind(
        'huggingface.to_huggingface',
        "a folder for MarianMTModel and MarianTokenizer of Hugging Face's transformers",
        ('dtype',),
    ),
    'ctranslate2': Kind(
        'ctranslate2.to_ctranslate2', 'a folder for CTranslate2', ('quantization',)
    ),
    'argos': Kind(
        'ctranslate2.to_argos',
        'a package (.argosmodel) for Argos Translate and LibreTranslate',
        ('quantization',),
    ),
    'stablehlo': Kind(
        'stablehlo.to_stablehlo',
        'programs of encoder and search that need JAX only, to serve',
        ('dtype', 'batch_sizes', 'lengths'),
    ),
}
SOURCES = {
    'huggingface': Kind(
        'huggingface.from_huggingface',
        'a folder of a Marian model of Hugging Face, such as those of OPUS-MT, or its name there',
        ('check',),
    ),
    'marian': Kind(
        'marian.from_marian',
        'a folder with model.npz and decoder.yml of Marian itself',
        ('check',),
    ),
}


def main(arguments: Sequence[str]) -> None:
    """Write a model in another form."""
    flags = _parser().parse_args(arguments)
    if (flags.source is None) == (flags.to is None):
        both = 'not both: ' if flags.to else ''
        raise UserError(
            f'{both}give --from=DIR to import a model, or --to=KIND and --output=DIR to export '
            'one; see --help.'
        )
    if flags.source is None:
        _export(flags)
    else:
        _import(flags)


def _export(flags: argparse.Namespace) -> None:
    if flags.output is None:
        raise UserError(f'--to={flags.to} writes a folder: name it with --output.')
    kind = TARGETS[flags.to]
    options, card = _options(flags, kind, f'--to={flags.to}'), _card(flags)
    steps = command_line.checkpoint_steps(flags)
    chosen = {'checkpoints': flags.checkpoints, 'average': flags.average, 'steps': steps}
    _run(flags, kind, NewFolder(flags.output), options, chosen | card)


def _run(
    flags: argparse.Namespace,
    kind: Kind,
    output: NewFolder,
    options: dict[str, Any],
    original_options: dict[str, Any],
) -> None:
    from transformer_jax.conversion.original import Original
    from transformer_jax.sharding import data_mesh

    data_mesh()  # orbax would report missing devices with a trace
    module = kind.load()
    original = Original.load(flags.workdir, name=output.name, **original_options)
    with output.writing() as folder:
        found = module.export(original, folder, **options)
    command_line.print_result(f'{found}\n{output} holds the model as {flags.to}')


def _import(flags: argparse.Namespace) -> None:
    for name in ('output', 'checkpoints', 'average', 'steps'):
        if getattr(flags, name) is not None:
            raise UserError(f'--{name} is not for --from, which writes --workdir: leave it out.')
    output, card = NewFolder(flags.workdir, '--workdir'), _card(flags)
    path = model_path(flags.source, '--from')
    kind, module = _source_of(path, flags.source)
    options = _options(flags, kind, f'--from={flags.source!r}')
    with output.writing() as folder:
        found = module.import_model(path, folder, **options, **card)
    command_line.print_result(f'{found}\n{output} holds the model')


def _source_of(path: Path, given: str) -> tuple[Kind, ModuleType]:
    """Return the kind of the model at a path, and its module."""
    for kind in SOURCES.values():
        module = kind.load()
        if module.recognises(path):
            return kind, module
    kinds = ', or '.join(kind.purpose for kind in SOURCES.values())
    raise UserError(f'--from={given!r} holds no model that can be imported: it must be {kinds}.')


def _options(flags: argparse.Namespace, kind: Kind, chosen: str) -> dict[str, Any]:
    """Return the options that were given; raise a UserError if one is not for this kind."""
    every = {name for one in (*TARGETS.values(), *SOURCES.values()) for name in one.options}
    given = {name: getattr(flags, name) for name in sorted(every)}
    given = {name: value for name, value in given.items() if value not in (None, False)}
    for name in given:
        if name not in kind.options:
            of_kind = ', '.join(f'--{option}' for option in kind.options) or 'none of these flags'
            raise UserError(f'--{name} is not for {chosen}, which takes {of_kind}: leave it out.')
    return given


def _card(flags: argparse.Namespace) -> dict[str, str]:
    """Return the options that all kinds have, which the model card shows."""
    if not re.fullmatch(r'[A-Za-z0-9.+-]*', flags.license):
        raise UserError(
            f'--license={shown(flags.license)} is no SPDX name of a licence: give one such as '
            'apache-2.0 or cc-by-4.0.'
        )
    return {'license': flags.license, 'data_note': flags.data_note}


def _parser() -> command_line.Parser:
    kinds = '\n'.join(f'  {name:14}{kind.purpose}' for name, kind in TARGETS.items())
    sources = '\n'.join(f'  {kind.purpose}' for kind in SOURCES.values())
    parser = command_line.Parser(
        command='convert',
        description='Writes a trained model in another form (--to, --output), or makes a work\n'
        'directory of a model of another program (--from).\n\n'
        f'kinds for --to:\n{kinds}\n\nmodels for --from:\n{sources}',
    )
    parser.add_argument(
        '--workdir', required=True, help='folder of a trained run; with --from, folder to write'
    )
    parser.add_argument(
        '--license',
        default='',
        help='licence of the model, for its card: an SPDX name, for example cc-by-4.0',
    )
    parser.add_argument(
        '--data_note',
        default='',
        help='text for the card about the training data: its source and attribution',
    )
    imports = parser.add_argument_group('imports')
    imports.add_argument(
        '--from',
        dest='source',
        metavar='DIR',
        help='model to import: a folder, or its name on the Hugging Face hub',
    )
    imports.add_argument(
        '--check',
        action='store_true',
        help='compare what is imported with the program that it comes from',
    )
    exports = parser.add_argument_group('exports')
    exports.add_argument('--to', choices=tuple(TARGETS), help='form to write')
    exports.add_argument('--output', help='folder to write')
    command_line.add_checkpoint_flags(exports)
    command_line.add_steps_flag(exports)
    exports.add_argument(
        '--dtype',
        choices=('float32', 'bfloat16'),
        help='dtype of the weights (release, huggingface, stablehlo; default: float32)',
    )
    exports.add_argument(
        '--quantization',
        choices=(
            'float32',
            'float16',
            'bfloat16',
            'int16',
            'int8',
            'int8_float32',
            'int8_float16',
            'int8_bfloat16',
        ),
        help='type in which CTranslate2 stores weights; it computes in another one where a machine '
        'does not have it (ctranslate2, argos; default: float32, for argos int8)',
    )
    exports.add_argument(
        '--batch_sizes',
        help="sentences of a batch, a program for each number, or 'any' (stablehlo; default: 1,16)",
    )
    exports.add_argument(
        '--lengths',
        help="most tokens of a source, a program for each number, or 'any' (stablehlo; default: "
        '32,128)',
    )
    return parser


if __name__ == '__main__':
    answer_signals()
    command_line.run(main)
