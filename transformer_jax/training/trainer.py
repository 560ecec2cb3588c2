"""The run: prepare, compile, train, evaluate, save; at the end translate and score the test set."""

import contextlib
import dataclasses
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from transformer_jax.checkpointing import averaging
from transformer_jax.checkpointing.choice import CheckpointChoice
from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.config import Config, DataConfig
from transformer_jax.data.batching import Bucket
from transformer_jax.data.prepare import Data, prepare
from transformer_jax.data.vocabulary import Vocabulary
from transformer_jax.errors import UserError
from transformer_jax.inference.load import load_trained
from transformer_jax.inference.translation_metrics import Scores, score
from transformer_jax.model import Transformer
from transformer_jax.runtime import processes
from transformer_jax.runtime.memory import device_memory
from transformer_jax.runtime.progress import progress_bar
from transformer_jax.runtime.signals import Stopped, StopSignals
from transformer_jax.sharding import MeshLayout, make_mesh
from transformer_jax.storage.cache import cache_folder, keep_compiled_programs
from transformer_jax.storage.workdir import SavedRun, Workdir
from transformer_jax.training import resume_checks
from transformer_jax.training.corpus_loss import CorpusLoss, LossEvaluator
from transformer_jax.training.device_batches import device_batches
from transformer_jax.training.metrics_writer import MetricsWriter
from transformer_jax.training.optimizer import noam_schedule
from transformer_jax.training.preflight import (
    CompileCounter,
    Program,
    abstract_state,
    check_state,
    compile_steps,
    initial_state,
    known_speed,
    warn_of_empty_parts,
    warn_of_long_references,
    warn_of_normalization,
)
from transformer_jax.training.preflight import report as preflight_report
from transformer_jax.training.state import TrainState, Window, with_weights
from transformer_jax.translator import Translation, Translator, warn_of_cut_outputs

_logger = logging.getLogger('transformer_jax')
_EXAMPLES = 3  # translations kept in results.json
_TELLING_BLEU = 1.0  # up to here, BLEU does not tell whether a run makes progress


def train(config: Config, workdir: str | Path) -> dict[str, Any]:
    """Trains, or goes on with, the run in `workdir`, and scores it.

    All processes of a run call this alike.

    Args:
      config: of the run.
      workdir: its folder; made if need be. Every process has to see the same one.

    Returns:
      What results.json holds.

    Raises:
      UserError: if the data, the config or the folder do not allow it, or if the run cannot go on
        (a full disk, a loss that is not finite); the checkpoints so far are left whole.
      Stopped: if SIGTERM or Ctrl-C asked for it.
    """
    folder = Workdir(workdir)
    folder.check_writable()
    mesh = make_mesh(config.mesh)
    with StopSignals(processes.count() > 1) as stop, contextlib.ExitStack() as stack:
        saved = resume_checks.saved(folder, config)
        if saved is not None:
            if processes.is_first():
                stack.enter_context(folder.locked())
            results = folder.read_results()
            if (
                results is not None
                and results['finished'] == _finish_line(config)
                and _corpus(config) == _corpus(saved.config)
            ):
                _logger.info('This run is finished: %s holds its results.', folder.path)
                return results
        resume_checks.check_nothing_is_lost(folder, config, saved)
        going_on = saved is not None and os.path.exists(folder.vocabulary)
        vocabulary = (
            resume_checks.own_vocabulary(folder, config, saved)
            if going_on
            else resume_checks.inherited_vocabulary(config)
        )
        data = _prepare_in_turn(config, vocabulary)
        keep_compiled_programs(cache_folder(config.data.cache_dir))
        if saved is not None and saved.vocabulary_digest not in (None, data.vocabulary.digest):
            raise UserError(
                f'{str(folder.vocabulary)!r} is gone, and what would be made now is another one: '
                'restore it, or choose another --workdir.'
            )
        if saved is not None and saved.data_fingerprint != data.fingerprint:
            raise UserError(
                f'workdir={str(folder.path)!r} belongs to other data: the corpus has changed since '
                'its run began; restore the corpus, or choose another --workdir.'
            )
        abstract = abstract_state(config, data.vocabulary.size, mesh)
        check_state(config, abstract, device_memory(mesh.local_devices[0]))
        with folder.failures_to_write():
            if processes.is_first() and saved is None:
                stack.enter_context(folder.locked())
                # Another run may have begun and ended here meanwhile.
                resume_checks.saved(folder, config)
            processes.barrier('workdir')
            if saved is not None and folder.has_checkpoints():
                config = resume_checks.with_origin(config, saved)
            return _Run(config, folder, data, mesh, stop).finish()


