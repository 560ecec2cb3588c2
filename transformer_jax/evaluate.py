"""Scores a trained model: python -m transformer_jax.evaluate --workdir=DIR."""

import math
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from transformer_jax import command_line
from transformer_jax.config import DecodeConfig
from transformer_jax.config.sampling import Sampling
from transformer_jax.data.corpora.corpus import load_split
from transformer_jax.errors import UserError, figure
from transformer_jax.parsing.bracket_scores import in_words, score_rows
from transformer_jax.runtime.signals import answer_signals
from transformer_jax.storage.pretrained import model_folder
from transformer_jax.terminal.line_input import read_lines
from transformer_jax.translating.outputs import warn_of_cut_outputs
from transformer_jax.translating.translation_metrics import all_scores, tokenizer

if TYPE_CHECKING:
    from transformer_jax.translator import Translator


def main(arguments: Sequence[str]) -> None:
    """Translate a test set and print its scores."""
    flags = _parser().parse_args(arguments)
    if (flags.source is None) != (flags.reference is None):
        raise UserError('--source and --reference belong together: give both or neither.')
    if flags.source is not None and flags.split is not None:
        raise UserError(
            f"--split={flags.split} is one of the run's own sets: leave out --source and "
            '--reference, or --split.'
        )
    if flags.n_best != 1 and flags.mbr is None:
        raise UserError(f'--n_best={flags.n_best} is for --mbr, which chooses one of them: add it.')
    sampling = command_line.sampling(flags)
    texts = None if flags.source is None else _read_files(flags.source, flags.reference)
    with command_line.compiled_programs():
        _run(flags, sampling, texts)


def _run(
    flags: Namespace, sampling: Sampling | None, texts: Sequence[Sequence[str]] | None
) -> None:
    from transformer_jax.training.scoring.corpus_loss import loss_of_references, perplexity
    from transformer_jax.translator import Translator

    options = command_line.search_options(flags)
    options |= {'n_best': flags.n_best, 'mbr': flags.mbr, 'sampling': sampling}
    translator = Translator.load(**command_line.model_options(flags))
    decode = translator.check_options(**options)
    tag = translator.segments.languages.tag(flags.target_language)
    if texts is None:
        texts = _read_own_set(flags.workdir[0], translator, flags.split or 'test')
    sources, *references = texts
    sources = translator.segments.tag_texts(sources, tag)
    language = translator.segments.languages.of_all(sources)
    # Texts too long for learned positions fail here, before the search, which takes longer.
    loss = loss_of_references(translator, sources, references[0], decode.max_source_length)
    found = [
        best
        for best, *_ in translator.translate(sources, placeholders=False, progress=True, **options)
    ]
    outputs, cut = [x.text for x in found], sum(x.cut for x in found)
    warn_of_cut_outputs(cut, len(found), decode)
    word = 'word' if tokenizer(language) == '13a' else 'character'
    units = [text.split() if word == 'word' else ''.join(text.split()) for text in references[0]]
    count = sum(len(of_text) + 1 for of_text in units)  # the model also predicts each sentence end
    of_words = perplexity(loss.nll * loss.tokens / count)
    smoothed = '' if math.isnan(loss.loss) else f'{figure(loss.loss, ".4f")} label-smoothed, '
    for score in all_scores(outputs, *references, target_language=language):
        margin = f'{figure(score.margin, ".2f"):4}'
        command_line.print_result(
            f'{score.name:34}{score.score:6.2f} ± {margin}   {score.signature}'
        )
    if translator.config.data.corpus == 'trees':
        command_line.print_result(in_words(*score_rows(sources, outputs, references[0])))
    command_line.print_result(
        f'loss         {smoothed}{figure(loss.nll, ".4f")} without smoothing, nats per token\n'
        f'perplexity   {figure(loss.perplexity, ".4f")} per token ({loss.tokens:,}), '
        f'{figure(of_words, ".4f")} per {word} ({count:,}); both count '
        'sentence ends\n'
        f'sentences    {len(sources):,}, {len(references)} reference(s) each\n'
        f'search       {_search_text(decode, flags, sampling)}; at most '
        f'{decode.max_extra_length} tokens more than the source, {cut:,} outputs reached this '
        'limit\n'
        f'{_models_text(translator, flags.ensemble)}\n'
        '± is half the 95 % confidence interval, by bootstrap (bs and seed). Compare BLEU and '
        'chrF2 only\nwith scores whose signatures are otherwise equal; older papers used the '
        "other scores. '-' is a figure that is not defined."
    )


