"""The section `optimizer`."""

import dataclasses

from transformer_jax.config.validation import (
    check_positive,
    check_range,
    check_rate,
    check_types,
)


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """Adam, the paper's schedule (section 5.3) and label smoothing (section 5.4).

    Attributes:
      warmup_steps: steps over which the learning rate rises; at most 2,147,483,647.
      learning_rate_scale: factor on the paper's schedule, at most 1e+30; its peak is
        learning_rate_scale / sqrt(d_model * warmup_steps).
      beta1, beta2: Adam's; below 1.
      epsilon: Adam's; at most 1.
      weight_decay: times the learning rate, the share of each matrix that a step takes away (AdamW,
        Loshchilov and Hutter, 2019); not of biases and norms; at most 1,000.
      label_smoothing: probability mass spread evenly over the vocabulary; below 1.
      r_drop: R-Drop (Liang et al., 2021): alpha, the weight of the divergence between two passes
        with different dropout, which doubles the work; 0 is off, 5 that paper's for translation.
        At most 1,000.
      ema_decay: evaluates and translates with an exponential moving average of the parameters, in
        which a step's share falls by this factor, below 1, with each later one; 0 is off.
    """

    warmup_steps: int = 4000
    learning_rate_scale: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    weight_decay: float = 0.0
    label_smoothing: float = 0.1
    r_drop: float = 0.0
    ema_decay: float = 0.0

    def __post_init__(self):
        check_types('optimizer', self)
        check_range(
            'optimizer',
            self,
            warmup_steps=(1, 2**31 - 1),
            weight_decay=(0, 1000),
            r_drop=(0, 1000),
        )
        check_positive('optimizer', self, learning_rate_scale=1e30, epsilon=1)
        check_rate('optimizer', self, 'beta1', 'beta2', 'label_smoothing', 'ema_decay')
