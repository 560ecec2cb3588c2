"""BLEU and chrF through sacrebleu, with the signatures that make scores comparable."""

import json
import logging
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

_logger = logging.getLogger('transformer_jax')

_RESAMPLES = 1000
# sacreBLEU holds all resamples of chrF at once: 80 kB a sentence.
_MOST_RESAMPLED = 20_000
# Languages without spaces, whose sentences 13a would take for single words. Japanese is more
# often scored by words (ja-mecab), which takes a dictionary that sacreBLEU does not bring.
_TOKENIZERS = {
    'zh': ('zh', 'zho', 'chi', 'cmn', 'yue'),
    'char': ('ja', 'jpn', 'th', 'tha', 'lo', 'lao', 'km', 'khm', 'my', 'mya', 'bur', 'bo', 'bod'),
}


class Scores(NamedTuple):
    """Corpus scores of raw, detokenised text.

    Attributes:
      bleu: cased BLEU with the tokenizer of the language, from 0 to 100.
      bleu_signature: sacreBLEU's account of how it was computed.
      chrf: chrF2, from 0 to 100.
      chrf_signature: sacreBLEU's account of how it was computed.
    """

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str


class Score(NamedTuple):
    """One corpus score with its confidence interval.

    Attributes:
      name: of the metric, in a few words.
      score: from 0 to 100.
      margin: half the width of the 95 % confidence interval, by bootstrap (Koehn, 2004); NaN
        for a chrF near 0, where sacreBLEU has none, and for more than 20,000 sentences, of which
        it would take gigabytes.
      signature: sacreBLEU's account of how it was computed.
    """

    name: str
    score: float
    margin: float
    signature: str


def tokenizer(language: str) -> str:
    """sacreBLEU's tokenizer for a language: 'zh' for Chinese, 'char' for others without spaces.

    Args:
      language: its code, as 'de', 'zh' or 'zh-TW'; '' for one with spaces.

    Returns:
      '13a' for languages with spaces.
    """
    code = re.split('[-_]', language.lower())[0]
    return next((name for name, codes in _TOKENIZERS.items() if code in codes), '13a')


def score(
    hypotheses: Sequence[str], *references: Sequence[str], target_language: str = ''
) -> Scores:
    """Scores translations as the field compares them.

    Args:
      hypotheses: translations.
      *references: one or several references of each, in the same order.
      target_language: code of the language they are in, which says what a word is to BLEU; see
        `tokenizer`.

    Raises:
      ValueError: if their numbers differ or there are none.
    """
    from sacrebleu.metrics import BLEU, CHRF

    _check(hypotheses, references)
    # `force`: a corpus that is tokenised on purpose is not to fill the log with warnings.
    bleu, chrf = BLEU(tokenize=tokenizer(target_language), force=True), CHRF()
    bleu_score = bleu.corpus_score(hypotheses, references)
    chrf_score = chrf.corpus_score(hypotheses, references)
    return Scores(
        bleu_score.score,
        str(bleu.get_signature()),
        chrf_score.score,
        str(chrf.get_signature()),
    )


def all_scores(
    hypotheses: Sequence[str], *references: Sequence[str], target_language: str = ''
) -> list[Score]:
    """Scores translations in all the ways that papers have reported, side by side.

    Args:
      hypotheses: translations.
      *references: one or several references of each, in the same order.
      target_language: as for `score`.

    Returns:
      sacreBLEU and chrF2 of the text as it is; BLEU of lowercased tokens, which older papers have
      (multi-bleu.perl on tokenised text), with sacreBLEU's tokenizer, and split at spaces only for
      text that is tokenised already; and, of languages with spaces, BLEU with hyphenated compounds
      split, as in the paper (tensor2tensor's get_ende_bleu.sh, which has Moses's tokenizer instead
      of 13a). Only the first two are comparable between papers, each with others of its signature.

    Raises:
      ValueError: if their numbers differ or there are none.
    """
    from sacrebleu.metrics import BLEU, CHRF

    _check(hypotheses, references)
    if len(hypotheses) > _MOST_RESAMPLED:
        _logger.warning(
            '%s sentences are scored without confidence intervals, which for more than %s take '
            'gigabytes of memory.',
            f'{len(hypotheses):,}',
            f'{_MOST_RESAMPLED:,}',
        )
    words = tokenizer(target_language)
    ways = [
        ('BLEU', BLEU(tokenize=words), _as_it_is),
        ('chrF2', CHRF(), _as_it_is),
        ('BLEU, lowercased', BLEU(lowercase=True, tokenize=words, force=True), _as_it_is),
        (
            'BLEU, lowercased, split at spaces',
            BLEU(lowercase=True, tokenize='none', force=True),
            _as_it_is,
        ),
    ]
    if words == '13a':
        split = BLEU(tokenize='none', force=True)
        ways.append(('BLEU, 13a, compounds split', split, split_compounds))
    return [_score(*way, hypotheses, references) for way in ways]


def split_compounds(text: str) -> str:
    """Tokenises by 13a and splits hyphenated words: 'rich-text' to 'rich ##AT##-##AT## text'."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    return re.sub(r'(\S)-(\S)', r'\1 ##AT##-##AT## \2', Tokenizer13a()(text))


def _as_it_is(text: str) -> str:
    return text


def _score(
    name: str,
    metric: Any,
    prepared: Any,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
) -> Score:
    texts = [prepared(text) for text in hypotheses]
    references = [[prepared(text) for text in side] for side in references]
    resamples = _RESAMPLES if len(texts) <= _MOST_RESAMPLED else 1
    try:
        found = metric.corpus_score(texts, references, n_bootstrap=resamples)
    except TypeError:
        # sacreBLEU 2.6 fails where chrF is 0 for some of the resamples.
        metric.n_bootstrap = None  # which its signature would still speak of
        found = metric.corpus_score(texts, references)
    signature = str(metric.get_signature())
    if prepared is split_compounds:  # sacreBLEU knows nothing of what came before
        signature = signature.replace('tok:none', 'tok:13a+compounds')
    account = json.loads(found.format(width=6, signature=signature, is_json=True))
    # sacreBLEU says nothing of an interval whose middle is 0, as both of its ends then are.
    without = 0.0 if metric.n_bootstrap else math.nan
    return Score(name, found.score, account.get('confidence_var', without), signature)


def _check(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    for texts in (hypotheses, *references):
        if isinstance(texts, str):
            raise ValueError(f'{texts[:40]!r} is one text: give lists of texts.')
    for texts in references:
        if len(hypotheses) != len(texts):
            raise ValueError(f'{len(hypotheses)} translations but {len(texts)} references.')
    if not hypotheses or not references:
        raise ValueError('there is nothing to score.')
