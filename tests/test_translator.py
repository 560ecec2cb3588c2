"""Promises 2 and 8 for translation, and the commands `translate`, `evaluate` and
`average`."""

import io
import json
import logging
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

from transformer_jax import average, command, evaluate, translate
from transformer_jax.config import Config, MeshConfig
from transformer_jax.errors import UserError
from transformer_jax.sharding import make_mesh
from transformer_jax.trainer import train
from transformer_jax.translator import Sampling, Translation, Translator
from transformer_jax.workdir import Workdir

messages = logging.getLogger('transformer_jax')
TEXTS = [
    'The cat sleeps.',
    'A brown dog ate the apple near the old table because it was good.',
    'Where is the house?',
    'The teacher and the doctor are reading a book.',
    'The cat sleeps.',
]


@pytest.fixture(scope='session')
def workdir(tmp_path_factory):
    """A model that has learned enough for its outputs to differ from text to text."""
    config = Config.from_mapping(
        {
            'model': {'num_layers': 1, 'd_model': 32, 'd_ff': 64, 'num_heads': 2},
            'data': {
                'corpus': 'phrasebook',
                'target_language': 'fr',
                'train_size': 2000,
                'dev_size': 8,
                'test_size': 8,
                'vocab_size': 500,
                'max_length': 64,
                'tokens_per_batch': 1024,
                'num_buckets': 1,
            },
            'optimizer': {'warmup_steps': 60},
            'train': {'steps': 120, 'eval_every': 120, 'checkpoint_every': 60},
            'decode': {'max_extra_length': 10},
        }
    )
    folder = tmp_path_factory.mktemp('runs') / 'tiny'
    train(config, folder)
    return folder


@pytest.fixture(scope='session')
def translator(workdir):
    return Translator.load(workdir)


def run(module, monkeypatch, capsys, *arguments, stdin=b''):
    """Runs a command in this process; returns its exit code, stdout and stderr."""
    monkeypatch.setattr('sys.argv', ['command', *map(str, arguments)])
    monkeypatch.setattr('sys.stdin', io.TextIOWrapper(io.BytesIO(stdin)))
    code = 0
    try:
        command.run(module.main)
    except SystemExit as exit_:
        code = exit_.code
    return code, *capsys.readouterr()


# Translator


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
    assert translator(['', TEXTS[0], '  \t ']) == ['', translator(TEXTS[0]), '']


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
    messages.addHandler(caplog.handler)
    limited.translate(['The cat.', 'the cat ' * 20], first_line=5)
    messages.removeHandler(caplog.handler)
    assert {record.getMessage() for record in caplog.records} == {
        f'Line 6 has {len(translator.vocabulary.encode(["the cat " * 20])[0])} tokens '
        'and is cut to the limit of 8.'
    }


def test_the_same_seed_draws_the_same_whatever_the_batch(translator):
    sampling = Sampling(temperature=1.5, seed=3)
    draws = translator(TEXTS, sampling=sampling)
    assert translator(TEXTS, sampling=sampling) == draws
    assert translator(TEXTS[:2], sampling=sampling) == draws[:2]
    assert translator(TEXTS, sampling=Sampling(temperature=1.5, seed=4)) != draws
    assert draws[0] != draws[4]  # the same text on another line is drawn anew


def test_sampling_the_likeliest_token_is_greedy(translator):
    greedy = translator(TEXTS, beam_size=1)
    assert translator(TEXTS, sampling=Sampling(top_k=1)) == greedy


@pytest.mark.parametrize(
    ('options', 'sentence'),
    [
        ({'n_best': 5}, 'n_best=5 must be from 1 to the beam size, which is 4'),
        ({'n_best': 0}, 'n_best=0 must be from 1'),
        ({'beam_size': 0}, 'decode.beam_size=0 must be greater than 0.'),
        ({'length_penalty': -1.0}, 'decode.length_penalty=-1.0 must be 0 or greater.'),
    ],
)
def test_a_bad_option(translator, options, sentence):
    with pytest.raises(UserError, match='must be') as error:
        translator(TEXTS[0], **options)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    'field, value',
    [
        ('temperature', 0.0),
        ('temperature', 1e-9),
        ('temperature', float('nan')),
        ('temperature', float('inf')),
        ('top_p', 0.0),
        ('top_p', float('nan')),
        ('seed', -1),
        ('seed', 2**63),
    ],
)
def test_sampling_out_of_range(field, value):
    with pytest.raises(UserError, match=f'{field}={value} must be '):
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


