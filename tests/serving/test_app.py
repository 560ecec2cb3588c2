import asyncio

import pytest

from transformer_jax.documents import html
from transformer_jax.serving.http import reception
from transformer_jax.serving.http.access import Access, _digest
from transformer_jax.serving.http.limits import Limits


def raw_request(client, *messages, path='/translate', headers=()):
    """Send a request whose body comes in these messages; return the status of the answer."""
    coming, sent = list(messages), []

    async def receive():
        if not coming:
            await asyncio.sleep(10)
        return coming.pop(0)

    async def send(message):
        sent.append(message)

    scope = {
        'type': 'http',
        'method': 'POST',
        'path': path,
        'headers': [(b'content-type', b'application/json'), *headers],
        'query_string': b'',
    }
    asyncio.run(client.app(scope, receive, send))
    return sent[0]['status']


def form_part(content):
    return b'--x\r\ncontent-disposition: form-data; name="q"\r\n\r\n%s\r\n--x--\r\n' % content


def asked(client, **fields):
    answer = client.post('/translate', json={'source': 'en', 'target': 'fr'} | fields)
    return answer.status_code, answer.json()


def test_a_text_is_translated(serving):
    assert asked(serving(), q='a cat') == (200, {'translatedText': 'A CAT'})


def test_a_list_is_answered_with_a_list(serving):
    assert asked(serving(), q=['a', '', 'b']) == (200, {'translatedText': ['A', '', 'B']})
    assert asked(serving(), q=[]) == (200, {'translatedText': []})


def test_sentences_are_translated_apart_and_blanks_stay(serving, translators):
    text = ' One day. Another day.\n\nA line \n'
    assert asked(serving(), q=text)[1]['translatedText'] == text.upper()
    (batch,) = translators['en', 'fr'].batches
    assert batch == ['One day.', 'Another day.', 'A line']


def test_a_sentence_longer_than_all_programs_is_divided_and_nothing_is_cut(serving):
    text = ' '.join(f'w{k}' for k in range(500))
    assert asked(serving(), q=text)[1]['translatedText'] == text.upper()


def test_alternatives_are_given_for_each_text(serving):
    status, answer = asked(serving(), q=['a', 'b'], alternatives=2)
    assert status == 200
    assert answer == {
        'translatedText': ['A', 'B'],
        'alternatives': [['A 1', 'A 2'], ['B 1', 'B 2']],
    }
    assert asked(serving(), q='a', alternatives=1)[1]['alternatives'] == ['A 1']


def test_a_form_is_as_good_as_json(serving):
    client = serving()
    form = {'q': 'é & ü', 'source': 'en', 'target': 'fr', 'alternatives': '1'}
    expected = {'translatedText': 'É & Ü', 'alternatives': ['É & Ü 1']}
    assert client.post('/translate', data=form).json() == expected
    parts = {name: (None, value) for name, value in form.items()}
    assert client.post('/translate', files=parts).json() == expected
    several = client.post('/translate', data={**form, 'q': ['a', 'b'], 'alternatives': '0'})
    assert several.json() == {'translatedText': ['A', 'B']}


def test_the_language_is_detected(serving):
    english, french = 'This is the house of my old friends.', "C'est la maison de mes amis."
    status, answer = asked(serving(), q=[english, french], source='auto')
    assert status == 200
    # French to French stays as it is.
    assert answer['translatedText'] == [english.upper(), french]
    assert [one['language'] for one in answer['detectedLanguage']] == ['en', 'fr']
    one = asked(serving(), q=french, source='auto', target='en')[1]
    assert one['translatedText'] == french.upper()
    assert one['detectedLanguage']['confidence'] > 90


def test_languages_are_listed_and_detected(serving):
    client = serving()
    assert client.get('/languages').json() == [
        {'code': 'de', 'name': 'German', 'targets': []},
        {'code': 'en', 'name': 'English', 'targets': ['de', 'fr']},
        {'code': 'fr', 'name': 'French', 'targets': ['en']},
    ]
    found = client.post('/detect', json={'q': 'Das ist ein Haus, und das ist ein Hund.'}).json()
    assert found[0]['language'] == 'de'
    assert {one['language'] for one in found} == {'de', 'en', 'fr'}


