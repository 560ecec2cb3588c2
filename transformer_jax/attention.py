"""Shows attention: python -m transformer_jax.attention --workdir=DIR --output=page.html."""

import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from transformer_jax import command_line
from transformer_jax.errors import UserError, user_path
from transformer_jax.inspection.figures import save_png
from transformer_jax.runtime.signals import answer_signals
from transformer_jax.storage.files import atomic_write
from transformer_jax.terminal.line_input import FileLines, StdinLines, read_lines
from transformer_jax.terminal.line_output import check_output

_CHUNK = 256  # lines
_BAR_FROM = 50  # lines from which a progress bar is shown
_ENDINGS = {'output': '.html', 'png': '.png', 'json': '.json'}


def main(arguments: Sequence[str]) -> None:
    """Write the attention for lines and their translations."""
    flags = _parser().parse_args(arguments)
    if len(flags.workdir) > 1:
        raise UserError(
            f'--workdir is given {len(flags.workdir)} times, but attention is that of one model: '
            'give one.'
        )
    (flags.workdir,) = flags.workdir
    if flags.input is None and flags.target == '-':
        raise UserError("--target='-' is stdin, as is the input: name a file for one of them.")
    paths = _paths(flags)
    lines = StdinLines() if flags.input is None else FileLines(flags.input)
    targets = None if flags.target is None else read_lines('--target', flags.target)
    with command_line.compiled_programs():
        _run(flags, paths, lines, targets)


def _run(
    flags: Namespace,
    paths: dict[str, Path],
    lines: StdinLines | FileLines,
    targets: list[str] | None,
) -> None:
    from transformer_jax.inspection.attention_page import attention_json, attention_page
    from transformer_jax.inspection.attention_picture import draw_attention
    from transformer_jax.translator import Translator

    translator = Translator.load(
        flags.workdir, checkpoints=flags.checkpoints, average=flags.average
    )
    options = {'target_language': flags.target_language}
    translator.check_options(**options)  # before a line is waited for
    texts: list[str] = []
    while chunk := lines.take(_CHUNK):
        texts += chunk
    if not texts:
        raise UserError('there is no line to show: give one on stdin or in --input.')
    if targets is not None and len(targets) != len(texts):
        raise UserError(
            f'--target={flags.target!r} has {len(targets):,} lines, but the input has '
            f'{len(texts):,}: give a target for each line.'
        )
    if flags.png is not None and len(texts) > 1:
        raise UserError(
            f'--png shows one line, but there are {len(texts):,}: give one, or --output.'
        )
    found = translator.attention(texts, targets, progress=len(texts) >= _BAR_FROM, **options)
    title = f'Attention of {Path(flags.workdir).absolute().name}'
    write: dict[str, Callable[[Path], None]] = {
        'output': lambda path: _write_text(path, attention_page(found, title)),
        'json': lambda path: _write_text(path, attention_json(found)),
        'png': lambda path: save_png(draw_attention(found[0], flags.view), path),
    }
    for name, path in paths.items():
        try:
            write[name](path)
        except OSError as error:
            raise UserError(
                f'--{name}={str(path)!r} cannot be written ({error.strerror}): choose another '
                'place.'
            ) from error
        size = path.stat().st_size / 1e6
        count = '1 line' if len(found) == 1 else f'{len(found):,} lines'
        command_line.print_result(f'{path} shows {count} ({size:.2f} MB)')


def _write_text(path: Path, content: str) -> None:
    with atomic_write(path) as file:
        file.write(content)


def _paths(flags: Namespace) -> dict[str, Path]:
    """Return the files to write, by flag."""
    inputs = {f'--{name}': getattr(flags, name) for name in ('input', 'target')}
    paths = {}
    for name, ending in _ENDINGS.items():
        given = getattr(flags, name)
        if given is None:
            continue
        paths[name] = user_path(given, f'--{name}')
        if paths[name].suffix.lower() != ending:
            raise UserError(f'--{name}={given!r} must end in {ending}.')
        check_output(given, inputs, [flags.workdir])
        if not os.path.isdir(paths[name].absolute().parent):
            raise UserError(f'--{name}={given!r}: its folder does not exist: make it first.')
    if not paths:
        raise UserError('there is nothing to write: name a page with --output, --png or --json.')
    return paths


def _parser() -> command_line.Parser:
    parser = command_line.Parser(
        command='attention',
        description='Shows what each layer and head of a model attends to, for each line of stdin '
        'and its\ntranslation: as a page for a browser, a picture or JSON.',
    )
    parser.add_argument(
        '--workdir',
        required=True,
        action='append',
        help='folder of a trained run or of a release, or name of a model of the package',
    )
    command_line.add_checkpoint_flags(parser)
    command_line.add_target_flag(parser)
    parser.add_argument(
        '--input', type=command_line.stream_or_path, help='file of lines (default: stdin)'
    )
    parser.add_argument(
        '--target', help='file of outputs, one for each line (default: the best outputs)'
    )
    parser.add_argument('--output', help='page to write, .html; it needs no network')
    parser.add_argument('--json', help='file to write, .json, with all weights')
    parser.add_argument(
        '--png',
        help="picture of one line to write, .png; needs pip install 'transformer_jax[plots]'",
    )
    parser.add_argument(
        '--view',
        choices=('cross', 'encoder', 'decoder'),
        default='cross',
        help='attention that --png shows (default: cross)',
    )
    return parser


if __name__ == '__main__':
    answer_signals()
    command_line.run(main)
