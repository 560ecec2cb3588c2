"""Translates lines of text: python -m transformer_jax.translate --workdir=DIR."""

import argparse
import contextlib
import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from transformer_jax import command_line
from transformer_jax.config import DecodeConfig
from transformer_jax.documents.document import Document, TaggedDocument
from transformer_jax.documents.files import check_name, kind_of, read_document
from transformer_jax.errors import UserError, figure, user_path
from transformer_jax.parsing.output import FORMATS, Parsing
from transformer_jax.runtime.progress import STDERR
from transformer_jax.runtime.signals import Stopped, answer_signals, end_at_once
from transformer_jax.storage.buckets import local_path
from transformer_jax.storage.cache import content_digest
from transformer_jax.storage.files import atomic_write
from transformer_jax.terminal.interactive import (
    MIN_LENGTH,
    BackgroundCompiler,
    TerminalLines,
    TerminalSettings,
)
from transformer_jax.terminal.line_input import FileLines, StdinLines
from transformer_jax.terminal.line_output import check_output, open_output
from transformer_jax.translating.outputs import Translation, pharaoh, warn_of_cut_outputs

if TYPE_CHECKING:
    from transformer_jax.translator import Translator

_SHAPES = (
    'align',
    'prefix',
    'paragraphs',
    'placeholders',
    'output_format',
)  # flags that change what is written
_BAR_FROM = 200  # lines from which a progress bar is shown


def main(arguments: Sequence[str]) -> None:
    """Read lines and write their translations in the same order."""
    parser = _parser()
    flags = parser.parse_args(arguments)
    options = _options(flags)
    if flags.input is not None:
        check_name(flags.input)
    check_output(flags.output, {'--input': flags.input}, flags.workdir)
    if flags.input is None:
        source = StdinLines()
    elif kind_of(flags.input) in ('', '.txt'):
        source = FileLines(flags.input)
    else:
        source = _read_document(flags)
    with command_line.compiled_programs():
        _run(flags, options, source)


def _run(
    flags: argparse.Namespace, options: dict[str, Any], source: StdinLines | FileLines | Document
) -> None:
    from transformer_jax.translator import Translator

    translator = Translator.load(**command_line.model_options(flags))
    decode = translator.check_options(**options)  # before any output is begun
    if isinstance(source, StdinLines | FileLines):
        _translate_lines(flags, options, source, translator, decode)
    else:
        _translate_document(flags, options, source, translator, decode)


def _translate_lines(
    flags: argparse.Namespace,
    options: dict[str, Any],
    lines: StdinLines | FileLines,
    translator: 'Translator',
    decode: DecodeConfig,
) -> None:
    """Write the translation of each line."""
    with contextlib.ExitStack() as stack:
        output = open_output(flags.output, stack)
        # The outputs depend on these, and on the lines.
        written = [getattr(flags, name) for name in ('scores', *_SHAPES)]
        settings = options, written, translator.all_steps, flags.ensemble
        weights = translator.vocabulary.digest, *map(os.path.realpath, flags.workdir)
        parsing = Parsing.of(translator.config, flags.output_format, flags.paragraphs)
        done, cut = output.begin(lines, content_digest([repr(settings), *weights]))
        session = TerminalSettings(flags.n_best, flags.scores, flags.beam_size)
        at_terminal = isinstance(lines, StdinLines) and lines.is_terminal
        if at_terminal:
            translator.decoder.fix_shapes(min_length=MIN_LENGTH)
            compiler = stack.enter_context(BackgroundCompiler())
            use = functools.partial(_use_settings, flags, translator, compiler)
            use(session)
            lines = TerminalLines(lines, session, use)
        while True:
            try:
                chunk = lines.take(_chunk_size(translator))
                if not chunk:
                    break
                if at_terminal:
                    flags = _with_settings(flags, session)
                    options = _options(flags)
                texts, prefixes = chunk, None
                if flags.prefix is not None:
                    texts, prefixes = _split_prefixes(chunk, flags.prefix, done + 1)
                texts = parsing.words(texts)
                results = translator.translate(
                    texts,
                    prefixes=prefixes,
                    align=flags.align,
                    paragraphs=flags.paragraphs,
                    placeholders=flags.placeholders,
                    first_line=done + 1,
                    progress=len(chunk) >= _BAR_FROM,
                    **options,
                )
            except Stopped as stopped:
                raise Stopped(f'{str(stopped).removesuffix(".")}{output.kept()}.') from stopped
            except UserError as error:
                if not at_terminal:
                    raise UserError(f'{str(error).removesuffix(".")}{output.kept()}.') from error
                print(f'error: {error}', file=STDERR)
                continue
            cut += sum(best.cut for outputs in results for best in outputs[:1])
            results = parsing.trees(texts, results)
            output.write(chunk, parsing.lines(_formatted(results, done + 1, flags)), cut)
            done += len(chunk)
        output.commit()
        warn_of_cut_outputs(cut, done, decode)
        parsing.warn()
        if at_terminal:
            end_at_once(0)  # do not wait for the compiler


