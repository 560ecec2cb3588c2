"""Checkpoints through orbax: written asynchronously, never half, the latest n and the best kept."""

import logging
import shutil
import zlib
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import preservation_policy as policies

from transformer_jax.errors import first_line
from transformer_jax.training.state import TrainState

_logger = logging.getLogger('transformer_jax')


class Checkpoints:
    """The checkpoints of one work directory.

    Parameters are an item of their own, so that translating reads them alone, not Adam's moments.
    """

    def __init__(self, directory: Path, *, keep: int = 1, read_only: bool = False):
        """Opens `directory`, creating it unless `read_only`.

        Args:
          directory: of the checkpoints.
          keep: latest ones kept; the one of highest dev BLEU is kept besides.
          read_only: neither saves nor cleans up.
        """
        self.directory = directory.absolute()
        policy = policies.AnyPreservationPolicy(
            [
                policies.LatestN(keep),
                policies.BestN(
                    get_metric_fn=lambda metrics: metrics['bleu'],
                    n=1,
                    keep_checkpoints_without_metrics=False,
                ),
            ]
        )
        options = (
            ocp.CheckpointManagerOptions(read_only=True, save_interval_steps=0, create=False)
            if read_only
            else ocp.CheckpointManagerOptions(preservation_policy=policy)
        )
        self._manager = ocp.CheckpointManager(
            self.directory,
            options=options,
            item_handlers={
                'params': ocp.PyTreeCheckpointHandler(),
                'rest': ocp.PyTreeCheckpointHandler(),
                'checksums': ocp.JsonCheckpointHandler(),
            },
        )

    def steps(self) -> list[int]:
        """The steps there are checkpoints of, ascending."""
        return sorted(self._manager.all_steps())

    def save(self, state: TrainState, metrics: dict[str, float] | None = None) -> None:
        """Starts saving `state` and returns as soon as it may be overwritten.

        Args:
          state: what to save.
          metrics: dev scores of this step, where it was evaluated; 'bleu' decides which is best.
        """
        rest = {'step': state.step, 'opt_state': state.opt_state, 'window': state.window}
        self._manager.save(
            int(state.step),
            args=ocp.args.Composite(
                params=ocp.args.PyTreeSave(state.params),
                rest=ocp.args.PyTreeSave(rest),
                checksums=ocp.args.JsonSave(
                    {'params': _checksum(state.params), 'rest': _checksum(rest)}
                ),
            ),
            metrics=metrics,
        )

    def restore_latest(self, like: TrainState) -> TrainState | None:
        """The newest state that can be read, laid out as `like`; None where there is none.

        A damaged checkpoint is moved aside, named in a warning, and the one before it is tried.
        """
        rest = {'step': like.step, 'opt_state': like.opt_state, 'window': like.window}
        for step in reversed(self.steps()):
            try:
                restored = self._restore(
                    step, params=_restore_like(like.params), rest=_restore_like(rest)
                )
            except Exception as error:  # orbax and tensorstore raise many kinds
                aside = self.directory.with_name(f'{self.directory.name}.damaged')
                _logger.warning(
                    'The checkpoint of step %d is damaged (%s): going back to the one before; '
                    'the damaged one is moved to %s.',
                    step,
                    first_line(error),
                    aside / str(step),
                )
                aside.mkdir(exist_ok=True)
                shutil.rmtree(aside / str(step), ignore_errors=True)
                shutil.move(self.directory / str(step), aside / str(step))
                self._manager.reload()
                continue
            return TrainState(params=restored['params'], **restored['rest'])
        return None

    def average(self, count: int) -> tuple[Any, list[int]]:
        """The mean of the parameters of the latest `count` readable checkpoints.

        Returns:
          Parameters as NumPy arrays, and the steps they come from, ascending.

        Raises:
          FileNotFoundError: if no checkpoint can be read.
        """
        total, used = None, []
        for step in reversed(self.steps()):
            if len(used) == count:
                break
            try:
                params = self.restore_arrays(step, 'params')['params']
            except Exception as error:  # orbax and tensorstore raise many kinds
                _logger.warning(
                    'The checkpoint of step %d is damaged (%s) and left out.',
                    step,
                    first_line(error),
                )
                continue
            total = params if total is None else jax.tree.map(np.add, total, params)
            used.append(step)
        if not used:
            raise FileNotFoundError(f'no readable checkpoint in {self.directory}')
        return jax.tree.map(lambda x: x / np.float32(len(used)), total), used[::-1]

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

        return self._restore(step, **{item: as_numpy(item) for item in items or ('params', 'rest')})

    def _restore(self, step: int, **wanted: ocp.args.PyTreeRestore) -> dict[str, Any]:
        """Reads items and holds them against their checksums, which orbax itself does not keep."""
        args = ocp.args.Composite(checksums=ocp.args.JsonRestore(), **wanted)
        restored = self._manager.restore(step, args=args)
        for item in wanted:
            if _checksum(restored[item]) != restored['checksums'][item]:
                raise ValueError(f'its {item} do not match their checksum')
        return {item: restored[item] for item in wanted}


def _checksum(tree: Any) -> int:
    # A sum, since a tree read without its like has other containers and so another order.
    return sum(zlib.crc32(np.ascontiguousarray(leaf)) for leaf in jax.tree.leaves(tree))


def _restore_like(tree: Any) -> ocp.args.PyTreeRestore:
    """Asks for a tree of the same shapes, dtypes and places on the devices."""
    abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, tree)
    args = ocp.checkpoint_utils.construct_restore_args(abstract)
    return ocp.args.PyTreeRestore(item=abstract, restore_args=args)
