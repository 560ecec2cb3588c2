"""The rows of Table 3 of the paper: variations of the model, each with its config.

The config file of a row imports this module, which imports nothing heavy.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from transformer_jax.config import Config
from transformer_jax.errors import UserError

VOCAB_SIZE = 37_000  # section 5.1
TOKENS = 25_000  # on each side of a batch, section 5.1
LENGTH = 25  # tokens in a sentence, about the mean of WMT news, for the FLOPs of attention


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of Table 3.

    Attributes:
      changes: values that differ from the base model, by section and field of the config.
      perplexity: the paper's perplexity per piece on newstest2013.
      bleu: the paper's BLEU on newstest2013.
      parameters: the paper's parameter count in millions; the base model's if the row changes no
        parameters; None for row E, for which the paper gives no count.
      measured: scores measured in this repository, or ''.
    """

    changes: Mapping[str, Mapping[str, Any]]
    perplexity: float
    bleu: float
    parameters: int | None = 65
    measured: str = ''


def _model(**changes: Any) -> dict[str, dict[str, Any]]:
    return {'model': changes}


# Rows A keep the work constant: more heads are narrower heads.
ROWS = {
    'base': Row({}, 4.92, 25.8),
    'A-heads-1': Row(_model(num_heads=1, d_k=512, d_v=512), 5.29, 24.9),
    'A-heads-4': Row(_model(num_heads=4, d_k=128, d_v=128), 5.00, 25.5),
    'A-heads-16': Row(_model(num_heads=16, d_k=32, d_v=32), 4.91, 25.8),
    'A-heads-32': Row(_model(num_heads=32, d_k=16, d_v=16), 5.01, 25.4),
    'B-key-16': Row(_model(d_k=16, d_v=64), 5.16, 25.1, 58),
    'B-key-32': Row(_model(d_k=32, d_v=64), 5.01, 25.4, 60),
    'C-layers-2': Row(_model(num_layers=2), 6.11, 23.7, 36),
    'C-layers-4': Row(_model(num_layers=4), 5.19, 25.3, 50),
    'C-layers-8': Row(_model(num_layers=8), 4.88, 25.5, 80),
    'C-width-256': Row(_model(d_model=256, d_k=32, d_v=32), 5.75, 24.5, 28),
    'C-width-1024': Row(_model(d_model=1024, d_k=128, d_v=128), 4.66, 26.0, 168),
    'C-inner-1024': Row(_model(d_ff=1024), 5.12, 25.4, 53),
    'C-inner-4096': Row(_model(d_ff=4096), 4.75, 26.2, 90),
    'D-dropout-0.0': Row(_model(dropout_rate=0.0), 5.77, 24.6),
    'D-dropout-0.2': Row(_model(dropout_rate=0.2), 4.95, 25.5),
    'D-smoothing-0.0': Row({'optimizer': {'label_smoothing': 0.0}}, 4.67, 25.3),
    'D-smoothing-0.2': Row({'optimizer': {'label_smoothing': 0.2}}, 5.47, 25.7),
    'E-learned': Row(_model(positions='learned'), 4.92, 25.7, None),
    'big': Row(
        {
            'model': {'d_model': 1024, 'd_ff': 4096, 'num_heads': 16, 'dropout_rate': 0.3},
            # A step of the big model took 1.0 s, so 10 minutes (section 6.1) are 600 steps.
            'train': {
                'steps': 300_000,
                'keep': 20,
                'checkpoint_every': 600,
                'eval_every': 4800,
            },
            'decode': {'average_checkpoints': 20},
        },
        4.33,
        26.4,
        213,
    ),
}


def row_config(name: str, base: Config | None = None) -> Config:
    """Return the config of a row.

    Args:
      name: name of the row, for example 'A-heads-16'.
      base: config of the base model; None takes the default config.

    Raises:
      UserError: if there is no such row.
    """
    if name not in ROWS:
        raise UserError(f'Table 3 has no row {name!r}; its rows are {", ".join(ROWS)}')
    sections, changes = (base or Config()).to_dict(), ROWS[name].changes
    return Config.from_mapping({s: sections[s] | dict(changes.get(s, {})) for s in sections})
