"""What all exports need: checks of what others cannot express, and the README of the folder."""

from pathlib import Path

import jax

from transformer_jax.config import ModelConfig
from transformer_jax.conversion.card import model_card
from transformer_jax.conversion.original import Original
from transformer_jax.conversion.release import without_paths
from transformer_jax.errors import UserError
from transformer_jax.storage.files import atomic_write


def check_heads(config: ModelConfig, peer: str) -> None:
    """Raise UserError unless the heads share d_model, as other toolkits have it."""
    size = config.d_model / config.num_heads
    if (config.key_size, config.value_size) != (size, size):
        raise UserError(
            f'model.d_k={config.key_size} and model.d_v={config.value_size} cannot be expressed in '
            f'{peer}, whose heads have d_model / num_heads = {size:g} each: export to release or '
            'stablehlo.'
        )


def write_readme(original: Original, folder: Path, use: str) -> None:
    """Write README.md, a model card.

    Args:
      original: the model.
      folder: where to write it.
      use: Markdown that says how to use the folder.
    """
    vocabulary = original.vocabulary
    pieces = f'{vocabulary.sizes} pieces' + (', shared' if vocabulary.shared else '')
    count = sum(x.size for x in jax.tree.leaves(original.params))
    config = without_paths(original.config)
    # A run has checkpoints.
    origin = (
        '' if original.steps else 'Another program has trained it; transformer_jax imported it.'
    )
    card = model_card(
        original.name, config, count, pieces, original.release, origin=origin, use=use
    )
    with atomic_write(folder / 'README.md') as file:
        file.write(card)
