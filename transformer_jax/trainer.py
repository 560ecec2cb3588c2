"""The run: prepare, compile, train, evaluate, save; at the end translate and score the test set."""

import contextlib
import dataclasses
import functools
import logging
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from transformer_jax.cache import cache_folder, keep_compiled_programs
from transformer_jax.config import Config
from transformer_jax.data.batching import Bucket
from transformer_jax.data.feed import training_batches
from transformer_jax.data.prepare import Data, prepare
from transformer_jax.data.vocabulary import Vocabulary
from transformer_jax.errors import UserError
from transformer_jax.metrics import MetricsWriter
from transformer_jax.model import Transformer
from transformer_jax.progress import progress_bar
from transformer_jax.scoring import Scores, score
from transformer_jax.sharding import (
    batch_sharding,
    make_mesh,
    padded_rows,
    shard_batch,
    state_shardings,
)
from transformer_jax.training.checkpoints import Checkpoints
from transformer_jax.training.evaluation import CorpusLoss, corpus_loss
from transformer_jax.training.loss import LossSums
from transformer_jax.training.optimizer import make_optimizer, noam_schedule
from transformer_jax.training.state import TrainState, init_state
from transformer_jax.training.step import train_step
from transformer_jax.translator import Translator
from transformer_jax.workdir import Workdir

_logger = logging.getLogger('transformer_jax')
_EXAMPLES = 3  # translations kept in results.json

Step = Callable[[TrainState, dict[str, jax.Array]], TrainState]


def train(config: Config, workdir: str | Path) -> dict[str, Any]:
    """Trains, or goes on with, the run in `workdir`, and scores it.

    Args:
      config: of the run.
      workdir: its folder; made if need be.

    Returns:
      What results.json holds.

    Raises:
      UserError: if the data, the config or the folder do not allow it; nothing is written then.
    """
    folder = Workdir(workdir)
    folder.check_writable()
    saved = folder.read_config()
    if saved is not None:
        _check_same_run(folder, config, saved[0])
        results = folder.read_results()
        if results is not None and results['finished'] == _finish_line(config):
            _logger.info('This run is finished: %s holds its results.', folder.path)
            return results
    keep_compiled_programs(cache_folder(config.data.cache_dir))
    going_on = saved is not None and folder.vocabulary.exists()
    data = prepare(config.data, Vocabulary.load(folder.vocabulary) if going_on else None)
    if saved is not None and saved[1] != data.fingerprint:
        raise UserError(
            f'workdir={str(folder.path)!r} belongs to other data: the corpus has changed since '
            'its run began; restore the corpus, or choose another --workdir.'
        )
    folder.path.mkdir(parents=True, exist_ok=True)
    if saved is None or saved[0] != config:
        data.vocabulary.save(folder.vocabulary)
        folder.write_config(config, data.fingerprint)
    return _Run(config, folder, data).finish()


def compile_steps(
    config: Config, vocab_size: int, buckets: tuple[Bucket, ...], mesh: Mesh
) -> dict[Bucket, jax.stages.Compiled]:
    """Compiles the training step for every bucket, ahead of time and side by side.

    Args:
      config: of the run.
      vocab_size: V.
      buckets: the shapes.
      mesh: the devices.

    Returns:
      For each bucket, a function from a state (which it consumes) and a batch to the next state.
    """
    model = Transformer(config.model, vocab_size)
    optimizer = make_optimizer(config.optimizer, config.model.d_model)
    abstract = jax.eval_shape(functools.partial(init_state, model, optimizer, 0))
    shardings = state_shardings(abstract, mesh)
    step = jax.jit(
        functools.partial(
            train_step,
            model=model,
            optimizer=optimizer,
            label_smoothing=config.optimizer.label_smoothing,
            seed=config.train.seed,
        ),
        in_shardings=(shardings, batch_sharding(mesh)),
        out_shardings=shardings,
        donate_argnums=0,
    )

    def compiled(bucket: Bucket) -> jax.stages.Compiled:
        rows = padded_rows(bucket.rows, mesh)
        batch = {
            'source': jax.ShapeDtypeStruct((rows, bucket.source_length), jnp.int32),
            'target': jax.ShapeDtypeStruct((rows, bucket.target_length), jnp.int32),
        }
        return step.lower(abstract, batch).compile()

    with (
        # XLA compiles one program on one core, at the cost of some hundred MB each.
        ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool,
        progress_bar('Compiling', total=len(buckets), unit=' shapes') as bar,
    ):
        result = {}
        for bucket, program in zip(buckets, pool.map(compiled, buckets), strict=True):
            result[bucket] = program
            bar.update()
    return result


