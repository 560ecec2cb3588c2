import pytest

from transformer_jax.serving import file_routes
from transformer_jax.serving.http.limits import Limits


def file_sent(client, name='a.srt', data=b'1\n00:00:00,000 --> 00:00:01,000\na\n\n', **fields):
    fields = {'source': 'en', 'target': 'fr'} | fields
    answer = client.post('/translate_file', data=fields, files={'file': (name, data)})
    return answer.status_code, answer.json()


def test_a_file_is_translated_and_fetched(serving):
    client = serving()
    status, answer = file_sent(client, 'my talk \u00e9.srt')
    assert (status, [*answer]) == (200, ['translatedFileUrl'])
    fetched = client.get(answer['translatedFileUrl'])
    assert fetched.content == b'1\n00:00:00,000 --> 00:00:01,000\nA\n\n'
    name = 'my%20talk%20%C3%A9.fr.srt'
    assert fetched.headers['content-disposition'] == f"attachment; filename*=utf-8''{name}"
    assert client.get('/download_file/absent').status_code == 404


def test_the_language_of_a_file_is_found(serving):
    client = serving()
    found = file_sent(client, 'a.txt', b'This house is very old.', source='auto')[1]
    assert found['detectedLanguage']['language'] == 'en'


@pytest.mark.parametrize('source', ['auto', 'fr'])
def test_a_file_in_the_target_language_stays_as_it_is(serving, source):
    client, data = serving(), b'\xef\xbb\xbfCeci est une maison.\r\n'
    answer = file_sent(client, 'a.txt', data, source=source)[1]
    assert client.get(answer['translatedFileUrl']).content == data


@pytest.mark.parametrize(
    ('name', 'data', 'problem'),
    [
        ('a.pdf', b'a', "'a.pdf' is no file to translate"),
        ('a.srt', b'a', "'a.srt': these are no subtitles"),
        (
            'a.txt',
            b'a' * 101,
            'file has 101 characters: send at most 100 at',
        ),
        ('a.txt', b'a' * 9000, 'the body has more than 5,000 bytes'),
    ],
)
def test_a_file_that_cannot_be_translated_is_refused(serving, name, data, problem):
    status, answer = file_sent(serving(Limits(file_body=5000, file_characters=100)), name, data)
    assert status in (400, 413)
    assert problem in answer['error']


@pytest.mark.parametrize('field', ['name="q"; filename="{}.txt"', 'name="{}"'])
def test_a_form_with_half_a_character_is_refused(serving, field):
    part = f'--x\r\ncontent-disposition: form-data; {field.format("+2D0-")}\r\n\r\na\r\n--x--'
    kind = {'content-type': 'multipart/form-data; boundary=x; charset=utf-7'}
    answer = serving().post('/translate_file', content=part, headers=kind)
    assert answer.status_code == 400
    assert 'half a character' in answer.json()['error']


def test_files_are_worked_on_in_threads_however_few_letters_they_have(serving, monkeypatch):
    called = []

    async def in_thread(function, *args):
        called.append(function.__name__)
        return function(*args)

    monkeypatch.setattr(file_routes, 'run_in_threadpool', in_thread)
    assert file_sent(serving(), 'a.html', b'<p>a')[0] == 200
    assert called == ['document_of', 'submit', '_joined']


def test_a_form_without_a_file_is_refused(serving):
    client = serving()
    fields = {'source': 'en', 'target': 'fr', 'file': 'a.txt'}
    for body in ({'data': fields}, {'json': fields}, {'files': {'source': (None, 'en')}}):
        assert 'is missing' in client.post('/translate_file', **body).json()['error']
    two = [('file', ('a.txt', b'a')), ('file', ('b.txt', b'b'))]
    assert client.post('/translate_file', data=fields, files=two).status_code == 400


def test_links_to_files_have_the_public_address(serving):
    client = serving(public_url='https://example.org/x/')
    address = file_sent(client, '../a.txt', b'a')[1]['translatedFileUrl']
    assert address.startswith('https://example.org/x/download_file/')
    fetched = client.get(f'/download_file/{address.rpartition("/")[2]}')
    assert fetched.headers['content-disposition'] == "attachment; filename*=utf-8''a.fr.txt"
