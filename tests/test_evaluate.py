"""The command `evaluate`."""

import json
import shutil

import pytest
from tiny_run import TEXTS

from transformer_jax import evaluate
from transformer_jax.storage.workdir import Workdir


def changed_run(workdir, folder, change):
    """Return a copy of the run; `change` gets the content of its config.json and changes it."""
    run = shutil.copytree(workdir, folder)
    saved = json.loads((run / 'config.json').read_text())
    change(saved)
    (run / 'config.json').write_text(json.dumps(saved))
    return run


def test_the_test_set_gets_the_scores_of_the_run(run_command, workdir):
    code, out, _ = run_command(evaluate, '--workdir', workdir)
    test = Workdir(workdir).read_results()['test']
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:3] == ['BLEU', f'{test["bleu"]:.2f}', '±']
    assert lines[0][4].replace('|bs:1000|seed:12345', '') == test['bleu_signature']
    assert lines[1][:2] == ['chrF2', f'{test["chrf"]:.2f}']
    assert f'perplexity   {test["perplexity"]:.4f} per token ({test["tokens"]:,})' in out
    assert 'log-probability / ((5 + length) / 6)^0.6' in out


def test_split_dev_scores_the_dev_set(run_command, workdir):
    code, out, _ = run_command(evaluate, '--workdir', workdir, '--split', 'dev')
    dev = Workdir(workdir).read_run().config.data.dev_size
    assert code == 0
    assert f'sentences    {dev}, 1 reference(s) each' in out


def test_flags_of_the_search_are_used_and_printed(run_command, workdir):
    flags = ['--split', 'dev', '--beam_size', '1', '--length_penalty', '1']
    _, out, _ = run_command(evaluate, '--workdir', workdir, *flags)
    assert 'beam 1, log-probability / ((5 + length) / 6)^1;' in out


def test_minimum_bayes_risk_and_its_samples_are_printed(run_command, workdir):
    flags = '--split dev --sample --seed 2 --n_best 3 --mbr chrf'.split()
    code, out, _ = run_command(evaluate, '--workdir', workdir, *flags)
    assert code == 0
    assert 'seed=2), best expected chrf of 3 outputs;' in out


def test_n_best_without_mbr_is_refused(run_command, workdir):
    code, _, err = run_command(evaluate, '--workdir', workdir, '--n_best', '3')
    assert (code, err) == (
        2,
        'error: --n_best=3 is for --mbr, which chooses one of them: add it.\n',
    )


def test_an_ensemble_is_scored_with_its_perplexity(run_command, workdir):
    flags = ['--workdir', workdir, '--workdir', workdir]
    alone = run_command(evaluate, '--workdir', workdir)[1].splitlines()
    code, out, _ = run_command(evaluate, *flags)
    found = out.splitlines()
    assert code == 0
    assert found[:2] == alone[:2]
    [perplexity] = [line.split()[1] for line in found if line.startswith('perplexity')]
    [expected] = [line.split()[1] for line in alone if line.startswith('perplexity')]
    assert float(perplexity) == pytest.approx(float(expected), rel=1e-4)
    assert 'ensemble of 2 models by probabilities: mean of steps' in out


@pytest.mark.parametrize('models', [1, 2])
def test_the_loss_is_for_the_sources_that_the_search_sees(
    run_command, workdir, translator, tmp_path, models
):
    (tmp_path / 'texts').write_text('\n'.join(TEXTS) + '\n')
    flags = [f'--{name}={tmp_path}/texts' for name in ('source', 'reference')]
    flags += [f'--workdir={workdir}'] * models
    code, out, _ = run_command(evaluate, *flags, '--max_source_length=5')
    scores = translator.score(TEXTS, TEXTS, max_source_length=5)
    nll = -sum(score.log_prob for score in scores) / sum(score.tokens for score in scores)
    whole = translator.score(TEXTS, TEXTS)
    assert code == 0
    assert sum(x.log_prob for x in whole) != sum(x.log_prob for x in scores)
    [found] = [
        line.partition(' without')[0].split()[-1] for line in out.splitlines() if 'loss  ' in line
    ]
    assert float(found) == pytest.approx(nll, abs=2e-4)


def test_a_changed_set_is_refused(run_command, workdir, tmp_path):
    def change(saved):
        saved['split_fingerprints']['dev'] = 'that of another'

    run = changed_run(workdir, tmp_path / 'run', change)
    code, out, err = run_command(evaluate, '--workdir', run, '--split', 'dev')
    assert (code, out) == (2, '')
    assert 'its dev set has changed since its run began: restore the corpus' in err


