"""Saves and restores checkpoints with Orbax: asynchronous, never half-written, checked."""

import errno
import json
import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from transformer_jax.checkpointing import dev_scores
from transformer_jax.checkpointing.checksums import Mismatch, check, checksums
from transformer_jax.checkpointing.retention import LatestAndBest
from transformer_jax.errors import UserError, first_line, in_bucket
from transformer_jax.runtime import distributed, processes
from transformer_jax.storage.buckets import json_files_in_bucket, move_folder

_logger = logging.getLogger('transformer_jax')
# Errors that mean "out of reach", not "damaged"; the last two are tensorstore's.
_OUT_OF_REACH = (
    *map(
        os.strerror,
        (errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENOMEM),
    ),
    'PERMISSION_DENIED',
    'RESOURCE_EXHAUSTED',
)

# A bucket has many errors of its network and its servers, so here damage is what has a name.
_DAMAGE = (Mismatch, FileNotFoundError, KeyError, json.JSONDecodeError)
_DAMAGE_IN_BUCKET = ('DATA_LOSS', 'NOT_FOUND', 'FAILED_PRECONDITION', 'OUT_OF_RANGE')


class Checkpoints:
    """The checkpoints of one work directory.

    A checkpoint is a dict of items, each a tree of arrays: 'params', for a run with a moving
    average also 'ema', and 'rest', whose 'step' is the number of the checkpoint. Items are stored
    apart, so that translating reads the parameters without the moments of Adam.

    Attributes:
      directory: the folder of the checkpoints.
      every: steps between two regular checkpoints.
      scores: the dev scores of the checkpoints.
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
        """Open `directory`, and create it unless `read_only`.

        Args:
          directory: the folder of the checkpoints, an etils.epath.Path for one in a bucket.
          keep: number of latest checkpoints to keep.
          keep_best: number of checkpoints with the highest dev score to keep in addition.
          every: steps between two regular checkpoints; see `LatestAndBest`.
          read_only: whether to save nothing and delete nothing.
        """
        self.directory = directory if in_bucket(directory) else directory.absolute()
        self.every = every
        self.scores = dev_scores.DevScores(self.directory)
        self._kept_a_save = False
        self._options = (
            # Orbax's own `read_only` logs a warning whenever a run is loaded.
            ocp.CheckpointManagerOptions(create=False, lightweight_initialize=True)
            if read_only
            else ocp.CheckpointManagerOptions(
                preservation_policy=LatestAndBest(keep, keep_best, every, self.scores.quality),
                cleanup_tmp_directories=True,  # from saves that were killed
                # Without this, damaged metadata of one checkpoint makes the folder unusable.
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
                'scores': ocp.JsonCheckpointHandler(filename=dev_scores.FILE_NAME),
            },
        )

    def steps(self) -> list[int]:
        """Return the steps of all checkpoints, ascending."""
        return sorted(self._manager.all_steps())

    def path(self, step: int) -> Path:
        """Return the folder of a checkpoint."""
        return self.directory / str(step)

    def prepare(self, items: dict[str, Any]) -> None:
        """Compile the program that `save` runs."""
        _checksums_of_items(items)

    def save(self, items: dict[str, Any], scores: dict[str, float] | None = None) -> None:
        """Start saving, and return as soon as the arrays may be overwritten.

        The first checkpoint is read back, so that a folder that does not keep it is noticed before
        anything is lost.

        Args:
          items: trees of arrays by name.
          scores: the dev scores of this step if it was evaluated; see `dev_scores.quality`.

        Raises:
          UserError: if the first checkpoint cannot be read back.
        """
        step = int(items['rest']['step'])
        saved = {name: ocp.args.PyTreeSave(tree) for name, tree in items.items()}
        sums = ocp.args.JsonSave(_checksums_of_items(items))
        if scores is not None:
            # Not as Orbax's metrics: damaged metrics would make the folder unusable.
            saved['scores'] = ocp.args.JsonSave(scores)
            self.scores.remember(step, scores)
        self._manager.save(step, args=ocp.args.Composite(checksums=sums, **saved))
        self._check_kept(step, items)

    def save_weights(self, step: int, weights: Any) -> None:
        """Save parameters alone. Training cannot resume from them.

        Args:
          step: the checkpoint's step.
          weights: nested dicts of arrays.
        """
        sums = ocp.args.JsonSave({'params': checksums(weights)})
        params = ocp.args.PyTreeSave(weights)
        self._manager.save(step, args=ocp.args.Composite(checksums=sums, params=params))
        self._check_kept(step, ['params'])

    def _check_kept(self, step: int, items: Iterable[str]) -> None:
        """Raise UserError if what was saved first cannot be read back."""
        if self._kept_a_save:
            return
        self._manager.wait_until_finished()
        # Opened again: in a bucket, Orbax takes the items for unfinished in all but one process.
        saved = Checkpoints(self.directory, read_only=True)
        try:
            for item in items:
                saved.restore_arrays(step, item)
        except Exception as error:  # orbax and tensorstore raise many kinds
            raise UserError(
                f'{str(self.directory)!r} does not keep what is saved there: the checkpoint of '
                f'step {step} cannot be read back ({first_line(error)}): choose another folder.'
            ) from error
        finally:
            saved.close()
        self._kept_a_save = True

    def restore_latest(self, like: dict[str, Any]) -> dict[str, Any] | None:
        """Return the items of the newest readable checkpoint, or None if nothing was ever saved.

        Damaged checkpoints are moved aside with a warning once an older one has been read.

        Args:
          like: items with the shapes, dtypes and shardings to restore; a `jax.ShapeDtypeStruct`
            in place of an array takes no memory.

        Raises:
          UserError: if a checkpoint cannot be reached now, or if all are damaged. Then nothing is
            moved.
        """
        wanted = {name: _restore_like(tree) for name, tree in like.items()}
        damaged = {}
        for step in reversed(self.steps()):
            try:
                restored = self._restore(step, **wanted)
                if (saved := int(restored['rest']['step'])) != step:
                    raise Mismatch(f'it is of step {saved}')
            except Exception as error:  # orbax and tensorstore raise many kinds
                self.check_in_reach(step, error)
                damaged[step] = first_line(error)
                continue
            for damaged_step, reason in damaged.items():
                self._quarantine(damaged_step, reason)
            return restored
        if damaged:
            newest, reason = next(iter(damaged.items()))
            raise UserError(
                f'none of the {len(damaged)} checkpoints in {str(self.directory)!r} can be read '
                f'(of step {newest}: {reason}): restore them, or choose another --workdir; nothing '
                'was changed.'
            )
        return None

    def check_in_reach(self, step: int, error: Exception) -> None:
        """Raise UserError if this failure must not be handled by using another checkpoint.

        The cause may lie outside the checkpoint (no permission, no memory), or this may be the only
        process that found the damage.

        Args:
          step: the checkpoint's step.
          error: the error that reading it raised.
        """
        out_of_reach = any(reason in str(error) for reason in _OUT_OF_REACH)
        if in_bucket(self.directory) and not isinstance(error, _DAMAGE):
            out_of_reach = not any(reason in str(error) for reason in _DAMAGE_IN_BUCKET)
        if out_of_reach:
            raise UserError(
                f'the checkpoint of step {step} in {str(self.directory)!r} cannot be read '
                f'({first_line(error)}): restore access, or move it away, then run the same '
                'command again; nothing was changed.'
            ) from error
        if processes.count() > 1 and not isinstance(error, Mismatch):
            # The other processes read other parts. They may have found no damage and wait.
            raise UserError(
                f'process {processes.index()} of {processes.count()} cannot read the checkpoint of '
                f'step {step} in {str(self.directory)!r} ({first_line(error)}): move it away, '
                'unless another process was lost, and start the job again; nothing was changed.'
            ) from error

    def _quarantine(self, step: int, reason: str) -> None:
        folder = self.directory.with_name(f'{self.directory.name}.damaged')
        aside, tries = folder / str(step), 0
        while aside.exists():
            tries += 1
            aside = folder / f'{step}-{tries}'
        _logger.warning(
            'The checkpoint of step %d is damaged (%s): the one before it is used, '
            'and the damaged one is moved to %s.',
            step,
            reason,
            aside,
        )
        distributed.barrier(f'name for the damaged checkpoint of step {step}')
        if processes.is_first():
            move_folder(self.directory / str(step), aside)
        distributed.barrier(f'damaged checkpoint of step {step}')
        # Orbax's own `reload` fails at damaged metadata of any other checkpoint.
        self._manager.close()
        self._manager = self._opened()

    def wait(self) -> None:
        """Wait until everything is on disk; raise any error of saving it."""
        self._manager.wait_until_finished()

    def close(self) -> None:
        """Wait, then end the threads of Orbax."""
        self._manager.close()

    def restore_arrays(self, step: int, *items: str) -> dict[str, Any]:
        """Return items of one checkpoint as NumPy arrays, whatever devices they were saved from.

        Args:
          step: the checkpoint's step.
          *items: names of items; by default 'params' and 'rest'.
        """

        def as_numpy(item: str) -> ocp.args.PyTreeRestore:
            metadata = self._manager.item_metadata(step)[item]
            numpy = ocp.RestoreArgs(restore_type=np.ndarray)
            return ocp.args.PyTreeRestore(restore_args=jax.tree.map(lambda _: numpy, metadata.tree))

        self._check_files(step)  # before the metadata is read as well
        return self._restore(step, **{item: as_numpy(item) for item in items or ('params', 'rest')})

    def restore_weights(self, step: int, like: Any = None) -> Any:
        """Return the parameters to translate with: the moving average if the checkpoint has one.

        Args:
          step: the checkpoint's step.
          like: parameters whose shardings the result gets; None returns NumPy arrays.
        """
        # Ask the checksums, so that a moving average that was lost counts as damage.
        item = 'ema' if 'ema' in self._read(step)['checksums'] else 'params'
        if like is None:
            return self.restore_arrays(step, item)[item]
        return self._restore(step, **{item: _restore_like(like)})[item]

    def _restore(self, step: int, **wanted: ocp.args.PyTreeRestore) -> dict[str, Any]:
        """Read items and compare them with their checksums."""
        restored = self._read(step, **wanted)
        for item in wanted:
            check(restored[item], restored['checksums'][item], item)
        return {item: restored[item] for item in wanted}

    def _read(self, step: int, **wanted: ocp.args.PyTreeRestore) -> Any:
        """Read items and their checksums."""
        self._check_files(step)
        args = ocp.args.Composite(checksums=ocp.args.JsonRestore(), **wanted)
        return self._manager.restore(step, args=args)

    def _check_files(self, step: int) -> None:
        """Raise Mismatch for files on which Orbax would wait or crash.

        These are pipes and devices, and JSON that is nested so deeply that it overflows the stack.
        """
        is_far = in_bucket(self.directory)
        files = json_files_in_bucket(self.path(step)) if is_far else self._json_files(step)
        for name, content in files:
            try:
                json.loads(content)
            except RecursionError:
                raise Mismatch(f'its {name} is nested too deeply') from None
            except ValueError:
                pass  # if Orbax reads the file, Orbax says what is wrong with it

    def _json_files(self, step: int) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of the files of a checkpoint that look like JSON."""
        for folder, _, names in os.walk(self.path(step)):
            for path in (Path(folder) / name for name in names):
                name = str(path.relative_to(self.directory))
                if not os.path.isfile(path):
                    raise Mismatch(f'its {name} is not a file')
                with path.open('rb') as file:
                    is_json = file.read(1) in (b'{', b'[')
                if is_json:
                    yield name, path.read_bytes()


def _array_handler() -> ocp.PyTreeCheckpointHandler:
    """Return a handler that writes replicated arrays from one device.

    By default Orbax slices them across all devices, with a program for each shape and device, and
    training waits for that.
    """
    types = ocp.type_handlers
    registry = types.create_type_handler_registry(
        (jax.Array, types.ArrayHandler(use_replica_parallel=False)),
        (np.ndarray, types.NumpyHandler()),
    )
    return ocp.PyTreeCheckpointHandler(type_handler_registry=registry)


def _checksums_of_items(items: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {name: checksums(tree) for name, tree in items.items()}


def _restore_like(tree: Any) -> ocp.args.PyTreeRestore:
    """Request a tree of the same shapes, dtypes and shardings."""
    abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, tree)
    args = ocp.checkpoint_utils.construct_restore_args(abstract)
    return ocp.args.PyTreeRestore(item=abstract, restore_args=args)
