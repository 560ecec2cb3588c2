"""What is asked for: options of the search that a config's section `decode` describes."""

from collections.abc import Sequence

import numpy as np

from transformer_jax.config import DecodeConfig
from transformer_jax.config.sampling import Sampling
from transformer_jax.decoding import Constraints, SearchOptions
from transformer_jax.errors import UserError, did_you_mean, shown
from transformer_jax.translating.mbr import METRICS

_MOST_SAMPLES = 10_000  # for each text
_MOST_MBR_OUTPUTS = 1024


def search_options(
    decode: DecodeConfig,
    *,
    n_best: int = 1,
    sampling: Sampling | None = None,
    suppress: Sequence[int] = (),
) -> SearchOptions:
    """Return the options of the search that a section `decode` describes.

    Args:
      decode: the section.
      n_best: outputs for each sentence; for beam search, at most the beam size.
      sampling: samples the outputs; None searches for the best ones.
      suppress: ids of `decode.suppress_tokens`.
    """
    options = SearchOptions(
        beam_size=decode.beam_size,
        n_best=np.int32(n_best),
        length_penalty=np.float32(decode.length_penalty),
        length_norm=decode.length_norm,
        seed=np.uint32(0),
        constraints=Constraints(decode.min_length, decode.no_repeat_ngram, tuple(suppress)),
        max_extra_length=decode.max_extra_length,
    )
    if sampling is not None:
        return options.replace(
            temperature=np.float32(sampling.temperature),
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            seed=np.uint32(sampling.seed),
        )
    if decode.coverage_penalty:
        return options.replace(
            coverage_penalty=np.float32(decode.coverage_penalty),
            coverage_layer=decode.alignment_layer,
            coverage_heads=decode.heads(),
        )
    return options


def check_outputs(n_best: int, sampling: Sampling | None, mbr: str | None, beam_size: int) -> None:
    """Raise a UserError if the options of several outputs are out of range.

    Args:
      n_best: as for `Translator.translate`, like `sampling` and `mbr`.
      sampling: how to sample.
      mbr: metric of minimum Bayes risk.
      beam_size: of the search.
    """
    if type(n_best) is not int:
        raise UserError(f'n_best={n_best!r} must be a whole number, from 1 to the beam size.')
    if sampling is not None and not isinstance(sampling, Sampling):
        raise UserError(f'sampling={sampling!r} must be a Sampling(), or None to search.')
    if sampling is not None and not 1 <= n_best <= _MOST_SAMPLES:
        raise UserError(f'n_best={n_best} must be from 1 to {_MOST_SAMPLES:,} when sampling.')
    if sampling is None and not 1 <= n_best <= beam_size:
        raise UserError(
            f'n_best={n_best} must be from 1 to the beam size, which is {beam_size}: '
            'raise beam_size, or lower n_best.'
        )
    if mbr is not None and mbr not in METRICS:
        raise UserError(
            f'mbr={shown(mbr)} must be one of {", ".join(METRICS)}{did_you_mean(str(mbr), METRICS)}'
        )
    if mbr is not None and not 2 <= n_best <= _MOST_MBR_OUTPUTS:
        raise UserError(
            f'n_best={n_best} must be from 2 to {_MOST_MBR_OUTPUTS:,} with mbr={mbr}, which '
            'compares each two outputs.'
        )