def _prepare_in_turn(config: Config, vocabulary: Vocabulary | None) -> Data:
    """Prepares the data: the first process, then the others, who may find it in its cache."""
    if not processes.is_first():
        processes.barrier('prepared')
    data = prepare(config.data, vocabulary)
    if processes.is_first():
        processes.barrier('prepared')
    first = processes.broadcast_from_first('fingerprint', data.fingerprint)
    if data.fingerprint != first:
        raise UserError(
            f'data.corpus={config.data.corpus!r} is not the same for process '
            f'{processes.index()} as for process 0: give every process the same files, or one '
            'data.vocabulary for all.'
        )
    return data


class _Run:
    """What a run holds between start and finish."""

    def __init__(self, config: Config, folder: Workdir, data: Data, mesh: Mesh, stop: StopSignals):
        self.config, self.folder, self.data = config, folder, data
        self.mesh, self.stop = mesh, stop
        model = Transformer(config.model, data.vocabulary.size, MeshLayout(mesh))
        self.learning_rate = noam_schedule(
            config.model.d_model,
            config.optimizer.warmup_steps,
            config.optimizer.learning_rate_scale,
        )
        self.checkpoints = Checkpoints(
            folder.checkpoints,
            keep=config.train.keep,
            keep_best=config.train.keep_best,
            every=config.train.checkpoint_every,
        )
        abstract = abstract_state(config, data.vocabulary.size, mesh)
        # Of a state that goes on, no other takes up memory beside it.
        restored = self.checkpoints.restore_latest(abstract.items())
        self.state = (
            self._beginning()
            if restored is None
            else self._going_on(TrainState.from_items(restored))
        )
        self.start = int(self.state.step)
        # Of a window that a stop has cut, the part that this process did not see.
        self.tokens_before = int(self.state.window.sums.tokens)
        self.metrics = MetricsWriter(
            folder.metrics,
            folder.tensorboard,
            # A run that has no checkpoint yet begins anew, its evaluation before step 1 included.
            step=-1 if restored is None else self.start,
            read_only=not processes.is_first(),
        )
        self.corpus_loss = LossEvaluator(
            model, data.vocabulary, config.optimizer.label_smoothing, mesh
        )
        self.compilations = CompileCounter()

    def finish(self) -> dict[str, Any]:
        """Trains to the end, averages, and scores the test set."""
        try:
            self._announce()
            step, programs = self.start, None
            if step < self.config.train.steps:
                if self._out_of_patience():
                    _logger.warning(
                        'train.patience=%d has run out: dev BLEU has not risen in as many '
                        'evaluations. To train on, raise it, or set it to 0.',
                        self.config.train.patience,
                    )
                else:
                    programs = self._preflight()
            if processes.is_first():
                # Not before: a run that preflight refuses leaves its folder to the next try.
                self.data.vocabulary.save(self.folder.vocabulary)
                self.folder.write_run(
                    SavedRun(
                        self.config,
                        self.data.fingerprint,
                        self.data.split_fingerprints,
                        self.data.vocabulary.digest,
                    )
                )
            self._catch_up()
            if programs is not None and not self._out_of_patience():
                step = self._train(programs)
            if why := self.stop.pending():
                raise Stopped(
                    f'Stopped by {why} after step {step}, the last, which is saved: the same '
                    'command scores what was trained.'
                )
            results = self._results(step)
            if processes.is_first():
                self.folder.write_results(results)
            return results
        finally:
            self.checkpoints.close()
            self.metrics.close()

    def _going_on(self, state: TrainState) -> TrainState:
        """A state that was saved; where it is no longer right to skip steps, without a trace."""
        window = state.window
        if self.config.train.on_nonfinite == 'skip' or not int(window.first_skipped):
            return state
        _logger.warning(
            'Since the last log line before this start, %d steps were skipped, from step %d on.',
            int(window.skipped),
            int(window.first_skipped),
        )
        return state.replace(window=self._new_window(state)._replace(sums=window.sums))

    def _beginning(self) -> TrainState:
        """The state before step 1, with the weights of another run where there is one."""
        state = initial_state(self.config, self.data.vocabulary.size, self.mesh)
        origin = self.config.train.init_from
        if not origin:
            return state
        _, _, weights, steps = load_trained(origin, field='train.init_from')
        _logger.info('Beginning from %s: the mean of its checkpoints %s.', origin, steps)
        return with_weights(state, weights)

    def _announce(self) -> None:
        data, config = self.data, self.config
        parameters = sum(x.size for x in jax.tree.leaves(self.state.params))
        _logger.info(
            '%s parameters, vocabulary of %s, %s training pairs in %d shapes, '
            '%d batches an epoch (padding %.1f %%), on %d %s device%s%s.',
            f'{parameters:,}',
            f'{data.vocabulary.size:,}',
            f'{len(data.store) - data.plan.dropped:,}',
            len(data.plan.buckets),
            data.plan.batches_per_epoch,
            100 * data.plan.padding,
            self.mesh.size,
            jax.default_backend(),
            '' if self.mesh.size == 1 else 's',
            f' of {processes.count()} processes' if processes.count() > 1 else '',
        )
        if self.start > config.train.steps:
            _logger.warning(
                'The run has %d steps already, more than train.steps=%d: it is scored as it is. '
                'For a shorter one choose another --workdir.',
                self.start,
                config.train.steps,
            )
        elif self.start:
            _logger.info('Resuming after step %d of %d.', self.start, config.train.steps)

    def _preflight(self) -> dict[Bucket, Program]:
        """Compiles all that training and its evaluations will run, and says what to expect."""
        config, plan = self.config, self.data.plan
        self._check_sets()
        warn_of_empty_parts(config, plan.buckets, self.mesh)
        programs = compile_steps(
            config,
            self.data.vocabulary.size,
            plan.buckets,
            self.mesh,
            device_memory(self.mesh.local_devices[0], self.state),
            meanwhile=[self._compile_evaluation],
        )
        speed = known_speed(cache_folder(config.data.cache_dir), config, self.mesh)
        left = config.train.steps - self.start
        _logger.info('%s', preflight_report(programs, plan, speed, left))
        return programs

    def _check_sets(self) -> None:
        """A UserError if dev or test has what cannot be scored: not after days of training."""
        translator = self._translator(self.state.weights)
        for name, pairs, beam_size in (
            ('dev', self.data.dev, self.config.train.eval_beam_size),
            ('test', self.data.test, self.config.decode.beam_size),
        ):
            self.corpus_loss.check(self.state.weights, pairs, f'the {name} set')
            translator.check([source for source, _ in pairs], beam_size=beam_size)
        warn_of_long_references(self.data, self.config.decode.max_extra_length)
        targets = [target for _, target in self.data.dev]
        warn_of_normalization(self.data.vocabulary, targets, self.config.data.target_language)

    def _compile_evaluation(self) -> None:
        """Runs, on nothing, all that an evaluation, a log line and a checkpoint will run."""
        sources, _ = zip(*self.data.dev, strict=True)
        translator = self._translator(self.state.weights)
        translator.prepare(sources, beam_size=self.config.train.eval_beam_size)
        self.corpus_loss.prepare(self.state.weights, self.data.dev)
        self.checkpoints.prepare(self.state.items())
        self.learning_rate(np.int32(self.start))
        self._new_window(self.state)

    def _train(self, programs: dict[Bucket, Program]) -> int:
        """Steps until the last, or until patience runs out; returns the number of the last step.

        Raises:
          Stopped: if that was asked for, with all saved.
          UserError: if a step was not finite and train.on_nonfinite is 'stop'.
        """
        config = self.config.train
        self.compilations.lap()
        clock = _Clock()
        with (
            self.stop.deferred(),
            progress_bar('Training', total=config.steps, initial=self.start, unit=' steps') as bar,
        ):
            batches = device_batches(
                self.data.store,
                self.data.plan,
                {bucket: program.rows for bucket, program in programs.items()},
                self.mesh,
                self.start,
                self.data.subword_sampler,
            )
            for step, (bucket, batch) in enumerate(batches, self.start + 1):
                self.state = programs[bucket].run(self.state, batch)
                bar.update()
                last = step == config.steps
                why = None if last else self.stop.should_stop(step)
                if step % config.log_every == 0 or last:
                    self._log(step, clock, bar)
                if step % config.checkpoint_every == 0 or last or why:
                    if config.on_nonfinite == 'stop':  # skipped ones are told when they are logged
                        self._check_finite()
                    scores = None
                    if not why and self._is_evaluated(step):
                        try:
                            with clock.paused():
                                scores = self._evaluate(step)
                        except Stopped:  # the run evaluates when it goes on
                            why = self.stop.pending()
                    self.checkpoints.save(self.state.items(), scores)
                    ends = last or (scores is not None and self._out_of_patience())
                    if why or ends:
                        self.checkpoints.wait()
                    if ends:
                        if not last:
                            _logger.info(
                                'Stopping early: dev BLEU has not risen in %d evaluations.',
                                config.patience,
                            )
                        return step
                    if why:
                        raise Stopped(
                            f'Stopped by {why} after step {step} of {config.steps}, which is '
                            'saved: the same command goes on from there.'
                        )
        raise AssertionError('the feed has no end')

    def _is_evaluated(self, step: int) -> bool:
        return step % self.config.train.eval_every == 0 or step == self.config.train.steps

    def _catch_up(self) -> None:
        """Makes the evaluation that is due before the next step, if any.

        That is one that a stop has put off; and, of a run that begins with the weights of another,
        the one against which is seen whether the steps bring anything.
        """
        step = self.start
        if step == 0:
            if self.config.train.init_from:
                self.compilations.lap()
                self._evaluate(0)
            return
        if not self._is_evaluated(step) or step > self.config.train.steps:
            return
        of_step = [r for r in self.metrics.records if (r['kind'], r['step']) == ('dev', step)]
        evaluated = processes.broadcast_from_first('evaluated', 'yes' if of_step else '') == 'yes'
        if evaluated and self.checkpoints.scores.bleu(step) is not None:
            return
        if evaluated:
            scores = {'bleu': of_step[-1]['bleu']}
        else:
            if step == self.config.train.steps:  # there was no preflight
                self._compile_evaluation()
            self.compilations.lap()
            scores = self._evaluate(step)
        self.checkpoints.scores.add(step, scores)

    def _log(self, step: int, clock: '_Clock', bar: Any) -> None:
        """Writes the means since the last line, and begins a new window."""
        self._check_finite()
        window, taken = self._window_and_taken()
        seconds = clock.lap()
        tokens = int(window.sums.tokens)
        rate, self.tokens_before = (tokens - self.tokens_before) / seconds, 0
        # Where every step was skipped there is no loss, and none is written.
        sums = {'loss': window.sums.loss, 'nll': window.sums.nll} if tokens else {}
        means = {name: float(total) / tokens for name, total in sums.items()}
        record = {
            'step': step,
            'kind': 'train',
            **means,
            'learning_rate': float(self.learning_rate(taken - 1)),
            'target_tokens': tokens,
            'skipped_steps': int(window.skipped),
            'compilations': self.compilations.lap(),
            'target_tokens_per_second': rate,
            'seconds': seconds,
        }
        self.metrics.write(record)
        self.state = self.state.replace(window=self._new_window(self.state))
        loss = f'loss {means["loss"]:.3f}' if means else 'no step taken'
        bar.set_postfix_str(f'{loss}, {rate:,.0f} tokens/s, lr {record["learning_rate"]:.2e}')

    def _new_window(self, state: TrainState) -> Window:
        return jax.device_put(Window.empty(), state.step.sharding)

    def _window_and_taken(self) -> tuple[Window, int]:
        """What happened since the last log line; and the steps that the schedule has counted."""
        window, taken = jax.device_get((self.state.window, self.state.opt_state[0].count))
        return window, int(taken)

    def _check_finite(self) -> None:
        """Says which steps were not finite; a UserError unless they are to be skipped."""
        window, taken = self._window_and_taken()
        step = int(window.first_skipped)
        if not step:
            return
        epoch, index = self.data.plan.locate(step - 1)
        bucket, ids = self.data.plan.epoch(epoch)[index]
        # The schedule does not count the steps that were skipped before.
        before = step - 1 - (int(self.state.step) - taken - int(window.skipped))
        what = (
            f'the loss or the gradient of step {step} was not finite (learning rate '
            f'{float(self.learning_rate(before)):.2e}, batch {index} of epoch {epoch}: '
            f'{bucket.rows} pairs of up to {bucket.source_length} + {bucket.target_length} tokens, '
            f'the first of them pair {ids[0]})'
        )
        if self.config.train.on_nonfinite == 'skip':
            _logger.warning('Skipped %d steps: %s.', int(window.skipped), what)
            return
        steps = self.checkpoints.steps()
        kept = (
            f'the checkpoint of step {steps[-1]} is kept' if steps else 'no step was saved before'
        )
        raise UserError(
            f"train.on_nonfinite='stop' ends the run: {what}; {kept}. Set it to 'skip' to go on "
            'without such steps, or start anew with a lower optimizer.learning_rate_scale.'
        )

    def _evaluate(self, step: int) -> dict[str, float]:
        """Dev loss and dev BLEU; the record is on disk before the checkpoint it belongs to."""
        loss, scores, outputs = self._score(
            self.state.weights, self.data.dev, beam_size=self.config.train.eval_beam_size
        )
        record = {
            'step': step,
            'kind': 'dev',
            'loss': loss.loss,
            'perplexity': loss.perplexity,
            'bleu': scores.bleu,
            'chrf': scores.chrf,
            'cut_outputs': _cut(outputs),
            'compilations': self.compilations.lap(),
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

    def _translator(self, params: Any) -> Translator:
        return Translator(self.config, self.data.vocabulary, params, mesh=self.mesh)

    def _score(
        self, params: Any, pairs: list[tuple[str, str]], beam_size: int, progress: bool = False
    ) -> tuple[CorpusLoss, Scores, list[Translation]]:
        sources, references = zip(*pairs, strict=True)
        loss = self.corpus_loss(params, pairs)
        translator = self._translator(params)
        results = translator.translate(sources, beam_size=beam_size, progress=progress)
        outputs = [best for best, *_ in results]
        language = self.config.data.target_language
        texts = [output.text for output in outputs]
        return loss, score(texts, references, target_language=language), outputs

    def _out_of_patience(self) -> bool:
        """Whether the last `patience` evaluations brought nothing better than those before.

        Better is a higher BLEU; and, until BLEU says something, a lower loss. Evaluations in the
        warm-up are not counted: a rate that rises may bring a loss that rises for a while.
        """
        patience = self.config.train.patience
        dev = [record for record in self.metrics.records if record['kind'] == 'dev']
        before, last = dev[:-patience], dev[-patience:]
        if not patience or not before or last[0]['step'] <= self.config.optimizer.warmup_steps:
            return False
        (bleu_before, loss_before), (bleu, loss) = map(_best, (before, last))
        loss_counts = max(bleu_before, bleu) <= _TELLING_BLEU
        return bleu <= bleu_before and not (loss_counts and loss < loss_before)

    def _results(self, step: int) -> dict[str, Any]:
        decode = self.config.decode
        choice = CheckpointChoice()
        params, steps = averaging.average(
            self.checkpoints,
            choice.candidates(self.checkpoints, decode),
            choice.limit(decode),
            like=self.state.weights,
            largest_gap=choice.largest_gap(decode, self.checkpoints.every),
        )
        _logger.info('Scoring the test set with the mean of checkpoints %s.', steps)
        loss, scores, outputs = self._score(
            params, self.data.test, self.config.decode.beam_size, progress=True
        )
        warn_of_cut_outputs(_cut(outputs), len(outputs), decode)
        dev = [record for record in self.metrics.records if record['kind'] == 'dev']
        examples = [
            {'source': source, 'reference': reference, 'translation': output.text}
            for (source, reference), output in zip(self.data.test, outputs, strict=True)
        ]
        return {
            'finished': _finish_line(self.config),
            'step': step,
            'averaged_checkpoints': steps,
            'test': {
                'sentences': len(outputs),
                **loss._asdict(),
                **scores._asdict(),
                'cut_outputs': _cut(outputs),
            },
            'best_dev': max(dev, key=lambda record: record['bleu'], default=None),
            'examples': examples[-_EXAMPLES:],
        }


def _cut(outputs: list[Translation]) -> int:
    return sum(output.cut for output in outputs)


def _best(dev: list[dict[str, Any]]) -> tuple[float, float]:
    """The highest BLEU and the lowest loss of some evaluations."""
    return max(record['bleu'] for record in dev), min(record['loss'] for record in dev)


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


def _corpus(config: Config) -> DataConfig:
    """What names the data. Where another file is named, only its content tells whether it is."""
    return dataclasses.replace(config.data, cache_dir='', data_dir='', manual_dir='')
