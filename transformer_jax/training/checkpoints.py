"""Checkpoints through orbax: written asynchronously, never half, the latest n and the best kept."""

import dataclasses
import errno
import itertools
import json
import logging
import math
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import preservation_policy as policies

from transformer_jax import processes
from transformer_jax.errors import UserError, first_line
from transformer_jax.files import read_json, written_whole
from transformer_jax.stopping import stop_if_requested
from transformer_jax.training.state import TrainState

_logger = logging.getLogger('transformer_jax')
# Why a checkpoint that is whole may not be readable for the moment; tensorstore's own words, too.
_OUT_OF_REACH = (
    *map(
        os.strerror,
        (errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENOMEM),
    ),
    'PERMISSION_DENIED',
    'RESOURCE_EXHAUSTED',
)


class Checkpoints:
    """The checkpoints of one work directory.

    Parameters are an item of their own, so that translating reads them alone, not Adam's moments.
    """

    def __init__(
        self,
        directory: Path,
        *,
        keep: int = 1,
        keep_best: int = 1,
        every: int = 1,
        read_only: bool = False,
    ):
        """Opens `directory`, creating it unless `read_only`.

        Args:
          directory: of the checkpoints.
          keep: latest ones kept.
          keep_best: ones of the highest dev BLEU kept besides.
          every: steps between two; one that a stop has put between them stays while it is the
            newest, so that in the end a run has what it would have had without the stop. `ranked`
            knows by it which are the latest.
          read_only: neither saves nor cleans up.
        """
        self.directory = directory.absolute()
        self._every = every
        self._known_bleu: dict[int, float | None] = {}
        self._kept_a_save = False
        self._options = (
            # Its own `read_only` warns whoever loads a run that the folder is.
            ocp.CheckpointManagerOptions(create=False, lightweight_initialize=True)
            if read_only
            else ocp.CheckpointManagerOptions(
                preservation_policy=_LatestAndBest(keep, keep_best, every, self._bleu),
                cleanup_tmp_directories=True,  # of saves that were killed midway
                # Else damaged metadata of one checkpoint would keep it from opening the folder.
                lightweight_initialize=True,
            )
        )
        self._manager = self._opened()

    def _opened(self) -> ocp.CheckpointManager:
        return ocp.CheckpointManager(
            self.directory,
            options=self._options,
            item_handlers={
                **{item: _array_handler() for item in ('params', 'ema', 'rest')},
                'checksums': ocp.JsonCheckpointHandler(),
                'scores': ocp.JsonCheckpointHandler(filename='scores.json'),
            },
        )

    def steps(self) -> list[int]:
        """The steps there are checkpoints of, ascending."""
        return sorted(self._manager.all_steps())

    def prepare(self, state: TrainState) -> None:
        """Compiles what `save` runs."""
        _checksums_of_items(state)

    def save(self, state: TrainState, scores: dict[str, float] | None = None) -> None:
        """Starts saving `state` and returns as soon as it may be overwritten.

        The first checkpoint is waited for and read back: a folder that does not keep what is saved
        there is noticed while nothing is lost.

        Args:
          state: what to save.
          scores: of this step on dev, where it was evaluated; 'bleu' decides which is best.

        Raises:
          UserError: if the first checkpoint cannot be read back.
        """
        step, items = int(state.step), _items(state)
        saved = {name: ocp.args.PyTreeSave(tree) for name, tree in items.items()}
        sums = ocp.args.JsonSave(_checksums_of_items(state))
        if scores is not None:
            # Not orbax's own metrics: damaged ones would keep it from opening the folder.
            saved['scores'] = ocp.args.JsonSave(scores)
            self._known_bleu[step] = scores['bleu']
        self._manager.save(step, args=ocp.args.Composite(checksums=sums, **saved))
        self._check_kept(step, items)

    def add_scores(self, step: int, scores: dict[str, float]) -> None:
        """Adds the scores of a checkpoint whose evaluation a stop has put off.

        Args:
          step: of the checkpoint.
          scores: as for `save`.
        """
        self._known_bleu[step] = scores['bleu']
        if processes.is_first():
            path = self._scores_file(step)
            path.parent.mkdir(exist_ok=True)
            with written_whole(path) as file:
                json.dump(scores, file)

    def has_scores(self, step: int) -> bool:
        """Whether a checkpoint has its dev scores."""
        return self._bleu(step) is not None

    def save_weights(self, step: int, weights: Any) -> None:
        """Saves parameters alone, from which no training can go on.

        Args:
          step: what to call the checkpoint.
          weights: nested dicts of arrays.
        """
        sums = ocp.args.JsonSave({'params': checksums(weights)})
        params = ocp.args.PyTreeSave(weights)
        self._manager.save(step, args=ocp.args.Composite(checksums=sums, params=params))
        self._check_kept(step, ['params'])

    def _check_kept(self, step: int, items: Iterable[str]) -> None:
        """Raises a UserError if what was saved first cannot be read back."""
        if self._kept_a_save:
            return
        self._manager.wait_until_finished()
        for item in items:
            try:
                self.restore_arrays(step, item)
            except Exception as error:  # orbax and tensorstore raise many kinds
                raise UserError(
                    f'{str(self.directory)!r} does not keep what is saved there: the checkpoint of '
                    f'step {step} cannot be read back ({first_line(error)}): choose another place.'
                ) from error
        self._kept_a_save = True

    def restore_latest(self, like: TrainState) -> TrainState | None:
        """The newest state that can be read, laid out as `like`; None if nothing was ever saved.

        Damaged checkpoints are moved aside, and named in warnings, once one before them is read.

        Args:
          like: arrays, or a `jax.ShapeDtypeStruct` for each, which take no memory.

        Raises:
          UserError: if a checkpoint cannot be read for the moment, or all are damaged; they are
            left as they are then.
        """
        wanted = {name: _restore_like(tree) for name, tree in _items(like).items()}
        damaged = {}
        for step in reversed(self.steps()):
            try:
                restored = self._restore(step, **wanted)
                if (saved := int(restored['rest']['step'])) != step:
                    raise _Mismatch(f'it is of step {saved}')
            except Exception as error:  # orbax and tensorstore raise many kinds
                self._check_in_reach(step, error)
                damaged[step] = first_line(error)
                continue
            for step, reason in damaged.items():
                self._put_aside(step, reason)
            return TrainState(
                params=restored['params'], ema=restored.get('ema'), **restored['rest']
            )
        if damaged:
            step, reason = next(iter(damaged.items()))
            raise UserError(
                f'none of the {len(damaged)} checkpoints in {str(self.directory)!r} can be read '
                f'(of step {step}: {reason}): restore them, or choose another --workdir; nothing '
                'was changed.'
            )
        return None

    def _check_in_reach(self, step: int, error: Exception) -> None:
        """Raises a UserError where another checkpoint is not to take the place of this one.

        What went wrong may say nothing of the checkpoint itself; or, where there are many
        processes, this one alone may know that it is damaged.
        """
        if any(reason in str(error) for reason in _OUT_OF_REACH):
            raise UserError(
                f'the checkpoint of step {step} in {str(self.directory)!r} cannot be read '
                f'({first_line(error)}): restore access, or move it away, then run the same '
                'command again; nothing was changed.'
            ) from error
        if processes.count() > 1 and not isinstance(error, _Mismatch):
            # The others, which read other parts of it, may have found nothing and wait.
            raise UserError(
                f'process {processes.index()} of {processes.count()} cannot read the checkpoint of '
                f'step {step} in {str(self.directory)!r} ({first_line(error)}): move it away, '
                'unless another process was lost, and start the job again; nothing was changed.'
            ) from error

    def _put_aside(self, step: int, reason: str) -> None:
        folder = self.directory.with_name(f'{self.directory.name}.damaged')
        aside, tries = folder / str(step), 0
        while aside.exists():
            tries += 1
            aside = folder / f'{step}-{tries}'
        _logger.warning(
            'The checkpoint of step %d is damaged (%s): going back to the one before; '
            'the damaged one is moved to %s.',
            step,
            reason,
            aside,
        )
        processes.wait_for_all(f'name for the damaged checkpoint of step {step}')
        if processes.is_first():
            folder.mkdir(exist_ok=True)
            shutil.move(self.directory / str(step), aside)
        processes.wait_for_all(f'damaged checkpoint of step {step}')
        # Not by its own `reload`, which fails at damaged metadata of any other checkpoint.
        self._manager.close()
        self._manager = self._opened()

    def ranked(self, which: str = 'latest') -> list[int]:
        """Steps of checkpoints, the 'latest' first, or of those with dev BLEU, the 'best' first.

        The latest end at a gap: what lies behind one was kept as one of the best, may be old, and
        has no place in their mean.

        Raises:
          UserError: if `which` is neither.
        """
        if which not in ('latest', 'best'):
            raise UserError(f"average={which!r} must be 'latest' or 'best'.")
        steps = self.steps()[::-1]
        if which == 'latest':
            # A single one may be missing: damaged ones are put aside.
            near = (new - old <= 2 * self._every for new, old in itertools.pairwise(steps))
            return steps[: 1 + len(list(itertools.takewhile(bool, near)))]
        bleu = {step: self._bleu(step) for step in steps}
        return sorted((s for s in steps if bleu[s] is not None), key=lambda s: -bleu[s])

    def ranked_or_latest(self, which: str) -> list[int]:
        """As `ranked`; where no checkpoint has a dev BLEU yet, the latest, and a warning."""
        ranked = self.ranked(which)
        if not ranked and self.steps():
            _logger.warning('No checkpoint has a dev BLEU yet: the latest are taken.')
            ranked = self.ranked()
        return ranked

    def average(
        self, steps: Sequence[int], count: int | None = None, like: Any = None
    ) -> tuple[Any, list[int]]:
        """The mean of the weights of checkpoints, of their moving averages where these were saved.

        Args:
          steps: of checkpoints. One that cannot be read is named in a warning and left out.
          count: how many of them, the first that can be read; None for all.
          like: parameters to lay the result out as; None gives NumPy arrays.

        Returns:
          Parameters, and the steps they come from, ascending.

        Raises:
          UserError: if one cannot be read for the moment.
          FileNotFoundError: if there is none that is not damaged.
        """
        total, used = None, []
        for step in steps:
            if len(used) == count:
                break
            stop_if_requested()
            try:
                item = self._weights_item(step)
                params = (
                    self.restore_arrays(step, item)
                    if like is None
                    else self._restore(step, **{item: _restore_like(like)})
                )[item]
            except Exception as error:  # orbax and tensorstore raise many kinds
                self._check_in_reach(step, error)
                gone = not os.path.exists(self.directory / str(step))
                what = 'deleted meanwhile' if gone else f'damaged ({first_line(error)})'
                _logger.warning('The checkpoint of step %d is %s and left out.', step, what)
                continue
            total = params if total is None else jax.tree.map(lambda a, b: a + b, total, params)
            used.append(step)
        if not used:
            raise FileNotFoundError(f'no readable checkpoint in {self.directory}')
        # Not divided: XLA's quotients are not NumPy's, and the score at the end of a run would not
        # be that of `evaluate`.
        share = np.float32(1 / len(used))
        return jax.tree.map(lambda x: x * share, total), sorted(used)

    def _bleu(self, step: int) -> float | None:
        """Dev BLEU of a checkpoint; None where it has none that can be read."""
        if step not in self._known_bleu:
            try:
                self._known_bleu[step] = read_json(self._scores_file(step), {'bleu': float})['bleu']
            except (OSError, ValueError):
                self._known_bleu[step] = None
        return self._known_bleu[step]

    def _scores_file(self, step: int) -> Path:
        return self.directory / str(step) / 'scores' / 'scores.json'

    def _weights_item(self, step: int) -> str:
        """The item to translate with, by what was saved: an average that is lost is damage."""
        return 'ema' if 'ema' in self._read(step)['checksums'] else 'params'

    def wait(self) -> None:
        """Returns when everything is on disk; raises what went wrong on the way."""
        self._manager.wait_until_finished()

    def close(self) -> None:
        """Waits, then lets go of the threads."""
        self._manager.close()

    def restore_arrays(self, step: int, *items: str) -> dict[str, Any]:
        """The items of one checkpoint ('params', 'rest'; all unless named) as NumPy arrays.

        They load on any machine, whatever devices they were saved from.
        """

        def as_numpy(item: str) -> ocp.args.PyTreeRestore:
            metadata = self._manager.item_metadata(step)[item]
            numpy = ocp.RestoreArgs(restore_type=np.ndarray)
            return ocp.args.PyTreeRestore(restore_args=jax.tree.map(lambda _: numpy, metadata.tree))

        self._check_files(step)  # before the metadata is read as well
        return self._restore(step, **{item: as_numpy(item) for item in items or ('params', 'rest')})

    def _restore(self, step: int, **wanted: ocp.args.PyTreeRestore) -> dict[str, Any]:
        """Reads items and holds them against their checksums, which orbax itself does not keep."""
        restored = self._read(step, **wanted)
        for item in wanted:
            for name, found in checksums(restored[item]).items():
                if found != restored['checksums'][item][name]:
                    raise _Mismatch(f'its {item}/{name} does not match its checksum')
        return {item: restored[item] for item in wanted}

    def _read(self, step: int, **wanted: ocp.args.PyTreeRestore) -> Any:
        """Reads items and their checksums."""
        self._check_files(step)
        args = ocp.args.Composite(checksums=ocp.args.JsonRestore(), **wanted)
        return self._manager.restore(step, args=args)

    def _check_files(self, step: int) -> None:
        """Raises a ValueError for files that Orbax would wait for, or die of.

        These are pipes and devices, and JSON so deep that it overflows the stack.
        """
        for folder, _, names in os.walk(self.directory / str(step)):
            for path in (Path(folder) / name for name in names):
                name = path.relative_to(self.directory)
                if not os.path.isfile(path):
                    raise _Mismatch(f'its {name} is not a file')
                with path.open('rb') as file:
                    if file.read(1) not in (b'{', b'['):
                        continue
                try:
                    json.loads(path.read_bytes())
                except RecursionError:
                    raise _Mismatch(f'its {name} is nested too deeply') from None
                except ValueError:
                    pass  # Orbax says what is wrong with it, if it reads it


