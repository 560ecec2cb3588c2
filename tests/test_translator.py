"""Promises 2 and 8 for translation: raw text in, raw text out."""

import dataclasses
import json
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_run import TEXTS

from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.config import Config, DataConfig, DecodeConfig, MeshConfig, ModelConfig
from transformer_jax.data import phrasebook
from transformer_jax.data.vocabulary import Vocabulary
from transformer_jax.errors import UserError
from transformer_jax.inference import batch_decoder
from transformer_jax.inference.load import load_trained
from transformer_jax.model import Transformer
from transformer_jax.runtime import memory
from transformer_jax.sharding import make_mesh
from transformer_jax.storage.workdir import Workdir
from transformer_jax.translator import Sampling, Translation, Translator

pytestmark = pytest.mark.usefixtures('programs_kept')


@pytest.mark.parametrize('mesh', [MeshConfig(1, 8, 1), MeshConfig(4, 1, 2), MeshConfig(2, 2, 2)])
def test_any_mesh_translates_as_one_device_does(translator, mesh):
    alone, spread = (
        Translator(translator.config, translator.vocabulary, translator.search.params, mesh=m)
        for m in (make_mesh(devices=jax.devices()[:1]), make_mesh(mesh))
    )
    expected, found = (t.translate(TEXTS[:2], n_best=2) for t in (alone, spread))
    assert [[x.text for x in outputs] for outputs in found] == [
        [x.text for x in outputs] for outputs in expected
    ]
    assert found[0][0].score == pytest.approx(expected[0][0].score, rel=1e-4)


def test_all_devices_share_out_the_sentences(translator):
    assert translator.search.mesh.shape == {'data': 8, 'fsdp': 1, 'tensor': 1}


def test_a_text_gives_a_text_and_a_list_a_list(translator):
    alone = translator(TEXTS[0])
    assert isinstance(alone, str)
    assert translator([TEXTS[0]]) == [alone]
    assert translator([]) == []


def test_texts_may_come_one_by_one(translator):
    assert translator(iter(TEXTS)) == translator(TEXTS)
    assert translator.translate(iter(TEXTS[:1])) == translator.translate(TEXTS[:1])


@pytest.mark.parametrize(
    'texts, sentence',
    [
        ('The cat.', "texts='The cat.' must be several: give a list of texts."),
        (b'The cat.', "texts=b'The cat.' must be several: give a list of texts."),
        (5, 'texts=5 is no text: give a str, or a list of them.'),
        (['The cat.', None], 'text 2 is of type NoneType: give a str.'),
        (['The \ud83d cat.'], r"text 1 has '\ud83d' in place 4, which is half a character"),
    ],
)
def test_what_is_no_list_of_texts(translator, texts, sentence):
    with pytest.raises(UserError) as error:
        translator.translate(texts)
    assert sentence in str(error.value)


def test_outputs_are_of_their_texts(translator):
    outputs = translator(TEXTS)
    assert len(set(outputs)) > 2
    assert outputs[0] == outputs[4]


def test_a_translation_does_not_depend_on_its_batch(translator):
    together = translator(TEXTS * 5)
    assert together == translator(TEXTS) * 5
    assert together[: len(TEXTS)] == [translator(text) for text in TEXTS]
    assert translator(TEXTS[::-1])[::-1] == translator(TEXTS)


def test_an_empty_text_stays_empty(translator):
    # Normalisation leaves nothing of a space without width.
    assert translator(['', TEXTS[0], '  \t ', '\u200b']) == ['', translator(TEXTS[0]), '', '']


def test_n_best_come_in_order_with_scores_and_tokens(translator):
    found = translator(TEXTS[1], n_best=4)
    assert [type(one) for one in found] == [Translation] * 4
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    assert len({one.text for one in found}) > 1
    assert found[0].text == translator(TEXTS[1])
    assert ''.join(found[0].tokens).replace('▁', ' ').strip() == found[0].text


def test_a_text_far_longer_than_any_in_training_is_translated(translator, workdir):
    assert translator('the cat ' * 200) != ''


def test_a_character_never_seen_is_no_obstacle(translator):
    assert isinstance(translator('The ☃ 猫 sleeps.'), str)


