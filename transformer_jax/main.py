"""Trains a translator, or resumes its training: python -m transformer_jax.main --config=FILE."""

import logging
import os
from collections.abc import Sequence
from typing import Any

from transformer_jax import command_line
from transformer_jax.config import Config
from transformer_jax.config.loading import config_name, load_config
from transformer_jax.errors import figure
from transformer_jax.runtime import processes
from transformer_jax.runtime.huge_pages import restart_with_huge_pages
from transformer_jax.runtime.signals import answer_signals


def main(arguments: Sequence[str]) -> None:
    """Train, score the test set and print the results."""
    parser = command_line.Parser(
        command='train',
        description='Trains a translator, or resumes its training: run the same command again.\n'
        'At the end it averages checkpoints, then translates and scores the test set.',
    )
    command_line.add_config_flag(parser)
    parser.add_argument('--workdir', help='folder of the run (default: runs/NAME_OF_THE_CONFIG)')
    flags, overrides = parser.parse_known_args(arguments)
    config = load_config(flags.config, overrides)
    workdir = flags.workdir
    if workdir is None:
        workdir = f'runs/{config_name(flags.config)}'
    joining = processes.joining(os.environ)
    with command_line.compiled_programs(config.data.cache_dir, single=joining is None):
        _run(config, workdir, joining)


def _run(config: Config, workdir: str, joining: dict[str, Any] | None) -> None:
    from transformer_jax.runtime import distributed
    from transformer_jax.training import train

    if joining is not None:
        distributed.join(**joining)
    if not processes.is_first():
        logging.getLogger('transformer_jax').setLevel(logging.WARNING)
    results = train(config, workdir)
    if processes.is_first():
        command_line.print_result(report(results))


def report(results: dict[str, Any]) -> str:
    """Return the content of results.json as text for people."""
    test, dev = results['test'], results['best_dev']
    lines = [
        f'steps        {results["step"]:,}, mean of checkpoints {results["averaged_checkpoints"]}',
        f'test BLEU    {test["bleu"]:.2f}   {test["bleu_signature"]}',
        f'test chrF    {test["chrf"]:.2f}   {test["chrf_signature"]}',
        f'test loss    {figure(test["loss"], ".4f")} label-smoothed, perplexity '
        f'{figure(test["perplexity"], ".3f")} per token ({test["sentences"]:,} sentences, '
        f'{test["tokens"]:,} tokens)',
    ]
    if 'f1' in test:
        lines.insert(1, f'test F1      {test["f1"]:.2f} of labelled brackets')
    if dev:
        name = 'F1' if 'f1' in dev else 'BLEU'
        lines.append(f'best dev     {name} {dev[name.lower()]:.2f} at step {dev["step"]:,}')
    for example in results['examples']:
        lines += [
            '',
            f'source       {example["source"]}',
            f'translation  {example["translation"]}',
            f'reference    {example["reference"]}',
        ]
    return '\n'.join(lines)


if __name__ == '__main__':
    restart_with_huge_pages()
    answer_signals()
    command_line.run(main)
