"""The section `decode`: search for translations, and the weights that they use."""

import dataclasses
import re

from transformer_jax.config.validation import check_choice, check_range, check_types, fail


@dataclasses.dataclass(frozen=True)
class DecodeConfig:
    """Beam search, and the checkpoints whose mean translates (section 6.1).

    The flags of the commands and the arguments of `Translator.translate` have the same names, and
    the flags' help is this text.

    Attributes:
      beam_size: hypotheses kept at each step, at most 1,000; 1 is greedy search.
      length_norm: divides the log-probability of an output: 'gnmt' by ((5 + length) / 6)^alpha (Wu
        et al., 2016, equation 14), as in the paper; 'power' by length^alpha, as Marian, Hugging
        Face and CTranslate2 do; 'none' by 1.
      length_penalty: alpha of length_norm; at most 10. A larger value prefers longer outputs.
      coverage_penalty: weight of the penalty for source tokens without attention (Wu et al., 2016,
        equation 15), at most 100; 0 is none.
      min_length: least number of tokens of an output, without EOS, unless max_extra_length allows
        fewer; at most 10,000.
      no_repeat_ngram: n for which no sequence of n tokens occurs twice in an output, at most 100; 0
        allows all.
      suppress_tokens: pieces of the vocabulary that no output contains, separated by spaces.
      max_extra_length: limit on the tokens that an output has more than its source; at most 10,000.
      max_source_length: most tokens of a source, EOS included, at most 1,000,000; longer sources
        are cut with a warning. 0 is no limit.
      alignment_layer: decoder layer whose cross attention gives alignments and coverage, counted
        from 1 and at most 1,000; 0 is the last but one.
      alignment_heads: heads of that layer whose mean is taken, counted from 1 and separated by
        spaces; '' is all.
      alignment_shift: whether a token is aligned by the attention of the step that reads it, and
        not of the step that predicts it (Chen et al., 2020).
      average_checkpoints: number of checkpoints whose parameters are averaged for translating; at
        most 1,000,000.
      average: checkpoints to average: the 'latest', as in the paper, or the 'best' by dev BLEU,
        or F1 of a parser.
    """

    beam_size: int = 4
    length_norm: str = 'gnmt'
    length_penalty: float = 0.6
    coverage_penalty: float = 0.0
    min_length: int = 0
    no_repeat_ngram: int = 0
    suppress_tokens: str = ''
    max_extra_length: int = 50
    max_source_length: int = 0
    alignment_layer: int = 0
    alignment_heads: str = ''
    alignment_shift: bool = False
    average_checkpoints: int = 5
    average: str = 'latest'

    def __post_init__(self):
        check_types('decode', self)
        check_range(
            'decode',
            self,
            beam_size=(1, 1000),
            length_penalty=(0, 10),
            coverage_penalty=(0, 100),
            min_length=(0, 10_000),
            no_repeat_ngram=(0, 100),
            max_extra_length=(0, 10_000),
            max_source_length=(0, 1_000_000),
            alignment_layer=(0, 1000),
            average_checkpoints=(1, 1_000_000),
        )
        check_choice('decode', self, 'length_norm', ('gnmt', 'power', 'none'))
        check_choice('decode', self, 'average', ('latest', 'best'))
        if self.max_source_length == 1:
            fail(
                'decode.max_source_length',
                1,
                'leaves no token for the source besides EOS: set it to 2 or more, or to 0.',
            )
        if not re.fullmatch(r'([1-9]\d{0,3}( +|$))*', self.alignment_heads):
            fail(
                'decode.alignment_heads',
                self.alignment_heads,
                "must be numbers of heads from 1, separated by spaces, for example '1 3'.",
            )

    def heads(self) -> tuple[int, ...]:
        """Return `alignment_heads` as indices from 0; none stands for all."""
        return tuple(int(number) - 1 for number in self.alignment_heads.split())


# The fields of the search, which the commands have as flags. `load_trained` takes the others.
SEARCH_FIELDS = tuple(
    field.name
    for field in dataclasses.fields(DecodeConfig)
    if field.name not in ('average_checkpoints', 'average')
)
