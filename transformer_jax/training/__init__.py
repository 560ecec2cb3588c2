"""Training: a whole run by `train(config, workdir)`, and its parts for a loop of your own.

The names are imported when they are first used, because a whole run needs orbax and TensorFlow,
whose imports take seconds.
"""

from typing import TYPE_CHECKING

from transformer_jax.lazy import lazy_exports

if TYPE_CHECKING:
    from transformer_jax.model import shift_right as shift_right
    from transformer_jax.training.loss import LossSums as LossSums
    from transformer_jax.training.loss import label_smoothed_loss as label_smoothed_loss
    from transformer_jax.training.loss import symmetric_divergence as symmetric_divergence
    from transformer_jax.training.optimizer import make_optimizer as make_optimizer
    from transformer_jax.training.optimizer import noam_schedule as noam_schedule
    from transformer_jax.training.state import TrainState as TrainState
    from transformer_jax.training.step import eval_step as eval_step
    from transformer_jax.training.step import train_step as train_step
    from transformer_jax.training.trainer import train as train

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        'transformer_jax.model': ['shift_right'],
        'transformer_jax.training.loss': [
            'LossSums',
            'label_smoothed_loss',
            'symmetric_divergence',
        ],
        'transformer_jax.training.optimizer': ['make_optimizer', 'noam_schedule'],
        'transformer_jax.training.state': ['TrainState'],
        'transformer_jax.training.step': ['eval_step', 'train_step'],
        'transformer_jax.training.trainer': ['train'],
    },
)
