import pytest

from transformer_jax.serving.http.sites import Sites

PUBLIC = 'https://example.org/translate'


@pytest.mark.parametrize(
    ('headers', 'may_ask'),
    [
        ({}, True),
        ({'origin': 'http://here:5000'}, True),
        ({'origin': 'https://here:5000'}, True),  # a proxy has the certificate
        ({'origin': 'http://HERE:5000', 'sec-fetch-site': 'same-origin'}, True),
        ({'origin': 'null', 'sec-fetch-site': 'same-origin'}, True),
        ({'sec-fetch-site': 'none'}, True),
        ({'origin': 'chrome-extension://abc', 'sec-fetch-site': 'cross-site'}, True),
        ({'origin': 'https://example.org', 'sec-fetch-site': 'cross-site'}, True),
        ({'origin': 'http://here:3000'}, False),
        ({'origin': 'http://here:3000', 'sec-fetch-site': 'same-site'}, False),
        ({'origin': 'https://evil.example'}, False),
        ({'origin': 'https://evil.example', 'sec-fetch-site': 'cross-site'}, False),
        ({'origin': 'null'}, False),
        ({'sec-fetch-site': 'cross-site'}, False),
    ],
)
def test_only_own_pages_and_programs_may_ask(headers, may_ask):
    sites = Sites(public_url=PUBLIC)
    assert (sites.refusal('POST', {'host': 'here:5000', **headers}) == '') == may_ask
    assert sites.refusal('GET', {'host': 'here:5000', **headers}) == ''
    assert Sites(['*']).refusal('POST', {'host': 'here:5000', **headers}) == ''


@pytest.mark.parametrize(
    ('host', 'is_answered'),
    [
        ('127.0.0.1:5000', True),
        ('127.8.9.1', True),
        ('[::1]:5000', True),
        ('LocalHost:5000', True),
        ('example.org', True),
        ('', True),
        ('evil.example:5000', False),
        ('localhost.evil.example', False),
        ('10.0.0.1:5000', False),
        ('0.0.0.0:5000', False),
    ],
)
def test_a_server_for_this_machine_answers_at_no_other_name(host, is_answered):
    for address in ('127.0.0.1', '::1', 'localhost'):
        sites = Sites(public_url=PUBLIC, host=address)
        assert (sites.refusal('GET', {'host': host}) == '') == is_answered
    assert Sites(host='0.0.0.0').refusal('GET', {'host': host}) == ''
    assert Sites(['*'], host='127.0.0.1').refusal('GET', {'host': host}) == ''


@pytest.mark.parametrize('host', ['a b', '[', 'a:b', 'a@b', 'a/b', 'a:999999'])
def test_what_is_no_host_is_refused(host):
    assert Sites().refusal('GET', {'host': host}) == 'the header Host is not the name of a host.'