def _read_document(flags: argparse.Namespace) -> Document:
    """Return --input, a document; raise a UserError if other flags do not go with it."""
    kind = kind_of(flags.input)
    name = f'--input={flags.input!r}'
    if flags.output is None or kind_of(flags.output) != kind:
        raise UserError(f'{name} is a document: name the translated one with --output=NAME{kind}.')
    given = [
        flag for flag in ('scores', 'align', 'prefix', 'output_format') if getattr(flags, flag)
    ]
    if flags.n_best > 1 and flags.mbr is None:
        given.append('n_best')
    if given:
        raise UserError(
            f'{name} is a document, with which --{given[0]} has no meaning: leave it out.'
        )
    place = user_path(flags.output, '--output')
    if place.is_dir():
        raise UserError(f'--output={flags.output!r} is a folder: name a file.')
    if not place.absolute().parent.is_dir():
        raise UserError(f'--output={flags.output!r}: its folder does not exist: make it first.')
    try:
        data = local_path(flags.input, '--input').read_bytes()
    except OSError as error:
        raise UserError(f'{name} cannot be read ({error.strerror}): name another file.') from error
    return read_document(flags.input, data)


def _translate_document(
    flags: argparse.Namespace,
    options: dict[str, Any],
    document: Document,
    translator: 'Translator',
    decode: DecodeConfig,
) -> None:
    """Write a document with its texts translated."""
    document = TaggedDocument(document, translator.segments.languages.divide)
    texts = document.texts
    results = translator.translate(
        texts,
        align=document.needs_alignment,
        paragraphs=True,
        placeholders=flags.placeholders,
        progress=len(texts) >= _BAR_FROM,
        **options,
    )
    best = [outputs[0] for outputs in results]
    try:
        with atomic_write(user_path(flags.output, '--output'), 'wb') as file:
            file.write(document.translated(best, translator.config.data.target_language))
    except OSError as error:
        raise UserError(
            f'--output={flags.output!r} cannot be written ({error.strerror}): choose another place.'
        ) from error
    warn_of_cut_outputs(sum(output.cut for output in best), len(best), decode)


def _with_settings(flags: argparse.Namespace, settings: TerminalSettings) -> argparse.Namespace:
    return argparse.Namespace(**vars(flags) | vars(settings))


def _use_settings(
    flags: argparse.Namespace,
    translator: 'Translator',
    compiler: BackgroundCompiler,
    settings: TerminalSettings,
) -> None:
    """Check the settings and compile for them; raise a UserError if one is out of range."""
    options = _options(_with_settings(flags, settings))
    translator.check_options(**options)
    compiler.start(lambda tokens: translator.prepare(lengths=[tokens], **options))