def test_a_damaged_checkpoint_is_left_out_and_named(workdir, tmp_path, caplog):
    shutil.copytree(workdir, tmp_path / 'run')
    for file in (tmp_path / 'run' / 'checkpoints' / '120').rglob('*'):
        if file.is_file():
            file.write_bytes(b'')
    messages.addHandler(caplog.handler)
    assert Translator.load(tmp_path / 'run').steps == [60]
    messages.removeHandler(caplog.handler)
    assert 'The checkpoint of step 120 is damaged' in caplog.text


@pytest.mark.parametrize('made', [False, True])
def test_an_untrained_workdir(tmp_path, made):
    folder = tmp_path / 'run'
    if made:
        folder.mkdir()
    with pytest.raises(UserError, match='holds no trained model: train one there first'):
        Translator.load(folder)


# translate


def test_lines_out_are_as_lines_in(workdir, translator, monkeypatch, capsys):
    lines = [TEXTS[1], '', TEXTS[0], TEXTS[2]]
    code, out, _ = run(
        translate, monkeypatch, capsys, '--workdir', workdir, stdin='\n'.join(lines).encode()
    )
    assert code == 0
    assert out.split('\n') == [*translator(lines), '']


def test_files_and_line_ends(workdir, translator, monkeypatch, capsys, tmp_path):
    # A line separator inside a sentence does not end its line; a carriage return does not count.
    (tmp_path / 'in').write_bytes(f'{TEXTS[0]}\r\nThe\u2028cat\n'.encode())
    code, out, _ = run(
        translate, monkeypatch, capsys,
        '--workdir', workdir, '--input', tmp_path / 'in', '--output', tmp_path / 'out',
    )  # fmt: skip
    assert (code, out) == (0, '')
    written = (tmp_path / 'out').read_text(encoding='utf-8').split('\n')
    assert written == [translator(TEXTS[0]), translator('The\u2028cat'), '']


def test_n_best_with_scores(workdir, translator, monkeypatch, capsys):
    _, out, _ = run(
        translate, monkeypatch, capsys,
        '--workdir', workdir, '--n_best', 2, '--scores', stdin=TEXTS[0].encode(),
    )  # fmt: skip
    best = translator(TEXTS[0], n_best=2)
    assert out == ''.join(f'{one.score:.4f}\t{one.text}\n' for one in best)


def test_bad_utf_8_names_the_line_and_keeps_the_old_output(workdir, monkeypatch, capsys, tmp_path):
    (tmp_path / 'in').write_bytes(b'The cat.\n\xff\n')
    (tmp_path / 'out').write_text('kept')
    code, _, err = run(
        translate, monkeypatch, capsys,
        '--workdir', workdir, '--input', tmp_path / 'in', '--output', tmp_path / 'out',
    )  # fmt: skip
    assert code == 2
    assert err.startswith('error: ')
    assert 'line 2: not valid UTF-8' in err
    assert (tmp_path / 'out').read_text() == 'kept'
    assert sorted(path.name for path in tmp_path.iterdir()) == ['in', 'out']


def test_a_link_stays_and_what_it_leads_to_is_written(workdir, monkeypatch, capsys, tmp_path):
    (tmp_path / 'target').write_text('old')
    (tmp_path / 'link').symlink_to('target')
    arguments = ['--workdir', workdir, '--output', tmp_path / 'link']
    run(translate, monkeypatch, capsys, *arguments, stdin=b'\n')
    assert (tmp_path / 'link').is_symlink()
    assert (tmp_path / 'target').read_text() == '\n'


def test_a_pipe_stays_one(workdir, monkeypatch, capsys, tmp_path):
    os.mkfifo(tmp_path / 'pipe')
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit((tmp_path / 'pipe').read_text)
        arguments = ['--workdir', workdir, '--output', tmp_path / 'pipe']
        run(translate, monkeypatch, capsys, *arguments, stdin=b'\n\n')
        assert read.result() == '\n\n'
    assert (tmp_path / 'pipe').is_fifo()