def _array_handler() -> ocp.PyTreeCheckpointHandler:
    """Writes what devices hold alike from one of them.

    Orbax would take a part from each, cut by a program of its own for each shape and device, one
    after the other, while training waits: with base on eight devices for seconds.
    """
    types = ocp.type_handlers
    registry = types.create_type_handler_registry(
        (jax.Array, types.ArrayHandler(use_replica_parallel=False)),
        (np.ndarray, types.NumpyHandler()),
    )
    return ocp.PyTreeCheckpointHandler(type_handler_registry=registry)


class _Mismatch(ValueError):
    """Arrays that are not those that were saved, which all processes find together."""


@dataclasses.dataclass
class _LatestAndBest(policies.PreservationPolicy):
    """Keeps the latest checkpoints and those of the highest BLEU."""

    latest: int
    best: int
    every: int
    bleu: Callable[[int], float | None]

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
        """For each checkpoint, the oldest first, whether it stays."""
        steps = [checkpoint.step for checkpoint in checkpoints]
        scored = [step for step in steps if self.bleu(step) is not None]
        best = sorted(scored, key=self.bleu)[-self.best :]
        latest = [step for step in steps[:-1] if step % self.every == 0] + steps[-1:]
        return [step in best or step in latest[-self.latest :] for step in steps]


