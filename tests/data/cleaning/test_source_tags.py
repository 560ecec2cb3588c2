"""Language codes are found where models read them, and nowhere else."""

import pytest

from transformer_jax.data.cleaning.source_tags import outside_codes, without_codes


@pytest.mark.parametrize(
    ('text', 'without', 'upper'),
    [
        ('>>fra<< the cat', 'the cat', '>>fra<< THE CAT'),
        ('>>fra<<the cat', 'the cat', '>>fra<<THE CAT'),
        ('<2fr> a <2de> b', 'a b', '<2fr> A <2de> B'),
        ('<2fr> >>fra<< a', 'a', '<2fr> >>fra<< A'),
        ('he said >>ja<< twice', 'he said >>ja<< twice', 'HE SAID >>JA<< TWICE'),
        ('a < 2 > b', 'a < 2 > b', 'A < 2 > B'),
        ('', '', ''),
    ],
)
def test_codes_are_left_out_or_as_they_are(text, without, upper):
    assert without_codes(text) == without
    assert outside_codes(str.upper, text) == upper
