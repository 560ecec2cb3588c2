"""Scores given translations: python -m transformer_jax.score --workdir=DIR --input=PAIRS."""

import contextlib
import json
import os
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from transformer_jax import command_line
from transformer_jax.errors import UserError, figure
from transformer_jax.runtime.signals import Stopped, answer_signals
from transformer_jax.storage.cache import content_digest
from transformer_jax.storage.files import finite
from transformer_jax.terminal.line_output import check_output, open_output
from transformer_jax.terminal.pair_input import AlignedPairs, TabbedPairs, split_pairs

if TYPE_CHECKING:
    from transformer_jax.forced.scores import Score

_BAR_FROM = 200  # lines from which a progress bar is shown
_DECIMALS = 6


def main(arguments: Sequence[str]) -> None:
    """Read pairs and write their scores in the same order."""
    flags = _parser().parse_args(arguments)
    _check_inputs(flags)
    if flags.source is None:
        pairs = TabbedPairs(flags.input)
    else:
        pairs = AlignedPairs(flags.source, flags.reference)
    inputs = {f'--{name}': getattr(flags, name) for name in ('input', 'source', 'reference')}
    check_output(flags.output, inputs, flags.workdir)
    with command_line.compiled_programs():
        _run(flags, pairs)


def _run(flags: Namespace, pairs: TabbedPairs | AlignedPairs) -> None:
    from transformer_jax.translator import Translator

    with contextlib.ExitStack() as stack:
        translator = Translator.load(**command_line.model_options(flags))
        names = ('max_source_length', 'target_language')
        options = {name: getattr(flags, name) for name in names}
        translator.check_options(**options)  # before any output is begun
        output = open_output(flags.output, stack)
        # The outputs depend on these, and on the pairs.
        settings = options, flags.per_token, translator.all_steps, flags.ensemble
        weights = translator.vocabulary.digest, *map(os.path.realpath, flags.workdir)
        done, _ = output.begin(pairs, content_digest([repr(settings), *weights]))
        while True:
            try:
                chunk = pairs.take(translator.scorer.pairs_per_call)
                if not chunk:
                    break
                scores = translator.score(
                    *split_pairs(chunk),
                    first_line=done + 1,
                    progress=len(chunk) >= _BAR_FROM,
                    **options,
                )
            except Stopped as stopped:
                raise Stopped(f'{str(stopped).removesuffix(".")}{output.kept()}.') from stopped
            except UserError as error:
                raise UserError(f'{str(error).removesuffix(".")}{output.kept()}.') from error
            written = [_per_token(score) if flags.per_token else _sums(score) for score in scores]
            output.write(chunk, written, cut=0)
            done += len(chunk)
        output.commit()


def _parser() -> command_line.Parser:
    parser = command_line.Parser(
        command='score',
        description='Scores each pair of a source and a target with the log-probability of the\n'
        'target, to one line SUM<TAB>MEAN<TAB>TOKENS of the output, in order: nats, nats per\n'
        'token, and target tokens with the end of the sentence. It answers the pairs that have\n'
        'come as soon as no more are waiting. With --output, a stopped command can be run again\n'
        'and resumes where it stopped.',
    )
    command_line.add_model_flags(parser)
    command_line.add_target_flag(parser)
    parser.add_argument(
        '--input',
        type=command_line.stream_or_path,
        help='file of lines SOURCE<TAB>TARGET (default: stdin)',
    )
    parser.add_argument('--source', help='file of sources, in place of --input')
    parser.add_argument('--reference', help='file of targets, aligned with --source')
    parser.add_argument(
        '--output', type=command_line.stream_or_path, help='file to write (default: stdout)'
    )
    parser.add_argument(
        '--per_token',
        action='store_true',
        help='write JSON lines, with the log-probability of each piece of the target',
    )
    parser.add_argument(
        '--max_source_length',
        type=int,
        help='longer sources are cut to this many tokens, as translate does; 0 is no limit; no '
        'target is cut (default: from the config)',
    )
    return parser


def _check_inputs(flags: Namespace) -> None:
    if (flags.source is None) != (flags.reference is None):
        raise UserError('--source and --reference belong together: give both or neither.')
    if flags.input is not None and flags.source is not None:
        raise UserError(
            f'--input={flags.input!r} and --source={flags.source!r} both name sources: give '
            '--input, or --source and --reference.'
        )


def _sums(score: 'Score') -> str:
    numbers = (figure(x, f'.{_DECIMALS}f') for x in (score.log_prob, score.mean))
    return '\t'.join([*numbers, str(score.tokens)])


def _per_token(score: 'Score') -> str:
    fields = score._asdict() | {
        'log_prob': round(score.log_prob, _DECIMALS),
        'mean': round(score.mean, _DECIMALS),
        'log_probs': [round(x, _DECIMALS) for x in score.log_probs],
    }
    return json.dumps(finite(fields), ensure_ascii=False)


if __name__ == '__main__':
    answer_signals()
    command_line.run(main)