def _items(state: TrainState) -> dict[str, Any]:
    average = {} if state.ema is None else {'ema': state.ema}
    return {
        'params': state.params,
        **average,
        'rest': {'step': state.step, 'opt_state': state.opt_state, 'window': state.window},
    }


def _checksums_of_items(state: TrainState) -> dict[str, dict[str, int]]:
    return {name: checksums(tree) for name, tree in _items(state).items()}


def checksums(tree: Any) -> dict[str, int]:
    """A checksum of each array's bits by its path: the same on any mesh, and for NumPy arrays.

    It is linear, so that devices each sum what they hold; a change of one word never goes unseen.
    """
    paths, leaves = zip(*jax.tree_util.tree_leaves_with_path(tree), strict=True)
    if all(isinstance(leaf, np.ndarray) for leaf in leaves):
        sums = [_checksum(leaf, np) for leaf in leaves]
    else:
        sums = jax.device_get(_checksums_on_devices(leaves))
    names = [jax.tree_util.keystr(path, simple=True, separator='/') for path in paths]
    return dict(zip(names, map(int, sums), strict=True))


def _checksum(x: Any, np_or_jnp: Any) -> Any:
    """The sum of all 32-bit words, each times an odd number made of its index, modulo 2^32."""
    words = x.view(np.uint32).reshape(x.shape)
    index = np_or_jnp.zeros(x.shape, np.uint32)
    for axis, size in enumerate(x.shape):
        along = np_or_jnp.arange(size, dtype=np.uint32) * np.uint32(
            math.prod(x.shape[axis + 1 :]) % 2**32
        )
        index = index + along.reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    weights = (index * np.uint32(0x9E3779B1)) | np.uint32(1)
    return (words * weights).sum(dtype=np.uint32)


@jax.jit  # one program for all: many small ones at a time can lock up the threads of CPU devices
def _checksums_on_devices(leaves: tuple[jax.Array, ...]) -> list[jax.Array]:
    return [_checksum(leaf, jnp) for leaf in leaves]


def _restore_like(tree: Any) -> ocp.args.PyTreeRestore:
    """Asks for a tree of the same shapes, dtypes and places on the devices."""
    abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, tree)
    args = ocp.checkpoint_utils.construct_restore_args(abstract)
    return ocp.args.PyTreeRestore(item=abstract, restore_args=args)