def test_a_full_disk_is_said(workdir, monkeypatch, capsys):
    arguments = ['--workdir', workdir, '--output', '/dev/full']
    code, _, err = run(translate, monkeypatch, capsys, *arguments, stdin=b'\n')
    assert code == 2
    assert "--output='/dev/full' cannot be written (No space left on device)" in err


def test_fewer_checkpoints_than_asked_for_are_said(workdir, caplog):
    assert Translator.load(workdir, checkpoints=9).steps == [60, 120]
    assert 'There are 2 checkpoints to average, not 9.' in caplog.text


@pytest.mark.parametrize(
    ('arguments', 'sentence'),
    [
        (['--workdir', 'nowhere', '--top_k', '5'], '--top_k=5 is of --sample, which is not given'),
        (['--workdir', '~no_such_user/x'], "workdir='~no_such_user/x' is of somebody who has no"),
        (['--workdir', 'nowhere'], "workdir='nowhere' holds no trained model"),
        (['--workdir', 'nowhere', '--input', 'no'], "--input='no' cannot be read (No such file"),
        (['--workdir', 'nowhere', '--sample', '--top_p', '2'], 'top_p=2.0 must be greater than 0'),
        (['--workdir', 'nowhere', '--bean_size', '2'], 'unrecognized arguments: --bean_size'),
        ([], 'the following arguments are required: --workdir'),
    ],
)
def test_a_mistake_in_translate(monkeypatch, capsys, tmp_path, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(translate, monkeypatch, capsys, *arguments)
    assert (code, out) == (2, '')
    assert err.startswith('error: ')
    assert err.count('\n') == 1
    assert sentence in err


# evaluate


def test_evaluate_scores_the_test_set_as_the_run_did(workdir, monkeypatch, capsys):
    code, out, _ = run(evaluate, monkeypatch, capsys, '--workdir', workdir)
    test = Workdir(workdir).read_results()['test']
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:3] == ['BLEU', f'{test["bleu"]:.2f}', '±']
    assert lines[0][4].replace('|bs:1000|seed:12345', '') == test['bleu_signature']
    assert lines[1][:2] == ['chrF2', f'{test["chrf"]:.2f}']
    assert f'perplexity   {test["perplexity"]:.4f} per token ({test["tokens"]:,})' in out
    assert 'log-probability / ((5 + length) / 6)^0.6' in out


def test_evaluate_scores_the_dev_set(workdir, monkeypatch, capsys):
    code, out, _ = run(evaluate, monkeypatch, capsys, '--workdir', workdir, '--split', 'dev')
    dev = Workdir(workdir).read_config()[0].data.dev_size
    assert code == 0
    assert f'sentences    {dev}, 1 reference(s)' in out


def test_evaluate_notices_that_a_set_has_changed(workdir, monkeypatch, capsys, tmp_path):
    run_of = shutil.copytree(workdir, tmp_path / 'run')
    saved = json.loads((run_of / 'config.json').read_text())
    saved['split_fingerprints']['dev'] = 'that of another'
    (run_of / 'config.json').write_text(json.dumps(saved))
    arguments = ['--workdir', run_of, '--split', 'dev']
    code, out, err = run(evaluate, monkeypatch, capsys, *arguments)
    assert (code, out) == (2, '')
    assert 'its dev set has changed since its run began: restore the corpus' in err


def test_evaluate_takes_a_set_of_the_run_or_files(workdir, monkeypatch, capsys):
    arguments = ['--workdir', workdir, '--split', 'dev', '--source', 'x', '--reference', 'x']
    code, _, err = run(evaluate, monkeypatch, capsys, *arguments)
    assert code == 2
    assert "--split names one of the run's own sets" in err


def test_evaluate_scores_files(workdir, translator, monkeypatch, capsys, tmp_path):
    (tmp_path / 'source').write_text('\n'.join(TEXTS) + '\n')
    (tmp_path / 'reference').write_text('\n'.join(translator(TEXTS)) + '\n', encoding='utf-8')
    code, out, _ = run(
        evaluate, monkeypatch, capsys,
        '--workdir', workdir,
        '--source', tmp_path / 'source', '--reference', tmp_path / 'reference',
    )  # fmt: skip
    assert code == 0
    assert 'chrF2                             100.00' in out  # BLEU needs four words in a row


