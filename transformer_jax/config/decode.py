"""The section `decode`: search for translations, and the weights that they use."""

import dataclasses

from transformer_jax.config.validation import check_choice, check_range, check_types, fail


@dataclasses.dataclass(frozen=True)
class DecodeConfig:
    """Beam search, and the checkpoints whose mean translates (section 6.1).

    Attributes:
      beam_size: hypotheses kept at each step, at most 1,000; 1 is greedy search.
      length_penalty: alpha in ((5 + length) / 6)^alpha (Wu et al., 2016, equation 14); at most 10.
        A larger value prefers longer outputs.
      max_extra_length: limit on the tokens that an output has more than its source; at most 10,000.
      max_source_length: most tokens of a source, EOS included, at most 1,000,000; longer sources
        are cut with a warning. 0 is no limit.
      average_checkpoints: number of checkpoints whose parameters are averaged for translating; at
        most 1,000,000.
      average: checkpoints to average: the 'latest', as in the paper, or the 'best' by dev BLEU.
    """

    beam_size: int = 4
    length_penalty: float = 0.6
    max_extra_length: int = 50
    max_source_length: int = 0
    average_checkpoints: int = 5
    average: str = 'latest'

    def __post_init__(self):
        check_types('decode', self)
        check_range(
            'decode',
            self,
            beam_size=(1, 1000),
            length_penalty=(0, 10),
            max_extra_length=(0, 10_000),
            max_source_length=(0, 1_000_000),
            average_checkpoints=(1, 1_000_000),
        )
        check_choice('decode', self, 'average', ('latest', 'best'))
        if self.max_source_length == 1:
            fail(
                'decode.max_source_length',
                1,
                'leaves no token for the source besides EOS: set it to 2 or more, or to 0.',
            )
