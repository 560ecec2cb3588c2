"""The web page of the server, as files and in a browser."""

import contextlib
import json
import re
import socket
import threading

import pytest
import uvicorn
from browser import BROWSER, browser
from fake_translator import FakeTranslator
from starlette.testclient import TestClient

from transformer_jax.serving.app import Server
from transformer_jax.serving.batcher import Batcher
from transformer_jax.serving.http.access import Access, _digest
from transformer_jax.serving.http.limits import Limits
from transformer_jax.serving.metrics import Metrics

FILES = {
    '/': 'text/html; charset=utf-8',
    '/page.css': 'text/css; charset=utf-8',
    '/page.js': 'text/javascript; charset=utf-8',
    '/page.svg': 'image/svg+xml',
}
needs_browser = pytest.mark.skipif(BROWSER is None, reason='there is no Chromium')


@contextlib.contextmanager
def application(translators, access=None):
    batcher = Batcher(translators)
    batcher.start()
    server = Server(batcher, Limits(characters=500), access or Access(), Metrics())
    try:
        yield server.application()
    finally:
        batcher.end()


@contextlib.contextmanager
def served(app):
    """Give the address of a real server."""
    with socket.socket() as listening:
        listening.bind(('127.0.0.1', 0))
        listening.listen()  # until the server is there, requests wait
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        thread = threading.Thread(target=server.run, kwargs={'sockets': [listening]})
        thread.start()
        try:
            yield f'http://127.0.0.1:{listening.getsockname()[1]}/'
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope='module')
def translators():
    return {
        ('en', 'fr'): FakeTranslator(),
        ('en', 'de'): FakeTranslator('en', 'de'),
        ('fr', 'en'): FakeTranslator('fr', 'en'),
    }


@pytest.fixture(scope='module')
def app(translators):
    with application(translators) as made:
        yield made


@pytest.fixture(scope='module')
def address(app):
    with served(app) as found:
        yield found


@pytest.fixture(scope='module')
def chromium():
    with browser() as opened:
        yield opened


@pytest.fixture
def tab(chromium, address):
    """The page as somebody finds it who has never been there."""
    chromium.screen(1280, 800)
    opened(chromium, address)
    chromium.problems.clear()
    yield chromium
    chromium.value('localStorage.clear()')
    assert [problem for problem in chromium.problems if 'Failed to load' not in problem] == []


def opened(chromium, address):
    chromium.open(address)
    chromium.wait('!byId("fields").disabled')


def translate(tab, text):
    """Write a text, ask for its translation with keys, and return the status."""
    tab.value('byId("text").focus(), byId("text").select()')
    tab.write(text)
    tab.press('Enter', control=True)
    tab.wait('byId("translate").getAttribute("aria-busy") == "false"')
    return tab.value('byId("status").textContent')


def choose(tab, name, code):
    tab.value(f'byId("{name}").value = "{code}"')
    tab.value(f'byId("{name}").dispatchEvent(new Event("change"))')


def choices(tab, name):
    return tab.value(f'[...byId("{name}").options].map(option => option.textContent)')


def content(tab, *names):
    return [tab.value(f'byId("{name}").value') for name in names]


def test_the_page_may_run_only_its_own_files_and_needs_no_key():
    with application({('en', 'fr'): FakeTranslator()}, Access({_digest('secret'): None})) as made:
        client = TestClient(made)
        for path, kind in FILES.items():
            answer = client.get(path)
            assert (answer.status_code, answer.headers['content-type']) == (200, kind)
            policy = {*answer.headers['content-security-policy'].split('; ')}
            assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'self'"} <= policy
            assert 'unsafe' not in ' '.join(policy)
            assert answer.headers['x-content-type-options'] == 'nosniff'
            assert answer.headers['referrer-policy'] == 'same-origin'
            assert answer.headers['cache-control'] == 'no-cache'


def test_the_page_names_no_other_host_and_no_absolute_path(app):
    client = TestClient(app)
    for path in ('/', '/page.css', '/page.js'):
        text = client.get(path).text
        assert not re.findall(r'https?:|[\'"(=`]\s*//', text)
        assert not re.findall(r'(?:src|href|action)="/', text)


@needs_browser
def test_a_text_is_translated_with_the_keyboard_alone(tab, address):
    tab.value('document.activeElement.blur()')
    seen = []
    while not seen or seen[-1] != 'text':
        tab.press('Tab')
        seen.append(tab.value('document.activeElement.id'))
        assert len(seen) < 10
    tab.write('two cats')
    while tab.value('document.activeElement.id') != 'alternatives':
        tab.press('Tab')
    tab.write('2')
    tab.press('Tab', 'Enter')
    tab.wait('byId("status").textContent.startsWith("Translated")')
    assert content(tab, 'translation') == ['TWO CATS']
    items = '[...document.querySelectorAll("li span")].map(node => node.textContent)'
    assert tab.value(items) == ['TWO CATS 1', 'TWO CATS 2']
    names = tab.value('performance.getEntriesByType("resource").map(entry => entry.name)')
    assert f'{address}translate' in names
    assert all(name.startswith(address) for name in names)


