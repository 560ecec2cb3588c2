"""Translates lines of text: python -m transformer_jax.translate --workdir=DIR."""

import argparse
import contextlib
import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from transformer_jax import command_line
from transformer_jax.errors import UserError, user_path
from transformer_jax.inference.line_input import FileLines, StdinLines
from transformer_jax.inference.line_output import open_output
from transformer_jax.inference.terminal import (
    BackgroundCompiler,
    TerminalLines,
    TerminalSettings,
)
from transformer_jax.runtime import program_cache
from transformer_jax.runtime.program_cache import ProgramCache
from transformer_jax.runtime.progress import STDERR
from transformer_jax.runtime.signals import Stopped, answer_signals, end_at_once
from transformer_jax.storage.cache import (
    cache_folder,
    content_digest,
    keep_compiled_programs,
)

# Importing it takes seconds, in which no mistake would be answered.
if TYPE_CHECKING:
    from transformer_jax.translator import Translation, Translator

_BAR_FROM = 200  # lines from which a progress bar is shown


def main(arguments: Sequence[str]) -> None:
    """Read lines and write their translations in the same order."""
    parser = _parser()
    flags = parser.parse_args(arguments)
    programs = ProgramCache.open(cache_folder())
    options = _options(flags)
    from transformer_jax.translator import Translator, warn_of_cut_outputs

    with program_cache.use(programs), contextlib.ExitStack() as stack:
        lines = StdinLines() if flags.input is None else FileLines(flags.input)
        keep_compiled_programs(cache_folder())
        translator = Translator.load(
            flags.workdir, checkpoints=flags.checkpoints, average=flags.average
        )
        decode = translator.check_options(**options)  # before any output is begun
        _check_output(flags.output, flags.input, flags.workdir)
        output = open_output(flags.output, stack)
        # The outputs depend on these, and on the lines.
        settings = options | {'scores': flags.scores, 'steps': translator.steps}
        weights = translator.vocabulary.digest, os.path.realpath(flags.workdir)
        done, cut = output.begin(lines, content_digest([repr(settings), *weights]))
        session = TerminalSettings(flags.n_best, flags.scores, flags.beam_size)
        at_terminal = isinstance(lines, StdinLines) and lines.is_terminal
        if at_terminal:
            compiler = stack.enter_context(BackgroundCompiler())
            use = functools.partial(_use_settings, flags, translator, compiler)
            use(session)
            lines = TerminalLines(lines, session, use)
        while True:
            try:
                chunk = lines.take(_chunk_size(translator))
                if not chunk:
                    break
                options |= {'n_best': session.n_best, 'beam_size': session.beam_size}
                results = translator.translate(
                    chunk, first_line=done + 1, progress=len(chunk) >= _BAR_FROM, **options
                )
            except Stopped as stopped:
                raise Stopped(f'{str(stopped).removesuffix(".")}{output.kept()}.') from stopped
            except UserError as error:
                if not at_terminal:
                    raise
                print(f'error: {error}', file=STDERR)
                continue
            cut += sum(best.cut for outputs in results for best in outputs[:1])
            formatted = _formatted(results, done + 1, session.n_best, session.scores)
            output.write(chunk, formatted, cut)
            done += len(chunk)
        output.commit()
        warn_of_cut_outputs(cut, done, decode)
        if at_terminal:
            end_at_once(0)  # do not wait for the compiler


def _use_settings(
    flags: argparse.Namespace,
    translator: 'Translator',
    compiler: BackgroundCompiler,
    settings: TerminalSettings,
) -> None:
    """Check the settings and compile for them; raise a UserError if one is out of range."""
    import numpy as np

    options = _options(argparse.Namespace(**vars(flags) | vars(settings)))
    decode = translator.check_options(**options)
    method = {name: options[name] for name in ('n_best', 'sampling')}

    def prepare(tokens: int) -> None:
        # The search of a sentence of padding ends at once.
        list(translator.search([np.zeros(tokens, np.int32)], decode, **method))

    compiler.start(prepare)


