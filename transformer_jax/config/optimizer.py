"""The section `optimizer`: Adam, the learning rate and regularisation."""

import dataclasses

from transformer_jax.config.validation import (
    check_choice,
    check_positive,
    check_range,
    check_rate,
    check_types,
    fail,
)


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """Adam and the paper's learning rate (section 5.3), and regularisation (section 5.4).

    Attributes:
      schedule: learning rate after the warm-up: 'noam' (the paper's, which falls with the inverse
        square root of the step), 'constant', or 'linear' or 'cosine', which fall to 0 at the end of
        the training, so that a resumed run cannot change its length.
      warmup_steps: steps during which the learning rate rises, 1 for none; at most 2,147,483,647.
      learning_rate_scale: with 'noam', the factor on the paper's learning rate, at most 1e+30; the
        peak is learning_rate_scale / sqrt(d_model * warmup_steps).
      learning_rate: with the other schedules, the learning rate after the warm-up, at most 1e+30.
      clip_norm: largest global norm of the gradient, at most 1e+30; a longer gradient is scaled
        down to it. 0 is off, as in the paper.
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

    schedule: str = 'noam'
    warmup_steps: int = 4000
    learning_rate_scale: float = 1.0
    learning_rate: float = 0.0
    clip_norm: float = 0.0
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
            learning_rate=(0, 1e30),
            clip_norm=(0, 1e30),
            weight_decay=(0, 1000),
            r_drop=(0, 1000),
        )
        check_positive('optimizer', self, learning_rate_scale=1e30, epsilon=1)
        check_rate('optimizer', self, 'beta1', 'beta2', 'label_smoothing', 'ema_decay')
        check_choice('optimizer', self, 'schedule', ('noam', 'constant', 'linear', 'cosine'))
        if self.schedule == 'noam' and self.learning_rate:
            fail(
                'optimizer.learning_rate',
                self.learning_rate,
                "is for other schedules than 'noam': set optimizer.learning_rate_scale, or choose "
                "an optimizer.schedule such as 'constant'.",
            )
        if self.schedule != 'noam' and not self.learning_rate:
            fail(
                'optimizer.schedule',
                self.schedule,
                'needs optimizer.learning_rate: set it, for example to 2e-4.',
            )
        if self.schedule != 'noam' and self.learning_rate_scale != 1.0:
            fail(
                'optimizer.learning_rate_scale',
                self.learning_rate_scale,
                "is for the schedule 'noam': leave it out, and set optimizer.learning_rate.",
            )

    @property
    def ends(self) -> bool:
        """Whether the learning rate depends on the length of the training."""
        return self.schedule in ('linear', 'cosine')
