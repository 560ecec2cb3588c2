'use strict';

const byId = id => document.getElementById(id);
const STORE = 'transformer_jax';
let languages = [], settings = {};
const requests = {}; // the controllers of the requests that are under way, by the id of their button
let shown = null; // the translation that is shown: text, source, target

function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

// A browser may refuse to store, or have stored something else.
function remembered(storage, name) {
  try { return JSON.parse(window[storage].getItem(name)); } catch { return null; }
}

function remember(storage, name, value) {
  try { window[storage].setItem(name, JSON.stringify(value)); } catch { /* works without */ }
}

function say(sentence, isError = false, place = byId('status')) {
  place.textContent = sentence;
  place.classList.toggle('error', isError);
}

const number = value => value.toLocaleString('en');
const tag = code => code.replace(/_/g, '-'); // as `lang` has it

function languageName(code) {
  const known = languages.find(one => one.code === code);
  if (known) return known.name;
  try { return new Intl.DisplayNames(['en'], { type: 'language' }).of(tag(code)); } catch { return code; }
}

// Languages

function targetsOf(source) {
  return [...new Set(languages.filter(one => source === 'auto' || one.code === source).flatMap(one => one.targets))];
}

function fill(select, choices, wanted) {
  select.replaceChildren(...choices.map(([value, text]) => element('option', { value, textContent: text })));
  if (choices.some(([value]) => value === wanted)) select.value = wanted;
}

function setLanguages(source, target) {
  const sources = languages.filter(one => one.targets.length).map(one => [one.code, one.name]);
  if (settings.languageDetection && sources.length > 1) sources.unshift(['auto', 'Detect']);
  fill(byId('source'), sources, source);
  const targets = targetsOf(byId('source').value).map(code => [code, languageName(code)]);
  fill(byId('target'), targets.sort((a, b) => a[1].localeCompare(b[1])), target);
  byId('text').lang = byId('source').value === 'auto' ? '' : tag(byId('source').value);
  byId('swap').disabled = !swapped();
}

// The pair that the swap button chooses; null if it is not translated.
function swapped() {
  const source = byId('source').value, target = byId('target').value;
  const from = source === 'auto' ? shown?.target === target && shown.source : source;
  return targetsOf(target).includes(from) ? [target, from] : null;
}

function chosen() {
  setLanguages(byId('source').value, byId('target').value);
  rememberChoices();
}

function rememberChoices() {
  const [source, target, alternatives] = ['source', 'target', 'alternatives'].map(id => byId(id).value);
  remember('localStorage', STORE, { source, target, alternatives });
}

function swap() {
  const text = shown?.target === byId('target').value ? byId('translation').value : '';
  setLanguages(...swapped());
  rememberChoices();
  if (!text) return;
  requests.translate?.abort();
  byId('text').value = text;
  show(null);
  say('');
  count();
}

// Translating

function count() {
  const length = [...byId('text').value].length; // code points, as the server counts
  byId('count').textContent = `${number(length)} / ${number(settings.charLimit)} characters`;
  byId('count').classList.toggle('over', length > settings.charLimit);
}

// Return the answer to a request; throw an Error with a sentence for people.
async function ask(path, fields, signal) {
  const isForm = fields instanceof FormData, headers = isForm ? {} : { 'Content-Type': 'application/json' };
  // The server does not read a long body before it knows the key. A proxy may need Authorization.
  if (/^[!-~]+$/.test(byId('key').value)) headers['X-API-Key'] = byId('key').value;
  const options = { body: isForm ? fields : JSON.stringify(fields), headers };
  const response = await fetch(path, fields ? { method: 'POST', signal, ...options } : {}).catch(error => {
    throw error.name === 'AbortError' ? error : new Error(`The server does not answer${fields instanceof FormData ? ', or the file has gone' : ''}: try again later.`);
  });
  const answer = await response.json().catch(() => null);
  if (response.ok && answer) return answer;
  const sentence = answer?.error ?? `The server answered with status ${response.status}.`;
  throw Object.assign(new Error(sentence + again(response.headers.get('Retry-After'))), { status: response.status });
}

// When a server wants to be asked again: after some seconds, or at a date.
function again(header) {
  const at = isNaN(header) ? Date.parse(header) : Date.now() + 1000 * header;
  return header && at ? ` Not before ${new Date(at).toLocaleTimeString()}.` : '';
}

// Ask what a button asks for, in place of what it asked before.
async function submit(button, path, fields, place, answered) {
  requests[button.id]?.abort();
  const own = requests[button.id] = new AbortController(), began = performance.now();
  const label = button.dataset.label ??= button.textContent;
  button.textContent = 'Translating\u2026';
  button.setAttribute('aria-busy', true);
  say('Translating.', false, place);
  try {
    const answer = await ask(path, fields, own.signal);
    answered(answer, ` in ${((performance.now() - began) / 1000).toFixed(1)} s.`);
  } catch (error) {
    if (own.signal.aborted) return;
    say(error.message, true, place);
    if (error.status === 403) byId('key').focus();
  } finally {
    if (own === requests[button.id]) {
      button.textContent = label;
      button.setAttribute('aria-busy', false);
    }
  }
}

function translate() {
  const [q, source, target, key] = ['text', 'source', 'target', 'key'].map(id => byId(id).value);
  const fields = { q, source, target, alternatives: Number(byId('alternatives').value) };
  if (key) fields.api_key = key;
  submit(byId('translate'), 'translate', fields, byId('status'), (answer, seconds) => {
    const detected = answer.detectedLanguage;
    show({ q, source: detected?.language ?? source, target }, answer);
    say(detected?.language === target ? `The text is in ${languageName(target)} already.`
      : `Translated${from(detected)}${seconds}`);
  });
}

