"""The README.md of a folder of exported programs."""

import dataclasses
from collections.abc import Sequence

import jax

from transformer_jax.conversion.stablehlo_programs import Program
from transformer_jax.data.vocabulary import Vocabulary

_EXAMPLE = """import sys, jax, numpy as np, sentencepiece
from jax import export
from safetensors.flax import load_file

pieces = sentencepiece.SentencePieceProcessor(model_file='vocabulary.model')
file = open('{file}', 'rb')
translate = jax.jit(export.deserialize(bytearray(file.read())).call)
params = load_file('model.safetensors')
texts = sys.stdin.read().splitlines()[:{rows}]
source = np.zeros(({rows}, {length}), np.int32)
for row, ids in enumerate(pieces.encode(texts)):
    ids = [*ids[:{most}], {eos_id}]
    source[row, : len(ids)] = ids
for _, ids in zip(texts, translate(params, source)['tokens'].tolist()):
    print(pieces.decode([i for i in ids if i not in (0, {eos_id})]))
"""

_TEXT = """# {name}: a translation model as StableHLO

Each `.stablehlo` file holds the whole translation of a batch of token ids: the encoder and
{search}. The programs run on {platforms}.
They need JAX ([`jax.export`](https://docs.jax.dev/en/latest/export/export.html)), but not
transformer_jax, which wrote them.

| file | sentences of a batch | tokens of a source, EOS included |
|---|---|---|
{table}

`model.safetensors` holds the weights in {dtype}, the first argument of each program.

## Use

    pip install "jax>={jax}" safetensors sentencepiece

```python
{example}```

- `source` is int32 [batch, length]: the ids of each sentence, ended by EOS ({eos_id}), then 0.
  A row of zeros is an empty one, which takes no time.
- The result is a dict: `tokens` int32 [batch, length + {extra}], each output ended by EOS, then 0;
  `lengths` with EOS; `scores`, by which the search ranks outputs; `log_probs`, the natural
  logarithms of the outputs' probabilities.
- The output of a sentence does not depend on the program, or on the other sentences of a batch. Use
  the smallest program that holds the batch. Split longer sources, or cut them before EOS.{limit}
- `jax.jit` compiles a program when it is called first, which takes seconds.

## How long it lasts

This folder is for deployment; it is no archive. JAX promises to read such programs with versions
that are up to six months newer than the one that wrote them, which is {jax}, or up to three weeks
older ([guarantees](https://docs.jax.dev/en/latest/export/export.html#compatibility-guarantees)).
Later versions may refuse them. Keep the model's work directory or release folder, and export again:

    python -m transformer_jax.convert --workdir=DIR --to=stablehlo --output=FOLDER

Load programs only if you trust who made them: JAX does not check them as data.

`conversion.json` holds the settings of the search, and what the comparison with the search of
transformer_jax found.
"""


@dataclasses.dataclass(frozen=True)
class Facts:
    """What the text says about a folder.

    Attributes:
      name: of the model.
      programs: the exported programs; the example calls the last one.
      vocabulary: vocabulary of both languages.
      search: the search, in words.
      extra: limit on the tokens that an output has more than its source.
      limit: most tokens of a source, 0 for no limit.
      platforms: where the programs run.
      dtype: of the weights and of the matrix products.
    """

    name: str
    programs: Sequence[Program]
    vocabulary: Vocabulary
    search: str
    extra: int
    limit: int
    platforms: Sequence[str]
    dtype: str


def readme(facts: Facts) -> str:
    """Return the text of README.md."""
    rows = (
        f'| `{program.file}` | {program.rows or "any number"} | {program.length or "any number"} |'
        for program in facts.programs
    )
    limit = f' The model takes at most {facts.limit} tokens.' if facts.limit else ''
    return _TEXT.format(
        name=facts.name,
        search=facts.search,
        platforms=', '.join(facts.platforms),
        table='\n'.join(rows),
        dtype=facts.dtype,
        jax=jax.__version__,
        example=example(facts.programs[-1], facts.vocabulary),
        eos_id=facts.vocabulary.eos_id,
        extra=facts.extra,
        limit=limit,
    )


def example(program: Program, vocabulary: Vocabulary) -> str:
    """Return Python code that translates lines of stdin with a program."""
    return _EXAMPLE.format(
        file=program.file,
        rows=program.rows or 8,
        length=program.length or 64,
        most=(program.length or 64) - 1,
        eos_id=vocabulary.eos_id,
    )
