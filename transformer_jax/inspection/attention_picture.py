"""Attention as a picture: a panel for each layer and head."""

from typing import TYPE_CHECKING

from transformer_jax.forced.attention_maps import Attention
from transformer_jax.inspection.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VIEWS = ('cross', 'encoder', 'decoder')
_INCHES = 2.2  # of a panel
_MOST = 200  # inches of a side


def draw_attention(found: Attention, view: str = 'cross', *, flag: str = '--png') -> 'Figure':
    """Return a figure with layers as rows and heads as columns.

    A panel has the tokens that look as rows, and those that are looked at as columns.

    Args:
      found: the attention.
      view: 'cross', 'encoder' or 'decoder'.
      flag: the flag or argument that asked for the picture, for the message of an error.

    Raises:
      UserError: if matplotlib is missing.
      ValueError: if `view` is another word.
    """
    if view not in VIEWS:
        raise ValueError(f'view={view!r} must be one of {", ".join(VIEWS)}.')
    weights_LNTS = getattr(found, view)
    layers, heads = weights_LNTS.shape[:2]
    rows = found.source if view == 'encoder' else found.target
    columns = found.inputs if view == 'decoder' else found.source
    scale = max(1.0, len(columns) / 12), max(1.0, len(rows) / 12)
    width, height = (
        min(_MOST, _INCHES * count * of_side + 1)
        for count, of_side in zip((heads, layers), scale, strict=True)
    )
    figure = new_figure(flag, width, height)
    panels = figure.subplots(layers, heads, squeeze=False, sharex=True, sharey=True)
    for layer in range(layers):
        for head in range(heads):
            axes = panels[layer, head]
            image = axes.imshow(
                weights_LNTS[layer, head], vmin=0, vmax=1, cmap='Blues', aspect='auto'
            )
            axes.set_title(f'layer {layer + 1}, head {head + 1}', fontsize=8)
            axes.set_xticks(range(len(columns)), map(_label, columns), rotation=90, fontsize=7)
            axes.set_yticks(range(len(rows)), map(_label, rows), fontsize=7)
    figure.colorbar(image, ax=panels, label='weight', shrink=0.6)
    looking = 'looking' if view == 'encoder' else 'predicted'
    figure.supylabel(f'{looking} token', fontsize=9)
    figure.supxlabel('token that is looked at', fontsize=9)
    return figure


def _label(piece: str) -> str:
    """Return a piece for people; '$' would begin a formula of matplotlib."""
    return piece.replace('▁', ' ').strip().replace('$', r'\$') or '␣'
