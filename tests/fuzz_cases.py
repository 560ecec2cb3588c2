"""The cases of fuzz.py: commands whose flags, config file, corpus or work directory are wrong.

Each kind of case changes files in the current folder, which `make_good_files` has filled, and
returns the command to run there. No case asks for work that takes long if it is valid.
"""

import contextlib
import functools
import gzip
import importlib
import io
import json
import lzma
import random
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fuzz_damage import LINES, damage_file, json_values


class Case(NamedTuple):
    """One command to try.

    Attributes:
      command: name of the command's module.
      arguments: its command line.
      damage: descriptions of the damage to the files that it reads.
      stdin: its stdin.
    """

    command: str
    arguments: list[str]
    damage: list[str] = []
    stdin: bytes = b'The cat sleeps.\n'


# Values that replace good ones.

_NUMBERS = ['9' * 30, '9' * 5000, ' 2 ']
_NUMBERS += (
    '0 -1 1 2 3 7 2147483647 2147483648 4294967295 4294967296 9223372036854775808 1000000000000 '
    '1e38 1e-46 1e999 nan inf -inf -0.0 0.5 0.99999999 1.0 ٣ ² 1_0 +2 0x2'
).split()
_WORDS = (
    'files tfds huggingface phrasebook pre learned sinusoidal_halves gelu cudnn bfloat16 nfkc '
    'identity both target best latest skip dev train decode input start True false None en fr zh'
).split()
_TEXTS = ['', '|', 'x' * 100_000]
_TEXTS += (
    ' |x|é😀|\u202e|\u2581|\t|a\nb|\r|\x1b[2J|\udcff|"|\'|[|]|[a]|{}|{0}|%s|\\|a\\b|*|?|,|:|=|-|--|'
    '~|~nobody-here|$HOME|file:///x|gs://x/y|config.py:x|a b'
).split('|')
_PATHS = ['x' * 300, '/dev/null', '/dev/zero', '/dev/full']
_PATHS += (
    'absent absent/absent folder fifo dangling loop text empty . run mean new[1] new\\1 config.py '
    'run/config.json run/vocabulary.model corpus/train.en corpus/train.tsv corpus/dev.jsonl'
).split()
_LITERALS = (
    'None|[]|{}|()|1|-1|0|2|True|1.5|1e400|float("nan")|10**30|10**5000|"x"|b"x"|object()|print|'
    '1j|...|range(3)|"a\\0b"|"\\ud800"|{"a": 1}|config|ConfigDict()|numpy.int64(4)|numpy.zeros(2)|'
    '[1] * 10**6'
).split('|')
_RETURNS = (
    'None|[]|{}|"x"|ConfigDict()|ConfigDict({"model": 3})|ConfigDict({1: 2})|ConfigDict({"x": {}})|'
    'ConfigDict({"model": {1: 2}})|Config()|Config|get_config|type("T", (), {"to_dict": 3})()|'
    'type("T", (), {"to_dict": lambda self: 3})()'
).split('|')
_RAISED = (
    'ValueError|ValueError("a\\nb")|OSError(2, "x")|KeyError(b"\\xff")|SystemExit|SystemExit(3)'
)
_BODIES = (
    '|\0|def get_config(:|get_config = 1|get_config = None|get_config = int|"""|import absent|'
    'from transformer_jax import absent|# coding: absent|def get_config(a, b): pass|'
    'def get_config(*a): return a|raise RecursionError|raise MemoryError|'
    'class E(Exception):\n  def __str__(self): return 1 / 0\nraise E'
).split('|') + [f'def get_config():\n    raise {error}' for error in _RAISED.split('|')]
_BODIES += ['(' * 100_000, f'x = {"1 + " * 50_000} 1']
_CHANGED_CONFIG = """
import runpy
import numpy
from ml_collections import ConfigDict
from transformer_jax.config import Config
def get_config():
    config = runpy.run_path('good.py')['get_config']()
    {}
    return config
"""
_COMMANDS = {
    'main': ['--config=config.py --workdir=run', '--config=config.py --workdir=new'],
    'translate': ['--workdir=run', '--workdir=run --input=text', '--workdir=run --sample'],
    'evaluate': ['--workdir=run', '--workdir=run --source=text --reference=text'],
    'score': ['--workdir=run', '--workdir=run --source=text --reference=text'],
    'average': ['--workdir=run --output=new', '--workdir=run --output=new --steps=1,2'],
    'convert': ['--workdir=run --to=release --output=new', '--workdir=new --from=release'],
    'benchmark': ['--config=config.py --parts=compile', '--config=config.py --parts=input'],
    'paper': [''],
}
# A FIFO as the value of these flags waits for its other end, and should.
_STREAMS = ('input', 'output', 'source', 'reference', 'json')