def test_a_configured_limit_is_reported_by_line(translator, caplog):
    decode = translator.config.decode.__class__(max_source_length=8, max_extra_length=10)
    config = Config(model=translator.config.model, decode=decode)
    limited = Translator(config, translator.vocabulary, translator.search.params)
    limited.translate(['The cat.', 'the cat ' * 20], first_line=5)
    assert {record.getMessage() for record in caplog.records} == {
        f'Line 6 has {len(translator.vocabulary.encode(["the cat " * 20])[0])} tokens '
        'and is cut to the limit of 8.'
    }


def test_a_call_may_set_the_limit(translator):
    limit = len(translator.vocabulary.encode(['the cat'])[0])
    [[cut]] = translator.translate(['the cat ' * 20], max_source_length=limit)
    [[whole]] = translator.translate(['the cat'], max_source_length=0)
    assert (cut.tokens, cut.text) == (whole.tokens, whole.text)


def test_a_text_too_long_for_the_memory_is_named(translator, monkeypatch):
    monkeypatch.setattr(memory, 'CHECK_FROM_TOKENS', 64)
    monkeypatch.setattr(memory, 'device_memory', lambda device: 10_000)
    with pytest.raises(UserError, match=r'^line 6, with \d+ tokens, needs .* of 0\.01 MiB: split'):
        translator.translate(['The cat.', 'the cat ' * 40], first_line=5)


def test_beams_too_wide_for_the_memory_are_named_before_the_search(translator, monkeypatch):
    needs = []
    needed_memory = memory.needed_memory

    def noting(program):
        needs.append(needed_memory(program))
        return needs[-1]

    monkeypatch.setattr(memory, 'needed_memory', noting)
    monkeypatch.setattr(translator.search, '_positions', 500)
    translator.check(['The cat.'], beam_size=100)
    encoding, searching = needs
    assert searching > encoding
    monkeypatch.setattr(memory, 'device_memory', lambda device: encoding)
    with pytest.raises(
        UserError, match=r'^line 1, with \d+ tokens, needs .* or lower beam_size\.$'
    ):
        translator('The cat.', beam_size=101)


def test_texts_too_long_for_the_memory_are_found_before_the_search(translator, monkeypatch):
    monkeypatch.setattr(memory, 'CHECK_FROM_TOKENS', 64)
    monkeypatch.setattr(memory, 'device_memory', lambda device: 10_000)
    translator.check(['The cat.'])
    with pytest.raises(UserError, match=r'^a line of up to 128 tokens needs .* 0\.01 MiB: split'):
        translator.check(['The cat.', 'the cat ' * 40])


def test_learned_positions_take_a_text_up_to_their_end(translator):
    # Those of 43 tokens are padded, but not beyond the end of the table.
    model = ModelConfig(
        num_layers=1, d_model=16, d_ff=16, num_heads=2, positions='learned', max_positions=46
    )
    config = Config(
        model=model,
        data=DataConfig(max_length=46),
        decode=DecodeConfig(max_extra_length=3, beam_size=2),
    )
    vocabulary, tokens = translator.vocabulary, jnp.zeros((1, 1), jnp.int32)
    params = Transformer(model, vocabulary.size).init(jax.random.key(0), tokens, tokens)['params']
    [[found]] = Translator(config, vocabulary, params).translate(['the cat ' * 60])
    assert 0 < len(found.tokens) <= 46


def test_the_same_seed_draws_the_same_whatever_the_batch(translator):
    sampling = Sampling(temperature=1.5, seed=3)
    draws = translator(TEXTS, sampling=sampling)
    assert translator(TEXTS, sampling=sampling) == draws
    assert translator(TEXTS[:2], sampling=sampling) == draws[:2]
    assert translator(TEXTS, sampling=Sampling(temperature=1.5, seed=4)) != draws
    assert draws[0] != draws[4]  # the same text on another line is drawn anew


