"""Minimum Bayes risk (MBR): the candidate that agrees best with all candidates, by chrF or BLEU.

The scores are those of sacreBLEU. Because each pair of candidates is scored, n-grams are counted
once for each candidate and compared as bits.
"""

import itertools
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from transformer_jax.runtime.signals import stop_if_requested
from transformer_jax.translating.translation_metrics import word_splitter

METRICS = ('chrf', 'bleu')

_CHRF_ORDER = 6
_CHRF_BETA = 2
_BLEU_ORDER = 4
# Utilities that differ by less are equal: the difference is rounding.
_TIE = 1e-9


def expected_utilities(
    texts: Sequence[str], weights: Sequence[float], metric: str, target_language: str = ''
) -> np.ndarray:
    """Return for each candidate its weighted mean score against all candidates as references.

    The candidate with the greatest expected utility is the choice of minimum Bayes risk (Kumar and
    Byrne, 2004; Eikema and Aziz, 2020). Each candidate also counts as its own reference, as is
    usual if all of them are samples of the model.

    Args:
      texts: K candidates. The same text may appear several times.
      weights: K weights of the candidates as references, for example their probabilities. They
        need not sum to 1.
      metric: 'chrf' or 'bleu', as sacreBLEU computes them for a sentence: chrF2, and BLEU with
        effective order.
      target_language: code of the language of the candidates, which selects the tokenizer of BLEU;
        see `translation_metrics.tokenizer`.

    Returns:
      [K] float64, from 0 to 100.

    Raises:
      ValueError: if there are no candidates, if the metric is unknown, if a weight is missing,
        negative or not finite, or if all weights are 0.
    """
    _check_metric(metric)
    weights_K = _normalised(weights, len(texts))
    if metric == 'chrf':
        split, pairwise_scores = _characters, _chrf
    else:
        split, pairwise_scores = word_splitter(target_language), _bleu
    # Texts of the same characters (words) have the same scores, which are computed once.
    rows: dict[Sequence[str], int] = {}
    row_K = np.array([rows.setdefault(split(text), len(rows)) for text in texts])
    weights_R = np.bincount(row_K, weights_K)
    return (pairwise_scores(list(rows)) @ weights_R)[row_K]


class MbrChooser:
    """Chooses among the candidates of sentences in a worker thread, while the device searches.

    Use it as a context. An exception that ends the context cancels the choices that have not begun.
    """

    def __init__(self, metric: str):
        """Create the chooser.

        Args:
          metric: see `expected_utilities`.

        Raises:
          ValueError: if the metric is unknown.
        """
        _check_metric(metric)
        self._metric = metric
        # More threads bring little, because a choice holds Python's lock for much of its time.
        self._pool = ThreadPoolExecutor(1)
        self._choices: dict[int, Future[tuple[int, float]]] = {}

    def __enter__(self) -> 'MbrChooser':
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._pool.shutdown(cancel_futures=kind is not None)

    def submit(
        self, index: int, texts: Sequence[str], weights: Sequence[float], target_language: str = ''
    ) -> None:
        """Start the choice for a sentence and return at once.

        Args:
          index: number of the sentence.
          texts: its candidates, the best first.
          weights: see `expected_utilities`.
          target_language: see `expected_utilities`.
        """
        options = texts, weights, self._metric, target_language
        self._choices[index] = self._pool.submit(_choose, *options)

    def results(self) -> dict[int, tuple[int, float]]:
        """Wait for all choices.

        Returns:
          For the index of each sentence, the position of the chosen candidate and its expected
          utility, from 0 to 100. If utilities are equal, the earliest candidate is chosen.

        Raises:
          ValueError: if `expected_utilities` refuses candidates or weights.
          Stopped: if a signal asked for it.
        """
        results = {}
        for index, choice in self._choices.items():
            stop_if_requested()
            results[index] = choice.result()
        return results


def _choose(
    texts: Sequence[str], weights: Sequence[float], metric: str, target_language: str
) -> tuple[int, float]:
    utilities = expected_utilities(texts, weights, metric, target_language)
    best = int(np.argmax(utilities > utilities.max() - _TIE))
    return best, float(utilities[best])


def _check_metric(metric: str) -> None:
    if metric not in METRICS:
        raise ValueError(f'metric={metric!r}: unknown, choose one of {", ".join(METRICS)}.')


def _normalised(weights: Sequence[float], candidates: int) -> np.ndarray:
    weights = np.asarray(weights, np.float64)
    if not candidates:
        raise ValueError('texts=[]: there are no candidates, give one or more.')
    if weights.shape != (candidates,):
        raise ValueError(
            f'weights: their shape is {weights.shape} for {candidates} candidates, give one each.'
        )
    if not (np.isfinite(weights).all() and weights.min() >= 0 and weights.max() > 0):
        raise ValueError(
            f'weights from {weights.min()} to {weights.max()}: '
            'give finite numbers that are 0 or greater and not all 0.'
        )
    weights = weights / weights.max()  # so that the sum cannot overflow
    return weights / weights.sum()


def _characters(text: str) -> str:
    return ''.join(text.split())


