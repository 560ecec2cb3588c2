"""The section `decode`."""

import dataclasses

from transformer_jax.config.checks import (
    check_below,
    check_choice,
    check_not_negative,
    check_positive,
    check_types,
    fail,
)


@dataclasses.dataclass(frozen=True)
class DecodeConfig:
    """How translations are searched for (section 6.1).

    Attributes:
      beam_size: hypotheses kept at each step; 1 is greedy.
      length_penalty: alpha in ((5 + length) / 6)^alpha of Wu et al. (2016), equation 14.
      max_extra_length: an output has at most this many tokens more than its input.
      max_source_length: most tokens of an input, the end mark included; what is longer is cut and
        reported. 0 is no limit.
      average_checkpoints: checkpoints whose parameters are averaged for translating.
      average: which: the 'latest' (the paper), or the 'best' by dev BLEU.
    """

    beam_size: int = 4
    length_penalty: float = 0.6
    max_extra_length: int = 50
    max_source_length: int = 0
    average_checkpoints: int = 5
    average: str = 'latest'

    def __post_init__(self):
        check_types('decode', self)
        check_positive('decode', self, 'beam_size', 'average_checkpoints')
        check_choice('decode', self, 'average', ('latest', 'best'))
        check_not_negative(
            'decode', self, 'length_penalty', 'max_extra_length', 'max_source_length'
        )
        check_below('decode', self, 2**20, 'max_extra_length')
        check_below('decode', self, 2**16, 'beam_size')
        if self.max_source_length == 1:
            fail('decode.max_source_length', 1, 'leaves room for the end mark only.')