@pytest.mark.parametrize(
    ('fields', 'status', 'error'),
    [
        ({}, 400, 'q is missing'),
        ({'q': 3}, 400, 'q has something other than text'),
        ({'q': ['a', None]}, 400, 'q has something other than text'),
        ({'q': 'a', 'source': ''}, 400, 'source is missing'),
        ({'q': 'a', 'target': 'xx'}, 400, "target='xx' is not supported: choose de or en or fr."),
        ({'q': 'a', 'source': 'xx'}, 400, "source='xx' is not supported: choose auto or en or fr."),
        (
            {'q': 'a', 'source': 'fr', 'target': 'de'},
            400,
            "source='fr' is not translated to target='de'",
        ),
        ({'q': 'a', 'format': 'pdf'}, 400, "format='pdf' is not supported"),
        ({'q': 'a', 'alternatives': 4}, 400, 'alternatives=4 must be a whole number'),
        (
            {'q': 'a', 'alternatives': True},
            400,
            'alternatives=True must be a whole',
        ),
        (
            {'q': 'a', 'alternatives': '1e3'},
            400,
            "alternatives='1e3' must be a whole",
        ),
        ({'q': 'abc ' * 5001}, 400, 'q has 20,004 characters: send at most 20,000 at once'),
        ({'q': ['a'] * 257}, 400, 'q has 257 texts: send at most 256 at once.'),
        ({'q': 'a' * (1 << 20)}, 413, 'the body has more than 1,048,576 bytes'),
    ],
)
def test_a_mistake_is_answered_with_one_sentence(serving, fields, status, error):
    found, answer = asked(serving(), **fields)
    assert (found, [*answer]) == (status, ['error'])
    assert error in answer['error']


@pytest.mark.parametrize(
    ('content', 'kind', 'status'),
    [
        (b'{', 'application/json', 400),
        (b'', '', 400),
        (b'[' * 100_000, 'application/json', 400),
        (b'[]', 'application/json', 400),
        (rb'{"q": "\ud83d", "source": "en", "target": "fr"}', 'application/json', 400),
        (b'\xff', 'application/json', 400),
        (b'q=a', 'text/plain', 415),
        (b'--x', 'multipart/form-data', 400),
        (b'--x\r\nnonsense', 'multipart/form-data; boundary=x', 400),
        (form_part(b'a'), 'multipart/form-data; boundary=x; charset=undefined', 400),
        (form_part(b'a'), 'multipart/form-data; boundary=x; charset=absent', 400),
    ],
)
def test_a_body_that_cannot_be_read_is_answered_with_one_sentence(serving, content, kind, status):
    answer = serving().post('/translate', content=content, headers={'content-type': kind})
    assert (answer.status_code, [*answer.json()]) == (status, ['error'])


def test_a_form_of_many_fields_is_refused(serving):
    kind = {'content-type': 'application/x-www-form-urlencoded'}
    answer = serving().post('/translate', content=b'a=1&' * 1001, headers=kind)
    assert answer.status_code == 400
    assert 'Too many fields' in answer.json()['error']


def test_a_form_may_have_a_field_as_long_as_its_limit(serving):
    client = serving(Limits(body=2 << 20, characters=2 << 20))
    answer = client.post('/detect', files={'q': (None, 'a house ' * 150_000)})
    assert answer.status_code == 200


def test_a_failure_shows_no_trace_and_the_next_request_is_answered(serving):
    client = serving()
    assert asked(client, q='fail') == (500, {'error': 'the server failed: its log says why.'})
    assert asked(client, q='a')[0] == 200


def test_keys_are_asked_for(serving):
    client = serving(access=Access({_digest('secret'): None}))
    assert asked(client, q='a')[0] == asked(client, q='a', api_key='wrong')[0] == 403
    assert asked(client, q='a', api_key=3)[0] == 400
    assert asked(client, q='a', api_key=None)[0] == 403
    assert asked(client, q='a', api_key='secret')[0] == 200
    headers = {'authorization': 'Bearer secret'}
    fields = {'q': 'a', 'source': 'en', 'target': 'fr'}
    assert client.post('/translate', json=fields, headers=headers).status_code == 200


def test_a_wrong_key_in_the_header_is_refused_before_the_body_comes(serving):
    client = serving(access=Access({_digest('secret'): None}))
    assert raw_request(client, headers=[(b'authorization', b'Bearer wrong')]) == 403


def test_a_long_file_comes_only_after_its_key(serving):
    client = serving(Limits(body=1000), access=Access({_digest('secret'): None}))
    form = {'source': 'en', 'target': 'fr', 'api_key': 'secret'}
    file = {'file': ('a.txt', b'a ' * 1000)}
    late = client.post('/translate_file', data=form, files=file)
    assert late.status_code == 413
    assert 'send less (or the header X-API-Key: KEY)' in late.json()['error']
    del form['api_key']
    for headers in ({'x-api-key': 'secret'}, {'authorization': 'bearer secret'}):
        early = client.post('/translate_file', data=form, files=file, headers=headers)
        assert early.status_code == 200


