'use strict';

// The state of the page: which sentence, view, layer, head and step are shown.
const sentences = JSON.parse(document.getElementById('data').textContent);
const state = { sentence: 0, view: 'cross', layer: 0, head: 0, step: 0, words: false, hidden: new Set() };
const byId = id => document.getElementById(id);
let maps = null; // the weights of the sentence: view -> [layer][head] -> matrix

// Weights are bytes, compressed, in base64: encoder, decoder and cross attention one after another.
async function decode(sentence) {
  const bytes = Uint8Array.from(atob(sentence.weights), c => c.charCodeAt(0));
  const stream = new Response(bytes).body.pipeThrough(new DecompressionStream('deflate'));
  const values = new Uint8Array(await new Response(stream).arrayBuffer());
  const S = sentence.source.length, T = sentence.target.length;
  let at = 0;
  const read = (rows, columns) => {
    const ofHead = new Float32Array(rows * columns); // a loop, because `from` with a function is slow
    for (let k = 0; k < ofHead.length; k++) ofHead[k] = values[at++] / 255;
    return { rows, columns, values: ofHead };
  };
  const stack = (rows, columns) => Array.from({ length: sentence.layers }, () =>
    Array.from({ length: sentence.heads }, () => read(rows, columns)));
  return { encoder: stack(S, S), decoder: stack(T, T), cross: stack(T, S) };
}

// A token for people: SentencePiece writes a space as U+2581.
const shown = piece => piece.replace(/\u2581/g, ' ').trim() || '\u2423';

// The labels of one side, and for each label the tokens that it stands for.
function groups(pieces, words) {
  if (!state.words) return pieces.map((piece, k) => ({ label: shown(piece), tokens: [k] }));
  const found = [];
  pieces.forEach((piece, k) => {
    const word = words[k], last = found[found.length - 1];
    if (last && word !== null && last.word === word) {
      last.tokens.push(k);
      last.label += piece.replace(/\u2581/g, '');
    } else found.push({ label: shown(piece), tokens: [k], word });
  });
  return found;
}

function sides() {
  const s = sentences[state.sentence];
  const source = () => groups(s.source, s.source_words);
  const target = () => groups(s.target, s.target_words);
  const inputs = () => groups(s.inputs, [null, ...s.target_words.slice(0, -1)]);
  if (state.view === 'encoder') return [source(), source()];
  return [target(), state.view === 'decoder' ? inputs() : source()];
}

// The weights between groups: summed over the tokens that are looked at, averaged over those that look.
function grouped(matrix, [rows, columns]) {
  const values = new Float32Array(rows.length * columns.length);
  rows.forEach((row, r) => columns.forEach((column, c) => {
    let sum = 0;
    for (const q of row.tokens) for (const k of column.tokens) sum += matrix.values[q * matrix.columns + k];
    values[r * columns.length + c] = sum / row.tokens.length;
  }));
  return { rows: rows.length, columns: columns.length, values };
}

// Mean entropy in nats and mean distance in tokens, over the tokens that look.
function statistics(matrix) {
  if (matrix.statistics) return matrix.statistics;
  let entropy = 0, distance = 0;
  for (let q = 0; q < matrix.rows; q++) for (let k = 0; k < matrix.columns; k++) {
    const w = matrix.values[q * matrix.columns + k];
    if (w > 0) entropy -= w * Math.log(w);
    distance += w * Math.abs(q - k);
  }
  matrix.statistics = [entropy / matrix.rows, distance / matrix.rows];
  return matrix.statistics;
}

const mixed = weight => [20, 62, 118].map(to => Math.round(255 + (to - 255) * Math.sqrt(weight)));
const shade = weight => `rgb(${mixed(weight).join(', ')})`;
const PIXELS = Array.from({ length: 256 }, (_, byte) => [...mixed(byte / 255), 255]);
// On paper, which has no colours, heads differ by the dashes of their lines.
const DASHES = ['none', '7 3', '2 3', '10 3 2 3', '4 2', '1 2', '12 4', '6 2 2 2'];
const colour = head => `hsl(${Math.round(360 * head / sentences[state.sentence].heads + 210) % 360}, 62%, 42%)`;

function element(name, text, properties = {}) {
  const node = document.createElement(name);
  if (text !== null) node.textContent = text;
  Object.assign(node, properties);
  return node;
}

function drawSmall(canvas, matrix) {
  canvas.width = matrix.columns;
  canvas.height = matrix.rows;
  // Thousands of rectangles for each of many heads would take seconds.
  const image = new ImageData(matrix.columns, matrix.rows);
  matrix.values.forEach((weight, k) => image.data.set(PIXELS[Math.round(255 * weight)], 4 * k));
  canvas.getContext('2d').putImageData(image, 0, 0);
}

