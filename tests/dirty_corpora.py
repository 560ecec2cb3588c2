"""What filters are worth: python tests/dirty_corpora.py FOLDER OUTPUT (hours; not a test).

FOLDER has train, dev and test of Tatoeba (.en and .fr); multi30k/train.de beside it has German
sentences. Three dirty corpora are made from the training pairs. A small model learns from each with
and without filters, and from the clean one. OUTPUT gets the corpora, the runs and table.md.
"""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Pair = tuple[str, str]
MODEL = [
    '--config.model.num_layers=2',
    '--config.model.d_model=128',
    '--config.model.d_ff=512',
    '--config.data.max_length=64',
    '--config.data.tokens_per_batch=2048',
    '--config.data.num_buckets=4',
    '--config.optimizer.warmup_steps=1000',
    '--config.train.steps=3000',
    '--config.decode.beam_size=1',
    '--config.train.eval_every=1000',
    '--config.train.checkpoint_every=1000',
]


def shuffled_targets(pairs: list[Pair], draw: random.Random) -> list[Pair]:
    """Return pairs of which 10 % have the target of another one."""
    chosen = draw.sample(range(len(pairs)), len(pairs) // 10)
    targets = {a: pairs[b][1] for a, b in zip(chosen, chosen[1:] + chosen[:1], strict=True)}
    return [(source, targets.get(k, target)) for k, (source, target) in enumerate(pairs)]


def repeated(pairs: list[Pair], draw: random.Random) -> list[Pair]:
    """Return pairs and, as 20 % of them all, one in a hundred of them again and again."""
    few = draw.sample(pairs, len(pairs) // 100)
    found = pairs + [few[k % len(few)] for k in range(len(pairs) // 4)]
    draw.shuffle(found)
    return found


def other_language(german: list[str]) -> Callable[[list[Pair], random.Random], list[Pair]]:
    """Return what makes 10 % of the targets German."""

    def replaced(pairs: list[Pair], draw: random.Random) -> list[Pair]:
        chosen = set(draw.sample(range(len(pairs)), len(pairs) // 10))
        return [
            (source, german[k % len(german)] if k in chosen else target)
            for k, (source, target) in enumerate(pairs)
        ]

    return replaced


def lines(path: Path) -> list[str]:
    """Return the lines of a file."""
    return path.read_text(encoding='utf-8').split('\n')[:-1]


def scored(pairs: list[Pair], output: Path) -> Path:
    """Return a file with the pairs and the scores that the model in the box gives them."""
    table, scores = output.with_suffix('.pairs'), output.with_suffix('.scores')
    table.write_text(''.join(f'{s}\t{t}\n' for s, t in pairs), encoding='utf-8')
    module = [sys.executable, '-m', 'transformer_jax.score', '--workdir=tatoeba_en_fr']
    subprocess.run([*module, f'--input={table}', f'--output={scores}'], check=True)
    rows = zip(lines(table), lines(scores), strict=True)
    output.write_text(''.join(f'{a}\t{b}\n' for a, b in rows), encoding='utf-8')
    return output


def dev_bleu(name: str, folder: Path, pairs: list[Pair], output: Path, filters: str) -> dict:
    """Train on pairs and return the best record of dev."""
    for side, language in enumerate(('en', 'fr')):
        text = ''.join(pair[side] + '\n' for pair in pairs)
        (output / f'{name}.{language}').write_text(text, encoding='utf-8')
    files = {'train': output / name, 'dev': folder / 'dev', 'test': folder / 'test'}
    workdir = output / 'runs' / f'{name}{"-filtered" if filters else ""}'
    command = [sys.executable, '-m', 'transformer_jax.main', '--config=configs/my_corpus.py']
    command += [f'--workdir={workdir}', f'--config.data.filters={filters}', *MODEL]
    for split, stem in files.items():
        command += [
            f'--config.data.{split}_source={stem}.en',
            f'--config.data.{split}_target={stem}.fr',
        ]
    subprocess.run(command, check=True)
    return json.loads((workdir / 'results.json').read_text())['best_dev']


def main(folder: Path, output: Path) -> None:
    """Train on all corpora; finished runs are not trained again."""
    output.mkdir(parents=True, exist_ok=True)
    clean = list(zip(lines(folder / 'train.en'), lines(folder / 'train.fr'), strict=True))
    german = lines(folder.parent / 'multi30k' / 'train.de')
    kinds = {
        'shuffled': (shuffled_targets, 'ratio=2 digits score=-4:{scored}'),
        'repeated': (repeated, 'duplicates'),
        'other_language': (other_language(german), 'language'),
    }
    rows = [('clean', '', dev_bleu('clean', folder, clean, output, ''))]
    for name, (make, filters) in kinds.items():
        pairs = make(clean, random.Random(0))
        if '{scored}' in filters:
            path = output / f'{name}.scored'
            filters = filters.format(scored=path if path.exists() else scored(pairs, path))
        for chosen in ('', filters):
            rows.append((name, chosen, dev_bleu(name, folder, pairs, output, chosen)))
            table = ''.join(
                f'| {a} | `{b}` | {dev["loss"]:.3f} | {dev["bleu"]:.2f} |\n' for a, b, dev in rows
            )
            head = '| corpus | filters | dev loss | dev BLEU |\n|---|---|---|---|\n'
            (output / 'table.md').write_text(head + table)


if __name__ == '__main__':
    main(Path(sys.argv[1]), Path(sys.argv[2]))
