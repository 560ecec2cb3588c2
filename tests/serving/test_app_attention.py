import pytest

from transformer_jax.serving.batcher import QueueFull


def attention(client, **fields):
    return client.post('/attention', data={'source': 'en', 'target': 'fr'} | fields)


def test_attention_is_a_page(serving):
    answer = attention(serving(), q='A cat. </script>')
    assert answer.status_code == 200
    assert answer.headers['content-type'].startswith('text/html')
    assert answer.text.startswith('<!DOCTYPE html>')
    assert '"output":"A CAT."' in answer.text
    assert '"text":"</script>"' not in answer.text


def test_attention_that_cannot_be_shown_says_why(serving):
    client = serving()
    for q, status, problem in (
        ('', 400, 'q has no sentence'),
        ('fail', 500, 'the server failed'),
        ('refused', 400, 'attention is that of one model.'),
    ):
        answer = attention(client, q=q)
        assert answer.status_code == status
        assert problem in answer.json()['error']
    assert 'of one text' in attention(client, q=['a', 'b']).json()['error']
    french = attention(client, q='Ceci est une maison.', source='auto').json()['error']
    assert french == 'q is in fr already: choose another target.'
    assert attention(client, q='next').status_code == 200


def test_translations_do_not_wait_for_all_attention(serving, translators):
    client = serving()
    translators['en', 'fr'].gate.clear()
    futures = [client.batcher.attention(('en', 'fr'), ['a'])]
    translators['en', 'fr'].wait()
    futures += [client.batcher.attention(('en', 'fr'), ['a']) for _ in range(16)]
    job = client.batcher.submit(('en', 'fr'), ['b'])
    with pytest.raises(QueueFull):
        client.batcher.attention(('en', 'fr'), ['a'])
    assert attention(client, q='a').status_code == 503
    job.results.add_done_callback(lambda _: late.append(sum(x.done() for x in futures)))
    late = []
    translators['en', 'fr'].gate.set()
    job.results.result(20)
    assert late[0] <= 2
    assert all(x.result(20) for x in futures)
