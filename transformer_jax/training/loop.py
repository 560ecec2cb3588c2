"""The training loop: steps, log records, evaluations and checkpoints."""

import logging
from collections.abc import Mapping

from transformer_jax.checkpointing.dev_scores import quality
from transformer_jax.data.batching.buckets import Bucket
from transformer_jax.errors import figure
from transformer_jax.runtime import distributed
from transformer_jax.runtime.progress import progress_bar
from transformer_jax.runtime.signals import Stopped
from transformer_jax.training.checks.nonfinite import check_finite
from transformer_jax.training.compile import CompiledStep
from transformer_jax.training.device_batches import device_batches
from transformer_jax.training.logs.train_log import TrainLog
from transformer_jax.training.run import Run
from transformer_jax.training.scoring.evaluation import is_due, out_of_patience
from transformer_jax.training.state import TrainState

_logger = logging.getLogger('transformer_jax')


def fit(run: Run, state: TrainState, steps: Mapping[Bucket, CompiledStep]) -> TrainState:
    """Train until train.steps, or until patience runs out.

    Args:
      run: the run.
      state: the state to start from. It is consumed.
      steps: the compiled step of each bucket.

    Returns:
      The last state, already saved.

    Raises:
      Stopped: if a signal asked for it; the last step is saved.
      UserError: if a step was not finite and train.on_nonfinite is 'stop'.
    """
    config, data, start = run.config.train, run.data, int(state.step)
    run.compiled.new()
    log = TrainLog(run.metrics, run.learning_rate, run.compiled, state)
    with (
        run.stop.deferred(),
        progress_bar('Training', total=config.steps, initial=start, unit=' steps') as bar,
    ):
        rows = {bucket: step.rows for bucket, step in steps.items()}
        batches = device_batches(data.store, data.plan, rows, run.mesh, start, data.subword_sampler)
        for step, (bucket, batch) in enumerate(batches, start + 1):
            state = steps[bucket].run(state, batch)
            bar.update()
            last = step == config.steps
            signal = None if last else run.stop.should_stop(step)
            logs = step % config.log_every == 0 or last
            saves = step % config.checkpoint_every == 0 or last or signal
            # Skipped steps are reported with the log record only.
            if logs or (saves and config.on_nonfinite == 'stop'):
                check_finite(run, state)
            if logs:
                state = log.write(step, state, bar)
            if not saves:
                continue
            scores = None
            if not signal and is_due(run.config, step):
                try:
                    with log.paused():
                        scores = evaluate(run, state)
                except Stopped:  # the run evaluates when it resumes
                    signal = run.stop.pending()
            # Before the checkpoint, which is resumed with the metrics until its step.
            run.folder.publish()
            run.checkpoints.save(state.items(), scores)
            early = scores is not None and out_of_patience(run.config, run.metrics.records)
            if signal or last or early:
                run.checkpoints.wait()
            if early and not last:
                _logger.info(
                    'Stopping early: the dev score has not risen in %d evaluations.',
                    config.patience,
                )
            if last or early:
                return state
            if signal:
                raise Stopped(
                    f'Stopped by {signal} after step {step} of {config.steps}, which is saved: '
                    'the same command resumes from there.'
                )
    raise AssertionError('the batches have no end')


def evaluate(run: Run, state: TrainState) -> dict[str, float]:
    """Score the state on the dev set and write a record.

    The record is on disk before the checkpoint that it belongs to.

    Returns:
      The scores that the checkpoint stores.
    """
    step = int(state.step)
    found = run.evaluator.dev(state.weights)
    record = {
        'step': step,
        'kind': 'dev',
        'loss': found.loss.loss,
        'perplexity': found.loss.perplexity,
        **found.chosen_by,
        'chrf': found.scores.chrf,
        'cut_outputs': found.cut_outputs,
        'compilations': run.compiled.new(),
    }
    run.metrics.write(record)
    _logger.info(
        'Step %d: dev loss %s, perplexity %s, %s %.2f.',
        step,
        figure(found.loss.loss, '.3f'),
        figure(found.loss.perplexity, '.2f'),
        'BLEU' if found.brackets is None else 'F1',
        quality(found.chosen_by),
    )
    return found.chosen_by


def evaluate_if_due(run: Run, state: TrainState) -> None:
    """Make the evaluation that is due before the next step, if any.

    That is an evaluation that a stop has prevented. A run that starts from the weights of another
    is evaluated before step 1, to show what its steps bring.
    """
    step = int(state.step)
    if step == 0:
        if run.config.train.init_from:
            run.compiled.new()
            evaluate(run, state)
        return
    if not is_due(run.config, step) or step > run.config.train.steps:
        return
    of_step = [r for r in run.metrics.records if (r['kind'], r['step']) == ('dev', step)]
    evaluated = distributed.broadcast_from_first('evaluated', 'yes' if of_step else '') == 'yes'
    if evaluated and run.checkpoints.scores.quality(step) is not None:
        return
    if evaluated:
        scores = {name: of_step[-1][name] for name in ('bleu', 'f1') if name in of_step[-1]}
    else:
        if step == run.config.train.steps:  # nothing was compiled, since no step is left
            run.prepare_evaluation(state)
        run.compiled.new()
        scores = evaluate(run, state)
    run.checkpoints.scores.add(step, scores)
