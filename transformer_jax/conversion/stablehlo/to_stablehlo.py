"""Writes the whole translation, encoder and search, as programs that need JAX but not this package.

README.md      how to call the programs, with an example
*.stablehlo    a program for each shape of a batch
model.safetensors and the vocabulary
conversion.json
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from transformer_jax.config import DecodeConfig
from transformer_jax.conversion.exported import write_readme
from transformer_jax.conversion.original import Original
from transformer_jax.conversion.parity.check_sentences import CheckSentences, bleu_in_words
from transformer_jax.conversion.parity.export_gate import WITH_BLEU
from transformer_jax.conversion.parity.report import write_report
from transformer_jax.conversion.stablehlo import gate as stablehlo_gate
from transformer_jax.conversion.stablehlo.programs import (
    ANY,
    PLATFORMS,
    Program,
    export_program,
    translate_fn,
)
from transformer_jax.conversion.stablehlo.use import use
from transformer_jax.decoding import SearchOptions
from transformer_jax.errors import UserError
from transformer_jax.inference.load import named_parameters
from transformer_jax.inference.network import Network
from transformer_jax.storage.files import atomic_write
from transformer_jax.storage.release import WEIGHTS
from transformer_jax.storage.weights import write_weights
from transformer_jax.translating.segment_translator import SegmentTranslator

_BATCH_SIZES, _LENGTHS = (1, 16), (32, 128)
_CHECKED = 20  # sentences
_MOST = {'batch_sizes': 10_000, 'lengths': 1_000_000}


def export(
    original: Original,
    folder: Path,
    *,
    dtype: str = 'float32',
    batch_sizes: str = '',
    lengths: str = '',
) -> str:
    """Write a model as StableHLO, and compare what the programs compute with this package's search.

    Args:
      original: the model.
      folder: an empty folder.
      dtype: of the weights and of the matrix products: 'float32' or 'bfloat16'.
      batch_sizes: numbers of sentences of a batch, separated by commas, or 'any'; '' is
        1 and 16.
      lengths: numbers of tokens of the longest source, EOS included, separated by commas, or 'any';
        '' is 32 and 128, or the limit of the model where that is less.

    Returns:
      What was found, for people.

    Raises:
      UserError: if an option is out of range, or JAX may not use the CPU.
      RuntimeError: if the programs compute something else.
    """
    config, vocabulary = original.config, original.vocabulary
    model = dataclasses.replace(
        config.model, dtype='float32', attention_implementation='xla', remat=False
    )
    network = Network([(model, original.params)], vocabulary.sizes, stablehlo_gate.cpu_mesh())
    translator = SegmentTranslator(network, vocabulary, config.data)
    options = translator.search_options(config.decode)
    limit = translator.decoder.source_limit(config.decode)
    programs = [
        Program(rows, length)
        for rows in _numbers('batch_sizes', batch_sizes, _BATCH_SIZES)
        for length in _numbers('lengths', lengths, _LENGTHS, limit)
    ]
    weights = named_parameters(original.params)
    translate = translate_fn(
        dataclasses.replace(model, dtype=dtype), vocabulary.sizes, options, vocabulary.eos_id
    )
    shapes = {name: jax.ShapeDtypeStruct(x.shape, dtype) for name, x in weights.items()}
    for program in programs:
        exported = export_program(translate, shapes, program, options, limit)
        with atomic_write(folder / program.file, 'wb') as file:
            file.write(exported.serialize())
    write_weights(folder / WEIGHTS, weights, dtype)
    vocabulary.save(folder)
    text = use(
        programs,
        vocabulary,
        search=_in_words(config.decode),
        extra=options.max_extra_length,
        limit=limit,
    )
    write_readme(original, folder, text)
    sentences = CheckSentences.of(original)
    gate = stablehlo_gate.compare(
        folder,
        programs,
        vocabulary.source.encode(sentences.sources[:_CHECKED]),
        translator.decoder,
        options,
        text=sentences.origin,
    )
    checks, found = gate.report(), gate.summary()
    if dtype == 'float32':
        gate.check()
    else:
        checks['bleu'] = _bleu_lost(original, folder, programs[-1], sentences, translator, options)
        found += f'; {bleu_in_words(checks["bleu"], _in_words(config.decode))}'
    write_report(
        folder,
        'stablehlo',
        jax=jax.__version__,
        calling_convention=exported.calling_convention_version,
        platforms=PLATFORMS,
        dtype=dtype,
        programs={program.file: dataclasses.asdict(program) for program in programs},
        eos_id=vocabulary.eos_id,
        max_source_length=limit,
        decode=dataclasses.asdict(config.decode),
        checks=checks,
    )
    return found


def _bleu_lost(
    original: Original,
    folder: Path,
    program: Program,
    sentences: CheckSentences,
    translator: SegmentTranslator,
    options: SearchOptions,
) -> dict[str, Any] | None:
    """Return the BLEU of a program and of our search with float32 weights, on the dev set."""
    if not sentences.references:
        return None
    vocabulary = original.vocabulary
    ids = vocabulary.source.encode(sentences.sources[:WITH_BLEU])
    ours = sorted(translator.decoder(ids, options), key=lambda result: result.index)
    before = [result.tokens[0] for result in ours]
    after = stablehlo_gate.outputs_of(folder, program, ids)
    return sentences.bleu_lost(
        [vocabulary.target.decode(tokens) for tokens in before],
        [vocabulary.target.decode(tokens) for tokens in after],
        original.config.data.target_language,
    )


def _in_words(decode: DecodeConfig) -> str:
    if decode.beam_size == 1:
        return 'greedy search'
    return (
        f'beam search with {decode.beam_size} hypotheses, length norm {decode.length_norm} '
        f'{decode.length_penalty:g}'
    )


def _numbers(
    field: str, given: str, default: Sequence[int], limit: int = 0
) -> Sequence[int | None]:
    """Return the numbers of a flag, ascending; None stands for 'any'.

    Args:
      field: the flag.
      given: its value; '' stands for the default, as far as the limit allows.
      default: the default.
      limit: most tokens of a source, 0 for no limit.
    """
    if given.strip() == ANY:
        return [None]
    most = limit or _MOST[field]
    if not given:
        return sorted({min(most, number) for number in default})
    words = [word.strip() for word in given.split(',')]
    if not all(word.isdecimal() and 1 <= int(word) <= most for word in words):
        reason = ', the most tokens of a source that the model takes' if limit else ''
        raise UserError(
            f"--{field}={given!r} must be 'any', or numbers from 1 to {most:,}{reason}, separated "
            'by commas.'
        )
    return sorted({int(word) for word in words})