def make_good_files(run: Callable[[Case], None]) -> None:
    """Make a corpus, a config, a run, averaged weights and a release in the current folder."""
    from tiny_run import config_file, tiny

    from transformer_jax.data.phrasebook.corpus import generate

    for name in ('corpus', 'folder'):
        Path(name).mkdir()
    forms = {'en': '{en}', 'fr': '{fr}', 'tsv': '{en}\t{fr}', 'csv': '"{en}","{fr}"'}
    for split, pairs in generate(seed=0, train=60, dev=2, test=2).items():
        rows = [{'en': english, 'fr': french} for english, french in pairs]
        texts = {'jsonl': [json.dumps(row) for row in rows]}
        for suffix, form in forms.items():
            header = [{'en': 'en', 'fr': 'fr'}] if suffix in ('tsv', 'csv') else []
            texts[suffix] = [form.format(**row) for row in header + rows]
        for suffix, lines in texts.items():
            Path(f'corpus/{split}.{suffix}').write_text('\n'.join(lines) + '\n', encoding='utf-8')
    Path('empty').touch()
    Path('text').write_text('The cat sleeps.\n', encoding='utf-8')
    Path('dangling').symlink_to('absent')
    Path('loop').symlink_to('loop')
    data = {
        f'{split}_{side}': f'corpus/{split}.{language}'
        for split in ('train', 'dev', 'test')
        for side, language in (('source', 'en'), ('target', 'fr'))
    }
    # These are for the phrasebook, which an override may choose.
    data |= {'train_size': 60, 'dev_size': 2, 'test_size': 2}
    data |= {'vocab_size': 340, 'max_length': 48, 'tokens_per_batch': 384, 'num_buckets': 1}
    good = tiny(
        data={'corpus': 'files', **data},
        train={
            'steps': 2,
            'log_every': 1,
            'checkpoint_every': 1,
            'eval_every': 2,
            'eval_beam_size': 2,
        },
        # Longer lines are cut, because translating them would take minutes.
        decode={'beam_size': 2, 'average_checkpoints': 2, 'max_source_length': 48},
    )
    config_file(Path('config.py'), good)
    config_file(Path('good.py'), good)
    run(Case('main', ['--config=config.py', '--workdir=run']))
    run(Case('average', ['--workdir=run', '--output=mean']))
    run(Case('convert', ['--workdir=run', '--to=release', '--output=release']))
    run(Case('convert', ['--workdir=run', '--to=huggingface', '--output=exported']))
    from conversion import marian_files

    tensors = marian_files.arrays()
    for name in ('hf', 'marian'):
        Path(name).mkdir()
    marian_files.write_huggingface('hf', tensors, generation={'num_beams': 2})
    marian_files.write_marian('marian', marian_files.marian_arrays(tensors))
    run(Case('convert', ['--from=hf', '--workdir=imported']))


# The kinds.


