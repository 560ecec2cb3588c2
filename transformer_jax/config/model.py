"""The section `model`."""

import dataclasses

from transformer_jax.config.validation import (
    check_choice,
    check_positive,
    check_range,
    check_rate,
    check_types,
    fail,
)


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The shape of the network: every column of the paper's Table 3 that the model itself has.

    Attributes:
      num_layers: layers in the encoder and in the decoder, N in the paper; at most 1,000.
      d_model: width of embeddings and of every sub-layer's output; at most 65,536.
      d_ff: inner width of the feed-forward sub-layer; at most 262,144.
      num_heads: attention heads, h in the paper; at most 1,024.
      d_k: width of a head's queries and keys, at most 65,536; 0 means d_model / num_heads.
      d_v: width of a head's values, at most 65,536; 0 means d_model / num_heads.
      dropout_rate: residual dropout, on each sub-layer's output and on the embedding sum; below 1.
      attention_dropout_rate: dropout on attention weights, which the paper does not have; below 1.
      activation_dropout_rate: dropout on what the ReLU puts out, which the paper does not have;
        below 1.
      activation: of the feed-forward: 'relu' (equation 2), 'gelu' or 'swish'.
      attention_bias: adds a bias to each projection of attention; section 3.2.2 has none.
      attention_gain: factor on the initial matrices of queries, keys and values; 1 is Glorot's
        initialisation of each, 0.707 that of the three as one matrix, as in fairseq and PyTorch,
        which learns to align sooner where the learning rate is high; at most 100.
      attention_implementation: 'xla', or 'cudnn', which on NVIDIA GPUs since Ampere computes
        attention in one kernel that keeps no weights, in bfloat16; elsewhere it is 'xla', too.
      output_bias: adds a bias to the logits; section 3.4 has none.
      norm_epsilon: added to the variance in layer norm; at most 1.
      positions: 'sinusoidal' (section 3.5), 'sinusoidal_halves' (all sines, then all cosines, as
        Marian has them) or 'learned' (Table 3, row E).
      max_positions: rows of the learned table, at most 1,000,000; sinusoidal positions have no
        limit.
      norm: 'post', LayerNorm(x + Sublayer(x)), or 'pre', x + Sublayer(LayerNorm(x)).
      dtype: of the matrix products: 'float32', 'bfloat16', or 'auto', which is bfloat16 on
        accelerators and float32 on the CPU. Parameters, norms, softmax and loss are float32. CPUs
        that multiply bfloat16 (AMX: Intel's servers since 2023) are faster with it; the products
        of queries, keys and values are float32 on any CPU.
      remat: computes each layer's activations again for the gradient instead of keeping them: about
        a third more work for a fraction of the memory.
    """

    num_layers: int = 6
    d_model: int = 512
    d_ff: int = 2048
    num_heads: int = 8
    d_k: int = 0
    d_v: int = 0
    dropout_rate: float = 0.1
    attention_dropout_rate: float = 0.0
    activation_dropout_rate: float = 0.0
    activation: str = 'relu'
    attention_bias: bool = False
    attention_gain: float = 1.0
    attention_implementation: str = 'xla'
    output_bias: bool = False
    norm_epsilon: float = 1e-6
    positions: str = 'sinusoidal'
    max_positions: int = 1024
    norm: str = 'post'
    dtype: str = 'auto'
    remat: bool = False

    def __post_init__(self):
        check_types('model', self)
        check_range(
            'model',
            self,
            num_layers=(1, 1000),
            d_model=(1, 2**16),
            d_ff=(1, 2**18),
            num_heads=(1, 1024),
            d_k=(0, 2**16),
            d_v=(0, 2**16),
            max_positions=(1, 1_000_000),
        )
        check_positive('model', self, norm_epsilon=1, attention_gain=100)
        check_rate('model', self, 'dropout_rate')
        check_rate('model', self, 'attention_dropout_rate', 'activation_dropout_rate')
        check_choice('model', self, 'activation', ('relu', 'gelu', 'swish'))
        check_choice('model', self, 'positions', ('sinusoidal', 'sinusoidal_halves', 'learned'))
        check_choice('model', self, 'norm', ('post', 'pre'))
        check_choice('model', self, 'dtype', ('auto', 'float32', 'bfloat16'))
        check_choice('model', self, 'attention_implementation', ('xla', 'cudnn'))
        if self.d_model % self.num_heads and not (self.d_k and self.d_v):
            fail(
                'model.d_model',
                self.d_model,
                f'is not divisible by model.num_heads={self.num_heads}: '
                'choose a multiple of it, or set model.d_k and model.d_v.',
            )
        if self.positions != 'learned' and self.d_model % 2:
            fail('model.d_model', self.d_model, 'must be even for sinusoidal positions.')
        if self.attention_implementation == 'cudnn':
            self._check_cudnn()

    def _check_cudnn(self) -> None:
        sizes = f'model.d_k={self.key_size} and model.d_v={self.value_size}'
        for wrong, what, remedy in (
            (self.dtype == 'float32', "model.dtype='float32'", "'auto' or 'bfloat16'"),
            (
                self.attention_dropout_rate > 0,
                f'model.attention_dropout_rate={self.attention_dropout_rate}',
                '0 there',
            ),
            (
                self.key_size != self.value_size or self.key_size % 8 or self.key_size > 128,
                sizes,
                'the same for both, a multiple of 8 and at most 128',
            ),
        ):
            if wrong:
                fail(
                    'model.attention_implementation',
                    self.attention_implementation,
                    f"does not go with {what}: choose {remedy}, or 'xla' here.",
                )

    @property
    def key_size(self) -> int:
        """Width of a head's queries and keys."""
        return self.d_k or self.d_model // self.num_heads

    @property
    def value_size(self) -> int:
        """Width of a head's values."""
        return self.d_v or self.d_model // self.num_heads

    @property
    def max_sequence_length(self) -> int | None:
        """Most positions of a sentence, where they are learned; None where any number will do."""
        return self.max_positions if self.positions == 'learned' else None
