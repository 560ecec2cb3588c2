"""The page of attention works in a browser, for any text."""

import html
import json
import re
import shutil
import subprocess
import zlib
from base64 import b64decode

import numpy as np
import pytest
from closeness import assert_close

from transformer_jax.inspection.attention_page import attention_json, attention_page
from transformer_jax.translator import Translator

HOSTILE = '</script><script>document.title="broken"</script> <!-- & "quotes" '
BROWSER = next(filter(shutil.which, ('chromium', 'chromium-browser', 'google-chrome')), None)


@pytest.fixture(scope='module')
def found():
    translator = Translator.load('tatoeba_en_fr')
    return translator.attention(['The cat sleeps.', HOSTILE, ''], ['Le chat dort.', 'Salut.', ''])


def test_the_page_has_the_weights_rounded_to_bytes(found):
    page = attention_page(found, 'Title')
    data = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    assert [one['text'] for one in data] == ['The cat sleeps.', HOSTILE, '']
    first = data[0]
    assert (first['layers'], first['heads']) == (4, 4)
    weights = np.frombuffer(zlib.decompress(b64decode(first['weights'])), np.uint8) / 255
    wanted = np.concatenate(
        [found[0].encoder.ravel(), found[0].decoder.ravel(), found[0].cross.ravel()]
    )
    np.testing.assert_allclose(weights, wanted, atol=0.5 / 255 + 1e-6)


def test_the_page_needs_no_other_host(found):
    page = attention_page(found[:1], 'Title')
    assert "default-src 'none'" in page
    assert set(re.findall(r'https?://[^"\'\s<]+', page)) == {'http://www.w3.org/2000/svg'}


def test_a_title_is_text(found):
    assert '<title>&lt;b&gt;$x</title>' in attention_page(found[:1], '<b>$x')


def test_json_holds_everything(found):
    first, *_ = json.loads(attention_json(found))
    assert_close(first['cross'], found[0].cross)
    assert tuple(first['target']) == found[0].target
    assert first['top'][0][0][0] == found[0].top[0][0][0]


def in_browser(page, tmp_path, script='', fragment=''):
    """Return the page's elements, as HTML, after it was opened and `script` has run."""
    file = tmp_path / 'page.html'
    file.write_text(page.replace('</body>', f'<script>{script}</script></body>'), encoding='utf-8')
    command = [
        BROWSER,
        '--headless',
        '--no-sandbox',
        '--disable-gpu',
        f'--user-data-dir={tmp_path}/user',
    ]
    opened = subprocess.run(
        [*command, '--virtual-time-budget=5000', '--dump-dom', file.as_uri() + fragment],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return opened.stdout


needs_browser = pytest.mark.skipif(BROWSER is None, reason='there is no Chromium')

# What a person does, one after another; each line of the result is what the page then shows.
ACTIONS = """
const seen = [], say = id => seen.push(byId(id).textContent), click = node => node.click();
const wait = setInterval(() => {
  if (document.body.dataset.ready !== '0') return;
  clearInterval(wait);
  say('head-title'); say('output');
  click(byId('tab-encoder')); say('explanation');
  click(byId('grid').querySelectorAll('canvas')[1]); say('head-title');
  const down = new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true });
  byId('grid').querySelector('canvas').dispatchEvent(down); say('head-title');
  const lines = () => byId('lines').querySelectorAll('line').length;
  const all = lines(); click(byId('chips').children[0]); seen.push(String(lines() < all));
  byId('chips').children[1].dispatchEvent(new MouseEvent('dblclick'));
  seen.push([...byId('chips').children].map(chip => chip.getAttribute('aria-pressed')).join(' '));
  byId('step').value = 2; byId('step').dispatchEvent(new Event('input'));
  say('step-number'); say('prefix');
  seen.push(byId('top').rows.length);
  const left = byId('lines').querySelector('[data-side="0"][data-k="1"]'); left.focus();
  const ons = [...byId('lines').querySelectorAll('[data-side="1"].on')];
  seen.push(ons.length > 0 && ons.every(text => /\\d\\.\\d\\d$/.test(text.textContent)));
  left.blur(); seen.push(byId('lines').querySelectorAll('.on').length);
  byId('details').open = true; drawTable(); seen.push(byId('table').querySelectorAll('td').length);
  byId('words').click(); seen.push(byId('table').querySelectorAll('th[scope=col]').length);
  show(1).then(() => { seen.push(byId('sentence').value);
    const result = document.createElement('pre'); result.id = 'result';
    result.textContent = JSON.stringify(seen); document.body.append(result); });
}, 20);
"""


@needs_browser
def test_a_person_can_click_through_the_page(found, tmp_path):
    dom = in_browser(attention_page(found, 'Title'), tmp_path, ACTIONS)
    seen = json.loads(html.unescape(re.search('<pre id="result">(.*?)</pre>', dom, re.DOTALL)[1]))
    tokens = len(found[0].source)
    assert seen == [
        'Layer 3, head 1',
        'Le chat dort.',
        'Rows are the tokens of the source that look, columns the tokens that are looked at.',
        'Layer 1, head 2',
        'Layer 2, head 2',
        'true',
        'false true false false',
        f'2 of {len(found[0].target)}',
        'Le chat',
        5,
        True,
        0,
        tokens * tokens,
        len({*found[0].source_words}),
        '1',
    ]


def test_the_page_has_the_probability_of_each_piece_of_a_given_output(found):
    page = attention_page(found[:1], 'Title')
    data = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    np.testing.assert_allclose(data[0]['probs'], np.exp(found[0].log_probs), atol=1e-4)


UNLIKELY = """
const wait = setInterval(() => {
  if (document.body.dataset.ready !== '0') return;
  clearInterval(wait);
  const rows = byId('top').rows, last = rows[rows.length - 1];
  const result = document.createElement('pre');
  result.id = 'result';
  result.textContent = `${rows.length} ${last.className} ${last.cells[0].textContent}`;
  document.body.append(result);
}, 20);
"""


@needs_browser
def test_a_piece_that_is_not_among_the_five_best_is_shown_after_them(tmp_path):
    found = Translator.load('tatoeba_en_fr').attention('The cat sleeps.', 'Merci.')
    assert found.target[0] not in dict(found.top[0])
    dom = in_browser(attention_page([found], 'Title'), tmp_path, UNLIKELY)
    assert '<pre id="result">6 chosen Merci</pre>' in dom


@needs_browser
def test_a_text_cannot_break_the_page(found, tmp_path):
    dom = in_browser(attention_page(found[1:], 'Title'), tmp_path)
    assert '<title>Title</title>' in dom and 'data-ready="0"' in dom
    option = re.search(r'<option value="0">1\. (.*?)</option>', dom, re.DOTALL)[1]
    assert html.unescape(option) == HOSTILE


@needs_browser
@pytest.mark.parametrize(('fragment', 'shown'), [('', '.'), ('#whole-words', 'dort.')])
def test_an_address_can_ask_for_whole_words(found, tmp_path, fragment, shown):
    dom = in_browser(attention_page(found[:1], 'Title'), tmp_path, '', fragment)
    labels = re.findall(r'<text [^>]*data-side="0"[^>]*>(.*?)</text>', dom)
    assert labels[-2] == shown
