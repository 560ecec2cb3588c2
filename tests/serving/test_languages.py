import pytest

from transformer_jax.errors import UserError
from transformer_jax.serving.languages import Languages, language_name

PORTUGUESE = 'Esta é a casa dos meus velhos amigos, e eles não estão aqui.'
ENGLISH = 'This is the house of my old friends.'


def test_languages_that_differ_by_region_only_are_kept_apart():
    languages = Languages([('pt-BR', 'en'), ('en', 'pt-PT')])
    assert languages.source_for(PORTUGUESE, 'en').language == 'pt-BR'
    assert languages.source_for(ENGLISH, 'en').language == 'en'
    assert languages.source_for(PORTUGUESE, 'pt-PT').language == 'pt-PT'
    assert {one.language for one in languages.detect(ENGLISH)} == {'en', 'pt-BR', 'pt-PT'}


def test_a_source_that_nothing_recognises_has_to_be_named():
    languages = Languages([('tlh', 'en'), ('fr', 'en'), ('en', 'tlh')])
    with pytest.raises(UserError, match="source='auto' does not recognise tlh: name the language"):
        languages.source_for(ENGLISH, 'en')
    assert languages.source_for(ENGLISH, 'tlh').language == 'en'


def test_without_a_known_language_nothing_is_detected():
    languages = Languages([('tlh', 'qya')])
    assert not languages.can_detect
    for ask in (languages.detect, lambda text: languages.source_for(text, 'qya')):
        with pytest.raises(UserError, match="source='auto' needs a package that knows"):
            ask('nuqneH')


def test_every_language_that_a_client_may_name_is_listed():
    listed = Languages([('en', 'fr'), ('en', 'zh-Hans'), ('fr', 'en')]).listed()
    assert {one['code']: one['targets'] for one in listed} == {
        'en': ['fr', 'zh-Hans'],
        'fr': ['en'],
        'zh-Hans': [],
    }


@pytest.mark.parametrize(
    'code, name',
    [('fra', 'French'), ('zh-Hans', 'Simplified Chinese'), ('pt_br', 'Brazilian Portuguese')],
)
def test_languages_have_names_however_their_codes_are_written(code, name):
    assert language_name(code) == name