def test_the_corpus_that_is_read_is_logged(run_command, workdir):
    _, _, err = run_command(evaluate, '--workdir', workdir)
    assert 'Reading the test set of the run: the embedded phrasebook.' in err


def test_a_run_without_fingerprints_is_refused(run_command, workdir, tmp_path):
    run = changed_run(workdir, tmp_path / 'run', lambda saved: saved.pop('split_fingerprints'))
    code, out, err = run_command(evaluate, '--workdir', run)
    assert (code, out) == (2, '')
    assert 'has a config.json without a fingerprint of its test set, so' in err
    assert 'name files (--source, --reference)' in err


def test_a_file_that_is_not_of_the_run_is_not_quoted(run_command, workdir, tmp_path):
    (tmp_path / 'private.csv').write_text('password,salary\n')

    def name_it(saved):
        named = {'corpus': 'files', 'test_source': str(tmp_path / 'private.csv')}
        saved['config']['data'] |= named | {'train_source': 'gone.csv'}

    run = changed_run(workdir, tmp_path / 'run', name_it)
    code, out, err = run_command(evaluate, '--workdir', run)
    assert (code, out) == (2, '')
    assert 'its test set has changed since its run began' in err
    assert 'password' not in err


def test_split_and_files_exclude_each_other(run_command, workdir):
    arguments = ['--workdir', workdir, '--split', 'dev', '--source', 'x', '--reference', 'x']
    code, _, err = run_command(evaluate, *arguments)
    assert code == 2
    assert "--split=dev is one of the run's own sets" in err


def test_files_are_scored(run_command, workdir, translator, tmp_path):
    (tmp_path / 'source').write_text('\n'.join(TEXTS) + '\n')
    (tmp_path / 'reference').write_text('\n'.join(translator(TEXTS)) + '\n', encoding='utf-8')
    code, out, _ = run_command(
        evaluate,
        '--workdir', workdir,
        '--source', tmp_path / 'source', '--reference', tmp_path / 'reference',
    )  # fmt: skip
    assert code == 0
    assert 'chrF2                             100.00' in out  # BLEU needs four words in a row


@pytest.mark.parametrize('stream', ['source', 'reference'])
def test_a_dash_is_stdin(run_command, workdir, tmp_path, stream):
    files = {name: tmp_path / name for name in ('source', 'reference')}
    for path in files.values():
        path.write_text(f'{TEXTS[0]}\n')
    files |= {stream: '-'}
    flags = [word for name, path in files.items() for word in (f'--{name}', path)]
    code, out, _ = run_command(
        evaluate, '--workdir', workdir, *flags, stdin=f'{TEXTS[0]}\n'.encode()
    )
    assert code == 0 and 'sentences    1, 1 reference(s) each' in out
    assert 'nan' not in out and ' ± -      nrefs:1|' in out  # an interval of one sentence


@pytest.mark.parametrize('between', [(), ('--reference',)])
def test_several_references_are_scored_together(
    run_command, workdir, translator, tmp_path, between
):
    (tmp_path / 'source').write_text('\n'.join(TEXTS) + '\n')
    (tmp_path / 'right').write_text('\n'.join(translator(TEXTS)) + '\n', encoding='utf-8')
    (tmp_path / 'wrong').write_text('x\n' * len(TEXTS))
    code, out, _ = run_command(
        evaluate,
        '--workdir', workdir, '--source', tmp_path / 'source',
        '--reference', tmp_path / 'wrong', *between, tmp_path / 'right',
    )  # fmt: skip
    assert code == 0
    assert 'chrF2                             100.00' in out
    assert 'nrefs:2' in out
    # Each sentence counts as 'x' and its end.
    assert f'per word ({2 * len(TEXTS)})' in out


@pytest.mark.parametrize(
    ('reference', 'sentence'),
    [('one\n', 'has 2 lines but --reference='), (None, '--source and --reference belong together')],
)
def test_a_mistake_gives_exit_code_2_and_one_sentence(
    run_command, workdir, tmp_path, reference, sentence
):
    (tmp_path / 'source').write_text('one\ntwo\n')
    arguments = ['--workdir', workdir, '--source', tmp_path / 'source']
    if reference is not None:
        (tmp_path / 'reference').write_text(reference)
        arguments += ['--reference', tmp_path / 'reference']
    code, out, err = run_command(evaluate, *arguments)
    assert (code, out) == (2, '')
    assert sentence in err