def _chrf(texts: Sequence[str]) -> np.ndarray:
    """Return [R, R] chrF2 of each text (row) against each text (column); Popović, 2015."""
    lengths = np.array([len(text) for text in texts])
    precision = np.zeros((len(texts), len(texts)))
    for order, overlap in enumerate(_overlaps(texts, _CHRF_ORDER)):
        precision += overlap / np.maximum(lengths - order, 1)[:, None]
    # The mean is over the orders that both texts are long enough for.
    precision /= np.clip(np.minimum.outer(lengths, lengths), 1, _CHRF_ORDER)
    recall = precision.T  # because the overlaps are symmetric
    factor = _CHRF_BETA**2
    denominator = factor * precision + recall
    # Without a common character, the numerator is 0 too.
    denominator[denominator == 0] = 1
    return 100 * (1 + factor) * precision * recall / denominator


def _bleu(texts: Sequence[Sequence[str]]) -> np.ndarray:
    """Return [R, R] BLEU of each text (row) against each text (column); Papineni et al., 2002.

    If no n-gram of an order agrees, its precision is that of half an n-gram, a quarter for the
    second such order, and so on (method 3 of Chen and Cherry, 2014). Orders for which a text is too
    short do not count.
    """
    lengths = np.array([len(text) for text in texts])
    logs = np.zeros((len(texts), len(texts)))
    smoothed = np.ones_like(logs)
    common = np.zeros(logs.shape, bool)
    for order, overlap in enumerate(_overlaps(texts, _BLEU_ORDER)):
        common |= overlap > 0
        smoothed[overlap == 0] /= 2
        totals = np.maximum(lengths - order, 1)[:, None]
        precision = np.where(overlap > 0, overlap, smoothed) / totals
        logs += np.where(lengths[:, None] > order, np.log(precision), 0)
    logs /= np.clip(lengths, 1, _BLEU_ORDER)[:, None]
    brevity = np.minimum(1 - lengths / np.maximum(lengths, 1)[:, None], 0)
    return np.where(common, 100 * np.exp(brevity + logs), 0)


def _overlaps(texts: Sequence[Sequence[Hashable]], orders: int) -> Iterator[np.ndarray]:
    """Yield for n = 1 to `orders` how many n-grams each two texts share, [R, R] int32.

    An n-gram that is repeated in both texts counts as often as in the text that has fewer of it.

    Args:
      texts: R different texts, each a sequence of units (characters or words).
      orders: the greatest n.
    """
    lengths = np.array([len(text) for text in texts])
    numbers: dict[Hashable, int] = {}
    # All texts in one array. At each position P: the unit, the text, and the units that are left.
    units_P = np.array(
        [numbers.setdefault(unit, len(numbers)) for unit in itertools.chain(*texts)], np.int64
    )
    text_P = np.repeat(np.arange(len(texts)), lengths)
    left_P = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(units_P))
    # The number of the n-gram that begins at each position; for n = 0 there is only one.
    gram_P = np.zeros_like(units_P)
    for order in range(1, orders + 1):
        starts = np.flatnonzero(left_P >= order)
        keys = gram_P[starts] * len(numbers) + units_P[starts + order - 1]
        # Sort by n-gram, then by text.
        keys = keys * len(texts) + text_P[starts]
        permutation = np.argsort(keys)
        gram, text = np.divmod(keys[permutation], len(texts))
        gram = np.cumsum(np.diff(gram, prepend=-1) != 0) - 1
        gram_P[starts[permutation]] = gram
        yield _shared(gram, text, np.maximum(lengths - order + 1, 0))


def _shared(gram: np.ndarray, text: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return how many n-grams of one order each two texts share, [R, R] int32.

    Args:
      gram: the number of each n-gram of each text, from 0 in ascending order.
      text: the text that it is from, in ascending order for the same n-gram.
      totals: [R], the number of n-grams of each text.
    """
    # A text is a set of pairs: an n-gram, and how many times it appeared before in the text. So the
    # overlap of two texts is the size of the intersection of their sets. Each pair gets a column.
    index = np.arange(len(gram))
    new_gram = np.diff(gram, prepend=-1) != 0
    new_run = new_gram | (np.diff(text, prepend=-1) != 0)
    before = index - np.maximum.accumulate(np.where(new_run, index, 0))
    columns_of_gram = np.maximum.reduceat(before, np.flatnonzero(new_gram)) + 1
    column = (np.cumsum(columns_of_gram) - columns_of_gram)[gram] + before
    # Columns of one text only, which are most, add nothing to the overlap of two texts.
    is_shared = np.bincount(column) > 1
    kept = is_shared[column]
    text, column = text[kept], (np.cumsum(is_shared) - 1)[column[kept]]
    bits = np.zeros((len(totals), -(-np.count_nonzero(is_shared) // 64) * 64), bool)
    bits[text, column] = True
    words = np.ascontiguousarray(np.packbits(bits, axis=1).view(np.uint64).T)
    overlap = np.zeros((len(totals), len(totals)), np.int32)
    # A matrix product is faster on an idle machine, but its threads wait for each other if the
    # search uses all cores.
    for word in words:
        overlap += np.bitwise_count(word[:, None] & word)
    np.fill_diagonal(overlap, totals)  # with the columns of one text
    return overlap
