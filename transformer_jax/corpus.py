"""Says what a corpus is made of, or prepares it: python -m transformer_jax.corpus --config=FILE."""

import base64
import html
import io
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_jax import command_line
from transformer_jax.config import Config
from transformer_jax.config.loading import load_config
from transformer_jax.errors import UserError, user_path
from transformer_jax.inspection.figures import new_figure
from transformer_jax.runtime.signals import answer_signals
from transformer_jax.storage.cache import cache_folder
from transformer_jax.storage.files import atomic_write

if TYPE_CHECKING:
    from transformer_jax.data.cleaning.corpus_report import CorpusReport

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font-family: sans-serif; margin: 2em; }} pre {{ white-space: pre-wrap; }}</style>
</head><body><h1>{title}</h1>
<img alt="Histogram of the words of a training sentence" src="data:image/png;base64,{picture}">
<pre>{text}</pre></body></html>
"""


def main(arguments: Sequence[str]) -> None:
    """Print the report of a corpus, and write it as a page if asked to."""
    parser = command_line.Parser(
        command='corpus',
        description='Says what a corpus is made of, before anybody trains on it: lengths,\n'
        'duplicates, how much of dev and test occurs in train, what each filter of data.filters\n'
        'would drop, and usual sizes. It trains nothing. With --prepare it does what a training\n'
        'does before its first step, without an accelerator.',
    )
    command_line.add_config_flag(parser)
    parser.add_argument(
        '--output',
        help="page to write, .html, with a picture; needs pip install 'transformer_jax[plots]'",
    )
    parser.add_argument(
        '--prepare',
        action='store_true',
        help='train the vocabulary and tokenise, into the cache (data.cache_dir); the same command '
        'goes on where it was stopped',
    )
    flags, overrides = parser.parse_known_args(arguments)
    path = None
    if flags.prepare and flags.output is not None:
        raise UserError(f'--output={flags.output!r} is of the report: leave out --prepare.')
    if flags.output is not None:
        path = user_path(flags.output, '--output')
        if path.suffix.lower() != '.html':
            raise UserError(f'--output={flags.output!r} must end in .html.')
    config = load_config(flags.config, overrides)
    if flags.prepare and config.train.init_from:
        raise UserError(
            f'train.init_from={config.train.init_from!r} brings a vocabulary of its own: leave out '
            '--prepare, which trains one, or train.init_from.'
        )
    _run(flags, config, path)


def _run(flags: Namespace, config: Config, path: Path | None) -> None:
    from transformer_jax.data.cleaning.augment import read_augment
    from transformer_jax.data.cleaning.corpus_report import report
    from transformer_jax.data.prepare import prepare

    if not flags.prepare:
        read_augment(
            config.data
        )  # the report does not need it, but says whether the config is right
        found = report(config.data)
        command_line.print_result(str(found))
        if path is not None:
            _write(path, found, f'Corpus of {flags.config}')
            command_line.print_result(f'\n{path} shows this report')
        return
    data = prepare(config.data)
    plan = data.plan
    command_line.print_result(
        f'{plan.pairs - plan.dropped:,} training pairs, {plan.target_tokens:,} target tokens, '
        f'vocabulary of {data.vocabulary.sizes} pieces\n'
        f'{plan.batches_per_epoch:,} batches an epoch in {len(plan.buckets)} shapes, padding '
        f'{100 * plan.padding:.1f} %\n'
        f'in {config.data.cache_dir or cache_folder()}'
    )


def _write(path: Path, found: 'CorpusReport', title: str) -> None:
    figure = new_figure('--output', 8, 3.2)
    axes = figure.subplots()
    for side, words in zip(('source', 'target'), found.splits['train'].words, strict=True):
        axes.hist(words, bins=range(int(words.max()) + 2), histtype='step', label=side)
    axes.set(xlabel='words of a training sentence', ylabel='sentences', yscale='log')
    axes.legend()
    picture = io.BytesIO()
    figure.savefig(picture, format='png', dpi=100)
    page = _PAGE.format(
        title=html.escape(title),
        picture=base64.b64encode(picture.getvalue()).decode(),
        text=html.escape(str(found)),
    )
    try:
        with atomic_write(path) as file:
            file.write(page)
    except OSError as error:
        raise UserError(
            f'--output={str(path)!r} cannot be written ({error.strerror}): choose another place.'
        ) from error


if __name__ == '__main__':
    answer_signals()
    command_line.run(main)