def overrides(dice: random.Random) -> Case:
    """Set one to three fields of the config on the command line."""
    ways = [('main', '--workdir=new'), ('benchmark', '--parts=compile')]
    command, flag = dice.choices(ways, [9, 1])[0]
    arguments = ['--config=config.py', flag]
    for field in dice.choices(list(_defaults()), k=dice.choice([1, 1, 2, 3])):
        likely = _NUMBERS if type(_defaults()[field]) in (int, float) else _WORDS + _PATHS
        value = _value(dice, likely)
        if field == 'train.steps' and value.strip().isdecimal() and 3 < int(value[:30]) < 2**31:
            value = '3'  # a larger number would take years
        arguments += _given(f'config.{field}', value, dice)
    return Case(command, arguments)


def flags(dice: random.Random) -> Case:
    """Set up to three flags of a command, which reads odd text."""
    command = dice.choices(list(_COMMANDS), [3, 9, 5, 4, 4, 4, 3, 0.3])[0]
    arguments = dice.choice(_COMMANDS[command]).split()
    for name in dice.choices([*_flags_of(command), 'absent'], k=dice.choice([0, 1, 1, 2, 3])):
        value = _value(dice)
        arguments += _given(name, 'empty' if value == 'fifo' and name in _STREAMS else value, dice)
    text = _odd_text(dice)
    Path('text').write_bytes(text)
    return Case(command, arguments, [f'text: {text!r}'], _odd_text(dice))


def configs(dice: random.Random) -> Case:
    """Damage the config file, or write one that sets fields to bad values."""
    path = Path('config.py')
    section, name = dice.choice(list(_defaults())).split('.')
    literal = dice.choice(_LITERALS)
    changes = [
        f'config.{section}.{name} = {literal}',
        f'with config.ignore_type(): config.{section}.{name} = {literal}',
        # A section of defaults would train the base model.
        f'config.unlock(); config.{section} = [{literal}]',
        f'return {dice.choice(_RETURNS)}',
    ]
    if dice.random() < 0.2:
        damage = damage_file(path, dice)
    else:
        change = dice.choice(changes)
        body = dice.choice(_BODIES) if dice.random() < 0.3 else _CHANGED_CONFIG.format(change)
        path.write_text(body, encoding='utf-8')
        damage = f'{path}: {change if change in body else body!r}'
    argument = f':{_value(dice)}' if dice.random() < 0.2 else ''
    return Case('main', [f'--config={path}{argument}', '--workdir=new'], [damage])


def corpora(dice: random.Random) -> Case:
    """Damage text files or tables of a corpus, plain or compressed, and train with them."""
    table, packed = dice.choice(['', '.tsv', '.csv', '.jsonl']), dice.choice(['', '', '.gz', '.xz'])
    pack = gzip.compress if packed == '.gz' else lzma.compress
    arguments, damage = ['--config=config.py', '--workdir=new'], []
    damaged = dice.choices(['train', 'dev', 'test'], k=2)
    for split in ('train', 'dev', 'test'):
        for side, suffix in (('source', '.en'), ('target', '.fr')):
            path = Path(f'corpus/{split}{table or suffix}')
            when = dice.choice(['before', 'after']) if split in damaged else ''
            if table and side == 'target':
                path = when = ''
            if when == 'before':
                damage.append(damage_file(path, dice))
            if packed and path and path.is_file():
                content = path.read_bytes()
                path = path.with_name(path.name + packed)
                path.write_bytes(pack(content))
            if when == 'after':
                damage.append(damage_file(path, dice))
            arguments.append(f'--config.data.{split}_{side}={path}')
    return Case('main', arguments, damage)


def workdirs(dice: random.Random) -> Case:
    """Damage one or two parts of a work directory: a run, averaged weights or a release."""
    workdir, damage = Path(dice.choice(['run', 'run', 'mean', 'release', 'imported'])), []
    for _ in range(dice.choice([1, 1, 2])):
        steps = sorted(workdir.glob('checkpoints/*'))
        if steps and dice.random() < 0.2:
            name = dice.choice(['x', '-1', '007', '0', '3', '²', '٣', '9' * 30, '1.tmp', '2 '])
            step = dice.choice(steps)
            shutil.move(step, step.with_name(name))
            damage.append(f'{step}: named {name!r}')
        else:
            damage.append(damage_file(dice.choice(sorted(workdir.iterdir())), dice))
    return _reading(workdir, damage, dice)


