"""Words are counted in bounded memory."""

from transformer_jax.data.vocabulary import word_counts
from transformer_jax.data.vocabulary.word_counts import count_words


def test_words_stand_between_spaces_in_the_order_of_the_text():
    assert list(count_words(['the cat', '', ' the  dog ']).items()) == [
        ('the', 2),
        ('cat', 1),
        ('dog', 1),
    ]


def test_rare_words_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(word_counts, '_MOST', 100)
    sentences = [f'the {k} cat' for k in range(1000)]
    counts = count_words(sentences)
    assert counts['the'] == counts['cat'] == 1000 and len(counts) <= 100
    assert counts == count_words(sentences)


def test_of_sentences_without_spaces_a_sample_over_the_whole_text_stays(monkeypatch):
    monkeypatch.setattr(word_counts, '_MOST', 100)
    kept = [int(word) for word in count_words(map(str, range(120)))]
    assert len(kept) == 69  # 50 of the first 101, and the 19 after them
    assert 20 < sum(k < 51 for k in kept) < 30
