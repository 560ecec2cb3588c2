"""The section `train`."""

import dataclasses
import os

from transformer_jax.config.validation import check_choice, check_range, check_types, fail


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """How long to train, and what to do along the way.

    Attributes:
      steps: optimizer steps; at most 2,147,483,647.
      seed: of the initial parameters and of dropout; at most 4,294,967,295.
      init_from: folder of a trained run, or of averaged weights, to begin from: the weights it
        translates with take the place of random ones, and its vocabulary is used; '' begins anew.
      log_every: steps between lines in metrics.jsonl; times data.tokens_per_batch, at most
        2,147,483,647.
      eval_every: steps between evaluations on dev; a multiple of checkpoint_every, at most
        2,147,483,647.
      checkpoint_every: steps between checkpoints; at most 2,147,483,647.
      keep: latest checkpoints kept, besides the best; at most 1,000,000.
      keep_best: checkpoints of the highest dev BLEU kept; at most 1,000,000.
      accumulate_steps: parts that a batch is divided into, one after the other, where the devices
        cannot hold all of it at once; the step is that of the whole batch. At most 10,000.
      deterministic: on GPUs, sums are made in one order always, so that a resumed run ends with the
        same bytes; False lets XLA try all its kernels and take the fastest, whatever their order.
        CPUs and TPUs know no other than the one.
      on_nonfinite: what to do where a loss or a gradient is NaN or infinite: 'stop' the run, or
        'skip' the step. Neither lets it into the parameters.
      patience: evaluations without a better dev BLEU before training stops early, at most
        1,000,000; 0 never stops. Those in the warm-up are not counted. A better dev loss counts as
        well, while dev BLEU is not above 1.
      eval_beam_size: beam for dev BLEU during training, at most 1,000; 1, the default, is greedy
        and fast.
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
        check_range(
            'train',
            self,
            steps=(1, 2**31 - 1),
            seed=(0, 2**32 - 1),  # JAX would drop the higher bits
            log_every=(1, 2**31 - 1),
            eval_every=(1, 2**31 - 1),
            checkpoint_every=(1, 2**31 - 1),
            keep=(1, 1_000_000),
            keep_best=(1, 1_000_000),
            accumulate_steps=(1, 10_000),
            patience=(0, 1_000_000),
            eval_beam_size=(1, 1000),
        )
        check_choice('train', self, 'on_nonfinite', ('stop', 'skip'))
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
