"""The section `optimizer`: Adam, the learning rate and regularisation."""

import dataclasses

from transformer_jax.config.validation import (
    check_positive,
    check_range,
    check_rate,
    check_types,
)


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """Adam and the paper's learning rate (section 5.3), and regularisation (section 5.4).

    Attributes:
      warmup_steps: steps during which the learning rate rises; at most 2,147,483,647. After them it
        falls with the inverse square root of the step.
      learning_rate_scale: factor on the paper's learning rate, at most 1e+30; the peak is
        learning_rate_scale / sqrt(d_model * warmup_steps).
      beta1: Adam's decay rate of the first moment; below 1.
      beta2: Adam's decay rate of the second moment; below 1.
      epsilon: number that Adam adds to the root of the second moment; at most 1.
      weight_decay: decoupled weight decay (AdamW, Loshchilov and Hutter, 2019), at most 1,000: each
        step multiplies matrices by 1 - learning_rate * weight_decay. Biases and norms do not decay.
      label_smoothing: probability that is spread evenly over the vocabulary; below 1.
      r_drop: alpha of R-Drop (Liang et al., 2021), the weight of the divergence between two passes
        with different dropout, at most 1,000. 0 is off; its paper uses 5 for translation. R-Drop
        doubles the work of a step.
      ema_decay: decay rate of an exponential moving average of the parameters, which then evaluates
        and translates in their place; below 1; 0 is off.
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