@needs_browser
def test_every_field_has_a_name_and_shows_the_focus(tab):
    nodes = '[...document.querySelectorAll("select, textarea, input:not([type=hidden]), button")]'
    name = 'node.labels.length + node.textContent.trim().length + !!node.ariaLabel'
    assert tab.value(f'{nodes}.filter(node => !({name})).map(node => node.id)') == []
    tab.value('byId("text").focus()')
    tab.press('Tab', shift=True)
    assert tab.value('getComputedStyle(document.activeElement).outlineWidth') == '3px'


@needs_browser
def test_a_mistake_is_shown_in_the_sentence_of_the_server(tab):
    assert translate(tab, 'fail') == 'the server failed: its log says why.'
    assert tab.value('byId("status").className') == 'error'
    long = 'a' * 501
    assert translate(tab, long) == (
        'q has 501 characters: send at most 500 at once (--max_characters of the server).'
    )
    assert tab.value('byId("count").textContent') == '501 / 500 characters'
    assert translate(tab, 'a').startswith('Translated in ')
    assert tab.value('byId("status").className') == ''


@needs_browser
def test_a_text_is_shown_as_text_whatever_it_is(tab):
    tab.value('byId("alternatives").value = 1')
    hebrew = '\u05e9\u05dc\u05d5\u05dd'
    text = f'<script>1</script> <img src=x onerror=alert(1)> "\' & {hebrew} \U0001f600'
    translate(tab, text)
    assert content(tab, 'translation') == [text.upper()]
    assert tab.value('document.querySelector("li span").textContent') == f'{text.upper()} 1'
    assert tab.value('document.querySelectorAll("script, img").length') == 1
    assert tab.value('byId("count").textContent').startswith(f'{len(text)} / ')
    translate(tab, hebrew)
    assert tab.value('byId("translation").matches(":dir(rtl)")')
    assert tab.value('byId("translation").lang') == 'de'


@needs_browser
def test_targets_follow_the_source_and_choices_are_remembered(tab, address):
    assert choices(tab, 'source') == ['Detect', 'English', 'French']
    assert content(tab, 'source', 'target') == ['en', 'de']
    choose(tab, 'target', 'fr')
    assert choices(tab, 'target') == ['French', 'German']
    opened(tab, address)
    assert content(tab, 'source', 'target') == ['en', 'fr']
    assert not tab.value('byId("swap").disabled')
    choose(tab, 'target', 'de')
    assert tab.value('byId("swap").disabled')  # nothing translates German
    choose(tab, 'source', 'fr')
    assert choices(tab, 'target') == ['English']


@needs_browser
def test_swapping_goes_on_with_the_translation(tab):
    choose(tab, 'target', 'fr')
    translate(tab, 'cat')
    tab.value('byId("swap").click()')
    assert content(tab, 'source', 'target', 'text', 'translation') == ['fr', 'en', 'CAT', '']
    tab.value('byId("swap").click()')
    assert content(tab, 'source', 'target', 'text') == ['en', 'fr', 'CAT']


@needs_browser
def test_the_detected_language_is_named_and_can_be_swapped(tab):
    choose(tab, 'source', 'auto')
    choose(tab, 'target', 'en')
    status = translate(tab, "C'est la maison de mes amis.")
    assert re.fullmatch(r'Translated from French \(\d+ % sure\) in \d+\.\d s\.', status)
    assert tab.value('byId("text").lang') == 'fr'
    tab.value('byId("swap").click()')
    assert content(tab, 'source', 'target') == ['en', 'fr']
    choose(tab, 'source', 'auto')
    status = translate(tab, "C'est la maison de mes amis.")
    assert status == 'The text is in French already.'
    assert tab.value('byId("inside").hidden')


@needs_browser
def test_a_new_request_takes_the_place_of_one_that_is_under_way(tab, translators):
    gate = translators['en', 'de'].gate
    gate.clear()
    tab.value('byId("text").focus()')
    tab.write('first')
    tab.press('Enter', control=True)
    tab.wait('byId("translate").getAttribute("aria-busy") == "true"')
    answered = translate(tab, 'a' * 501)
    gate.set()
    # The answer to the first text would come within this time.
    tab.value('fetch("health").then(() => new Promise(done => setTimeout(done, 200)))')
    assert content(tab, 'translation') == ['']
    assert tab.value('byId("status").textContent') == answered


@needs_browser
def test_a_translation_can_be_copied(tab):
    tab.value('byId("alternatives").value = 1')
    translate(tab, 'cat')
    for k, wanted in enumerate(['CAT', 'CAT 1']):
        button = f'[byId("copy"), document.querySelector("li button")][{k}]'
        tab.value(f'{button}.focus()')
        tab.press('Enter')
        tab.wait(f'{button}.textContent == "Copied"')
        tab.value('byId("text").focus(), byId("text").select()')
        tab.paste()
        assert content(tab, 'text') == [wanted]


