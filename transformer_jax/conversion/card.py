"""Model cards: README.md of a folder that is handed out, with the header that hubs read."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from transformer_jax._version import __version__
from transformer_jax.config import Config, DataConfig
from transformer_jax.storage.release import Release


def model_card(
    name: str,
    config: Config,
    parameters: int,
    vocabulary: str,
    release: Release,
    *,
    origin: str = '',
    use: str = '',
) -> str:
    """Return the text of a model card in Markdown.

    Args:
      name: name of the folder.
      config: config of the model's run.
      parameters: number of parameters.
      vocabulary: the vocabulary in words, for example '8,000 pieces, shared'.
      release: licence, note about the data and scores.
      origin: for a model that was not trained here, a sentence that says where it comes from. Then
        `config.data` does not describe its training data.
      use: Markdown that says how to use the folder; '' for the commands of this package.
    """
    source, target = config.data.source_language, config.data.target_language
    body = [
        f'# {" ".join(name.split())}: {source} to {target}',
        'A Transformer ("Attention Is All You Need", Vaswani et al., 2017) that translates '
        f'sentences from {source} to {target}. '
        + (origin or f'It was trained with transformer_jax {__version__}.'),
        f'Licence of the model: {release.license or "none is stated"}.',
        '## Training data',
        '\n\n'.join(filter(None, ('' if origin else _corpus(config.data), release.data_note)))
        or 'Nothing is stated.',
        '## Architecture',
        _table(('', ''), _architecture(config, parameters, vocabulary)),
        '## Scores',
        'No scores are stated.' if release.test is None else _scores(release.test),
        '## Use',
        use or _USE.format(name=name, quoted=shlex.quote(name)),
    ]
    return '\n\n'.join([_header(source, target, release.license), *body]) + '\n'


_USE = """\
With transformer_jax, in the folder above this one:

```bash
python -m transformer_jax.translate --workdir={quoted} --input=in.txt --output=out.txt
```

```python
from transformer_jax.translator import Translator

translator = Translator.load({name!r})
print(translator('...'))
```

To train on from these weights, set `train.init_from` to this folder."""


def _header(source: str, target: str, license: str) -> str:
    """Return the YAML header. JSON strings are YAML strings; without quotes, `no` is false."""
    languages = dict.fromkeys((source, target))
    lines = ['---', 'language:', *(f'- {json.dumps(code)}' for code in languages)]
    if license:
        lines.append(f'license: {json.dumps(license)}')
    lines += ['library_name: transformer_jax', 'pipeline_tag: translation']
    lines += ['tags:', '- translation', '- jax', '- flax', 'metrics:', '- bleu', '- chrf', '---']
    return '\n'.join(lines)


def _corpus(data: DataConfig) -> str:
    if data.corpus == 'none':
        return ''
    if data.corpus == 'phrasebook':
        return f'{data.train_size:,} generated pairs of the phrasebook of transformer_jax.'
    names = (data.train_source, data.train_target) if data.corpus == 'files' else (data.dataset,)
    kind = {'files': 'Files', 'tfds': 'TensorFlow Datasets', 'huggingface': 'Hugging Face datasets'}
    return f'{kind[data.corpus]}: {", ".join(f"`{name}`" for name in names if name)}.'


def _architecture(config: Config, parameters: int, vocabulary: str) -> list[tuple[str, str]]:
    model = config.model
    return [
        ('parameters', f'{parameters:,}'),
        ('vocabulary', vocabulary),
        ('layers', f'{model.num_layers} in the encoder, {model.num_layers} in the decoder'),
        ('d_model, d_ff, heads', f'{model.d_model}, {model.d_ff}, {model.num_heads}'),
        ('layer norm, positions', f'{model.norm}, {model.positions}'),
        (
            'search',
            f'beam {config.decode.beam_size}, length norm {config.decode.length_norm} '
            f'{config.decode.length_penalty:g}',
        ),
    ]


def _scores(test: Mapping[str, Any]) -> str:
    rows = [(name, f'{test[key]:.2f}', f'`{test[f"{key}_signature"]}`') for name, key in _METRICS]
    return (
        f"On the {test['sentences']:,} sentences of the run's test set, translated by "
        'transformer_jax with the search above, before the weights were rounded:\n\n'
        + _table(('metric', 'score', 'signature'), rows)
    )


_METRICS = (('BLEU', 'bleu'), ('chrF', 'chrf'))


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = (titles, ('---',) * len(titles), *((x.replace('|', '\\|') for x in r) for r in rows))
    return '\n'.join(f'| {" | ".join(line)} |' for line in lines)
