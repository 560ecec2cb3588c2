"""BLEU and chrF through sacrebleu, with the signatures that make scores comparable."""

from collections.abc import Sequence
from typing import NamedTuple


class Scores(NamedTuple):
    """Corpus scores of raw, detokenised text.

    Attributes:
      bleu: cased BLEU with the 13a tokenizer, from 0 to 100.
      bleu_signature: sacreBLEU's account of how it was computed.
      chrf: chrF2, from 0 to 100.
      chrf_signature: sacreBLEU's account of how it was computed.
    """

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str


def score(hypotheses: Sequence[str], references: Sequence[str]) -> Scores:
    """Scores translations against one reference each.

    Args:
      hypotheses: translations.
      references: as many references, in the same order.

    Returns:
      `Scores`.

    Raises:
      ValueError: if their numbers differ or there are none.
    """
    from sacrebleu.metrics import BLEU, CHRF

    if len(hypotheses) != len(references):
        raise ValueError(f'{len(hypotheses)} translations but {len(references)} references.')
    if not hypotheses:
        raise ValueError('there is nothing to score.')
    bleu, chrf = BLEU(), CHRF()
    bleu_score = bleu.corpus_score(hypotheses, [references])
    chrf_score = chrf.corpus_score(hypotheses, [references])
    return Scores(
        bleu_score.score,
        str(bleu.get_signature()),
        chrf_score.score,
        str(chrf.get_signature()),
    )