def test_another_seed_temperature_or_penalty_compiles_nothing(translator):
    translator(TEXTS[0], sampling=Sampling(seed=1)), translator(TEXTS[0], length_penalty=0.5)
    before = batch_decoder._search.jitted._cache_size()
    translator(TEXTS[0], sampling=Sampling(seed=2, temperature=1.1))
    translator(TEXTS[0], length_penalty=0.7)
    assert batch_decoder._search.jitted._cache_size() == before


def test_the_unknown_is_never_drawn(translator):
    # At this temperature all tokens are as likely.
    draws = translator(TEXTS[1], n_best=100, sampling=Sampling(temperature=1e6))
    drawn = {token for draw in draws for token in draw.tokens}
    assert len(drawn) > 100
    assert '<unk>' not in drawn


def test_sampling_the_likeliest_token_is_greedy(translator):
    greedy = translator(TEXTS, beam_size=1)
    assert translator(TEXTS, sampling=Sampling(top_k=1)) == greedy


@pytest.mark.parametrize(
    ('options', 'sentence'),
    [
        ({'n_best': 5}, 'n_best=5 must be from 1 to the beam size, which is 4'),
        ({'n_best': 0}, 'n_best=0 must be from 1'),
        ({'n_best': 2.0}, 'n_best=2.0 must be a whole number'),
        (
            {'n_best': 10**12, 'sampling': Sampling()},
            'n_best=1000000000000 must be from 1 to 10,000 when sampling.',
        ),
        ({'n_best': 0, 'sampling': Sampling()}, 'n_best=0 must be from 1 to 10,000 when sampling.'),
        ({'beam_size': 0}, 'decode.beam_size=0 must be from 1 to 1,000.'),
        ({'length_penalty': -1.0}, 'decode.length_penalty=-1.0 must be from 0 to 10.'),
        ({'sampling': True}, 'sampling=True must be a Sampling()'),
    ],
)
def test_a_bad_option(translator, options, sentence):
    with pytest.raises(UserError, match='must be') as error:
        translator(TEXTS[0], **options)
    assert sentence in str(error.value)


def test_several_draws_of_a_line_differ_and_the_likeliest_comes_first(translator):
    found = translator(TEXTS[1], n_best=6, sampling=Sampling(temperature=1.5))  # beyond the beam
    scores = [one.score for one in found]
    assert len(found) == 6 and scores == sorted(scores, reverse=True)
    assert len({one.text for one in found}) > 1


def test_draws_do_not_depend_on_how_many_there_are(translator):
    sampling = Sampling(temperature=1.5)
    few, many = (translator(TEXTS[1], n_best=n, sampling=sampling) for n in (6, 70))
    assert len(many) == 70  # more than a batch holds
    assert {one.text for one in few} <= {one.text for one in many}
    assert many[0].score == max(one.score for one in many)


@pytest.mark.parametrize(
    'field, value',
    [
        ('temperature', 0.0),
        ('temperature', 1e-9),
        ('temperature', float('nan')),
        ('temperature', float('inf')),
        ('temperature', 1e38),
        ('top_p', 0.0),
        ('top_p', float('nan')),
        ('seed', -1),
        ('seed', 2**32),
        ('seed', 1.5),
        ('top_k', 2.5),
        ('top_k', -1),
        ('top_k', 10**12),
    ],
)
def test_sampling_out_of_range(field, value):
    with pytest.raises(
        UserError, match=rf'{field}={re.escape(str(value))} (is of type float but )?must be '
    ):
        Sampling(**{field: value})


def test_a_moved_workdir_translates_as_before(translator, workdir, tmp_path):
    shutil.copytree(workdir, tmp_path / 'elsewhere')
    assert Translator.load(tmp_path / 'elsewhere')(TEXTS) == translator(TEXTS)


def test_parameters_are_the_mean_of_the_latest_checkpoints(translator, workdir):
    assert translator.steps == [60, 120]
    last = Translator.load(workdir, checkpoints=1)
    assert last.steps == [120]
    mean, newest = (
        t.search.params['decoder']['layer_0']['self_attention']['query'] for t in (translator, last)
    )
    assert not np.array_equal(mean, newest)


