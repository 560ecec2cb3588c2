import re

from transformer_jax.serving.http.limits import Limits
from transformer_jax.serving.pages.docs_page import docs_page
from transformer_jax.serving.pages.openapi import document


def test_every_path_and_field_is_shown():
    described = document([('en', 'fr'), ('<b>', 'de')], Limits())
    page = docs_page(described)
    for path, methods in described['paths'].items():
        for method, operation in methods.items():
            assert f'<code>{method.upper()} {path}</code>' in page
            if 'requestBody' in operation:
                schema = next(iter(operation['requestBody']['content'].values()))['schema']
                assert all(f'<code>{name}</code>' in page for name in schema['properties'])
    assert '&lt;b&gt;' in page and '<b>' not in page


def test_it_says_what_a_field_may_be():
    rows = re.findall(r'<tr><td>.*?</tr>', docs_page(document([('en', 'fr')], Limits())))
    texts = [re.sub('<[^>]+>', '|', row) for row in rows]
    assert any('a text or a list of at most 256|' in text for text in texts)
    assert any('a whole number from 0 to 3 (may be left out)|' in text for text in texts)
    assert any('a file||Of the kind .txt, .srt' in text for text in texts)


def test_it_names_no_other_host():
    assert not re.search(r'(?:https?:)?//', docs_page(document([('en', 'fr')], Limits())))