def _parser() -> command_line.Parser:
    parser = command_line.Parser(
        command='translate',
        description='Translates each line of the input to one line of the output, in order. An\n'
        'empty line stays empty. It answers the lines that have come as soon as no more are\n'
        'waiting. With --output, a stopped command can be run again and resumes where it stopped.\n'
        'At a terminal, :help lists commands that change n_best, scores and beam_size.',
    )
    command_line.add_model_flags(parser)
    parser.add_argument('--input', help='file to read (default: stdin)')
    parser.add_argument('--output', help='file to write (default: stdout)')
    command_line.add_search_flags(parser)
    parser.add_argument(
        '--max_source_length',
        type=int,
        help='longer lines are cut to this many tokens; 0 is no limit (default: from the config)',
    )
    parser.add_argument(
        '--n_best',
        type=int,
        default=1,
        help='outputs for each line, each written as LINE_NUMBER<TAB>TEXT if more than 1 '
        '(default: 1)',
    )
    parser.add_argument('--scores', action='store_true', help='write SCORE<TAB> before each text')
    parser.add_argument('--sample', action='store_true', help='sample outputs; no beam search')
    parser.add_argument('--temperature', type=float, help='with --sample (default: 1)')
    parser.add_argument(
        '--top_k', type=int, help='with --sample: the tokens to draw from; 0 is all (default: 0)'
    )
    parser.add_argument(
        '--top_p',
        type=float,
        help='with --sample: the probability mass to draw from; 1 is all (default: 1)',
    )
    parser.add_argument('--seed', type=int, help='with --sample (default: 0)')
    return parser


def _options(flags: Any) -> dict[str, Any]:
    """Return the options of `Translator.translate` that the flags ask for."""
    sampling = None
    given = {name: getattr(flags, name) for name in ('temperature', 'top_k', 'top_p', 'seed')}
    given = {name: value for name, value in given.items() if value is not None}
    if flags.sample:
        for name in ('beam_size', 'length_penalty'):
            if getattr(flags, name) is not None:
                raise UserError(
                    f'--{name}={getattr(flags, name)} is for beam search, which --sample replaces: '
                    'leave out one of the two.'
                )
        from transformer_jax.translator import Sampling

        sampling = Sampling(**given)
    for name, value in given.items():
        if not flags.sample:
            raise UserError(f'--{name}={value} requires --sample: add it.')
    search = ('beam_size', 'length_penalty', 'max_extra_length', 'max_source_length', 'n_best')
    return {name: getattr(flags, name) for name in search} | {'sampling': sampling}


def _chunk_size(translator: 'Translator') -> int:
    """Return how many lines are sorted by length together; a stop loses at most this many."""
    return 16 * translator.search.max_rows


def _formatted(
    results: Sequence[Sequence['Translation']], first_line: int, n_best: int, scores: bool
) -> list[str]:
    """Return a line for each output, with the line number and the score if they are asked for."""
    written = []
    for line, outputs in enumerate(results, first_line):
        number = f'{line}\t' if n_best > 1 else ''
        for found in outputs:
            score = f'{found.score:.4f}\t' if scores else ''
            written.append(f'{number}{score}{found.text}')
    return written


def _check_output(output: str | None, source: str | None, workdir: str) -> None:
    """Raise a UserError if the output would replace the input, or a file of the run."""
    if output is None:
        return
    place = os.path.realpath(user_path(output, '--output'))
    run = os.path.realpath(user_path(workdir, '--workdir'))
    if place.startswith(os.path.join(run, '')):
        raise UserError(
            f'--output={output!r} is in the work directory, which holds files of the run only: '
            'choose another place.'
        )
    is_file = source is not None and os.path.isfile(source)
    if is_file and place == os.path.realpath(user_path(source, '--input')):
        raise UserError(f'--output={output!r} is also the input: choose another name.')


if __name__ == '__main__':
    answer_signals()
    command_line.run(main)
