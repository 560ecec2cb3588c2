"""Damage to the files of models, format by format: YAML, npz, safetensors and SentencePiece."""

import io
import json
import random
import zipfile
from pathlib import Path

import numpy as np

_LAUGHS = '\n'.join(
    ['a: &a0 [x, x]', *(f'a{k}: &a{k} [{", ".join([f"*a{k - 1}"] * 9)}]' for k in range(1, 12))]
)
ODD_YAML = [
    '',
    '\t',
    '- 1',
    'x',
    '[' * 100_000,
    '{a: ' * 100_000,
    'a: &a [*a]',
    '&a {normalize: *a, beam-size: 1}',
    _LAUGHS,
    f'{_LAUGHS}\nnormalize: *a11',
    f'{_LAUGHS}\nx: {{<<: [{{q: *a9}}]}}',
    '? [a, {b: c}]\n: d',
    '{[]: 1}',
    '<<: 3',
    'normalize: !!timestamp 2001-99-99',
    'normalize: 2001-99-99',
    'beam-size: 2001-01-01',
    'beam-size: !!int x',
    'beam-size: !!float x',
    'models: !!binary é',
    'models: !!set {a, b}',
    'models: !!omap [a]',
    'models: !!python/object/apply:os.system [ls]',
    'models: ["\\0"]',
    'models: ["\\ud800"]',
    'models: [""]',
    'vocabs: ["..", "."]',
    'vocabs: ["\\ud83d.yml", "\\ud83d.yml"]',
    'vocabs: [vocab.yml, 3]',
    'vocabs: vocab.yml',
    'a: 1\na: 2',
    '%YAML 9.9\n---\na: 1',
    '---\na: 1\n---\na: 2',
    '"\\xZZ"',
    'é: \xa0',
    f'beam-size: {"9" * 5000}',
    '0x: 1_0\nbeam-size: 0x' + 'f' * 6000,
    'normalize: 190:20:30.15',
]
_VALUES = 'null|true|false|[]|{}|x|-1|0|1|2|0.5|.nan|.inf|-.inf|1e400|10000000000|"1"|[1, 1]'.split(
    '|'
)
_VALUES += ['9' * 400, '{a: {b: c}}', '[[[]]]', '2001-01-01', '!!binary aGk=', '!!set {a}']
_SETTINGS = 'normalize beam-size models vocabs word-penalty allow-unk max-length-factor'.split()
_OPTIONS = (
    'type dim-emb dim-vocabs enc-depth dec-depth transformer-heads transformer-dim-ffn '
    'transformer-ffn-activation transformer-preprocess transformer-postprocess '
    'transformer-postprocess-emb transformer-postprocess-top tied-embeddings-all tied-embeddings '
    'transformer-ffn-depth output-omit-bias transformer-tied-layers input-types version'
).split()
_SHAPES = ['(8, 8)', '(7,)', '()', '(0,)', '(-1, 8)', '(7, -8)', '(10000000000, 8)', '(1, 1e9)']
_SHAPES += [
    '(9223372036854775807, 2)',
    '(7, 8',
    '[7, 8]',
    'x',
    '(' * 500,
    '(7, 8, True)',
    '9' * 5000,
]
_TYPES = [
    "'<f4'",
    "'<f2'",
    "'<f8'",
    "'|O'",
    "'<U9'",
    "'<M8[s]'",
    "'|i1'",
    "'>f4'",
    '[("a", "<f4")]',
]
_TYPES += ["'<f99'", "'V0'", '3', "''", "'|S0'", "['x']"]
_TENSORS = ['[8,8]', '[]', '[0]', '[-1,8]', '[10000000000,8]', '[1e9,8]', 'null', '"x"', '[[8]]']


