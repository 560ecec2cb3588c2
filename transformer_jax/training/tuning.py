"""Chooses the kernels of the training step once for a run (train.tune).

In a deterministic program XLA tries no kernels. So the steps are compiled twice: in the first
program XLA tries kernels, and the second, which is run, finds them in XLA's memory.
"""

import base64
import json
import logging
import zlib
from collections.abc import Sequence

import jax
from jax.sharding import Mesh

from transformer_jax.config import Config, VocabSizes
from transformer_jax.data.batching.buckets import Bucket
from transformer_jax.errors import UserError, first_line
from transformer_jax.runtime import distributed, processes
from transformer_jax.runtime.autotuning import chosen_kernels, use_kernels
from transformer_jax.storage.cache import content_digest
from transformer_jax.storage.workdir import Workdir
from transformer_jax.training.compile import try_kernels

_logger = logging.getLogger('transformer_jax')


def tuned_kernels(
    config: Config,
    vocab_size: int | VocabSizes,
    buckets: Sequence[Bucket],
    mesh: Mesh,
    limit: int | None,
    folder: Workdir | None = None,
) -> dict[str, str] | None:
    """Let XLA choose the kernels of the training steps, or take those that the run has.

    Args:
      config: the run's config.
      vocab_size: V of both sides, or of each.
      buckets: the batch shapes.
      mesh: the devices.
      limit: bytes of memory of a device; None to compile whatever it needs.
      folder: the work directory, whose kernels are taken; None if there is none.

    Returns:
      The content of kernels.json; None if the steps take XLA's first kernels, because train.tune
      is off or the run's kernels are for other programs.

    Raises:
      UserError: if XLA chooses no kernels, or does not take those of the run.
    """
    if not config.train.tune:
        return None
    if jax.default_backend() != 'gpu':
        _logger.warning(
            'train.tune=True has no effect on a %s: XLA tries kernels for GPUs only.',
            jax.default_backend().upper(),
        )
        return None
    text = ''
    if processes.is_first():
        saved = None if folder is None else folder.read_kernels()
        kernels = {
            'device': mesh.local_devices[0].device_kind,
            'programs': _programs(config, vocab_size, buckets, mesh),
        }
        if saved is None:
            try_kernels(config, vocab_size, buckets, mesh, limit)
            kernels['results'] = chosen_kernels()
            if 'results' not in kernels['results']:
                raise UserError(
                    'train.tune=True: XLA has tried no kernels for this GPU: set it to False.'
                )
            text = _packed(kernels)
        elif _suits(saved, kernels, folder):
            text = _packed(saved)
    text = distributed.broadcast_from_first('kernels', text)
    if not text:
        return None
    kernels = json.loads(zlib.decompress(base64.b85decode(text)))
    try:
        use_kernels(kernels['results'])
    except ValueError as error:
        raise UserError(
            f'the kernels.json of {folder} cannot be used ({first_line(error)}): start the run in '
            'a new process, or remove the file, and XLA chooses kernels anew.'
        ) from error
    return kernels


def _packed(kernels: dict[str, str]) -> str:
    # A message to other processes is limited to some MB.
    return base64.b85encode(zlib.compress(json.dumps(kernels).encode())).decode()


def _suits(saved: dict[str, str], kernels: dict[str, str], folder: Workdir | None) -> bool:
    """Return whether a run's kernels are for this GPU and these programs; otherwise say so."""
    if saved['device'] != kernels['device']:
        difference = f'for a {saved["device"]}, and this GPU is a {kernels["device"]}'
    elif saved['programs'] != kernels['programs']:
        difference = 'for another version of JAX, another mesh or other batch shapes'
    else:
        return True
    _logger.warning(
        'The kernels.json of %s is %s: the training steps take the first kernels of XLA, as with '
        'train.tune=False. Remove the file, and XLA chooses kernels anew.',
        folder,
        difference,
    )
    return False


def _programs(
    config: Config, vocab_size: int | VocabSizes, buckets: Sequence[Bucket], mesh: Mesh
) -> str:
    """Return a digest of what the products of a step depend on, apart from the GPU."""
    versions = jax.__version__, mesh.local_devices[0].client.platform_version
    step = config.model, vocab_size, config.train.accumulate_steps, config.train.deterministic
    return content_digest(map(repr, (*versions, *step, *buckets, dict(mesh.shape))))