def _parser() -> command_line.Parser:
    parser = command_line.Parser(
        command='translate',
        description='Translates each line of the input to one line of the output, in order. An\n'
        'empty line stays empty. From a pipe it answers what has arrived, without waiting for\n'
        'the end of input. With --output, a stopped command can be run again and resumes where\n'
        'it stopped.\n'
        'At a terminal, :help lists commands that change n_best, scores and beam_size.\n'
        'Files (.srt, .html, .docx, .odt) are translated as a whole, and do not resume.',
    )
    command_line.add_model_flags(parser)
    command_line.add_target_flag(parser)
    parser.add_argument(
        '--input', type=command_line.stream_or_path, help='file to read (default: stdin)'
    )
    parser.add_argument(
        '--output', type=command_line.stream_or_path, help='file to write (default: stdout)'
    )
    command_line.add_search_flags(parser)
    command_line.add_output_flags(parser)
    parser.add_argument(
        '--output_format',
        choices=FORMATS,
        help='of a parser: brackets on one line, a drawing, or the symbols that the model wrote '
        '(default: brackets)',
    )
    parser.add_argument('--scores', action='store_true', help='write SCORE<TAB> before each text')
    parser.add_argument(
        '--align',
        action='store_true',
        help='write <TAB>ALIGNMENT after each text: pairs of words, for example "0-0 1-2"',
    )
    parser.add_argument(
        '--prefix',
        choices=('text', 'pieces'),
        help='each line is SOURCE<TAB>PREFIX: its outputs begin with this text, or with these '
        'pieces, which are separated by spaces',
    )
    parser.add_argument(
        '--paragraphs',
        action='store_true',
        help="split lines into sentences; needs pip install -e '.[paragraphs]'",
    )
    parser.add_argument(
        '--placeholders',
        action=argparse.BooleanOptionalAction,
        default=True,
        help='copy places for values (%%d, {name}), addresses, paths, emoji, words in scripts that '
        'the model does not know, and lines without letters (default: yes)',
    )
    return parser


def _options(flags: Any) -> dict[str, Any]:
    """Return the options of `Translator.translate` that the flags ask for."""
    return command_line.search_options(flags) | {
        'n_best': flags.n_best,
        'mbr': flags.mbr,
        'target_language': flags.target_language,
        'sampling': command_line.sampling(flags),
    }


def _split_prefixes(
    chunk: Sequence[str], kind: str, first_line: int
) -> tuple[list[str], list[str | list[str]]]:
    """Return the sources of lines SOURCE<TAB>PREFIX, and the prefixes."""
    for number, line in enumerate(chunk, first_line):
        if (tabs := line.count('\t')) > 1:
            raise UserError(
                f'line {number} has {tabs} tabs: with --prefix write SOURCE<TAB>PREFIX, or a '
                'source alone.'
            )
    pairs = [line.partition('\t') for line in chunk]
    prefixes = [prefix.split() if kind == 'pieces' else prefix for *_, prefix in pairs]
    return [source for source, *_ in pairs], prefixes


def _chunk_size(translator: 'Translator') -> int:
    """Return how many lines are sorted by length together; a stop loses at most this many."""
    return 16 * translator.decoder.max_rows


def _formatted(results: Sequence[Sequence[Translation]], first_line: int, flags: Any) -> list[str]:
    """Return a line for each output, with what else the flags ask for."""
    has_columns = flags.n_best > 1 or flags.scores or flags.align
    written = []
    for line, outputs in enumerate(results, first_line):
        number = f'{line}\t' if flags.n_best > 1 and flags.mbr is None else ''
        for found in outputs:
            score = f'{figure(found.score, ".4f")}\t' if flags.scores else ''
            pairs = ''
            if found.alignment is not None:
                pairs = '\t' + pharaoh(found.alignment)
            text = found.text.replace('\t', ' ') if has_columns else found.text
            written.append(f'{number}{score}{text}{pairs}')
    return written


if __name__ == '__main__':
    answer_signals()
    command_line.run(main)