def damage_model_file(path: Path, dice: random.Random) -> str | None:
    """Damage a file in a way of its format; return a description, or None for other formats."""
    ways = {
        '.yml': [_odd_yaml, _odd_yaml, _odd_vocabulary],
        '.npz': [_odd_options, _odd_array, _odd_array, _odd_zip],
        '.safetensors': [_odd_tensors],
        '.spm': [_odd_pieces],
        '.model': [_odd_pieces],
    }.get(path.suffix)
    if not ways or not path.is_file():
        return None
    try:
        return f'{path}: {dice.choice(ways)(path, dice)}'
    except Exception:  # it was damaged before
        return None


def _odd_text(text: str, names: list[str], dice: random.Random) -> tuple[str, str]:
    """Return a text of YAML that is odd, or has an odd value for one of the names; and which."""
    if dice.random() < 0.4:
        odd = dice.choice(ODD_YAML)
        return odd, f'is {odd[:60]!r}'
    name, value = dice.choice(names), dice.choice(_VALUES)
    lines = [line for line in text.splitlines() if not line.startswith(f'{name}:')]
    kept = [line for k, line in enumerate(lines) if line[:1] not in '- ' or k == 0]
    return '\n'.join([*(kept if dice.random() < 0.2 else lines), f'{name}: {value}']), (
        f'{name}: {value}'[:60]
    )


def _odd_yaml(path: Path, dice: random.Random) -> str:
    text, said = _odd_text(path.read_text(encoding='utf-8'), _SETTINGS, dice)
    path.write_bytes(text.encode(errors='surrogatepass'))
    return said


def _odd_vocabulary(path: Path, dice: random.Random) -> str:
    lines = path.read_text(encoding='utf-8').split('\n')
    odd = ['? x\n: 99', '? ', ': 3', '"\\ud800": 3', '"x: 3', "'x: 3", 'x: 10000000000', 'x: -1']
    odd += ['"\\U00110000": 2', f'x: {"9" * 5000}', '? "a\n  b"\n: 3', '? |\n  a\n: 3', '\x85: 4']
    line = dice.choice(odd)
    lines[dice.randrange(len(lines))] = line
    path.write_text('\n'.join(lines), encoding='utf-8')
    return f'a line {line[:60]!r}'


def _members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def _write(path: Path, members: dict[str, bytes], way: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, 'w', way) as file:
        for name, content in members.items():
            file.writestr(name, content)


def _odd_options(path: Path, dice: random.Random) -> str:
    members = _members(path)
    name = 'special:model.yml.npy'
    text = np.load(io.BytesIO(members[name])).tobytes().rstrip(b'\0').decode()
    text, said = _odd_text(text, _OPTIONS, dice)
    file = io.BytesIO()
    np.save(file, np.frombuffer(text.encode(errors='surrogatepass') + b'\0', np.int8))
    members[name] = file.getvalue()
    _write(path, members)
    return f'options {said}'


def _odd_array(path: Path, dice: random.Random) -> str:
    members = _members(path)
    name = dice.choice(list(members))
    way = dice.choice(['header', 'header', 'removed', 'empty', 'cut', 'NaN', 'renamed'])
    content = members.pop(name)
    if way == 'header':
        shape, kind = dice.choice(_SHAPES), dice.choice(_TYPES)
        order = dice.choice(['False', 'True', 'None'])
        header = f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}, }}"
        header = dice.choice([header, header, header, '{', '', "{'descr': '<f4'}", '[' * 900])
        size = len(header).to_bytes(dice.choice([2, 2, 4]), 'little')
        version = bytes([dice.choice([1, 1, 2, 3, 9]), 0])
        content = b'\x93NUMPY' + version + size + header.encode() + content[128:]
        way = f'header {header[:80]}'
    elif way == 'empty':
        content = b''
    elif way == 'cut':
        content = content[: dice.randrange(len(content))]
    elif way == 'NaN':
        content = content[:128] + b'\xff' * (len(content) - 128)
    elif way == 'renamed':
        name = dice.choice(['x', 'x.npy', '../x.npy', '.npy', name.removesuffix('.npy')])
    if way != 'removed':
        members[name] = content
    _write(path, members)
    return f'{name}: {way}'


