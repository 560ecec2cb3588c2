"""Writes the whole translation, encoder and search, as programs that need JAX but not this package.

README.md      how to call the programs, with an example
*.stablehlo    a program for each shape of a batch
model.safetensors and the vocabulary
conversion.json
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import jax

from transformer_jax.config import DecodeConfig
from transformer_jax.conversion.exported import WITH_BLEU, write_readme
from transformer_jax.conversion.original import Original
from transformer_jax.conversion.parity.check_sentences import CheckSentences, bleu_in_words
from transformer_jax.conversion.parity.compare import Comparison, Findings
from transformer_jax.conversion.parity.ours import Ours
from transformer_jax.conversion.parity.report import write_report
from transformer_jax.conversion.stablehlo.peer_programs import ProgramsPeer, cpu_mesh
from transformer_jax.conversion.stablehlo.programs import (
    ANY,
    PLATFORMS,
    Program,
    export_program,
    translate_fn,
)
from transformer_jax.conversion.stablehlo.use import use
from transformer_jax.errors import UserError
from transformer_jax.inference.load import named_parameters
from transformer_jax.storage.files import atomic_write
from transformer_jax.storage.release import WEIGHTS
from transformer_jax.storage.weights import write_weights

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
    ours = Ours(config, vocabulary, original.params, cpu_mesh())
    options = ours.translator.search_options(config.decode)
    limit = ours.translator.decoder.source_limit(config.decode)
    programs = [
        Program(rows, length)
        for rows in _numbers('batch_sizes', batch_sizes, _BATCH_SIZES)
        for length in _numbers('lengths', lengths, _LENGTHS, limit)
    ]
    weights = named_parameters(original.params)
    translate = translate_fn(
        dataclasses.replace(ours.config.model, dtype=dtype),
        vocabulary.sizes,
        options,
        vocabulary.eos_id,
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

    def compare(programs: Sequence[Program], count: int) -> tuple[Findings, list[list[str]]]:
        peer = ProgramsPeer(folder, programs, vocabulary)
        comparison = Comparison(ours, peer, sentences.origin)
        sources = ours.source_pieces(sentences.sources[:count])
        texts = comparison.search(peer.for_each(sources))
        return comparison.findings, texts

    findings, _ = compare(programs, _CHECKED)
    checks, found = findings.report(), str(findings)
    if dtype != 'float32':
        bleu = None
        if sentences.references:
            _, texts = compare(programs[-1:], WITH_BLEU)
            bleu = sentences.bleu_lost(*texts, config.data.target_language)
        checks['bleu'] = bleu
        found += f'; {bleu_in_words(bleu, _in_words(config.decode))}'
    elif not findings.passed:
        raise RuntimeError(f'the export to stablehlo computes something else: {found}')
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
