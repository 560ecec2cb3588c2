"""Programs that translate a batch of token ids, exported for several platforms by `jax.export`.

See https://docs.jax.dev/en/latest/export/export.html.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import export

from transformer_jax.config import ModelConfig, VocabSizes
from transformer_jax.decoding import SearchOptions
from transformer_jax.inference.network import Ensemble
from transformer_jax.model import Transformer, in_compute_dtype
from transformer_jax.model.kernels.platform import for_any_platform
from transformer_jax.translating.batch_decoder import Batch, search_batch

PLATFORMS = ('cpu', 'cuda', 'tpu')
ANY = 'any'

# From parameters by name and [B, S] int32 ids to 'tokens' [B, T], 'lengths' [B], 'scores' [B] and
# 'log_probs' [B].
TranslateFn = Callable[[dict[str, Any], Any], dict[str, jax.Array]]


@dataclasses.dataclass(frozen=True)
class Program:
    """A shape of batches, and the name of its file.

    Attributes:
      rows: B; None stands for any number.
      length: S; None stands for any number.
    """

    rows: int | None
    length: int | None

    @property
    def file(self) -> str:
        """Name of the program's file."""
        rows = ANY if self.rows is None else f'{self.rows:03}'
        length = ANY if self.length is None else f'{self.length:03}'
        return f'translate_b{rows}_s{length}.stablehlo'


def translate_fn(
    config: ModelConfig, vocab_size: VocabSizes, options: SearchOptions, eos_id: int
) -> TranslateFn:
    """Return the function that translates a batch of token ids; its weights are an argument.

    It is the search that `translate` runs, with the best output of each sentence. The outputs of a
    row of padding are EOS alone.

    Args:
      config: the model's config; its dtype is that of the matrix products on all platforms.
      vocab_size: V of each side.
      options: what the search looks for.
      eos_id: the token that ends a source and an output.
    """
    ensemble = Ensemble((Transformer.of(config, vocab_size),))

    def translate(params: dict[str, Any], source: jax.Array) -> dict[str, jax.Array]:
        params = _nested({name: x.astype(jnp.float32) for name, x in params.items()})
        variables = ({'params': in_compute_dtype(config, params)},)
        numbers_B = jnp.zeros(source.shape[0], jnp.int32)  # of lines, which only sampling uses
        found = search_batch(
            variables,
            ensemble.start_decoding(variables, source),
            Batch(source, numbers_B, numbers_B),
            options,
            ensemble=ensemble,
            eos_id=eos_id,
        )
        return {name: x[:, 0] for name, x in found._asdict().items()}

    return translate


def export_program(
    translate: TranslateFn,
    params: dict[str, Any],
    program: Program,
    options: SearchOptions,
    limit: int,
) -> export.Exported:
    """Export a function for a shape of batches and for all `PLATFORMS`.

    Args:
      translate: from `translate_fn`.
      params: a `jax.ShapeDtypeStruct` for each parameter, by name.
      program: the shape.
      options: those of `translate`.
      limit: most tokens of a source, 0 for no limit.
    """
    rows, length = program.rows, program.length
    # Comparisons of sizes must have an answer while the length is unknown.
    least = max(1, options.constraints.no_repeat_ngram - options.max_extra_length)
    constraints = [f's >= {least}', *([f's <= {limit}'] if limit else [])]
    any_rows, any_length = export.symbolic_shape('b, s', constraints=constraints)
    shape = (any_rows if rows is None else rows, any_length if length is None else length)
    with for_any_platform():
        function = export.export(jax.jit(translate), platforms=PLATFORMS)
        return function(params, jax.ShapeDtypeStruct(shape, jnp.int32))


def _nested(params: dict[str, Any]) -> dict[str, Any]:
    """Return nested dicts of the parameters with names such as 'a/b/c'."""
    tree: dict[str, Any] = {}
    for name, x in params.items():
        *path, last = name.split('/')
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {})
        branch[last] = x
    return tree