class _Run:
    """What a run holds between start and finish."""

    def __init__(self, config: Config, folder: Workdir, data: Data):
        self.config, self.folder, self.data = config, folder, data
        self.mesh = make_mesh()
        self.model = Transformer(config.model, data.vocabulary.size)
        optimizer = make_optimizer(config.optimizer, config.model.d_model)
        self.learning_rate = noam_schedule(
            config.model.d_model,
            config.optimizer.warmup_steps,
            config.optimizer.learning_rate_scale,
        )
        initialise = functools.partial(init_state, self.model, optimizer, config.train.seed)
        shardings = state_shardings(jax.eval_shape(initialise), self.mesh)
        state = jax.jit(initialise, out_shardings=shardings)()
        self.checkpoints = Checkpoints(folder.checkpoints, keep=config.train.keep)
        restored = self.checkpoints.restore_latest(state)
        self.state = state if restored is None else restored
        self.start = int(self.state.step)
        self.metrics = MetricsWriter(folder.metrics, folder.tensorboard, step=self.start)

    def finish(self) -> dict[str, Any]:
        """Trains to the end, averages, and scores the test set."""
        try:
            self._announce()
            step = self.start
            if step < self.config.train.steps and not self._out_of_patience():
                step = self._train()
            self.checkpoints.wait()
            results = self._results(step)
            self.folder.write_results(results)
            return results
        finally:
            self.checkpoints.close()
            self.metrics.close()

    def _announce(self) -> None:
        data, config = self.data, self.config
        parameters = sum(x.size for x in jax.tree.leaves(self.state.params))
        _logger.info(
            '%s parameters, vocabulary of %s, %s training pairs in %d shapes, '
            '%d batches an epoch (padding %.1f %%), on %d %s device%s.',
            f'{parameters:,}',
            f'{data.vocabulary.size:,}',
            f'{len(data.store) - data.plan.dropped:,}',
            len(data.plan.buckets),
            data.plan.batches_per_epoch,
            100 * data.plan.padding,
            self.mesh.size,
            jax.default_backend(),
            '' if self.mesh.size == 1 else 's',
        )
        if self.start:
            _logger.info('Resuming after step %d of %d.', self.start, config.train.steps)

    def _train(self) -> int:
        """Steps until the last, or until patience runs out; returns the number of the last step."""
        config, plan = self.config.train, self.data.plan
        programs = compile_steps(self.config, self.data.vocabulary.size, plan.buckets, self.mesh)
        clock = _Clock()
        with progress_bar('Training', total=config.steps, initial=self.start, unit=' steps') as bar:
            for step, (bucket, batch) in enumerate(self._batches(), self.start + 1):
                self.state = programs[bucket](self.state, batch)
                bar.update()
                last = step == config.steps
                if step % config.log_every == 0 or last:
                    self._log(step, clock, bar)
                if step % config.checkpoint_every == 0 or last:
                    scores = None
                    if step % config.eval_every == 0 or last:
                        with clock.paused():
                            scores = self._evaluate(step)
                    self.checkpoints.save(self.state, scores)
                    if scores is not None and self._out_of_patience():
                        _logger.info(
                            'Stopping early: dev BLEU has not risen in %d evaluations.',
                            config.patience,
                        )
                        return step
                if last:
                    return step
        raise AssertionError('the feed has no end')

    def _batches(self) -> Iterator[tuple[Bucket, dict[str, jax.Array]]]:
        """Batches on the devices, one ahead of the step that takes it."""
        feed = training_batches(self.data.store, self.data.plan, self.start)
        shapes = {(b.rows, b.source_length, b.target_length): b for b in self.data.plan.buckets}

        def place(batch: dict[str, np.ndarray]) -> tuple[Bucket, dict[str, jax.Array]]:
            bucket = shapes[(*batch['source'].shape, batch['target'].shape[1])]
            return bucket, shard_batch(batch, self.mesh)

        ahead = place(next(feed))
        for batch in feed:
            following = place(batch)
            yield ahead
            ahead = following

    def _log(self, step: int, clock: '_Clock', bar: Any) -> None:
        """Writes the means since the last line, and begins a new window."""
        window = jax.device_get(self.state.window)
        seconds = clock.lap()
        tokens = int(window.tokens)
        record = {
            'step': step,
            'kind': 'train',
            'loss': float(window.loss) / tokens,
            'nll': float(window.nll) / tokens,
            'learning_rate': float(self.learning_rate(step - 1)),
            'target_tokens': tokens,
            'target_tokens_per_second': tokens / seconds,
            'seconds': seconds,
        }
        self.metrics.write(record)
        zero = jax.device_put(LossSums.zero(), self.state.step.sharding)
        self.state = self.state.replace(window=zero)
        bar.set_postfix_str(
            f'loss {record["loss"]:.3f}, {record["target_tokens_per_second"]:,.0f} tokens/s, '
            f'lr {record["learning_rate"]:.2e}'
        )

    def _evaluate(self, step: int) -> dict[str, float]:
        """Dev loss and dev BLEU; the record is on disk before the checkpoint it belongs to."""
        loss, scores, _ = self._score(
            self.state.params, self.data.dev, beam_size=self.config.train.eval_beam_size
        )
        record = {
            'step': step,
            'kind': 'dev',
            'loss': loss.loss,
            'perplexity': loss.perplexity,
            'bleu': scores.bleu,
            'chrf': scores.chrf,
        }
        self.metrics.write(record)
        _logger.info(
            'Step %d: dev loss %.3f, perplexity %.2f, BLEU %.2f.',
            step,
            loss.loss,
            loss.perplexity,
            scores.bleu,
        )
        return {'bleu': scores.bleu}

    def _score(
        self, params: Any, pairs: list[tuple[str, str]], beam_size: int, progress: bool = False
    ) -> tuple[CorpusLoss, Scores, list[str]]:
        translator = Translator(self.config, self.data.vocabulary, params)
        sources, references = zip(*pairs, strict=True)
        outputs = translator(list(sources), beam_size=beam_size, progress=progress)
        loss = corpus_loss(
            jax.device_put(params, state_shardings(params, self.mesh)),
            pairs,
            model=self.model,
            vocabulary=self.data.vocabulary,
            label_smoothing=self.config.optimizer.label_smoothing,
            mesh=self.mesh,
        )
        return loss, score(outputs, references), outputs

    def _out_of_patience(self) -> bool:
        """Whether the last `patience` evaluations brought nothing better than those before."""
        patience = self.config.train.patience
        bleu = [record['bleu'] for record in self.metrics.records if record['kind'] == 'dev']
        if not patience or len(bleu) <= patience:
            return False
        return max(bleu[-patience:]) <= max(bleu[:-patience])

    def _results(self, step: int) -> dict[str, Any]:
        params, steps = self.checkpoints.average(self.config.decode.average_checkpoints)
        _logger.info('Scoring the test set with the mean of checkpoints %s.', steps)
        loss, scores, outputs = self._score(
            params, self.data.test, self.config.decode.beam_size, progress=True
        )
        dev = [record for record in self.metrics.records if record['kind'] == 'dev']
        examples = [
            {'source': source, 'reference': reference, 'translation': output}
            for (source, reference), output in zip(self.data.test, outputs, strict=True)
        ]
        return {
            'finished': _finish_line(self.config),
            'step': step,
            'averaged_checkpoints': steps,
            'test': {'sentences': len(outputs), **loss._asdict(), **scores._asdict()},
            'best_dev': max(dev, key=lambda record: record['bleu'], default=None),
            'examples': examples[-_EXAMPLES:],
        }


class _Clock:
    """Seconds of training, evaluations not counted."""

    def __init__(self):
        self._since = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last lap."""
        now = time.perf_counter()
        seconds, self._since = now - self._since, now
        return seconds

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """A context whose time does not count."""
        begin = time.perf_counter()
        yield
        self._since += time.perf_counter() - begin


def _finish_line(config: Config) -> dict[str, Any]:
    """What decides when a run is finished; results for another finish line do not count."""
    return {
        'steps': config.train.steps,
        'patience': config.train.patience,
        'decode': dataclasses.asdict(config.decode),
    }


def _check_same_run(folder: Workdir, config: Config, saved: Config) -> None:
    differences = config.differences(saved)
    if differences:
        raise UserError(
            f'workdir={str(folder.path)!r} belongs to a run of another config '
            f'(now against then: {"; ".join(differences)}): '
            'choose another --workdir, or restore these fields.'
        )
