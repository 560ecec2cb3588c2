"""Serves translations over HTTP: python -m transformer_jax.serve --workdir=DIR."""

import argparse
import importlib.util
from collections.abc import Sequence

from transformer_jax import command_line
from transformer_jax.errors import UserError
from transformer_jax.runtime.signals import answer_signals
from transformer_jax.serving.http.access import Access, read_keys
from transformer_jax.serving.http.limits import Limits, check_flags

_PACKAGES = ('starlette', 'uvicorn', 'prometheus_client', 'python_multipart', 'babel', 'sentencex')


def main(arguments: Sequence[str]) -> None:
    """Load models, compile, and answer requests until a signal comes."""
    flags = _parser().parse_args(arguments)
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"serve needs the packages {', '.join(missing)}: pip install 'transformer_jax[serve]'."
        )
    check_flags(flags)
    keys = None if flags.api_keys is None else read_keys(flags.api_keys)
    with command_line.compiled_programs():
        _run(flags, Access(keys, flags.requests_per_minute))


def _run(flags: argparse.Namespace, access: Access) -> None:
    from transformer_jax.serving.process import serve

    serve(flags, access)


def _parser() -> command_line.Parser:
    limits = Limits()
    parser = command_line.Parser(
        command='serve',
        description='Translates for programs and browsers, over HTTP: the interface of\n'
        'LibreTranslate. / is a page to translate in a browser, /languages lists the pairs, /spec\n'
        'describes the interface, /health says that it is ready, /metrics counts for Prometheus.',
    )
    parser.add_argument(
        '--workdir',
        action='append',
        help='folder of a trained run or of a release, or name of a model of the package; give it '
        'several times for several pairs of languages (default: tatoeba_en_fr)',
    )
    parser.add_argument('--host', default='127.0.0.1', help='address to listen at; 0.0.0.0 for all')
    parser.add_argument('--port', type=int, default=5000, help='port to listen at (default: 5000)')
    parser.add_argument('--api_keys', help='file of lines KEY or KEY REQUESTS_PER_MINUTE')
    for name, default, what in (
        ('requests_per_minute', 0, 'of each key or address; 0 is no limit'),
        ('max_characters', limits.characters, 'characters of a request'),
        ('max_texts', limits.texts, 'texts of a request'),
        ('max_alternatives', limits.alternatives, 'alternatives of a text; a small beam has fewer'),
        ('max_body', limits.body, 'bytes of the body of a request'),
        ('max_file_characters', limits.file_characters, 'characters of a file'),
        ('max_file_body', limits.file_body, 'bytes of the body of a request with a file'),
        ('max_waiting', 4096, 'sentences that may wait; further requests get status 503'),
    ):
        parser.add_argument(f'--{name}', type=int, default=default, help=f'{what} ({default:,})')
    parser.add_argument(
        '--batch_timeout_ms',
        type=float,
        default=5.0,
        help='milliseconds that a sentence waits for others if the device is idle (5)',
    )
    parser.add_argument(
        '--origin',
        action='append',
        default=[],
        help='origin whose pages may ask from a browser, for example https://example.org, or *',
    )
    parser.add_argument(
        '--public_url',
        default='',
        help='address at which clients reach the server, for links to translated files, if a proxy '
        'is before it: https://example.org/translate',
    )
    parser.add_argument(
        '--proxy',
        action='append',
        default=[],
        help='address or network of a proxy before the server: X-Forwarded-For says who asks, and '
        'limits of clients do not hold for the proxy, for example 10.0.0.0/8',
    )
    return parser


if __name__ == '__main__':
    answer_signals()
    command_line.run(main)
