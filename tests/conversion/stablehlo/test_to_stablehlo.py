"""Exported programs translate as the package does, in processes without it."""

import dataclasses
import io
import json
import re

import jax
import numpy as np
import pytest
from conversion.random_models import SENTENCES, random_model, separate, shared

from transformer_jax.conversion.parity.ours import Ours
from transformer_jax.conversion.stablehlo import peer_programs, to_stablehlo
from transformer_jax.conversion.stablehlo.peer_programs import ProgramsPeer
from transformer_jax.conversion.stablehlo.programs import Program, export_program, translate_fn
from transformer_jax.conversion.stablehlo.to_stablehlo import export
from transformer_jax.conversion.stablehlo.use import example
from transformer_jax.data.vocabulary.table_vocabulary import TableVocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.inference.load import named_parameters
from transformer_jax.translating.options import search_options
from transformer_jax.translator import Translator

# The smallest model, because a search takes seconds to compile.
SMALL = {'num_layers': 1, 'tied_embeddings': 'decoder'}


@pytest.fixture(scope='module')
def original():
    model = random_model(separate(), {'beam_size': 2, 'min_length': 2}, **SMALL)
    # Without a dev set, the twenty built-in sentences are translated.
    return dataclasses.replace(model, run=dataclasses.replace(model.run, split_fingerprints={}))


@pytest.fixture(scope='module')
def exported(original, tmp_path_factory):
    folder = tmp_path_factory.mktemp('stablehlo')
    found = export(original, folder, batch_sizes='4', lengths='24')
    return folder, found