def test_evaluate_takes_several_references(workdir, translator, monkeypatch, capsys, tmp_path):
    (tmp_path / 'source').write_text('\n'.join(TEXTS) + '\n')
    (tmp_path / 'right').write_text('\n'.join(translator(TEXTS)) + '\n', encoding='utf-8')
    (tmp_path / 'wrong').write_text('x\n' * len(TEXTS))
    code, out, _ = run(
        evaluate, monkeypatch, capsys,
        '--workdir', workdir, '--source', tmp_path / 'source',
        '--reference', tmp_path / 'wrong', tmp_path / 'right',
    )  # fmt: skip
    assert code == 0
    assert 'chrF2                             100.00' in out
    assert 'nrefs:2' in out
    # 'x' and the end of each sentence.
    assert f'per word ({2 * len(TEXTS)})' in out


@pytest.mark.parametrize(
    ('reference', 'sentence'),
    [('one\n', 'has 2 lines but --reference='), (None, '--source and --reference belong together')],
)
def test_a_mistake_in_evaluate(workdir, monkeypatch, capsys, tmp_path, reference, sentence):
    (tmp_path / 'source').write_text('one\ntwo\n')
    arguments = ['--workdir', workdir, '--source', tmp_path / 'source']
    if reference is not None:
        (tmp_path / 'reference').write_text(reference)
        arguments += ['--reference', tmp_path / 'reference']
    code, out, err = run(evaluate, monkeypatch, capsys, *arguments)
    assert (code, out) == (2, '')
    assert sentence in err


# average


def test_the_mean_of_named_checkpoints_translates_like_them(workdir, monkeypatch, capsys, tmp_path):
    output = tmp_path / 'mean'
    arguments = ['--workdir', workdir, '--output', output, '--steps', '60']
    code, out, _ = run(average, monkeypatch, capsys, *arguments)
    assert (code, out) == (0, f'{output} holds the mean of steps [60]\n')
    found, wanted = Translator.load(output), Translator.load(workdir, steps=[60])
    assert found(TEXTS, n_best=2) == wanted(TEXTS, n_best=2)


def test_a_mean_is_scored_but_not_trained(workdir, monkeypatch, capsys, tmp_path):
    output = tmp_path / 'mean'
    run(average, monkeypatch, capsys, '--workdir', workdir, '--output', output)
    code, out, _ = run(evaluate, monkeypatch, capsys, '--workdir', output)
    test = Workdir(workdir).read_results()['test']  # of the mean of the same two
    assert (code, out.splitlines()[0].split()[1]) == (0, f'{test["bleu"]:.2f}')
    config = Workdir(output).read_config()[0]
    with pytest.raises(UserError, match='holds averaged weights, which cannot be trained'):
        train(config, output)


@pytest.mark.parametrize(
    ('arguments', 'sentence'),
    [
        (['--steps', '60,90'], 'are not all saved in .*: choose among 60, 120'),
        (['--steps', '60,60'], "--steps='60,60' names a step twice"),
        (['--steps', 'all'], "--steps='all' must be numbers of steps"),
        (['--steps', '60', '--average', 'best'], '--steps names the checkpoints'),
        (['--checkpoints', '0'], 'checkpoints=0 must be 1 or more'),
    ],
)
def test_a_mistake_in_average(workdir, monkeypatch, capsys, tmp_path, arguments, sentence):
    output = tmp_path / 'mean'
    code, out, err = run(
        average, monkeypatch, capsys, '--workdir', workdir, '--output', output, *arguments
    )
    assert (code, out, err.count('\n')) == (2, '', 1)
    assert re.search(sentence, err)
    assert not output.exists()


def test_a_mean_has_no_best(workdir, monkeypatch, capsys, tmp_path):
    run(average, monkeypatch, capsys, '--workdir', workdir, '--output', tmp_path / 'mean')
    with pytest.raises(UserError, match='has no checkpoint with a dev BLEU, by which to choose'):
        Translator.load(tmp_path / 'mean', average='best')


def test_nothing_is_averaged_over_a_folder_that_is_there(workdir, monkeypatch, capsys):
    arguments = ['--workdir', workdir, '--output', workdir]
    code, _, err = run(average, monkeypatch, capsys, *arguments)
    assert code == 2 and 'exists already' in err
