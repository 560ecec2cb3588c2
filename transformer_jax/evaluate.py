"""Scores a trained model: python -m transformer_jax.evaluate --workdir=DIR."""

from collections.abc import Sequence

from transformer_jax import command
from transformer_jax.cache import cache_folder, keep_compiled_programs
from transformer_jax.data.corpora import open_corpus
from transformer_jax.errors import UserError
from transformer_jax.scoring import score
from transformer_jax.training.evaluation import LossEvaluator
from transformer_jax.translate import read_lines
from transformer_jax.translator import Translator


def main(arguments: Sequence[str]) -> None:
    """Translates a test set and prints its scores."""
    parser = command.Parser(
        prog='python -m transformer_jax.evaluate',
        description='Translates and scores: BLEU and chrF with their sacreBLEU signatures, loss\n'
        'and perplexity. Nothing is left out, however long.',
    )
    parser.add_argument('--workdir', required=True, help='folder of a trained run')
    parser.add_argument('--source', help="source text file (default: the run's own test set)")
    parser.add_argument('--reference', help='reference translations, aligned with --source')
    parser.add_argument('--beam_size', type=int, help='hypotheses (default: of the config)')
    parser.add_argument('--length_penalty', type=float, help='alpha (default: of the config)')
    parser.add_argument('--checkpoints', type=int, help='how many to average')
    parser.add_argument(
        '--average', choices=('latest', 'best'), help='which checkpoints to average'
    )
    flags = parser.parse_args(arguments)
    if (flags.source is None) != (flags.reference is None):
        raise UserError('--source and --reference belong together: give both or neither.')

    pairs = None
    if flags.source is not None:
        pairs = _read_pairs(flags.source, flags.reference)
    keep_compiled_programs(cache_folder())
    translator = Translator.load(
        flags.workdir, checkpoints=flags.checkpoints, average=flags.average
    )
    if pairs is None:
        pairs = list(open_corpus(translator.config.data).pairs('test'))
    sources, references = zip(*pairs, strict=True)
    outputs = translator(
        list(sources),
        beam_size=flags.beam_size,
        length_penalty=flags.length_penalty,
        progress=True,
    )
    scores = score(outputs, references)
    measure = LossEvaluator(
        translator.model,
        translator.vocabulary,
        translator.config.optimizer.label_smoothing,
        translator.mesh,
    )
    loss = measure(translator.params, pairs)
    print(f'BLEU        {scores.bleu:.2f}   {scores.bleu_signature}')
    print(f'chrF        {scores.chrf:.2f}   {scores.chrf_signature}')
    print(f'loss        {loss.loss:.4f} label-smoothed, {loss.nll:.4f} without, nats per token')
    print(f'perplexity  {loss.perplexity:.4f} per token')
    print(f'sentences   {len(pairs):,} ({loss.tokens:,} target tokens)')
    print(f'checkpoints mean of steps {translator.steps}')


def _read_pairs(source: str, reference: str) -> list[tuple[str, str]]:
    sources, references = read_lines(source, '--source'), read_lines(reference, '--reference')
    if len(sources) != len(references):
        raise UserError(
            f'--source={source!r} has {len(sources):,} lines but --reference={reference!r} has '
            f'{len(references):,}: they must be aligned line by line.'
        )
    if not sources:
        raise UserError(f'--source={source!r} is empty: there is nothing to score.')
    return list(zip(sources, references, strict=True))


if __name__ == '__main__':
    command.run(main)