def run(code, folder, texts, monkeypatch, capsys):
    """Run the example of a README; return the lines it prints."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr('sys.stdin', io.StringIO('\n'.join(texts)))
    exec(code, {})
    return capsys.readouterr().out.splitlines()


def test_programs_without_the_package_find_the_outputs_of_its_search(exported):
    folder, found = exported
    checks = json.loads((folder / 'conversion.json').read_text())['checks']
    (outputs,) = checks['searches']
    assert outputs['number'] == outputs['same'] == 20
    assert 0 < checks['differences']['scores'] < 1e-5
    assert '20 of 20 outputs of beam 2' in found


def test_outputs_of_a_program_are_those_of_the_search(exported, original):
    folder, _ = exported
    texts = SENTENCES[1:2] * 5  # more than one batch
    ours = Ours(original.config, original.vocabulary, original.params)
    peer = ProgramsPeer(folder, [Program(4, 24)] * 2, original.vocabulary)
    sources = peer.for_each(ours.source_pieces(texts))
    outputs = peer.search(sources, 2, None)
    translator = Translator(original.config, original.vocabulary, original.params)
    assert [ours.text(x.pieces) for x in outputs] == 2 * translator(texts)


def test_sources_are_cut_to_the_length_of_a_program(tmp_path, original):
    programs = [Program(4, 3), Program(4, None)]
    peer = ProgramsPeer(tmp_path, programs, original.vocabulary)
    pieces = ('▁', 'a', 'b', 'c')
    assert peer.for_each([pieces]) == [pieces[:2], pieces]
    ids = [peer._batches(program, [pieces[:2]])[0, 0].tolist() for program in programs]
    assert ids[0] == ids[1] and ids[0][-1] == original.vocabulary.eos_id


def test_bfloat16_states_the_bleu_that_is_lost(tmp_path):
    found = export(
        random_model(**SMALL, vocabulary=separate()),
        tmp_path,
        dtype='bfloat16',
        batch_sizes='12',
        lengths='40',
    )
    bleu = json.loads((tmp_path / 'conversion.json').read_text())['checks']['bleu']
    assert set(bleu) == {'before', 'after', 'signature'}
    assert f'{bleu["after"]:.2f}, with float32 weights {bleu["before"]:.2f} (nrefs:1|' in found


def test_the_folder_is_complete(exported):
    assert sorted(file.name for file in exported[0].iterdir()) == [
        'README.md',
        'conversion.json',
        'model.safetensors',
        'source_vocabulary.model',
        'target_vocabulary.model',
        'translate_b004_s024.stablehlo',
    ]


def test_the_example_of_the_readme_translates_as_the_package(
    exported, original, monkeypatch, capsys
):
    folder, _ = exported
    code = re.search('```python\n(.*?)```', (folder / 'README.md').read_text(), re.DOTALL)[1]
    texts = SENTENCES[1:2] * 2
    translator = Translator(original.config, original.vocabulary, original.params)
    assert run(code, folder, texts, monkeypatch, capsys) == translator(texts)


def test_one_program_takes_any_batch(original):
    options = search_options(original.config.decode)
    vocabulary, model = original.vocabulary, original.config.model
    translate = translate_fn(model, vocabulary.sizes, options, vocabulary.eos_id)
    weights = named_parameters(original.params)
    shapes = {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in weights.items()}
    program = export_program(translate, shapes, Program(None, None), options, 0)
    assert program.platforms == ('cpu', 'cuda', 'tpu')
    calls = set(re.findall(r'custom_call @"?([\w.]+)', program.mlir_module()))
    assert calls <= {'shape_assertion'}  # jax.export promises to keep it
    (ids,) = vocabulary.source.encode(SENTENCES[1:2])
    source = np.pad(ids, (0, 30 - len(ids)))[None]
    found, wanted = jax.jit(program.call)(weights, source), jax.jit(translate)(weights, source)
    np.testing.assert_array_equal(found['tokens'], wanted['tokens'])
    assert found['tokens'].shape == (1, 38)


@pytest.mark.parametrize('change', [{'score': -1e9}, {'score': -1e9, 'pieces': ('a',)}])
def test_programs_that_find_other_outputs_or_scores_fail(monkeypatch, tmp_path, original, change):
    class Wrong(ProgramsPeer):
        def search(self, sources, beam_size, limit):
            found = Ours(original.config, original.vocabulary, original.params)
            first, *others = found.search(sources, beam_size, limit)
            return [first._replace(**change), *others]

    monkeypatch.setattr(to_stablehlo, 'ProgramsPeer', Wrong)
    with pytest.raises(RuntimeError, match='export to stablehlo computes something else'):
        export(original, tmp_path, batch_sizes='4', lengths='24')


def test_the_process_of_the_programs_cannot_import_the_package(monkeypatch, tmp_path, original):
    start, _ = peer_programs._CALLER.split('import jax')
    monkeypatch.setattr(peer_programs, '_CALLER', f'{start}import transformer_jax')
    with pytest.raises(RuntimeError, match='import of transformer_jax halted'):
        ProgramsPeer(tmp_path, [Program(1, 8)], original.vocabulary).search([], 2, None)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'batch_sizes': '0'}, "--batch_sizes='0' must be 'any', or numbers from 1 to 10,000"),
        ({'lengths': '8,x'}, "--lengths='8,x' must be"),
        ({'lengths': '200'}, 'from 1 to 88, the most tokens of a source that the model takes'),
    ],
)
def test_wrong_shapes_are_user_errors(options, message, tmp_path):
    with pytest.raises(UserError, match=re.escape(message)):
        export(random_model(positions='learned', num_layers=1), tmp_path, **options)


def tables(codes=()):
    model = shared().source.model
    pieces = shared().source.pieces(range(3, shared().source.size))
    table = ['<pad>', '</s>', '<unk>', *codes, *pieces]
    sides = (TableVocabulary(model, table, is_source=k == 0) for k in range(2))
    return VocabularyPair(*sides)


@pytest.mark.parametrize(
    ('vocabulary', 'prefix'),
    [
        pytest.param(shared, '', id='shared'),
        pytest.param(tables, '', id='tables'),
        pytest.param(lambda: tables(['>>fra<<']), '>>fra<< ', id='language codes'),
    ],
)
def test_the_example_encodes_and_decodes_as_the_vocabulary(
    vocabulary, prefix, tmp_path, monkeypatch, capsys
):
    vocabulary = vocabulary()
    vocabulary.save(tmp_path)
    (tmp_path / 'echo').touch()
    seen = []

    class Echo:
        @staticmethod
        def call(params, source):
            jax.debug.callback(lambda x: seen.extend(x), source)
            return {'tokens': source}

    monkeypatch.setattr('jax.export.deserialize', lambda _: Echo)
    monkeypatch.setattr('safetensors.flax.load_file', lambda _: {})
    monkeypatch.setattr(Program, 'file', 'echo')
    text = prefix + SENTENCES[0]
    lines = run(example(Program(1, 64), vocabulary), tmp_path, [text], monkeypatch, capsys)
    jax.effects_barrier()
    (ids,) = vocabulary.source.encode([text])
    np.testing.assert_array_equal(np.trim_zeros(seen[0], 'b'), ids)
    assert lines == [vocabulary.target.decode(ids)]
