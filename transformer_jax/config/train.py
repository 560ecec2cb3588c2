"""The section `train`: length, checkpoints, logging and evaluation."""

import dataclasses
import os

from transformer_jax.config.validation import check_choice, check_range, check_types, fail


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """How long to train, and what to save, log and evaluate.

    Attributes:
      steps: optimizer steps; at most 2,147,483,647.
      epochs: passes over the training pairs, at most 1,000,000; they then determine `steps`, which
        has no other effect. 0 is off.
      seed: seed of the initial parameters and of dropout; at most 4,294,967,295.
      init_from: model to fine-tune: folder of a trained run, of averaged weights or of a release,
        or name of a model of the package. This run starts from its averaged weights and takes over
        its vocabulary. Empty means random weights.
      log_every: steps between lines in metrics.jsonl; log_every * data.tokens_per_batch is at most
        2,147,483,647.
      log_to: where metrics go besides metrics.jsonl: 'tensorboard' (files in the work directory),
        'wandb' (Weights & Biases) or 'mlflow'.
      eval_every: steps between evaluations on dev, a multiple of checkpoint_every; at most
        2,147,483,647.
      checkpoint_every: the checkpoint interval, in steps; at most 2,147,483,647.
      keep: number of latest checkpoints to keep; at most 1,000,000.
      keep_best: number of checkpoints with the highest dev BLEU to keep in addition; at most
        1,000,000.
      accumulate_steps: number of micro-batches that each batch is divided into if it does not fit
        in memory; at most 10,000. The step uses the gradient of the whole batch.
      deterministic: whether GPUs use deterministic kernels only, so that a resumed run ends with
        the same bytes. False may be faster. CPUs and TPUs are always deterministic.
      tune: whether XLA tries kernels of the training step once, before step 1, and the work
        directory keeps its choice for every resume. For GPUs only; no GPU has run it yet.
      on_nonfinite: reaction to a loss or gradient that is NaN or infinite: 'stop' ends the run,
        'skip' leaves out the step. Such a gradient never changes the parameters.
      patience: number of evaluations without a better dev BLEU after which training stops early, at
        most 1,000,000; 0 is off. Evaluations during warm-up do not count. While dev BLEU is at most
        1, a better dev loss counts as an improvement.
      eval_beam_size: beam size for dev BLEU during training, at most 1,000; 1 is greedy and fast.
    """

    steps: int = 100_000
    epochs: int = 0
    seed: int = 0
    init_from: str = ''
    log_every: int = 100
    log_to: str = 'tensorboard'
    eval_every: int = 5000
    checkpoint_every: int = 1000
    keep: int = 5
    keep_best: int = 1
    accumulate_steps: int = 1
    deterministic: bool = True
    tune: bool = False
    on_nonfinite: str = 'stop'
    patience: int = 0
    eval_beam_size: int = 1

    def __post_init__(self):
        check_types('train', self)
        check_range(
            'train',
            self,
            steps=(1, 2**31 - 1),
            epochs=(0, 1_000_000),
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
        check_choice('train', self, 'log_to', ('tensorboard', 'wandb', 'mlflow'))
        check_choice('train', self, 'on_nonfinite', ('stop', 'skip'))
        if self.init_from:
            # 'runs/a' and 'runs/a/' are the same folder.
            scheme, _, path = self.init_from.rpartition('://')
            origin = os.path.normpath(path)
            object.__setattr__(self, 'init_from', f'{scheme}://{origin}' if scheme else origin)
        if self.eval_every % self.checkpoint_every:
            fail(
                'train.eval_every',
                self.eval_every,
                f'must be a multiple of train.checkpoint_every={self.checkpoint_every}, '
                'because only a saved model can be kept as the best.',
            )
