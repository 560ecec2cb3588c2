"""Measures a config: python -m transformer_jax.benchmark --config=FILE.

start    seconds from the start of a training process to the end of its first step
input    pairs/s that the input pipeline delivers from a prepared store, and the share of padding
compile  parameters; for each batch shape the FLOPs, and the memory that XLA says it needs; bytes
         moved between devices; seconds to compile. Nothing runs, so a laptop can measure 8 large
         devices: XLA_FLAGS=--xla_force_host_platform_device_count=8
train    target tokens/s, sentences/s, model FLOP/s, and their share of the FLOP/s that matrix
         products reach here: for each batch shape without padding, and for the config's batches
decode   output tokens/s of beam search, latency of single sentences

transformer_jax/model/flops.py defines model FLOPs; padding counts as no work.
"""

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformer_jax import command_line
from transformer_jax.config.loading import load_config
from transformer_jax.errors import UserError, user_path
from transformer_jax.runtime.huge_pages import restart_with_huge_pages
from transformer_jax.runtime.signals import answer_signals

_PARTS = ('start', 'input', 'compile', 'train', 'decode')


def main(arguments: Sequence[str]) -> None:
    """Measure a config and print the figures."""
    parser = command_line.Parser(
        command='benchmark',
        description=__doc__,
    )
    command_line.add_config_flag(parser)
    parser.add_argument(
        '--parts',
        help=f'what to measure (default: {",".join(_PARTS)}; with --synthetic, without start)',
    )
    parser.add_argument(
        '--synthetic',
        type=int,
        metavar='PAIRS',
        help="measure with this many random pairs of realistic lengths, not with the config's "
        'corpus; at most 10,000,000',
    )
    parser.add_argument(
        '--searches',
        metavar='BEAMxROWS,...',
        help='measure these searches only: beam sizes and sentences decoded together, e.g. 4x64',
    )
    parser.add_argument('--json', metavar='FILE', help='also write the figures to a JSON file')
    parser.add_argument(
        '--profile',
        metavar='DIR',
        help='write a trace of training and decoding to this folder, for the profile plugin of '
        'TensorBoard or for perfetto.dev',
    )
    flags, overrides = parser.parse_known_args(arguments)
    if flags.parts is None:
        parts = [part for part in _PARTS if part != 'start' or flags.synthetic is None]
    else:
        parts = flags.parts.split(',')
    for part in parts:
        if part not in _PARTS:
            raise UserError(f'--parts={part!r} must be among {", ".join(_PARTS)}.')
    if flags.synthetic is not None and not 1 <= flags.synthetic <= 10_000_000:
        raise UserError(f'--synthetic={flags.synthetic} must be from 1 to 10,000,000.')
    if flags.synthetic is not None and 'start' in parts:
        raise UserError(
            "--parts=start times a training on the config's own corpus, so it does not go with "
            '--synthetic: leave out one of the two.'
        )
    searches = None if flags.searches is None else _searches(flags.searches)
    json_file = None if flags.json is None else _json_file(flags.json)
    profile = None if flags.profile is None else _profile_folder(flags.profile)
    config = load_config(flags.config, overrides)
    command = [f'--config={flags.config}', *overrides]
    _run(config, command, parts, searches, flags.synthetic, json_file, profile)


def _run(*options: Any) -> None:
    from transformer_jax.benchmark.report import measure_parts

    measure_parts(*options)


def _searches(text: str) -> list[tuple[int, int]]:
    """Return beam and batch sizes from --searches; raise a UserError if it has others."""
    if not re.fullmatch('[1-9][0-9]{0,3}x[1-9][0-9]{0,3}(,[1-9][0-9]{0,3}x[1-9][0-9]{0,3})*', text):
        raise UserError(f'--searches={text!r} must be beam and batch sizes, such as 1x16,4x64.')
    return [tuple(map(int, search.split('x'))) for search in text.split(',')]


def _json_file(name: str) -> Path:
    """Return the path of --json; raise a UserError if nothing can be written there."""
    path = user_path(name, '--json')
    if not os.path.isdir(path.parent):
        raise UserError(f'--json={name!r} is in a folder that does not exist: make it first.')
    if os.path.isdir(path):
        raise UserError(f'--json={name!r} is a folder: name a file.')
    if os.path.lexists(path) and not os.path.isfile(path):
        raise UserError(f'--json={name!r} is a pipe, a device or a broken link: name a file.')
    _check_writable(path.parent, f'--json={name!r} is in a folder that')
    try:
        os.stat(path)
    except FileNotFoundError:
        pass
    except OSError as error:  # for example, the name is too long
        raise UserError(
            f'--json={name!r} cannot be a file ({error.strerror}): choose another name.'
        ) from error
    return path


def _profile_folder(name: str) -> Path:
    """Return the folder of --profile; make it, or raise a UserError if it cannot be written."""
    path = user_path(name, '--profile')
    if os.path.lexists(path) and not os.path.isdir(path):
        raise UserError(f'--profile={name!r} is a file: name a folder.')
    _check_writable(path, f'--profile={name!r}')
    return path


def _check_writable(folder: Path, name: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f'{name} cannot be written to ({error.strerror}): name another.') from error


if __name__ == '__main__':
    restart_with_huge_pages()
    answer_signals()
    command_line.run(main)