def checkpoints(dice: random.Random) -> Case:
    """Damage one or two files or folders of a checkpoint."""
    workdir, damage = Path(dice.choice(['run', 'run', 'mean'])), []
    for _ in range(dice.choice([1, 1, 2])):
        paths = sorted(workdir.glob('checkpoints/*/**/*'))
        # Half of the damage is for the few JSON files, which can be wrong in more ways.
        damage.append(
            damage_file(dice.choice(dice.choice([paths, list(filter(json_values, paths))])), dice)
        )
    return _reading(workdir, damage, dice)


def imports(dice: random.Random) -> Case:
    """Damage one or two files of another program's model, and import it."""
    folder = Path(dice.choice(['hf', 'marian', 'marian', 'exported']))
    paths = sorted(folder.iterdir())
    damage = [damage_file(dice.choice(paths), dice) for _ in range(dice.choice([1, 1, 2]))]
    return Case('convert', [f'--from={folder}', '--workdir=new'], damage)


KINDS: dict[str, Callable[[random.Random], Case]] = {
    kind.__name__: kind
    for kind in (overrides, flags, configs, corpora, workdirs, checkpoints, imports)
}


def _reading(workdir: Path, damage: list[str], dice: random.Random) -> Case:
    """Return a command that reads a work directory."""
    ways = (
        'translate --workdir={0}',
        'translate --workdir={0} --average=best',
        'translate --workdir={0} --workdir=run --align',
        'evaluate --workdir={0}',
        'score --workdir={0} --source=text --reference=text',
        'average --workdir={0} --output=new',
        'convert --workdir={0} --to=release --output=new',
        'main --config=config.py --workdir={0}',
        'main --config=config.py --workdir={0} --config.train.steps=4',
        'main --config=config.py --workdir={0} --config.train.steps=3 --config.train.patience=1',
        'main --config=config.py --workdir=new --config.train.init_from={0}',
    )
    command, *arguments = dice.choice(ways).format(workdir).split()
    return Case(command, arguments, damage)


@functools.cache
def _defaults() -> dict[str, Any]:
    from transformer_jax.config import Config

    sections = Config().to_dict().items()
    return {f'{section}.{x}': value for section, fields in sections for x, value in fields.items()}


def command_module(command: str) -> Any:
    """Return the module that defines `main` of a command."""
    name = f'{command}.__main__' if command in ('benchmark', 'paper') else command
    return importlib.import_module(f'transformer_jax.{name}')


@functools.cache
def _flags_of(command: str) -> list[str]:
    """Return the flags that the help of a command lists."""
    module = command_module(command)
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
        module.main(['--help'])
    return re.findall(r'^  --(\w+)', text.getvalue(), flags=re.MULTILINE)


def _value(dice: random.Random, likely: Sequence[str] = _NUMBERS) -> str:
    return dice.choice(dice.choice([likely, likely, _NUMBERS, _WORDS, _TEXTS, _PATHS]))


def _given(name: str, value: str, dice: random.Random) -> list[str]:
    """Return a flag with its value; sometimes as two words, without value, misspelt, or twice."""
    flag = f'--{name}'
    slip = dice.randrange(len(flag))
    forms = [[flag, value], [flag], [flag[:slip] + flag[slip + 1 :] + f'={value}'], [value]]
    forms.append([f'{flag}={_value(dice)}', f'{flag}={value}'])
    return dice.choice(forms) if dice.random() < 0.2 else [f'{flag}={value}']


def _odd_text(dice: random.Random) -> bytes:
    """Return a few lines, or bytes that are no text."""
    if dice.random() < 0.1:
        return dice.randbytes(dice.randrange(100))
    lines = dice.choices(['The cat sleeps.', *LINES], k=dice.randrange(5))
    encoding = 'utf-16' if dice.random() < 0.1 else 'utf-8'
    return '\n'.join(lines).encode(encoding, 'surrogatepass')