def test_the_password_of_a_proxy_is_no_key(serving):
    client = serving(access=Access({_digest('secret'): None}))
    fields = {'q': 'a', 'source': 'en', 'target': 'fr', 'api_key': 'secret'}
    answer = client.post('/translate', json=fields, headers={'authorization': 'Basic dTpw'})
    assert answer.status_code == 200


def test_too_many_requests_are_told_when_to_come_back(serving):
    client = serving(access=Access(requests_per_minute=2))
    for _ in range(2):
        assert asked(client, q='a')[0] == 200
    answer = client.post('/translate', json={'q': 'a', 'source': 'en', 'target': 'fr'})
    assert answer.status_code == 429
    assert 55 < int(answer.headers['retry-after']) <= 61


def test_a_full_queue_is_told_when_to_come_back(serving, translators):
    client = serving(most_waiting=1)
    translators['en', 'fr'].gate.clear()
    client.batcher.submit(('en', 'fr'), ['first'])
    translators['en', 'fr'].wait()
    client.batcher.submit(('en', 'fr'), ['waits'])
    answer = client.post('/translate', json={'q': 'late', 'source': 'en', 'target': 'fr'})
    assert (answer.status_code, answer.headers['retry-after']) == (503, '1')
    assert 'translate_queue 1.0' in client.get('/metrics').text
    translators['en', 'fr'].gate.set()


def test_a_client_that_goes_away_stops_costing(serving, translators):
    client = serving()
    translator = translators['en', 'fr']
    translator.gate.clear()
    client.batcher.submit(('en', 'fr'), ['first'])
    translator.wait()
    body = b'{"q": "gone", "source": "en", "target": "fr"}'
    whole = {'type': 'http.request', 'body': body}
    for path in ('/translate', '/attention'):
        assert raw_request(client, whole, {'type': 'http.disconnect'}, path=path) == 499
    translator.gate.set()
    assert asked(client, q='next')[0] == 200
    assert ['gone'] not in translator.batches


def test_a_server_that_ends_answers_those_who_still_wait(serving, translators):
    client = serving()
    translators['en', 'fr'].gate.clear()
    sent = []

    async def receive():
        return {'type': 'http.request', 'body': b'{"q": "a", "source": "en", "target": "fr"}'}

    async def send(message):
        sent.append(message)

    async def cancelled():
        scope = {'type': 'http', 'method': 'POST', 'path': '/translate', 'headers': []}
        task = asyncio.create_task(client.app(scope | {'query_string': b''}, receive, send))
        await asyncio.sleep(0.3)
        task.cancel()
        await task

    asyncio.run(cancelled())
    translators['en', 'fr'].gate.set()
    assert sent[0]['status'] == 503
    assert b'this server ends: ask again' in sent[1]['body']


def test_numbers_and_signs_stay_as_they_are(serving, translators):
    assert asked(serving(), q='42\n\U0001f600 ... a')[1] == {
        'translatedText': '42\n\U0001f600 ... A'
    }
    assert translators['en', 'fr'].batches == [['\U0001f600 ... a']]


def test_a_body_that_does_not_come_is_not_waited_for(serving, monkeypatch):
    monkeypatch.setattr(reception, '_BODY_SECONDS', 0.1)
    half = {'type': 'http.request', 'body': b'{"q":', 'more_body': True}
    assert raw_request(serving(), half) == 408
    assert raw_request(serving(), half, {'type': 'http.disconnect'}) == 499


def test_html_keeps_its_tags(serving, translators):
    client = serving()
    q = '<p>One <b>day</b>. Another <i>day</i></p>'
    assert asked(client, q=q, format='html') == (
        200,
        {'translatedText': '<p>ONE <b>DAY</b>. ANOTHER <i>DAY</i></p>'},
    )
    assert translators['en', 'fr'].batches == [['One day.', 'Another day']]
    assert asked(client, q=['<br>', '<b>a</b>'], format='html', alternatives=1)[1] == {
        'translatedText': ['<br>', '<b>A</b>'],
        'alternatives': [[], ['<b>A 1</b>']],
    }


def test_the_language_of_html_is_that_of_its_text(serving):
    q = '<table class="le la les un une"><tr><td>This house is very old.</td></tr></table>'
    found = asked(serving(), q=q, format='html', source='auto')[1]
    assert found['detectedLanguage']['language'] == 'en'


def test_a_server_whose_translations_have_ended_is_not_healthy(serving):
    client = serving()
    client.batcher.end()
    assert client.get('/health').status_code == 503


