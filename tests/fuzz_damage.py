"""Damage to files that fuzz_cases.py makes: bytes, lines, JSON values, links in their place."""

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fuzz_models import damage_model_file

_DEEP = '[' * 100_000 + ']' * 100_000
LINES = [_DEEP, 'x ' * 50_000, 'é' * 100_000, '\ufdfa' * 300, '']
LINES += (
    ' |\0|a\rb|\x1b[31m|"|a,b,c,d|a\tb\tc\td|😀|\u202eabc|\u2581 \u2581|\u2028|\x85|\ufeff|\ud83d|'
    '\udcff|[]|{"en": 1}|{"en": "a"}|{"en": "a", "fr": "\\ud83d"}|{"en": [], "fr": NaN}'
).split('|')
# JSON that Python cannot write: these strings stand for it until the file is written.
_UNWRITABLE = {'"<deep>"': _DEEP, '"<long>"': '9' * 5000, '"<large>"': '1e999'}
_JSON = [None, True, '', 'x', '\0', '\ud800', [], {}, [[]], {'a': None}, 0, -1, 1, 2, 0.5, 10**30]
_JSON += [10**12, float('nan'), *(name.strip('"') for name in _UNWRITABLE)]


def damage_file(path: Path, dice: random.Random) -> str:
    """Damage a file or a folder at random; return a description of the damage."""
    of_format = damage_model_file(path, dice) if dice.random() < 0.6 else None
    if of_format is not None:
        return of_format
    ways = [_replace]
    if path.is_file():
        ways += [_change_bytes, _change_bytes, _change_lines]
        ways += [_change_json] * 4 if json_values(path) else []
    return f'{path}: {dice.choice(ways)(path, dice)}'


def _replace(path: Path, dice: random.Random) -> str:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    links = {f'a link to {name}': name for name in ('absent', 'text', 'folder', '/dev/zero')}
    links['a link to itself'] = path
    way = dice.choice(['removed', 'a folder', 'a FIFO', *links])
    if way == 'a folder':
        path.mkdir()
    elif way == 'a FIFO':
        os.mkfifo(path)
    elif way in links:
        path.symlink_to(Path(links[way]).absolute())
    return way


def _change_bytes(path: Path, dice: random.Random) -> str:
    content = bytearray(path.read_bytes())
    place = dice.randrange(len(content) + 1)
    way = dice.choice(['cut', 'flipped', 'inserted', 'emptied', 'random'])
    if way == 'cut':
        del content[place:]
    elif way == 'flipped':
        content[place : place + 1] = [x ^ (1 << dice.randrange(8)) for x in content[place:][:1]]
    elif way == 'inserted':
        content[place:place] = dice.randbytes(dice.randrange(1, 20))
    else:
        content[:] = b'' if way == 'emptied' else dice.randbytes(200)
    path.write_bytes(content)
    return f'bytes {way} at {place}'


def _change_lines(path: Path, dice: random.Random) -> str:
    lines = path.read_bytes().split(b'\n')
    place = dice.randrange(len(lines))
    way = dice.choice(['inserted', 'inserted', 'removed', 'doubled', 'BOM', 'UTF-16'])
    if way == 'inserted':
        lines[place:place] = [dice.choice(LINES).encode(errors='surrogatepass')]
        way += f' {lines[place]!r}'
    elif way in ('removed', 'doubled'):
        lines[place : place + 1] = [lines[place]] * (2 if way == 'doubled' else 0)
    content = b'\n'.join(lines)
    if way == 'BOM':
        content = b'\xef\xbb\xbf' + content
    elif way == 'UTF-16':
        content = content.decode(errors='replace').encode('utf-16')
    path.write_bytes(content)
    return f'line {place + 1}: {way}'


def json_values(path: Path) -> list[Any]:
    """Return the value of a JSON file, or of each line of JSON lines; [] for other files."""
    try:
        text = path.read_text(encoding='utf-8') if path.is_file() else ''
        return [json.loads(x) for x in (text.splitlines() if path.suffix == '.jsonl' else [text])]
    except (ValueError, RecursionError):
        return []


def _change_json(path: Path, dice: random.Random) -> str:
    values = dict(enumerate(json_values(path), 1))
    holder, key, name = dice.choice(list(_places(values)))
    way = dice.choice(['set', 'set', 'set', 'removed', 'renamed', 'added'])
    if way == 'removed':
        del holder[key]
    elif way in ('renamed', 'added') and isinstance(key, str):
        new = dice.choice(['', 'x', f'{key}s'])
        holder[new] = holder.pop(key) if way == 'renamed' else None
        way += f' ({new!r})'
    else:
        holder[key] = dice.choice(_JSON)
        way = f'set to {holder[key]!r}'
    text = ''.join(json.dumps(value) + '\n' for value in values.values())
    for placeholder, what in _UNWRITABLE.items():
        text = text.replace(placeholder, what)
    path.write_text(text, encoding='utf-8')
    return f'line {name} {way}'


def _places(value: Any, name: str = '') -> Iterator[tuple[Any, Any, str]]:
    """Yield container, key and name of every value inside a JSON value."""
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key, f'{name}{key}'
        if isinstance(inner, dict | list):
            yield from _places(inner, f'{name}{key}.')
