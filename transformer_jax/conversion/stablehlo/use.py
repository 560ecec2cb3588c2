"""How to use a folder of exported programs: a section of its README.md."""

import jax
import sentencepiece

from transformer_jax.conversion.stablehlo.programs import PLATFORMS, Program
from transformer_jax.data.vocabulary.table_vocabulary import TableVocabulary
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.storage.workdir import SHARED_VOCABULARY, SIDE_VOCABULARIES

_USE = """\
Each `.stablehlo` file is a program that translates a batch of token ids: the encoder and
{search}. The programs run on {platforms}.
They need JAX ([`jax.export`](https://docs.jax.dev/en/latest/export/export.html)), but not
transformer_jax, which wrote them.

| program | sentences of a batch | tokens of a source, EOS included |
|---|---|---|
{table}

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
{code}- `jax.jit` compiles a program when it is called first, which takes seconds.

`conversion.json` has what the comparison with the search of transformer_jax found.

**How long it lasts.** This folder is for deployment; it is no archive. JAX promises to read such
programs with versions that are up to six months newer than the one that wrote them, {jax}, or up to
three weeks older
([guarantees](https://docs.jax.dev/en/latest/export/export.html#compatibility-guarantees)). Later
versions may refuse them. Keep the model's work directory or release folder, and export again:

    python -m transformer_jax.convert --workdir=DIR --to=stablehlo --output=FOLDER

Load programs only if you trust who made them: JAX does not treat them as data.
"""
_EXAMPLE = """\
import sys, json, jax, numpy as np, sentencepiece
from jax import export
from safetensors.flax import load_file

{vocabulary}
file = open('{file}', 'rb')
translate = jax.jit(export.deserialize(bytearray(file.read())).call)
params = load_file('model.safetensors')
texts = [line.rstrip('\\n') for line in sys.stdin]
for start in range(0, len(texts), {rows}):
    batch = texts[start : start + {rows}]
    source = np.zeros(({rows}, {length}), np.int32)
    for row, text in enumerate(batch):
        if text.strip():
            ids = [*{encode}[:{most}], {eos_id}]
            source[row, : len(ids)] = ids
    for _, ids in zip(batch, translate(params, source)['tokens'].tolist()):
        ids = [i for i in ids if i not in (0, {eos_id})]
        print({decode})
"""
_MODEL = "{name} = sentencepiece.SentencePieceProcessor(model_file='{file}.model')"
_TABLE = "{name}_table = json.load(open('{file}.json'))['pieces']"
# Rows and length of the example's batch if the program takes any.
_ANY_ROWS, _ANY_LENGTH = 8, 64


def use(
    programs: list[Program], vocabulary: VocabularyPair, *, search: str, extra: int, limit: int
) -> str:
    """Return the section, in Markdown.

    Args:
      programs: the exported programs; the example calls the last one.
      vocabulary: vocabularies of both sides.
      search: the search, in words.
      extra: limit on the tokens that an output has more than its source.
      limit: most tokens of a source, 0 for no limit.
    """
    rows = (
        f'| `{program.file}` | {program.rows or "any number"} | {program.length or "any number"} |'
        for program in programs
    )
    return _USE.format(
        search=search,
        platforms=', '.join(PLATFORMS),
        table='\n'.join(rows),
        jax=jax.__version__,
        example=example(programs[-1], vocabulary),
        eos_id=vocabulary.eos_id,
        extra=extra,
        code=_code(vocabulary.source),
        limit=f' The model takes at most {limit} tokens.' if limit else '',
    )


def _code(side: Vocabulary) -> str:
    codes = getattr(side, 'language_codes', ())
    if not codes:
        return ''
    return f'- A text begins with the language to translate into, for example `{codes[0]} `.\n'


def example(program: Program, vocabulary: VocabularyPair) -> str:
    """Return Python code that translates lines of stdin with a program."""
    source, target = vocabulary.source, vocabulary.target
    source_name, target_name = 'pieces', 'pieces'
    names = SHARED_VOCABULARY, SHARED_VOCABULARY
    if not vocabulary.shared or isinstance(source, TableVocabulary):
        source_name, target_name = 'source_pieces', 'target_pieces'
        names = SIDE_VOCABULARIES
    sides = {source_name: (source, names[0]), target_name: (target, names[1])}
    lines = []
    for name, (side, file) in sides.items():
        stem = file.removesuffix('.model')
        lines.append(_MODEL.format(name=name, file=stem))
        if isinstance(side, TableVocabulary):
            lines.append(_TABLE.format(name=name, file=stem))
    if isinstance(source, TableVocabulary):
        lines.append(f'source_ids = {{piece: i for i, piece in enumerate({source_name}_table)}}')
    length = program.length or _ANY_LENGTH
    code = _EXAMPLE.format(
        vocabulary='\n'.join(lines),
        file=program.file,
        rows=program.rows or _ANY_ROWS,
        length=length,
        most=length - 1,
        eos_id=vocabulary.eos_id,
        encode=_encode(source, source_name),
        decode=_decode(target, target_name),
    )
    return code if 'json.' in code else code.replace('json, ', '')


def _encode(side: Vocabulary, name: str) -> str:
    """Return an expression for the ids of `text`."""
    if isinstance(side, TableVocabulary):
        spelt = f'{name}.encode(text, out_type=str)'
        if side.language_codes:  # SentencePiece does not know them
            spelt = f"[text.split()[0], *{name}.encode(text.partition(' ')[2], out_type=str)]"
        return f'[source_ids.get(piece, {side.unknown_id}) for piece in {spelt}]'
    shift = _shift(side)
    return f'[i + {shift} for i in {name}.encode(text)]' if shift else f'{name}.encode(text)'


def _decode(side: Vocabulary, name: str) -> str:
    """Return an expression for the text of `ids`."""
    if isinstance(side, TableVocabulary):
        return f"{name}.decode([{name}_table[i] for i in ids]).replace('▁', ' ').strip()"
    shift = _shift(side)
    return f'{name}.decode([i - {shift} for i in ids])' if shift else f'{name}.decode(ids)'


def _shift(side: Vocabulary) -> int:
    """Return how much our ids are greater than SentencePiece's."""
    pieces = sentencepiece.SentencePieceProcessor(model_proto=side.model)
    return side.size - pieces.get_piece_size()
