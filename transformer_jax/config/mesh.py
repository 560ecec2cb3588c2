"""The section `mesh`: how devices share the work."""

import dataclasses

from transformer_jax.config.validation import check_types, fail


@dataclasses.dataclass(frozen=True)
class MeshConfig:
    """How devices share the work.

    The product data * fsdp * tensor is the number of devices. One of the three may be -1, which
    takes all remaining devices. Results do not depend on the mesh, except for rounding.

    Attributes:
      data: number of groups that divide each batch and hold the same parameters. At most 1,000,000.
      fsdp: number of devices that divide each batch and also the parameters and the optimizer
        state, which saves memory. At most 1,000,000.
      tensor: number of devices that divide the heads, d_ff and the vocabulary. At most 1,000,000.
    """

    data: int = -1
    fsdp: int = 1
    tensor: int = 1

    def __post_init__(self):
        check_types('mesh', self)
        sizes = dataclasses.asdict(self)
        for name, size in sizes.items():
            if not 1 <= size <= 1_000_000 and size != -1:
                fail(
                    f'mesh.{name}',
                    size,
                    'must be from 1 to 1,000,000, or -1 for all other devices.',
                )
        if list(sizes.values()).count(-1) > 1:
            fail('mesh', sizes, 'has more than one -1: only one axis can take all other devices.')