function drawGrid() {
  const grid = byId('grid'), focused = document.activeElement && document.activeElement.closest('#grid');
  grid.replaceChildren();
  maps[state.view].forEach((heads, layer) => {
    const row = element('div', null);
    row.setAttribute('role', 'row');
    row.append(element('span', `Layer ${layer + 1}`));
    heads.forEach((matrix, head) => {
      const chosen = layer === state.layer && head === state.head;
      const canvas = element('canvas', null, { tabIndex: chosen ? 0 : -1 });
      const [entropy, distance] = statistics(matrix);
      const name = `Layer ${layer + 1}, head ${head + 1}: entropy ${entropy.toFixed(2)}, distance ${distance.toFixed(1)}`;
      canvas.title = name;
      canvas.setAttribute('role', 'gridcell');
      canvas.setAttribute('aria-label', name);
      canvas.setAttribute('aria-selected', String(chosen));
      canvas.addEventListener('click', () => choose({ layer, head }));
      drawSmall(canvas, matrix);
      row.append(canvas);
      if (chosen && focused) setTimeout(() => canvas.focus());
    });
    grid.append(row);
  });
}

let large = null; // what the large picture shows, for the numbers under the pointer
function drawLarge() {
  const both = sides(), raw = maps[state.view][state.layer][state.head];
  const matrix = grouped(raw, both), canvas = byId('large'), context = canvas.getContext('2d');
  const font = '13px system-ui, "DejaVu Sans", sans-serif', ratio = window.devicePixelRatio || 1;
  context.font = font;
  const width = labels => Math.ceil(Math.max(...labels.map(g => context.measureText(g.label).width))) + 10;
  const left = width(both[0]), top = Math.min(120, width(both[1]));
  const room = Math.max(240, canvas.parentElement.clientWidth - left - 8);
  const size = Math.max(9, Math.min(40, Math.floor(room / matrix.columns)));
  const w = left + size * matrix.columns + 1, h = top + size * matrix.rows + 1;
  canvas.width = w * ratio;
  canvas.height = h * ratio;
  canvas.style.width = `${w}px`;
  context.scale(ratio, ratio);
  context.font = font;
  context.textBaseline = 'middle';
  context.fillStyle = '#1b2733';
  context.textAlign = 'right';
  both[0].forEach((g, r) => context.fillText(g.label, left - 5, top + size * (r + 0.5)));
  both[1].forEach((g, c) => {
    context.save();
    context.translate(left + size * (c + 0.5), top - 5);
    context.rotate(-Math.PI / 2);
    context.textAlign = 'left';
    context.fillText(g.label, 0, 0);
    context.restore();
  });
  for (let r = 0; r < matrix.rows; r++) for (let c = 0; c < matrix.columns; c++) {
    const weight = matrix.values[r * matrix.columns + c];
    context.fillStyle = shade(Math.min(1, weight));
    context.fillRect(left + size * c, top + size * r, size - 1, size - 1);
    if (size >= 30 && weight >= 0.05) {
      context.fillStyle = weight > 0.3 ? '#fff' : '#1b2733';
      context.textAlign = 'center';
      context.font = '11px system-ui, "DejaVu Sans", sans-serif';
      context.fillText(weight.toFixed(2).replace(/^0/, ''), left + size * (c + 0.5), top + size * (r + 0.5));
      context.font = font;
    }
  }
  if (state.view !== 'encoder') {
    const r = both[0].findIndex(g => g.tokens.includes(state.step));
    context.strokeStyle = '#c2410c';
    context.lineWidth = 2;
    context.strokeRect(left - 1, top + size * r - 1, size * matrix.columns + 1, size + 1);
  }
  large = { both, matrix, left, top, size };
  const [entropy, distance] = statistics(raw);
  byId('head-title').textContent = `Layer ${state.layer + 1}, head ${state.head + 1}`;
  byId('numbers').textContent = `Mean entropy ${entropy.toFixed(2)} nats (at most ${Math.log(raw.columns).toFixed(2)}), ` +
    `mean distance ${distance.toFixed(1)} tokens.`;
  byId('cell').textContent = 'Point at a square for its number.';
}

// The row and the column of the large picture at the pointer; null outside of it.
function cellAt(event) {
  const r = Math.floor((event.offsetY - large.top) / large.size), c = Math.floor((event.offsetX - large.left) / large.size);
  return r < 0 || c < 0 || r >= large.matrix.rows || c >= large.matrix.columns ? null : [r, c];
}

function goToRow(event) {
  const cell = cellAt(event);
  if (cell && state.view !== 'encoder') goToStep(large.both[0][cell[0]].tokens[0]);
}

