"""The section `train`."""

import dataclasses
import os

from transformer_jax.config.checks import (
    check_below,
    check_choice,
    check_not_negative,
    check_positive,
    check_types,
    fail,
)


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """How long to train, and what to do along the way.

    Attributes:
      steps: optimizer steps.
      seed: of the initial parameters and of dropout.
      init_from: folder of a trained run, or of averaged weights, to begin from: the weights it
        translates with take the place of random ones, and its vocabulary is used; '' begins anew.
      log_every: steps between lines in metrics.jsonl.
      eval_every: steps between evaluations on dev; a multiple of checkpoint_every.
      checkpoint_every: steps between checkpoints.
      keep: latest checkpoints kept, besides the best.
      keep_best: checkpoints of the highest dev BLEU kept.
      accumulate_steps: parts that a batch is divided into, one after the other, where the devices
        cannot hold all of it at once; the step is that of the whole batch.
      deterministic: on GPUs, sums are made in one order always, so that a resumed run ends with the
        same bytes; False lets XLA try all its kernels and take the fastest, whatever their order.
        CPUs and TPUs know no other than the one.
      on_nonfinite: what to do where a loss or a gradient is NaN or infinite: 'stop' the run, or
        'skip' the step. Neither lets it into the parameters.
      patience: evaluations without a better dev BLEU before training stops early; 0 never stops.
        Those in the warm-up are not counted. A better dev loss counts as well, while dev BLEU is
        not above 1.
      eval_beam_size: beam for dev BLEU during training; 1, the default, is greedy and fast.
    """

    steps: int = 100_000
    seed: int = 0
    init_from: str = ''
    log_every: int = 100
    eval_every: int = 5000
    checkpoint_every: int = 1000
    keep: int = 5
    keep_best: int = 1
    accumulate_steps: int = 1
    deterministic: bool = True
    on_nonfinite: str = 'stop'
    patience: int = 0
    eval_beam_size: int = 1

    def __post_init__(self):
        check_types('train', self)
        check_positive('train', self, 'steps', 'log_every', 'eval_every', 'checkpoint_every')
        check_positive('train', self, 'keep', 'keep_best', 'eval_beam_size', 'accumulate_steps')
        check_choice('train', self, 'on_nonfinite', ('stop', 'skip'))
        check_not_negative('train', self, 'seed', 'patience')
        check_below('train', self, 2**31, 'steps')
        check_below('train', self, 2**32, 'seed')  # JAX would drop the higher bits
        if self.init_from:
            # One folder is to have one name.
            object.__setattr__(self, 'init_from', os.path.normpath(self.init_from))
        if self.eval_every % self.checkpoint_every:
            fail(
                'train.eval_every',
                self.eval_every,
                f'must be a multiple of train.checkpoint_every={self.checkpoint_every}, '
                'so that the best model is one that was saved.',
            )