def _odd_zip(path: Path, dice: random.Random) -> str:
    members = _members(path)
    way = dice.choice(['bomb', 'encrypted', 'method', 'npy', 'compressed'])
    if way == 'bomb':
        name = dice.choice(list(members))
        file = io.BytesIO()
        np.save(file, np.zeros((10**8,), np.float32)[: dice.choice([10**6, 10**8])])
        _write(path, members | {name: file.getvalue()}, zipfile.ZIP_DEFLATED)
    elif way == 'npy':
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000, 9), }"
        path.write_bytes(b'\x93NUMPY\1\0' + len(header).to_bytes(2, 'little') + header)
    elif way == 'compressed':
        _write(path, members, dice.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA]))
    else:
        content = bytearray(path.read_bytes())
        # Places of flags and method in the headers of members, and in the directory of all.
        for mark, flags, method in ((b'PK\3\4', 6, 8), (b'PK\1\2', 8, 10)):
            start = content.find(mark)
            while start >= 0:
                at = start + (flags if way == 'encrypted' else method)
                content[at] = 1 if way == 'encrypted' else 98
                start = content.find(mark, start + 4)
        path.write_bytes(content)
    return way


def _odd_tensors(path: Path, dice: random.Random) -> str:
    content = path.read_bytes()
    size = int.from_bytes(content[:8], 'little')
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    way = dice.choice(['shape', 'dtype', 'offsets', 'size', 'deep', 'name', 'metadata', 'data'])
    name = dice.choice([x for x in header if x != '__metadata__'])
    odd = json.loads(dice.choice(_TENSORS))
    if way == 'shape':
        header[name]['shape'] = odd
    elif way == 'dtype':
        header[name]['dtype'] = dice.choice(['F64', 'I8', 'F8_E4M3', 'BOOL', 'C64', 'U64', 'X', 3])
    elif way == 'offsets':
        header[name]['data_offsets'] = dice.choice([odd, [0, 10**10], [8, 0], [0, 4], [0, 2**64]])
    elif way == 'name':
        header[dice.choice(['x', '', '\ud800', '\0', 'a/b', 'embedding/x'])] = header.pop(name)
    elif way == 'metadata':
        header['__metadata__'] = dice.choice([odd, {'a': 1}, {'a': 'b'}])
    text = json.dumps(header).encode()
    if way == 'deep':
        text = b'{"x": ' + b'[' * 100_000 + b']' * 100_000 + b'}'
    elif way == 'data':
        data = dice.choice([b'', data[:-1], data + b'x', b'\xff' * len(data)])
    length = dice.choice([0, 1, 10**8, 2**63, 2**64 - 1]) if way == 'size' else len(text)
    path.write_bytes(length.to_bytes(8, 'little') + text + data)
    return f'{way} {odd if way in ("shape", "offsets") else ""} of {name}'


def _odd_pieces(path: Path, dice: random.Random) -> str:
    content = bytearray(path.read_bytes())
    way = dice.choice(['emptied', 'cut', 'normalisation', 'bytes', 'pieces', 'no pieces'])
    if way == 'emptied':
        content.clear()
    elif way == 'cut':
        del content[dice.randrange(len(content)) :]
    elif way == 'normalisation':
        start = max(content.find(b'nmt_nfkc'), 0)
        for _ in range(dice.choice([1, 5, 50])):
            content[start + dice.randrange(min(4000, len(content) - start))] = dice.randrange(256)
    elif way == 'bytes':
        content[:] = dice.randbytes(dice.randrange(300))
    elif way == 'pieces':
        for _ in range(dice.choice([1, 5, 50])):
            content[dice.randrange(min(4000, len(content)))] = dice.randrange(256)
    else:
        content[:] = b'\x12\x02\x20\x08'  # a trainer's specification, and nothing else
    path.write_bytes(content)
    return way