def test_metrics_count(serving):
    client = serving()
    asked(client, q='a b')
    asked(client, q=3)
    lines = client.get('/metrics').text.splitlines()
    assert 'translate_requests_total{path="/translate",status="200"} 1.0' in lines
    assert 'translate_requests_total{path="/translate",status="400"} 1.0' in lines
    assert 'translate_tokens_total 2.0' in lines
    assert 'translate_characters_total 3.0' in lines
    assert 'translate_batch_sentences_count 1.0' in lines
    assert 'translate_compilations_total 0.0' in lines


def test_pages_of_other_origins_may_not_ask_unless_told(serving, translators):
    headers = {'origin': 'https://example.org'}
    fields = {'q': 'a', 'source': 'en', 'target': 'fr'}
    closed = serving().post('/translate', data=fields, headers=headers)
    assert (closed.status_code, [*closed.json()]) == (403, ['error'])
    assert translators['en', 'fr'].batches == []
    client = serving(origins=['https://example.org'])
    opened = client.post('/translate', json=fields, headers=headers)
    assert opened.headers['access-control-allow-origin'] == 'https://example.org'


def test_every_answer_tells_browsers_what_they_may_do_with_it(serving):
    client = serving()
    attention = client.post('/attention', json={'q': 'a', 'source': 'en', 'target': 'fr'})
    answers = [client.get(path) for path in ('/', '/docs', '/languages', '/nothing')]
    failed = client.post('/translate', json={'q': 'fail', 'source': 'en', 'target': 'fr'})
    for answer in (attention, *answers, failed):
        assert answer.headers['x-content-type-options'] == 'nosniff'
        assert answer.headers['referrer-policy'] == 'same-origin'
        assert "default-src 'none'" in answer.headers['content-security-policy']
        assert "frame-ancestors 'self'" in answer.headers['content-security-policy']


def test_fields_may_stand_in_the_address(serving):
    client = serving()
    address = '/translate?q=a&q=%C3%A9&source=en&target=fr&alternatives=0'
    assert client.post(address).json() == {'translatedText': ['A', '\xc9']}
    body = client.post('/translate?source=en&target=de', json={'q': 'a', 'target': 'fr'})
    assert body.json() == {'translatedText': 'A'}
    data = {'files': {'file': ('a.txt', b'a')}}
    assert client.post('/translate_file?source=en&target=fr', **data).status_code == 200


@pytest.mark.parametrize('alternatives', [None, ''])
def test_no_alternatives_may_be_said_in_several_ways(serving, alternatives):
    found = asked(serving(), q='a', alternatives=alternatives)
    assert found == (200, {'translatedText': 'A'})


def test_codes_of_languages_may_have_any_case(serving):
    assert asked(serving(), q='a', source='EN', target='Fr')[0] == 200
    french = asked(serving(), q='Ceci est une maison.', source='AUTO', target='EN')[1]
    assert french['detectedLanguage']['language'] == 'fr'


@pytest.mark.parametrize('language', ['en', 'de'])
def test_a_text_stays_as_it_is_if_source_and_target_are_one(serving, language):
    fields = {'q': '<p>a', 'source': language, 'target': language, 'format': 'html'}
    assert asked(serving(), **fields) == (200, {'translatedText': '<p>a'})


def test_a_model_with_a_small_beam_gives_fewer_alternatives(serving, translators):
    translators['en', 'fr'].config.decode.beam_size = 2
    answer = asked(serving(), q='a', alternatives=3)[1]
    assert answer == {'translatedText': 'A', 'alternatives': ['A 1']}


def test_what_fails_in_a_parser_is_answered_with_one_sentence(serving, monkeypatch):
    def parser(*_):
        raise RecursionError

    monkeypatch.setattr(html, '_Parser', parser)
    status, answer = asked(serving(), q='<p>a', format='html')
    assert (status, answer['error'][:28]) == (400, 'q: it cannot be read (Recurs')


def test_what_is_not_there_is_answered_in_the_same_shape(serving):
    client = serving()
    for answer in (client.get('/nothing'), client.get('/translate')):
        assert [*answer.json()] == ['error']
    assert client.get('/health').json() == {'status': 'ok'}
    settings = client.get('/frontend/settings').json()
    assert settings['charLimit'] == 20_000
    assert settings['language']['target'] == {'code': 'de', 'name': 'German'}
    assert client.get('/spec').json()['openapi'] == '3.1.0'
    assert '<code>POST /translate</code>' in client.get('/docs').text


@pytest.mark.parametrize('source, target', [('EN', 'Fr'), ('eng', 'fra'), ('en-GB', 'fr_CA')])
def test_languages_are_known_by_all_of_their_codes(serving, source, target):
    assert asked(serving(), q='a', source=source, target=target) == (200, {'translatedText': 'A'})