def _search_text(decode: DecodeConfig, flags: Namespace, sampling: Sampling | None) -> str:
    divisor = {
        'gnmt': f' / ((5 + length) / 6)^{decode.length_penalty:g}',
        'power': f' / length^{decode.length_penalty:g}',
        'none': '',
    }[decode.length_norm]
    text = (
        f'beam {decode.beam_size}, log-probability{divisor}' if sampling is None else f'{sampling}'
    )
    names = ('min_length', 'no_repeat_ngram', 'suppress_tokens')
    if sampling is None:
        names = ('coverage_penalty', *names)
    given = [f'{name} {getattr(decode, name)}' for name in names if getattr(decode, name)]
    chosen = [] if flags.mbr is None else [f'best expected {flags.mbr} of {flags.n_best} outputs']
    return ', '.join([text, *given, *chosen])


def _models_text(translator: 'Translator', ensemble: str) -> str:
    means = '; '.join(
        f'mean of steps {steps}' if steps else 'none, imported weights'
        for steps in translator.all_steps
    )
    if len(translator.all_steps) == 1:
        return f'checkpoints  {means}'
    return f'checkpoints  ensemble of {len(translator.all_steps)} models by {ensemble}: {means}'


def _parser() -> command_line.Parser:
    parser = command_line.Parser(
        command='evaluate',
        description='Translates and scores a test set: BLEU and chrF with sacreBLEU signatures\n'
        'and confidence intervals, loss and perplexity. It leaves out no sentence.',
    )
    command_line.add_model_flags(parser)
    command_line.add_target_flag(parser)
    parser.add_argument('--source', help="source text file (default: the run's own test set)")
    parser.add_argument(
        '--reference',
        nargs='+',
        action='extend',
        metavar='FILE',
        help='reference translations, aligned with --source; the loss is for the first of several',
    )
    parser.add_argument(
        '--split',
        choices=('dev', 'test'),
        help="which of the run's own sets (default: test)",
    )
    command_line.add_search_flags(parser)
    command_line.add_output_flags(parser)
    return parser


def _read_own_set(workdir: str, translator: 'Translator', split: str) -> list[Sequence[str]]:
    """Return sources and references of a set of the run, if the set has not changed."""
    fingerprint = model_folder(workdir).read_run().split_fingerprints.get(split)
    if fingerprint is None:
        raise UserError(
            f'workdir={workdir!r} has a config.json without a fingerprint of its {split} set, so '
            'changes of the set would not be noticed: name files (--source, --reference).'
        )
    pairs = load_split(translator.config.data, split, fingerprint)
    if pairs is None:
        raise UserError(
            f'workdir={workdir!r}: its {split} set has changed since its run began: restore the '
            'corpus, or name files (--source, --reference).'
        )
    return list(zip(*pairs, strict=True))


def _read_files(source: str, references: Sequence[str]) -> list[list[str]]:
    """Return the lines of the source and of each reference."""
    if [source, *references].count('-') > 1:
        raise UserError("--source and --reference: '-' is stdin, which is one text: give it once.")
    texts = [read_lines('--source', source)]
    for reference in references:
        texts.append(read_lines('--reference', reference))
        if len(texts[0]) != len(texts[-1]):
            raise UserError(
                f'--source={source!r} has {len(texts[0]):,} lines but --reference={reference!r} '
                f'has {len(texts[-1]):,}: align them line by line.'
            )
    if not texts[0]:
        raise UserError(f'--source={source!r} is empty: name a file with text.')
    return texts


if __name__ == '__main__':
    answer_signals()
    command_line.run(main)