@pytest.mark.parametrize(
    'options, sentence',
    [
        ({'average': 'latst'}, "average='latst' must be 'latest' or 'best'."),
        ({'checkpoints': 1.5}, 'checkpoints=1.5 must be a whole number from 1 to 1,000,000.'),
        (
            {'checkpoints': 10**12},
            'checkpoints=1000000000000 must be a whole number from 1 to 1,000,000',
        ),
        ({'steps': []}, 'name the steps of at least one checkpoint'),
        ({'steps': [60], 'checkpoints': 2}, 'steps=[60] with checkpoints=2: name the steps'),
        ({'steps': 60}, 'steps=60 must be several: give a list of steps.'),
        ({'steps': [61]}, 'steps=61 are not all saved in'),
    ],
)
def test_checkpoints_that_cannot_be_averaged(workdir, options, sentence):
    with pytest.raises(UserError) as error:
        Translator.load(workdir, **options)
    assert sentence in str(error.value)


@pytest.mark.parametrize('size, known', [(500, True), (400, False)])
def test_the_vocabulary_of_another_run_is_refused(workdir, tmp_path, size, known):
    run = Workdir(shutil.copytree(workdir, tmp_path / 'run'))
    if not known:  # as before runs noted it
        saved = json.loads((run.path / 'config.json').read_text())
        del saved['vocabulary_digest']
        (run.path / 'config.json').write_text(json.dumps(saved))
    other = phrasebook.generate(seed=9, train=2000, dev=0, test=0)['train']
    Vocabulary.train([text for pair in other for text in pair], size=size).save(run.vocabulary)
    with pytest.raises(UserError, match=r'is not the vocabulary that the model beside it was'):
        Translator.load(run.path)


def test_a_damaged_checkpoint_is_left_out_and_named(workdir, tmp_path, caplog):
    shutil.copytree(workdir, tmp_path / 'run')
    for file in (tmp_path / 'run' / 'checkpoints' / '120').rglob('*'):
        if file.is_file():
            file.write_bytes(b'')
    assert Translator.load(tmp_path / 'run').steps == [60]
    assert 'The checkpoint of step 120 is damaged' in caplog.text


def test_where_the_latest_is_damaged_an_older_one_is_taken(workdir, tmp_path, caplog):
    run = shutil.copytree(workdir, tmp_path / 'run')
    saved = json.loads((run / 'config.json').read_text())
    saved['config']['train']['checkpoint_every'] = 20  # so that 60 and 120 are apart
    (run / 'config.json').write_text(json.dumps(saved))
    for file in (run / 'checkpoints' / '120').rglob('*'):
        if file.is_file():
            file.write_bytes(b'')
    assert Translator.load(run).steps == [60]
    assert 'The checkpoint of step 120 is damaged' in caplog.text


def test_where_the_named_ones_are_damaged_the_others_are_named(workdir, tmp_path):
    run = shutil.copytree(workdir, tmp_path / 'run')
    for file in (run / 'checkpoints' / '120').rglob('*'):
        if file.is_file():
            file.write_bytes(b'')
    with pytest.raises(UserError, match=r'those of steps 120 are damaged; .* --steps=60\.$'):
        load_trained(run, steps=[120])


def with_config(workdir, folder, section, **changes):
    """A copy of a run with other values in its config.json."""
    run = shutil.copytree(workdir, folder / 'run')
    saved = json.loads((run / 'config.json').read_text())
    saved['config'][section] |= changes
    (run / 'config.json').write_text(json.dumps(saved))
    return run


@pytest.mark.parametrize(
    ('changes', 'array'),
    [
        ({'num_layers': 2}, r'decoder/layer_1/\S+ is missing and should be float32'),
        ({'num_heads': 4}, r'is float32 \[32, 2, 16\] and should be float32 \[32, 4, 8\]'),
        ({'output_bias': True}, 'output_bias is missing'),
    ],
)
def test_a_config_that_does_not_fit_its_weights_names_the_array(workdir, tmp_path, changes, array):
    run = with_config(workdir, tmp_path, 'model', **changes)
    with pytest.raises(UserError, match=f'does not fit its checkpoints: .*{array}'):
        Translator.load(run)


