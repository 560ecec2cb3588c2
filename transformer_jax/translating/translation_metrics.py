"""BLEU and chrF by sacreBLEU, with the signatures that make scores comparable."""

import json
import logging
import math
import re
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from transformer_jax.data.language_codes import language_of

_logger = logging.getLogger('transformer_jax')

_RESAMPLES = 1000
# sacreBLEU keeps all resamples of chrF in memory, which takes 80 kB for each sentence.
_MOST_RESAMPLED = 20_000
# Languages without spaces, because 13a would make one word of a sentence. Japanese is more often
# scored by words (ja-mecab), but that needs a dictionary that sacreBLEU does not contain.
_TOKENIZERS = {
    'zh': ('zh', 'yue'),
    'char': ('ja', 'th', 'lo', 'km', 'my', 'bo'),
}


class Scores(NamedTuple):
    """Corpus scores of raw, detokenised text.

    Attributes:
      bleu: cased BLEU with the tokenizer of the language, from 0 to 100.
      bleu_signature: sacreBLEU's description of the settings of bleu.
      chrf: chrF2, from 0 to 100.
      chrf_signature: sacreBLEU's description of the settings of chrf.
    """

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str


class Score(NamedTuple):
    """One corpus score with its confidence interval.

    Attributes:
      name: name of the metric.
      score: the score, from 0 to 100.
      margin: half the width of the 95 % confidence interval, by bootstrap (Koehn, 2004); NaN for
        one sentence, for more than 20,000 sentences, which would need gigabytes of memory, and for
        a chrF near 0, for which sacreBLEU computes none.
      signature: sacreBLEU's description of the settings.
    """

    name: str
    score: float
    margin: float
    signature: str


def tokenizer(language: str) -> str:
    """Return the name of sacreBLEU's tokenizer for a language.

    Args:
      language: code of the language, for example 'de', 'zh' or 'zh-TW'; '' means a language with
        spaces.

    Returns:
      'zh' for Chinese, 'char' for other languages without spaces, '13a' for all others.
    """
    code = language_of(language)
    return next((name for name, codes in _TOKENIZERS.items() if code in codes), '13a')


def word_splitter(language: str) -> Callable[[str], tuple[str, ...]]:
    """Return a function that splits a text into words as BLEU does; see `tokenizer`."""
    tokenize = _sacrebleu().metrics.BLEU(tokenize=tokenizer(language)).tokenizer
    return lambda text: tuple(tokenize(text.rstrip()).split())


def score(
    hypotheses: Sequence[str], *references: Sequence[str], target_language: str = ''
) -> Scores:
    """Score translations by BLEU and chrF2.

    Args:
      hypotheses: translations.
      *references: one or more lists of references, each in the order of the translations.
      target_language: code of their language, which selects the tokenizer; see `tokenizer`.

    Raises:
      ValueError: if the lists have different lengths or are empty.
    """
    _check(hypotheses, references)
    metrics = _sacrebleu().metrics
    # `force` stops warnings about a corpus that is tokenised on purpose.
    bleu = metrics.BLEU(tokenize=tokenizer(target_language), force=True)
    chrf = metrics.CHRF()
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
    """Score translations by each variant of BLEU and chrF that papers have reported.

    Args:
      hypotheses: translations.
      *references: one or more lists of references, each in the order of the translations.
      target_language: code of their language, which selects the tokenizer; see `tokenizer`.

    Returns:
      BLEU and chrF2, which can be compared between papers if their signatures are equal; BLEU of
      lowercased text, as in older papers (multi-bleu.perl on tokenised text), with sacreBLEU's
      tokenizer and split at spaces, which is for text that is tokenised already; and for languages
      with spaces, BLEU with hyphenated compounds split, as in the paper (tensor2tensor's
      get_ende_bleu.sh, but with tokenizer 13a instead of Moses).

    Raises:
      ValueError: if the lists have different lengths or are empty.
    """
    _check(hypotheses, references)
    if len(hypotheses) > _MOST_RESAMPLED:
        _logger.warning(
            '%s sentences are scored without confidence intervals, because intervals for more than '
            '%s sentences need gigabytes of memory.',
            f'{len(hypotheses):,}',
            f'{_MOST_RESAMPLED:,}',
        )
    words, metrics = tokenizer(target_language), _sacrebleu().metrics
    ways = [
        ('BLEU', metrics.BLEU(tokenize=words), _unchanged),
        ('chrF2', metrics.CHRF(), _unchanged),
        (
            'BLEU, lowercased',
            metrics.BLEU(lowercase=True, tokenize=words, force=True),
            _unchanged,
        ),
        (
            'BLEU, lowercased, split at spaces',
            metrics.BLEU(lowercase=True, tokenize='none', force=True),
            _unchanged,
        ),
    ]
    if words == '13a':
        split = metrics.BLEU(tokenize='none', force=True)
        ways.append(('BLEU, 13a, compounds split', split, split_compounds))
    return [_score(*way, hypotheses, references) for way in ways]


def split_compounds(text: str) -> str:
    """Tokenise a text by 13a, then turn 'rich-text' into 'rich ##AT##-##AT## text'."""
    tokenize = _sacrebleu().tokenizers.tokenizer_13a.Tokenizer13a()
    return re.sub(r'(\S)-(\S)', r'\1 ##AT##-##AT## \2', tokenize(text))


def _sacrebleu() -> ModuleType:
    """Import sacreBLEU here, because translating needs none and would start later."""
    import sacrebleu.metrics
    import sacrebleu.tokenizers.tokenizer_13a

    return sacrebleu


def _unchanged(text: str) -> str:
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
    resamples = _RESAMPLES if 1 < len(texts) <= _MOST_RESAMPLED else 1
    try:
        found = metric.corpus_score(texts, references, n_bootstrap=resamples)
    except TypeError:
        # sacreBLEU 2.6 fails if chrF is 0 for a resample.
        metric.n_bootstrap = None  # otherwise the signature would claim a bootstrap
        found = metric.corpus_score(texts, references)
    signature = str(metric.get_signature())
    if prepared is split_compounds:  # sacreBLEU does not see that the text was tokenised before
        signature = signature.replace('tok:none', 'tok:13a+compounds')
    account = json.loads(found.format(width=6, signature=signature, is_json=True))
    # sacreBLEU leaves out an interval around 0; both of its ends are 0.
    without = 0.0 if metric.n_bootstrap else math.nan
    return Score(name, found.score, account.get('confidence_var', without), signature)


def _check(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    for texts in (hypotheses, *references):
        if isinstance(texts, str):
            raise ValueError(f'{texts[:40]!r} is a single text: give lists of texts.')
    for texts in references:
        if len(hypotheses) != len(texts):
            raise ValueError(
                f'{len(hypotheses)} translations but {len(texts)} references: give one each.'
            )
    if not hypotheses or not references:
        raise ValueError('there is nothing to score: give translations and references.')
