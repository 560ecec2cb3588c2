"""Table 1 of the paper: what layers of different types cost, as formulas and measured."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
from flax import linen as nn

from transformer_jax.inspection.figures import new_figure
from transformer_jax.model import MultiHeadAttention

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
WIDTH, HEADS, KERNEL = 128, 4, 3
_REPEATS = 5
_ROWS = (
    ('self-attention', 'O(n^2 d)', 'O(1)', 'O(1)'),
    ('recurrent', 'O(n d^2)', 'O(n)', 'O(n)'),
    ('convolutional', 'O(k n d^2)', 'O(1)', 'O(log_k n)'),
    ('self-attention, restricted', 'O(r n d)', 'O(1)', 'O(n / r)'),
)
_NOTE = """\
n: length of the sequence, d: width, k: size of the kernel, r: size of the neighbourhood.
Self-attention needs fewer operations than a recurrent layer where n < d, as in most sentences. Any
two positions are one step apart, and no step has to wait for another."""

Times = Mapping[str, Mapping[int, float]]


def table() -> str:
    """Return the formulas as text."""
    lines = [f'{"layer":28}{"complexity":14}{"sequential":14}longest path']
    lines += [f'{name:28}{cost:14}{steps:14}{path}' for name, cost, steps, path in _ROWS]
    return '\n'.join([*lines, '', _NOTE])


def measure(lengths: Sequence[int] = LENGTHS, repeats: int = _REPEATS) -> Times:
    """Return the milliseconds of one sentence through each layer, by layer and length.

    The layers have width 128: self-attention with 4 heads, a GRU, a convolution of kernel 3. Each
    is compiled and run once before the clock starts. The fastest run counts, because other programs
    can only slow a run down.

    Args:
      lengths: numbers of positions.
      repeats: timed runs of each.
    """
    found: dict[str, dict[int, float]] = {}
    for name, layer in _layers().items():
        found[name] = {}
        for length in lengths:
            x = jax.random.normal(jax.random.key(0), (1, length, WIDTH))
            variables = layer.init(jax.random.key(1), x[:, : min(lengths)])
            run = jax.jit(layer.apply)
            jax.block_until_ready(run(variables, x))
            found[name][length] = min(
                _milliseconds(lambda run=run, args=(variables, x): run(*args))
                for _ in range(repeats)
            )
    return found


def measured(times: Times) -> str:
    """Return measured times as text, and where self-attention begins to cost more."""
    lengths = list(times['self-attention'])
    lines = [f'{"milliseconds, length":28}' + ''.join(f'{length:>9,}' for length in lengths)]
    lines += [
        f'{name:28}' + ''.join(f'{of_length[n]:9.2f}' for n in lengths)
        for name, of_length in times.items()
    ]
    device = f'{jax.devices()[0].device_kind} with JAX {jax.__version__}'
    lines += ['', f'One sentence, width {WIDTH}, on {device}.']
    for name in times:
        if name == 'self-attention':
            continue
        own, other = times['self-attention'], times[name]
        crossing = crossing_point(own, other)
        if crossing is not None:
            where = f'from about {crossing:,.0f} positions'
        elif own[max(own)] > other[max(own)]:
            where = 'at all measured lengths'
        else:
            where = 'at none of the longest lengths'
        lines.append(f'Self-attention costs more than the {name} layer {where}.')
    return '\n'.join(lines)


def crossing_point(first: Mapping[int, float], second: Mapping[int, float]) -> float | None:
    """Return the length from which the first costs more than the second, or None.

    Between two measured lengths, both are taken as straight lines.
    """
    lengths = sorted(first)
    gaps = [first[n] - second[n] for n in lengths]
    for k in range(len(lengths) - 1, 0, -1):
        if gaps[k] <= 0:
            return None
        if gaps[k - 1] <= 0:
            share = -gaps[k - 1] / (gaps[k] - gaps[k - 1])
            return lengths[k - 1] + share * (lengths[k] - lengths[k - 1])
    return None


def draw(times: Times) -> 'Figure':
    """Return a figure of measured times.

    Raises:
      UserError: if matplotlib is missing.
    """
    figure = new_figure('--output', 7, 4.5)
    axes = figure.subplots()
    for (name, of_length), style in zip(times.items(), ('o-', 's--', '^:'), strict=True):
        axes.plot(list(of_length), list(of_length.values()), style, label=name)
    axes.set_xscale('log', base=2)
    axes.set_yscale('log')
    axes.set_xticks(list(times['self-attention']), list(times['self-attention']))
    axes.set(xlabel='positions', ylabel='milliseconds', title=f'One layer of width {WIDTH}')
    axes.legend()
    axes.grid(alpha=0.3)
    return figure


def _milliseconds(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    jax.block_until_ready(run())
    return 1e3 * (time.perf_counter() - begin)


def _layers() -> dict[str, Any]:
    """Return a module [B, n, D] -> [B, n, D] for each measured row of the table."""
    return {
        'self-attention': MultiHeadAttention(num_heads=HEADS),
        'recurrent': nn.RNN(nn.GRUCell(WIDTH)),
        'convolutional': nn.Conv(WIDTH, (KERNEL,)),
    }
