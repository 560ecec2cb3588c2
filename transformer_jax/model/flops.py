"""FLOP counts of a model, from a formula and not from the compiled program."""

from collections.abc import Sequence

from transformer_jax.config import Config, ModelConfig, VocabSizes


def forward_flops(
    config: ModelConfig,
    vocab_size: int | VocabSizes,
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
) -> float:
    """Return the FLOPs of the matrix products of one forward pass, without padding.

    A product of [m, k] and [k, n] is 2 m k n. Per layer and token: projections 4 D N (d_k + d_v),
    feed-forward 4 D F; in the decoder, attention to the source has its queries and output per
    target token, its keys and values per source token. Scores and weighted sums are
    2 N (d_k + d_v) for each pair of positions, of which decoder self-attention needs those not in
    the future. The output is 2 D V per target token. Norms, softmax and lookups are not counted.

    Args:
      config: the model's sizes.
      vocab_size: V of both sides, or of each.
      source_lengths: number of source tokens of each sentence pair.
      target_lengths: number of target tokens of each sentence pair.
    """
    width, heads = config.d_model, config.num_heads
    sizes = config.key_size + config.value_size
    source, target = sum(source_lengths), sum(target_lengths)
    projections = 2 * width * heads * 2 * sizes  # queries, keys, values and output
    feed_forward = 4 * width * config.d_ff
    pairs = 2 * heads * sizes
    encoder = source * (projections + feed_forward) + pairs * sum(n * n for n in source_lengths)
    decoder = (
        target * (projections + feed_forward)
        + pairs * sum(n * (n + 1) / 2 for n in target_lengths)
        + (target + source) * projections / 2
        + pairs * sum(s * t for s, t in zip(source_lengths, target_lengths, strict=True))
    )
    output = 2 * target * width * VocabSizes.of(vocab_size).target
    return config.num_layers * (encoder + decoder) + output


def training_flops(
    config: ModelConfig,
    vocab_size: int | VocabSizes,
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
) -> float:
    """Return the FLOPs of a training step: three forward passes, because the gradient costs two.

    Args and formula: see `forward_flops`.
    """
    return 3 * forward_flops(config, vocab_size, source_lengths, target_lengths)


def step_flops(
    config: Config,
    vocab_size: int | VocabSizes,
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
) -> float:
    """Return the `training_flops` of a step of this run; R-Drop takes two passes.

    Args:
      config: the config of the run.
      vocab_size: V of both sides, or of each.
      source_lengths: number of source tokens of each sentence pair.
      target_lengths: number of target tokens of each sentence pair.
    """
    passes = 2 if config.optimizer.r_drop else 1
    return passes * training_flops(config.model, vocab_size, source_lengths, target_lengths)
