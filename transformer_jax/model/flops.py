"""The work of a model, as a formula: what a step must compute, not what a compiler makes of it."""

from collections.abc import Sequence

from transformer_jax.config import Config, ModelConfig


def forward_flops(
    config: ModelConfig,
    vocab_size: int,
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
) -> float:
    """FLOPs of the matrix products of one forward pass; padding is no work.

    A product of [m, k] and [k, n] is 2 m k n. Per layer and token: projections 4 D N (d_k + d_v),
    feed-forward 4 D F; in the decoder, attention to the source has its queries and output per
    target token, its keys and values per source token. Scores and weighted sums are
    2 N (d_k + d_v) for each pair of positions, of which decoder self-attention needs those not in
    the future. The output is 2 D V per target token. Norms, softmax and lookups are not counted.

    Args:
      config: sizes.
      vocab_size: V.
      source_lengths: tokens of each sentence.
      target_lengths: tokens of each sentence.
    """
    width, heads = config.d_model, config.num_heads
    sizes = config.key_size + config.value_size
    source, target = sum(source_lengths), sum(target_lengths)
    projections = 2 * width * heads * 2 * sizes  # of queries, keys, values and output
    feed_forward = 4 * width * config.d_ff
    pairs = 2 * heads * sizes
    encoder = source * (projections + feed_forward) + pairs * sum(n * n for n in source_lengths)
    decoder = (
        target * (projections + feed_forward)
        + pairs * sum(n * (n + 1) / 2 for n in target_lengths)
        + (target + source) * projections / 2
        + pairs * sum(s * t for s, t in zip(source_lengths, target_lengths, strict=True))
    )
    return config.num_layers * (encoder + decoder) + 2 * target * width * vocab_size


def training_flops(
    config: ModelConfig,
    vocab_size: int,
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
) -> float:
    """FLOPs of a training step: three forward passes' worth, the gradient being two.

    Args and formula: see `forward_flops`.
    """
    return 3 * forward_flops(config, vocab_size, source_lengths, target_lengths)


def step_flops(
    config: Config, vocab_size: int, source_lengths: Sequence[int], target_lengths: Sequence[int]
) -> float:
    """`training_flops` of a step as `config` asks for it: R-Drop is two passes.

    Args:
      config: of the run.
      vocab_size: V.
      source_lengths: tokens of each sentence.
      target_lengths: tokens of each sentence.
    """
    passes = 2 if config.optimizer.r_drop else 1
    return passes * training_flops(config.model, vocab_size, source_lengths, target_lengths)