@needs_browser
def test_the_attention_of_what_was_translated_is_shown_on_demand(tab):
    translate(tab, f'one <b>cat.\n{"x" * 488}')  # 500 characters, with a line end of two: 501
    assert tab.value('document.querySelector("iframe")') is None
    tab.value('byId("text").value = "something else"')
    tab.value('document.querySelector("summary").focus()')
    tab.press('Enter')
    viewer = 'document.querySelector("iframe")?.contentDocument'
    tab.wait(f'byId("waiting").textContent == "" && {viewer}?.body.dataset.ready == "0"')
    options = tab.value(f'[...{viewer}.querySelectorAll("option")].map(one => one.textContent)')
    assert options == ['1. one <b>cat.', f'2. {"x" * 487}']
    assert tab.value(f'{viewer}.getElementById("words").checked')
    height = tab.value(f'{viewer}.documentElement.scrollHeight')
    assert 300 < height <= tab.value('document.querySelector("iframe").clientHeight')


@needs_browser
def test_a_new_translation_closes_the_view_of_the_last_one(tab):
    translate(tab, 'cat')
    tab.value('byId("inside").open = true')
    tab.wait('!!document.querySelector("iframe")')
    translate(tab, 'refused')
    assert tab.value('byId("inside").open') is False
    assert tab.value('document.querySelector("iframe")') is None
    tab.value('byId("inside").open = true')
    tab.wait('byId("waiting").textContent == "attention is that of one model."')


def translate_file(tab, text, name='my talk.srt'):
    """Choose a file with a text, ask for its translation with keys, and return the status."""
    tab.value('byId("of-file").open = true')
    tab.value(f"""{{
        const chosen = new DataTransfer();
        chosen.items.add(new File([{json.dumps(text)}], {json.dumps(name)}));
        byId("file").files = chosen.files, byId("translate-file").focus();
    }}""")
    tab.press('Enter')
    tab.wait('byId("translate-file").getAttribute("aria-busy") == "false"')
    return tab.value('byId("file-status").textContent')


@needs_browser
def test_a_file_is_translated_and_can_be_fetched(tab):
    time = '1\n00:00:00,000 --> 00:00:01,000\n'
    assert tab.value('byId("file").accept') == '.txt,.srt,.html,.htm,.docx,.odt'
    status = translate_file(tab, f'{time}a cat\n\n')
    assert re.fullmatch(
        r'Translated in \d+\.\d s\. Download the translation of my talk\.srt', status
    )
    link = 'document.querySelector("#file-status a")'
    assert tab.value(f'fetch({link}.href).then(x => x.text())') == f'{time}A CAT\n\n'
    choose(tab, 'source', 'auto')
    status = translate_file(tab, 'This is the house of my old friends.', 'a.txt')
    assert status.startswith('Translated from English (')


@needs_browser
def test_a_file_that_cannot_be_translated_says_why(tab):
    status = translate_file(tab, 'a', '<b>.srt')
    assert status.startswith("'<b>.srt': these are no subtitles")
    assert tab.value('byId("file-status").className') == 'error'
    translate_file(tab, 'a', 'a.txt')
    assert tab.value('byId("file-status").className') == ''
    assert tab.value('byId("translate-file").textContent') == 'Translate file'


@needs_browser
@pytest.mark.parametrize('is_dark', [False, True])
def test_the_page_fits_a_phone_and_the_colours_that_its_user_prefers(tab, is_dark):
    tab.screen(360, 640, dark=is_dark, is_phone=True)
    tab.value('byId("alternatives").value = 2')
    translate(tab, 'w' * 300)
    translate_file(tab, 'a', f'{"w" * 100}.txt')
    assert tab.value('document.documentElement.scrollWidth') == 360
    colour = tab.value('getComputedStyle(document.body).backgroundColor')
    assert (sum(map(int, re.findall(r'\d+', colour))) < 200) == is_dark


@needs_browser
def test_a_key_is_asked_for_and_a_client_is_told_when_to_come_back(chromium):
    access = Access({_digest('secret'): 1})
    with application({('en', 'fr'): FakeTranslator()}, access) as made, served(made) as address:
        opened(chromium, address)
        assert choices(chromium, 'source') == ['English']  # there is nothing to detect
        assert 'api_key is missing' in translate(chromium, 'cat')
        assert chromium.value('document.activeElement.id') == 'key'
        chromium.write('secret')
        chromium.press('Enter')
        chromium.wait('byId("status").textContent.startsWith("Translated")')
        opened(chromium, address)
        assert content(chromium, 'key') == ['secret']
        assert 'secret' not in chromium.value('JSON.stringify(localStorage) + location.href')
        wanted = r'try again in \d+ seconds\. Not before .*\d:\d\d'
        assert re.search(wanted, translate(chromium, 'cat'))