function translateFile() {
  const fields = new FormData(byId('file-form')), { name } = byId('file').files[0];
  for (const id of ['source', 'target']) fields.set(id, byId(id).value);
  if (byId('key').value) fields.set('api_key', byId('key').value);
  const place = byId('file-status');
  submit(byId('translate-file'), 'translate_file', fields, place, (answer, seconds) => {
    say(`Translated${from(answer.detectedLanguage)}${seconds} `, false, place);
    // Behind a proxy the address of the page is the one that is known to work.
    const href = `download_file/${answer.translatedFileUrl.split('/').pop()}`;
    place.append(element('a', { href, download: '', textContent: `Download the translation of ${name}` }));
  });
}

function from(detected) {
  return detected ? ` from ${languageName(detected.language)} (${Math.round(detected.confidence)} % sure)` : '';
}

// Show the answer to what was asked; null shows nothing.
function show(asked, answer = { translatedText: '' }) {
  shown = asked;
  byId('translation').value = answer.translatedText;
  byId('translation').lang = asked ? tag(asked.target) : '';
  if (asked) byId('text').lang = tag(asked.source);
  byId('copy').disabled = !answer.translatedText;
  const others = answer.alternatives ?? [];
  byId('others').hidden = !others.length;
  byId('other-list').replaceChildren(...others.map((text, k) => {
    const button = element('button', { type: 'button', textContent: 'Copy', ariaLabel: `Copy alternative ${k + 1}` });
    button.addEventListener('click', () => copy(text, button));
    return element('li', {}, element('span', { textContent: text, lang: tag(asked.target), dir: 'auto' }), button);
  }));
  byId('inside').open = false;
  byId('inside').hidden = !asked || asked.source === asked.target || !answer.translatedText.trim();
  byId('frame').replaceChildren();
  byId('swap').disabled = !swapped();
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without https there is no clipboard, but there is this.
    const field = element('textarea', { value: text, readOnly: true });
    byId('fields').append(field);
    field.select();
    const isDone = document.execCommand('copy');
    field.remove();
    button.focus();
    if (!isDone) return say('The browser does not let this page copy: select the text and copy it.', true);
  }
  say('Copied.');
  button.textContent = 'Copied';
  setTimeout(() => { button.textContent = 'Copy'; }, 2000);
}

// The attention viewer: a page of its own, in a frame.

function lookInside() {
  if (!byId('inside').open || byId('frame').firstChild) return;
  const frame = element('iframe', { className: 'coming', name: 'attention', title: 'Attention, word by word' });
  byId('frame').append(frame);
  frame.addEventListener('load', () => framed(frame));
  const question = byId('question').elements;
  for (const name of ['source', 'target']) question[name].value = shown[name];
  // A form sends two characters for the end of a line. The viewer needs the beginning of a text only.
  const ends = shown.q.split('\n').length - 1;
  question.q.value = [...shown.q].slice(0, Math.max(0, settings.charLimit - ends)).join('');
  question.api_key.value = byId('key').value;
  byId('waiting').textContent = 'The model computes its attention.';
  byId('question').submit();
}

function framed(frame) {
  const page = frame.contentDocument; // null if the browser shows an error of its own
  if (page?.URL === 'about:blank') return;
  byId('waiting').textContent = '';
  if (!page || page.contentType === 'application/json') {
    let sentence = 'The server does not show its attention: try again later.';
    try { sentence = JSON.parse(page.body.textContent).error; } catch { /* is shown as it is */ }
    byId('waiting').textContent = sentence;
    return frame.remove();
  }
  frame.className = '';
  const fit = () => { frame.style.height = `${page.documentElement.offsetHeight + 4}px`; };
  new ResizeObserver(fit).observe(page.documentElement);
  fit();
}

// The page

function listen() {
  byId('source').addEventListener('change', chosen);
  byId('target').addEventListener('change', chosen);
  byId('alternatives').addEventListener('change', rememberChoices);
  byId('swap').addEventListener('click', swap);
  byId('text').addEventListener('input', count);
  byId('key').addEventListener('change', () => remember('sessionStorage', STORE, byId('key').value));
  byId('copy').addEventListener('click', () => copy(byId('translation').value, byId('copy')));
  byId('inside').addEventListener('toggle', lookInside);
  byId('form').addEventListener('submit', event => {
    event.preventDefault();
    translate();
  });
  byId('file-form').addEventListener('submit', event => {
    event.preventDefault();
    translateFile();
  });
  byId('form').addEventListener('keydown', event => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    byId('form').requestSubmit();
  });
}

async function start() {
  try {
    [languages, settings] = await Promise.all([ask('languages'), ask('frontend/settings')]);
  } catch (error) {
    say(error.message, true);
    return;
  }
  const last = remembered('localStorage', STORE) ?? {}, first = settings.language;
  setLanguages(last.source ?? first.source.code, last.target ?? first.target.code);
  byId('alternatives').max = settings.alternativesLimit;
  byId('alternatives').value = Math.min(Number(last.alternatives) || 0, settings.alternativesLimit);
  byId('alternatives-line').hidden = !settings.alternativesLimit;
  byId('key-line').hidden = !settings.keyRequired;
  byId('key').value = remembered('sessionStorage', STORE) ?? '';
  const kinds = settings.supportedFilesFormat;
  byId('file').accept = kinds;
  byId('kinds').textContent = `Languages as above. The file keeps its format: ${kinds.join(', ')}.`;
  byId('of-file').hidden = false;
  count();
  listen();
  byId('fields').disabled = false;
  if (matchMedia('(hover: hover)').matches) byId('text').focus(); // a phone would open its keyboard
}

start();
