"""Scores a trained model: python -m transformer_jax.evaluate --workdir=DIR."""

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from transformer_jax import command_line
from transformer_jax.data.corpus import load_split
from transformer_jax.data.text_files import TextFile
from transformer_jax.errors import UserError, user_path
from transformer_jax.inference.translation_metrics import all_scores, tokenizer
from transformer_jax.runtime import program_cache
from transformer_jax.runtime.program_cache import ProgramCache
from transformer_jax.runtime.signals import answer_signals
from transformer_jax.storage.cache import cache_folder, keep_compiled_programs
from transformer_jax.storage.workdir import Workdir

# Seconds to import, in which no signal would be answered.
if TYPE_CHECKING:
    from transformer_jax.translator import Translator


def main(arguments: Sequence[str]) -> None:
    """Translates a test set and prints its scores."""
    parser = command_line.Parser(
        prog='python -m transformer_jax.evaluate',
        description='Translates and scores: BLEU and chrF with their sacreBLEU signatures and\n'
        'confidence intervals, loss and perplexity. Nothing is left out, however long.',
    )
    command_line.add_model_flags(parser)
    parser.add_argument('--source', help="source text file (default: the run's own test set)")
    parser.add_argument(
        '--reference',
        nargs='+',
        action='extend',
        metavar='FILE',
        help='reference translations, aligned with --source; of several, the loss is of the first',
    )
    parser.add_argument(
        '--split',
        choices=('dev', 'test'),
        help="which of the run's own sets (default: test)",
    )
    command_line.add_search_flags(parser)
    flags = parser.parse_args(arguments)
    if (flags.source is None) != (flags.reference is None):
        raise UserError('--source and --reference belong together: give both or neither.')
    if flags.source is not None and flags.split is not None:
        raise UserError("--split names one of the run's own sets: leave out --source, or --split.")
    with program_cache.use(ProgramCache.open(cache_folder())):
        _evaluate(flags)


def _evaluate(flags: Namespace) -> None:
    from transformer_jax.training.corpus_loss import LossEvaluator, perplexity
    from transformer_jax.translator import Translator, warn_of_cut_outputs

    given = None if flags.source is None else _read(flags.source, flags.reference)
    keep_compiled_programs(cache_folder())
    translator = Translator.load(
        flags.workdir, checkpoints=flags.checkpoints, average=flags.average
    )
    if given is None:
        given = _own(flags.workdir, translator, flags.split or 'test')
    sources, *references = given
    searched = {
        name: getattr(flags, name) for name in ('beam_size', 'length_penalty', 'max_extra_length')
    }
    decode = translator.decode_config(**searched)
    measure = LossEvaluator(
        translator.search.model,
        translator.vocabulary,
        translator.config.optimizer.label_smoothing,
        translator.search.mesh,
    )
    # Before the search, which takes longer: this refuses what is too long for learned positions.
    loss = measure(translator.search.params, list(zip(sources, references[0], strict=True)))
    found = [best for best, *_ in translator.translate(sources, progress=True, **searched)]
    outputs, cut = [x.text for x in found], sum(x.cut for x in found)
    warn_of_cut_outputs(cut, len(found), decode)
    language = translator.config.data.target_language
    word = 'word' if tokenizer(language) == '13a' else 'character'
    units = [text.split() if word == 'word' else ''.join(text.split()) for text in references[0]]
    count = sum(len(of_text) + 1 for of_text in units)  # the end of a sentence is predicted as well
    for score in all_scores(outputs, *references, target_language=language):
        command_line.print_result(
            f'{score.name:34}{score.score:6.2f} ± {score.margin:4.2f}   {score.signature}'
        )
    command_line.print_result(
        f'loss         {loss.loss:.4f} label-smoothed, {loss.nll:.4f} without, nats per token\n'
        f'perplexity   {loss.perplexity:.4f} per token ({loss.tokens:,}), '
        f'{perplexity(loss.nll * loss.tokens / count):.4f} per {word} ({count:,}); both count the '
        'ends of sentences\n'
        f'sentences    {len(sources):,}, {len(references)} reference(s) of each\n'
        f'search       beam {decode.beam_size}, log-probability / ((5 + length) / 6)^'
        f'{decode.length_penalty:g}, at most {decode.max_extra_length} tokens more than the '
        f'source, which {cut:,} outputs reached\n'
        f'checkpoints  mean of steps {translator.steps}\n'
        '± is half the 95 % confidence interval, by bootstrap (bs and seed). Compare BLEU and '
        'chrF2 where\nall else in the signatures is equal; the other lines are how older papers '
        'scored.'
    )


def _own(workdir: str, translator: 'Translator', split: str) -> list[Sequence[str]]:
    """Sources and references of a set that the run had, if it is still the same."""
    then = Workdir(workdir).read_run().split_fingerprints.get(split)
    if then is None:
        raise UserError(
            f'workdir={workdir!r} has a config.json without a fingerprint of its {split} set, so '
            'that nothing tells whether it is still the same: name files (--source, --reference).'
        )
    pairs = load_split(translator.config.data, split, then)
    if pairs is None:
        raise UserError(
            f'workdir={workdir!r}: its {split} set has changed since its run began: restore the '
            'corpus, or name files (--source, --reference).'
        )
    return list(zip(*pairs, strict=True))


def _read(source: str, references: Sequence[str]) -> list[list[str]]:
    """The lines of the source and of each reference."""
    given = [_lines(source, '--source')]
    for reference in references:
        given.append(_lines(reference, '--reference'))
        if len(given[0]) != len(given[-1]):
            raise UserError(
                f'--source={source!r} has {len(given[0]):,} lines but --reference={reference!r} '
                f'has {len(given[-1]):,}: they must be aligned line by line.'
            )
    if not given[0]:
        raise UserError(f'--source={source!r} is empty: there is nothing to score.')
    return given


def _lines(path: str, flag: str) -> list[str]:
    return list(TextFile(flag, user_path(path, flag), read_once=True).sentences())


if __name__ == '__main__':
    answer_signals()
    command_line.run(main)
