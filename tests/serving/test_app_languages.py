"""A server of a model that translates into several languages."""

import pytest
from fake_translator import FakeTranslator


@pytest.fixture
def translators():
    model = FakeTranslator('en', {'fr': '<2fr>', 'de': '<2de>'})
    return {('en', 'fr'): model, ('en', 'de'): model, ('fr', 'en'): FakeTranslator('fr', 'en')}


@pytest.fixture
def batches(translators):
    return translators['en', 'fr'].batches


def asked(client, path='/translate', **fields):
    return client.post(path, json={'source': 'en', 'target': 'fr'} | fields)


def test_the_target_puts_its_tag_before_every_sentence(serving, batches):
    answer = asked(serving(), q=['One day. Another day.', 'A line\nand more'], target='de')
    assert answer.json() == {'translatedText': ['ONE DAY. ANOTHER DAY.', 'A LINE\nAND MORE']}
    sentences = ['One day.', 'Another day.', 'A line', 'and more']
    assert batches == [[f'<2de> {sentence}' for sentence in sentences]]


@pytest.mark.parametrize('target', ['fr', 'de'])
def test_a_tag_before_a_text_holds_for_all_of_it(serving, batches, target):
    answer = asked(serving(), q=['<2fr> One day. Another day.\nA line', 'More'], target=target)
    assert answer.json() == {'translatedText': ['ONE DAY. ANOTHER DAY.\nA LINE', 'MORE']}
    sentences = ['One day.', 'Another day.', 'A line']
    assert batches == [[f'<2fr> {sentence}' for sentence in sentences] + [f'<2{target}> More']]


def test_a_tag_before_html_holds_for_all_of_it_and_moves_no_mark(serving, batches):
    q = '&lt;2de> One <b>day</b>.<p>Another <i>day</i>'
    answer = asked(serving(), q=q, format='html')
    assert answer.json() == {'translatedText': 'ONE <b>DAY</b>.<p>ANOTHER <i>DAY</i>'}
    assert batches == [['<2de> One day.', '<2de> Another day']]


@pytest.mark.parametrize('target, tag', [('fr', '<2fr>'), ('de', '<2de>')])
def test_files_are_translated_into_the_target(serving, batches, target, tag):
    form = {'source': 'en', 'target': target}
    file = {'file': ('a.txt', 'One day. Another day.\n')}
    answer = serving().post('/translate_file', data=form, files=file)
    assert answer.status_code == 200
    assert batches == [[f'{tag} One day.', f'{tag} Another day.']]


def test_attention_is_that_of_the_target(serving, batches):
    assert asked(serving(), '/attention', q='One day. Another.', target='de').status_code == 200
    assert batches == [['<2de> One day.', '<2de> Another.']]


def test_every_target_is_listed(serving):
    assert serving().get('/languages').json() == [
        {'code': 'de', 'name': 'German', 'targets': []},
        {'code': 'en', 'name': 'English', 'targets': ['de', 'fr']},
        {'code': 'fr', 'name': 'French', 'targets': ['en']},
    ]


def test_sentences_for_all_targets_of_a_model_share_batches(serving, translators, batches):
    client, model = serving(), translators['en', 'fr']
    model.gate.clear()
    client.batcher.submit(('en', 'fr'), ['<2fr> first'])
    model.wait()
    jobs = [client.batcher.submit(('en', x), [f'<2{x}> next']) for x in ('fr', 'de')]
    model.gate.set()
    assert [job.results.result(10)[0][0].text for job in jobs] == ['NEXT', 'NEXT']
    assert batches == [['<2fr> first'], ['<2fr> next', '<2de> next']]