function sayCell(event) {
  const cell = cellAt(event), { both, matrix } = large;
  if (!cell) return;
  const [r, c] = cell;
  byId('cell').textContent = `${both[0][r].label} \u2192 ${both[1][c].label}: ${matrix.values[r * matrix.columns + c].toFixed(3)}`;
}

function drawLines() {
  const svg = byId('lines'), [rows, columns] = sides(), step = 24, width = 560, xs = [170, 390];
  const make = (name, attributes) => {
    const node = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const height = step * Math.max(rows.length, columns.length) + 8;
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.replaceChildren();
  const y = k => step * (k + 0.5) + 4, drawn = [], matrices = [];
  maps[state.view][state.layer].forEach((raw, head) => {
    if (state.hidden.has(head)) return;
    const matrix = grouped(raw, [rows, columns]);
    matrices.push(matrix.values);
    for (let r = 0; r < rows.length; r++) for (let c = 0; c < columns.length; c++) {
      const weight = matrix.values[r * columns.length + c];
      if (weight < 0.04) continue;
      const line = make('line', { x1: xs[0] + 6, y1: y(r), x2: xs[1] - 6, y2: y(c), stroke: colour(head),
        style: `--dash: ${DASHES[head % DASHES.length]}`, 'stroke-width': 0.6 + 3 * weight, 'stroke-opacity': Math.min(1, 0.15 + weight) });
      drawn.push({ line, r, c, opacity: line.getAttribute('stroke-opacity') });
      svg.append(line);
    }
  });
  const focus = (side, k) => {
    const on = new Set(); // tokens of the other side
    for (const one of drawn) {
      const touched = k === null || one[side ? 'c' : 'r'] === k;
      one.line.setAttribute('stroke-opacity', touched ? one.opacity : 0.02);
      if (k !== null && touched) on.add(side ? one.r : one.c);
    }
    const mean = (r, c) => matrices.reduce((sum, values) => sum + values[r * columns.length + c], 0) / matrices.length;
    svg.querySelectorAll('text').forEach(text => {
      const index = Number(text.dataset.k), isOther = Number(text.dataset.side) !== side;
      text.classList.toggle('on', k !== null && (isOther ? on.has(index) : index === k));
      const { label } = [rows, columns][text.dataset.side][index];
      if (k === null || !isOther || !on.has(index)) text.textContent = label;
      else text.textContent = side ? `${mean(index, k).toFixed(2)}  ${label}` : `${label}  ${mean(k, index).toFixed(2)}`;
    });
  };
  [rows, columns].forEach((labels, side) => labels.forEach((g, k) => {
    const text = make('text', { x: xs[side], y: y(k) + 4, 'text-anchor': side ? 'start' : 'end', 'data-side': side, 'data-k': k });
    text.textContent = g.label;
    text.setAttribute('tabindex', '0');
    for (const name of ['mouseenter', 'focus']) text.addEventListener(name, () => focus(side, k));
    for (const name of ['mouseleave', 'blur']) text.addEventListener(name, () => focus(side, null));
    svg.append(text);
  }));
  byId('lines-title').textContent = `Layer ${state.layer + 1}: lines of all heads`;
  [...byId('chips').children].forEach((chip, head) => chip.setAttribute('aria-pressed', String(!state.hidden.has(head))));
}

// A click hides a head or shows it again; a double click, after its two clicks, leaves this head alone.
function makeChips() {
  const heads = maps.cross[0].map((_, head) => head);
  byId('chips').replaceChildren(...heads.map(head => {
    const chip = element('button', String(head + 1), { title: `Head ${head + 1}` });
    chip.style.background = colour(head);
    chip.setAttribute('aria-label', `Head ${head + 1}`);
    chip.addEventListener('click', () => {
      if (!state.hidden.delete(head)) state.hidden.add(head);
      drawLines();
    });
    chip.addEventListener('dblclick', () => {
      state.hidden = new Set(heads.filter(other => other !== head));
      drawLines();
    });
    return chip;
  }));
}

function drawStep() {
  const s = sentences[state.sentence], t = state.step;
  byId('step').max = s.target.length;
  byId('step').value = t + 1;
  byId('step-number').textContent = `${t + 1} of ${s.target.length}`;
  const before = s.inputs.slice(1, t + 1).map(p => p.replace(/\u2581/g, ' ')).join('').trim();
  byId('prefix').replaceChildren(element('span', `${before} `), element('span', shown(s.target[t]), { className: 'now' }));
  const best = s.top[t].some(([piece]) => piece === s.target[t]) ? s.top[t] : [...s.top[t], [s.target[t], s.probs[t]]];
  byId('top').tBodies[0].replaceChildren(...best.map(([piece, probability]) => {
    const row = element('tr', null, { className: piece === s.target[t] ? 'chosen' : '' });
    const bar = element('i', null);
    bar.style.width = `${100 * probability}%`;
    const cell = element('td', null, { className: 'bar' });
    cell.append(bar);
    row.append(element('td', shown(piece)), cell, element('td', `${(100 * probability).toFixed(1)} %`));
    return row;
  }));
  const heads = maps.cross[state.layer];
  byId('looks').replaceChildren(...s.source.map((piece, k) => {
    const weight = heads.reduce((sum, m) => sum + m.values[t * m.columns + k], 0) / heads.length;
    const span = element('span', shown(piece), { title: weight.toFixed(3) });
    span.style.background = shade(weight);
    span.style.color = weight > 0.3 ? '#fff' : 'inherit';
    return span;
  }));
}

function drawTable() {
  if (!byId('details').open) return;
  const [rows, columns] = sides(), matrix = grouped(maps[state.view][state.layer][state.head], [rows, columns]);
  const table = element('table', null);
  table.append(element('caption', `${byId('head-title').textContent}: weight of each row's token on each column's token`));
  const line = (name, cells, scope) => {
    const row = element('tr', null);
    row.append(element('th', name, { scope: 'row' }), ...cells.map(text => element(scope ? 'th' : 'td', text, scope ? { scope } : {})));
    return row;
  };
  table.append(line('', columns.map(g => g.label), 'col'));
  rows.forEach((g, r) => table.append(line(g.label, columns.map((_, c) => matrix.values[r * columns.length + c].toFixed(2)))));
  byId('table').replaceChildren(table);
}

function goToStep(step) {
  state.step = step;
  drawStep();
  drawLarge();
}

const EXPLANATIONS = {
  encoder: 'Rows are the tokens of the source that look, columns the tokens that are looked at.',
  decoder: 'Rows are the tokens that are predicted, columns the tokens read so far, from the start on.',
  cross: 'Rows are the tokens that are predicted, columns the tokens of the source.',
};

function draw() {
  for (const tab of byId('tabs').children) {
    const chosen = tab.dataset.view === state.view;
    tab.setAttribute('aria-selected', String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
  }
  byId('explanation').textContent = EXPLANATIONS[state.view];
  drawGrid();
  drawLarge();
  drawLines();
  drawStep();
  drawTable();
}

function choose(changes) {
  Object.assign(state, changes);
  draw();
}

async function show(sentence) {
  state.sentence = (sentence + sentences.length) % sentences.length;
  const s = sentences[state.sentence];
  const decoded = await decode(s);
  if (s !== sentences[state.sentence]) return; // another one was chosen meanwhile
  maps = decoded;
  state.step = 0;
  state.hidden = new Set([...state.hidden].filter(head => head < s.heads));
  byId('sentence').value = state.sentence;
  byId('output').textContent = s.output;
  makeChips();
  draw();
  document.body.dataset.ready = state.sentence;
}

byId('sentence').append(...sentences.map((s, k) => element('option', `${k + 1}. ${s.text}`, { value: k })));
byId('sentence').addEventListener('change', event => show(Number(event.target.value)));
byId('previous').addEventListener('click', () => show(state.sentence - 1));
byId('next').addEventListener('click', () => show(state.sentence + 1));
byId('words').addEventListener('change', event => choose({ words: event.target.checked }));
byId('step').addEventListener('input', event => goToStep(event.target.value - 1));
byId('large').addEventListener('mousemove', sayCell);
byId('large').addEventListener('click', goToRow);
byId('details').addEventListener('toggle', drawTable);
for (const tab of byId('tabs').children) tab.addEventListener('click', () => choose({ view: tab.dataset.view }));
window.addEventListener('resize', () => maps && drawLarge());

document.addEventListener('keydown', event => {
  const target = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || target.matches('input, select')) return;
  const key = event.key.toLowerCase(), views = ['encoder', 'decoder', 'cross'], s = sentences[state.sentence];
  const move = { arrowleft: [0, -1], arrowright: [0, 1], arrowup: [-1, 0], arrowdown: [1, 0] }[key];
  if (key === 'n') show(state.sentence + 1);
  else if (key === 'p') show(state.sentence - 1);
  else if (move && target.closest('#grid')) {
    choose({ layer: Math.max(0, Math.min(s.layers - 1, state.layer + move[0])),
      head: Math.max(0, Math.min(s.heads - 1, state.head + move[1])) });
    event.preventDefault();
  } else if (move && move[1]) {
    choose({ view: views[(views.indexOf(state.view) + move[1] + 3) % 3] });
    byId(`tab-${state.view}`).focus();
  }
});

state.layer = Math.max(0, sentences[0].layers - 2);
// With #whole-words in its address, the page begins with whole words.
byId('words').checked = state.words = location.hash === '#whole-words';
show(0);