def test_weights_that_the_config_knows_nothing_of_are_named(workdir, tmp_path):
    _, _, weights, _ = load_trained(workdir)
    run = shutil.copytree(workdir, tmp_path / 'run')
    shutil.rmtree(run / 'checkpoints')
    manager = Checkpoints(run / 'checkpoints')
    manager.save_weights(120, weights | {'more': np.zeros(2, np.float32)})
    manager.close()
    with pytest.raises(UserError, match='its checkpoints, which have more as well'):
        Translator.load(run)


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(workdir, tmp_path, value):
    _, _, weights, _ = load_trained(workdir)
    run = shutil.copytree(workdir, tmp_path / 'run')
    shutil.rmtree(run / 'checkpoints')
    weights['embedding'][3, 3] = value
    manager = Checkpoints(run / 'checkpoints')
    manager.save_weights(120, weights)
    manager.close()
    with pytest.raises(UserError, match='embedding has values that are not finite in the mean of'):
        Translator.load(run)


def test_outputs_without_a_finite_score_are_named(translator, caplog):
    huge = jax.tree.map(lambda x: jnp.full_like(x, 1e38), translator.search.params)
    diverged = Translator(translator.config, translator.vocabulary, huge)
    assert diverged(TEXTS[:1]) == ['']
    assert '1 lines, of which line 1 is the first, stay empty: the scores of' in caplog.text


def test_an_output_at_the_limit_is_marked_as_cut(translator):
    lengths = [len(ids) for ids in translator.vocabulary.encode(TEXTS)]
    seen = set()
    for extra in (0, 100):
        for length, [output] in zip(
            lengths, translator.translate(TEXTS, max_extra_length=extra), strict=True
        ):
            assert output.cut == (len(output.tokens) + 1 == length + extra)
            seen.add(output.cut)
    assert seen == {True, False}


@pytest.mark.parametrize('made', [False, True])
def test_an_untrained_workdir(tmp_path, made):
    folder = tmp_path / 'run'
    if made:
        folder.mkdir()
    with pytest.raises(UserError, match='holds no trained model: train one there first'):
        Translator.load(folder)


def test_before_a_dev_bleu_is_known_the_latest_stand_in_for_the_best(workdir, tmp_path, caplog):
    run = Workdir(shutil.copytree(workdir, tmp_path / 'run'))
    for scores in run.checkpoints.rglob('scores.json'):
        scores.unlink()
    saved = run.read_run()
    decode = dataclasses.replace(saved.config.decode, average='best', average_checkpoints=1)
    config = dataclasses.replace(saved.config, decode=decode)
    run.write_run(dataclasses.replace(saved, config=config))
    assert Translator.load(run.path).steps == [120]
    assert 'No checkpoint has a dev BLEU yet: the latest are averaged.' in caplog.text


def test_more_of_the_best_than_were_kept_for_it_are_said(workdir, tmp_path, caplog):
    run = Workdir(shutil.copytree(workdir, tmp_path / 'run'))
    shutil.copytree(run.checkpoints / '120' / 'scores', run.checkpoints / '60' / 'scores')
    Translator.load(run.path, average='best', checkpoints=1)
    assert caplog.text == ''
    assert Translator.load(run.path, average='best', checkpoints=2).steps == [60, 120]
    assert 'of the 2 best that are left: train.keep_best=1 kept no more than' in caplog.text


def test_a_checkpoint_that_a_training_deletes_meanwhile(workdir, tmp_path, caplog, monkeypatch):
    shutil.copytree(workdir, tmp_path / 'run')
    steps = Checkpoints.steps

    def and_deleted(self):
        found = steps(self)
        shutil.rmtree(self.directory / '60', ignore_errors=True)
        return found

    monkeypatch.setattr(Checkpoints, 'steps', and_deleted)
    assert Translator.load(tmp_path / 'run').steps == [120]
    assert 'The checkpoint of step 60 is deleted by another process: it is left out.' in caplog.text


def test_fewer_checkpoints_than_asked_for_are_said(workdir, caplog):
    assert Translator.load(workdir, checkpoints=9).steps == [60, 120]
    assert 'There are 2 checkpoints to average, not 9.' in caplog.text
