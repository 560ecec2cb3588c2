"""The README of an export."""

import dataclasses

from conversion.random_models import random_model

from transformer_jax.conversion.exported import write_readme
from transformer_jax.storage.release import Release

TEST = {
    'sentences': 12,
    'bleu': 34.5,
    'bleu_signature': 'signature of BLEU',
    'chrf': 56.7,
    'chrf_signature': 'signature of chrF',
}


def test_the_card_has_licence_note_and_scores(tmp_path):
    release = Release([1], license='cc-by-4.0', data_note='From Tatoeba.', test=TEST)
    original = dataclasses.replace(random_model(), release=release)
    write_readme(original, tmp_path, 'Load it.')
    card = (tmp_path / 'README.md').read_text()
    for text in ('license: "cc-by-4.0"', 'From Tatoeba.', '34.50', 'signature of chrF', 'Load it.'):
        assert text in card
