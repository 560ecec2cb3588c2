import pytest

from transformer_jax.data.language_codes import canonical, find, is_known, language_of


@pytest.mark.parametrize(
    'code, expected',
    [
        ('fr', 'fr'),
        ('FRA', 'fr'),
        ('fr_FR', 'fr-FR'),
        ('cmn_Hans', 'zh-Hans'),
        ('pt-br', 'pt-BR'),
        ('SRP_latn', 'sr-Latn'),
        ('tlh', 'tlh'),
        ('es-419', 'es-419'),
        ('', ''),
    ],
)
def test_codes_are_written_as_in_bcp_47(code, expected):
    assert canonical(code) == expected


@pytest.mark.parametrize(
    'asked, codes, expected',
    [
        ('FR', ['en', 'fr'], 'fr'),
        ('fra', ['fr'], 'fr'),
        ('fr', ['fra'], 'fra'),
        ('fr-FR', ['fr', 'en'], 'fr'),
        ('fr_ca', ['fr', 'fr-CA'], 'fr-CA'),
        ('pt', ['pt-BR', 'en'], 'pt-BR'),
        ('pt', ['pt-BR', 'pt-PT'], None),
        ('pt-PT', ['pt-BR'], None),
        ('zh-CN', ['zh-Hant', 'zh-Hans'], 'zh-Hans'),
        ('zh_TW', ['zh-Hant', 'zh-Hans'], 'zh-Hant'),
        ('zh-TW', ['zh-Hans', 'zh-TW'], 'zh-TW'),
        ('zh-Hans-CN', ['cmn_Hans'], 'cmn_Hans'),
        ('fra', ['fr', 'fra'], 'fra'),
        ('de', ['fr'], None),
        ('', ['fr'], None),
        ('tlh', ['TLH'], 'TLH'),
    ],
)
def test_a_code_is_found_in_any_spelling(asked, codes, expected):
    assert find(asked, codes) == expected


def test_the_language_of_a_code_is_its_first_part():
    assert language_of('FRA-fr') == 'fr'
    assert [is_known(code) for code in ('fr', 'fra_FR', 'zh-Hans', 'web', '')] == [
        *[True] * 3,
        *[False] * 2,
    ]
