"""The section `model`: sizes and variants of the network."""

import dataclasses
from typing import NamedTuple

from transformer_jax.config.validation import (
    check_choice,
    check_positive,
    check_range,
    check_rate,
    check_types,
    fail,
)


class VocabSizes(NamedTuple):
    """Sizes of the two sides' vocabularies.

    Attributes:
      target: V, the size of the target side and of the logits.
      source: the size of the source side.
    """

    target: int
    source: int

    @classmethod
    def of(cls, sizes: 'int | VocabSizes') -> 'VocabSizes':
        """Return `sizes`; a single number is the size of both sides."""
        return sizes if isinstance(sizes, VocabSizes) else cls(sizes, sizes)

    def __str__(self) -> str:
        if self.source == self.target:
            return f'{self.target:,}'
        return f'{self.source:,} (source) and {self.target:,} (target)'


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Sizes and variants of the network; the defaults are the paper's base model.

    Attributes:
      num_layers: layers of the encoder, and also of the decoder (N in the paper); at most 1,000.
      d_model: width of embeddings and sub-layer outputs; at most 65,536.
      d_ff: inner width of the feed-forward sub-layer; at most 262,144.
      num_heads: attention heads (h in the paper); at most 1,024.
      d_k: width of queries and keys in a head, at most 65,536; 0 means d_model / num_heads.
      d_v: width of values in a head, at most 65,536; 0 means d_model / num_heads.
      dropout_rate: dropout on each sub-layer output and on the embedding sum (section 5.4); below
        1.
      attention_dropout_rate: dropout on attention weights, which the paper does not use; below 1.
      activation_dropout_rate: dropout on the activations inside the feed-forward sub-layer, which
        the paper does not use; below 1.
      activation: activation of the feed-forward sub-layer: 'relu' (equation 2), 'gelu', 'swish' or
        'quick_gelu' (x sigmoid(1.702 x)).
      attention_bias: whether attention's projections have a bias; in section 3.2.2 they have none.
      attention_gain: factor on the initial query, key and value matrices; at most 100. 1 is
        Glorot's initialisation of each matrix; 0.707 is that of the three as one matrix, as in
        fairseq and PyTorch, with which small models learn to align sooner.
      attention_implementation: 'cudnn' for cuDNN's fused attention, which moves fewer bytes on
        NVIDIA GPUs since Ampere, computes in bfloat16, and needs sentences that are padded at their
        end; 'xla'; or 'auto', which is 'cudnn' in training steps where it is possible.
      output_bias: whether the logits have a bias; in section 3.4 they have none.
      norm_epsilon: number added to the variance in layer norm; at most 1.
      tied_embeddings: which matrices are one: 'all' (both embeddings and the output, section 3.4,
        which needs one vocabulary for both languages), 'decoder' (target embedding and output) or
        'none'.
      decoder_start: first input of the decoder: 'padding' (the embedding of padding, a parameter)
        or 'zero' (a vector of zeros, as in Marian; the embedding of padding is then always zero).
      positions: 'sinusoidal' (section 3.5), 'sinusoidal_halves' (first all sines, then all cosines,
        as in Hugging Face's Marian), 'sinusoidal_marian' (the same order, with the frequencies of
        Marian and tensor2tensor), 'learned' (Table 3, row E) or 'none', with which the encoder
        does not know the order of words.
      max_positions: with 'learned' positions, their number, which limits the length of sentences;
        at most 1,000,000. Sinusoidal positions have no limit.
      norm: place of layer norm: 'post' is LayerNorm(x + Sublayer(x)), as in the paper; 'pre' is
        x + Sublayer(LayerNorm(x)).
      dtype: type of matrix products: 'float32', 'bfloat16' or 'auto', which is bfloat16 on GPUs and
        TPUs and float32 on CPUs. Parameters, norms, softmax and loss are always float32. 'bfloat16'
        is faster on CPUs with AMX; attention's products stay in float32 on CPUs.
      activation_dtype: type in which training keeps logits, and post-norms their sums and results:
        'float32', or 'bfloat16', with which a step on a GPU moves fewer bytes. Norms, softmax and
        loss compute in float32, and with norm='pre' sums stay float32.
      remat: whether the backward pass computes activations again instead of keeping them: a third
        more work for a fraction of the memory.
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
    attention_implementation: str = 'auto'
    output_bias: bool = False
    norm_epsilon: float = 1e-6
    tied_embeddings: str = 'all'
    decoder_start: str = 'padding'
    positions: str = 'sinusoidal'
    max_positions: int = 1024
    norm: str = 'post'
    dtype: str = 'auto'
    activation_dtype: str = 'float32'
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
        check_choice('model', self, 'activation', ('relu', 'gelu', 'quick_gelu', 'swish'))
        check_choice('model', self, 'tied_embeddings', ('all', 'decoder', 'none'))
        check_choice('model', self, 'decoder_start', ('padding', 'zero'))
        check_choice(
            'model',
            self,
            'positions',
            ('sinusoidal', 'sinusoidal_halves', 'sinusoidal_marian', 'learned', 'none'),
        )
        check_choice('model', self, 'norm', ('post', 'pre'))
        check_choice('model', self, 'dtype', ('auto', 'float32', 'bfloat16'))
        check_choice('model', self, 'activation_dtype', ('float32', 'bfloat16'))
        check_choice('model', self, 'attention_implementation', ('auto', 'xla', 'cudnn'))
        if self.d_model % self.num_heads and not (self.d_k and self.d_v):
            fail(
                'model.d_model',
                self.d_model,
                f'is not divisible by model.num_heads={self.num_heads}: '
                'choose a multiple of it, or set model.d_k and model.d_v.',
            )
        if self.positions.startswith('sinusoidal') and self.d_model % 2:
            fail(
                'model.d_model',
                self.d_model,
                'must be even for sinusoidal positions: choose an even number.',
            )
        if self.positions == 'sinusoidal_marian' and self.d_model < 4:
            fail(
                'model.d_model',
                self.d_model,
                "must be at least 4 for model.positions='sinusoidal_marian'.",
            )
        if self.attention_implementation == 'cudnn':
            for what, remedy in self.cudnn_conflicts:
                fail(
                    'model.attention_implementation',
                    self.attention_implementation,
                    f"does not go with {what}: choose {remedy}, or 'auto' here.",
                )

    @property
    def cudnn_conflicts(self) -> list[tuple[str, str]]:
        """The fields with which cuDNN's attention does not go, each with what to choose instead."""
        sizes = f'model.d_k={self.key_size} and model.d_v={self.value_size}'
        checks = (
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
        )
        return [(what, remedy) for wrong, what, remedy in checks if wrong]

    @property
    def key_size(self) -> int:
        """Width of queries and keys in a head."""
        return self.d_k or self.d_model // self.num_heads

    @property
    def value_size(self) -> int:
        """Width of values in a head."""
        return self.d_v or self.d_model // self.num_heads

    @property
    def max_sequence_length(self) -> int | None:
        """Most positions of a sentence if positions are learned, otherwise None."""
        return self.max_positions if self.positions == 'learned' else None
