"""Curves of training runs: loss, BLEU or F1, learning rate and speed over the steps."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from transformer_jax.inspection.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Run(NamedTuple):
    """What `draw_curves` draws of a run.

    Attributes:
      name: its name in the legend.
      records: the records of its metrics.jsonl.
      floor: the lowest loss that label smoothing allows, in nats; None if it is not known.
      test: scores of the finished run on its test set, by name; or None.
    """

    name: str
    records: Sequence[Mapping[str, Any]]
    floor: float | None = None
    test: Mapping[str, Any] | None = None


def loss_floor(label_smoothing: float, vocab_size: int) -> float:
    """Return the lowest label-smoothed cross-entropy, in nats per token.

    It is the entropy of the smoothed targets (paper, section 5.4), reached if the model predicts
    exactly those.

    Args:
      label_smoothing: eps, from 0 to 1.
      vocab_size: the number of tokens over which eps is spread.
    """
    other = label_smoothing / vocab_size
    target = 1 - label_smoothing + other
    return -sum(
        count * p * math.log(p) for count, p in ((1, target), (vocab_size - 1, other)) if p > 0
    )


def draw_curves(runs: Sequence[Run]) -> 'Figure':
    """Return a figure of four panels with a colour for each run.

    Args:
      runs: at least one run, each with at least one record.

    Raises:
      UserError: if matplotlib is missing.
    """
    figure = new_figure('plot', 10, 6.5)
    loss, scores, rate, speed = figure.subplots(2, 2).flat
    names = set()
    for number, run in enumerate(runs):
        colour = f'C{number % 10}'
        _draw(loss, run, 'train', 'loss', color=colour, linewidth=1)
        _draw(loss, run, 'dev', 'loss', color=colour, marker='o', markersize=3, linestyle='--')
        if run.floor:
            loss.axhline(run.floor, color=colour, linewidth=0.8, linestyle=':')
        score = 'f1' if any('f1' in record for record in run.records) else 'bleu'
        names.add(score)
        _draw(scores, run, 'dev', score, color=colour, marker='o', markersize=3)
        if run.test is not None and _is_number(run.test.get(score)):
            last = max(record['step'] for record in run.records)
            scores.plot([last], [run.test[score]], color=colour, marker='*', markersize=10)
        _draw(rate, run, 'train', 'learning_rate', color=colour)
        _draw(speed, run, 'train', 'target_tokens_per_second', color=colour, linewidth=1)
    for axes, title, key in (
        (loss, 'Loss, nats per token', 'line: train   dashed: dev   dotted: floor'),
        (scores, ' or '.join(x.upper() for x in sorted(names)), 'line: dev   star: test'),
        (rate, 'Learning rate', ''),
        (speed, 'Target tokens per second', ''),
    ):
        axes.set_title(title, loc='left', fontsize=11)
        axes.set_title(key, loc='right', fontsize=8, color='0.4')
        axes.set_xlabel('step')
        axes.set_xlim(left=0)
        axes.grid(alpha=0.3)
        axes.spines[['top', 'right']].set_visible(False)
    speed.set_ylim(bottom=0)
    rate.ticklabel_format(axis='y', style='sci', scilimits=(-2, 2))
    figure.legend(
        handles=[_handle(number) for number in range(len(runs))],
        labels=[run.name for run in runs],
        loc='outside lower center',
        ncols=3,
        frameon=False,
    )
    return figure


def _draw(axes: 'Axes', run: Run, kind: str, field: str, **style: Any) -> None:
    """Draw a field of the records of one kind; a record without it leaves a gap."""
    points = [(r['step'], r.get(field)) for r in run.records if r['kind'] == kind]
    values = [value if _is_number(value) else math.nan for _, value in points]
    if len(points) == 1:
        style = {'marker': 'o', 'markersize': 3} | style  # a line of one point shows nothing
    axes.plot([step for step, _ in points], values, **style)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _handle(number: int) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=f'C{number % 10}', linewidth=2)
