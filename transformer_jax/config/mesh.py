"""The section `mesh`."""

import dataclasses

from transformer_jax.config.validation import check_types, fail


@dataclasses.dataclass(frozen=True)
class MeshConfig:
    """How the devices are laid out; their number is data · fsdp · tensor, -1 is what is left.

    Attributes:
      data: parts of a batch; every device of this axis holds the same parameters. At most
        1,000,000.
      fsdp: parts of a batch, and of the parameters and both of Adam's moments as well. At most
        1,000,000.
      tensor: parts of the heads, of d_ff and of the vocabulary. At most 1,000,000.
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
                    f'mesh.{name}', size, 'must be from 1 to 1,000,000, or -1 for the devices left.'
                )
        if list(sizes.values()).count(-1) > 1:
            fail('mesh', sizes, 'has more than one -1: only one axis can take what is left.')
