"""The command `score`: one line out for each pair in, in order, and resuming."""

import gzip
import json
import lzma
import math
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from tiny_run import TEXTS

from transformer_jax import score
from transformer_jax.forced.scores import Score
from transformer_jax.runtime.signals import Stopped
from transformer_jax.translator import Translator

TARGETS = ['Le chat dort.', '', 'Où est la maison ?', 'Le médecin lit un livre.', 'Non.']
PAIRS = list(zip(TEXTS, TARGETS, strict=True))


def table(pairs):
    return ''.join(f'{source}\t{target}\n' for source, target in pairs).encode()


@pytest.fixture(scope='module')
def expected(translator):
    """The lines for `PAIRS`, from the scores of a translator."""
    scores = translator.score(TEXTS, TARGETS)
    return [f'{x.log_prob:.6f}\t{x.mean:.6f}\t{x.tokens}' for x in scores]


def assert_lines(text, expected):
    assert text.endswith('\n')
    rows = [[float(x) for x in line.split('\t')] for line in text.splitlines()]
    assert rows == [pytest.approx([float(x) for x in line.split('\t')]) for line in expected]


def test_each_pair_gives_one_line_in_order(run_command, workdir, expected):
    code, out, _ = run_command(score, '--workdir', workdir, stdin=table(PAIRS))
    assert code == 0
    assert_lines(out, expected)


def test_a_dash_is_stdin_and_stdout(run_command, workdir, expected):
    flags = ['--workdir', workdir, '--input', '-', '--output', '-']
    assert_lines(run_command(score, *flags, stdin=table(PAIRS))[1], expected)


def test_a_score_that_is_not_finite_is_a_dash_or_null():
    found = Score(math.nan, -math.inf, 2, ('a', '</s>'), (math.nan, -1.0))
    assert score._sums(found) == '-\t-\t2'
    row = json.loads(score._per_token(found), parse_constant=pytest.fail)
    assert (row['log_prob'], row['mean'], row['log_probs']) == (None, None, [None, -1.0])


def test_per_token_writes_the_pieces_as_json_lines(run_command, workdir, translator):
    _, out, _ = run_command(score, '--workdir', workdir, '--per_token', stdin=table(PAIRS))
    for line, of_pair in zip(out.splitlines(), translator.score(TEXTS, TARGETS), strict=True):
        found = json.loads(line)
        assert list(found) == ['log_prob', 'mean', 'tokens', 'pieces', 'log_probs']
        assert (found['tokens'], found['pieces']) == (of_pair.tokens, list(of_pair.pieces))
        assert found['log_probs'] == pytest.approx(of_pair.log_probs, abs=1e-5)
        assert found['log_prob'] == pytest.approx(of_pair.log_prob, abs=1e-5)


@pytest.mark.parametrize(
    ('suffix', 'compress'), [('', bytes), ('.gz', gzip.compress), ('.xz', lzma.compress)]
)
def test_a_table_may_be_a_file(run_command, workdir, expected, tmp_path, suffix, compress):
    (tmp_path / f'in{suffix}').write_bytes(compress(table(PAIRS)))
    arguments = ['--input', tmp_path / f'in{suffix}', '--output', tmp_path / f'out{suffix}']
    assert run_command(score, '--workdir', workdir, *arguments)[:2] == (0, '')
    opener = {'': open, '.gz': gzip.open, '.xz': lzma.open}[suffix]
    with opener(tmp_path / f'out{suffix}', 'rt') as file:
        assert_lines(file.read(), expected)


def test_two_files_are_scored_line_by_line(run_command, workdir, translator, tmp_path):
    # Here a tab is a character like others.
    sources, targets = ['The\tcat.', TEXTS[1]], ['Le\tchat.', '']
    (tmp_path / 'source').write_text('\n'.join(sources))
    (tmp_path / 'reference.gz').write_bytes(gzip.compress('\n'.join(targets).encode() + b'\n'))
    arguments = ['--source', tmp_path / 'source', '--reference', tmp_path / 'reference.gz']
    _, out, _ = run_command(score, '--workdir', workdir, *arguments)
    scores = translator.score(sources, targets)
    assert_lines(out, [f'{x.log_prob}\t{x.mean}\t{x.tokens}' for x in scores])


def test_several_work_directories_are_an_ensemble(run_command, workdir, expected):
    twice = ['--workdir', workdir, '--workdir', workdir]
    _, out, _ = run_command(score, *twice, stdin=table(PAIRS))
    assert_lines(out, expected)


def test_max_source_length_cuts_sources(run_command, workdir, translator):
    arguments = ['--workdir', workdir, '--max_source_length', 4]
    _, out, err = run_command(score, *arguments, stdin=table(PAIRS[:1] * 2))
    (cut,) = translator.score(TEXTS[:1], TARGETS[:1], max_source_length=4)
    assert_lines(out, [f'{cut.log_prob}\t{cut.mean}\t{cut.tokens}'] * 2)
    assert 'Line 2 has ' in err


class Stopping:
    """Makes `Translator.score` stop as if by SIGTERM after `after` chunks of two pairs."""

    def __init__(self, monkeypatch, translator, after):
        self._left, self._score = after, Translator.score
        self.scored = []
        monkeypatch.setattr(translator.scorer, 'pairs_per_call', 2)
        monkeypatch.setattr(Translator, 'load', lambda *_, **__: translator)
        monkeypatch.setattr(Translator, 'score', lambda *args, **rest: self(*args, **rest))

    def __call__(self, translator, sources, targets, **options):
        if self._left == 0:
            raise Stopped('Stopped by SIGTERM.')
        self._left -= 1
        self.scored += sources
        return self._score(translator, sources, targets, **options)


def test_a_stopped_command_resumes_where_it_stopped(
    run_command, workdir, translator, expected, tmp_path, monkeypatch
):
    (tmp_path / 'in').write_bytes(table(PAIRS))
    arguments = ['--workdir', workdir, '--input', tmp_path / 'in', '--output', tmp_path / 'out.gz']
    with monkeypatch.context() as patch:
        Stopping(patch, translator, after=1)
        code, _, err = run_command(score, *arguments)
    assert code == 75
    assert 'Stopped by SIGTERM: 2 lines are done, in ' in err
    code, _, err = run_command(score, *arguments, '--per_token')
    assert code == 2 and 'holds outputs of another command' in err
    again = Stopping(monkeypatch, translator, after=-1)
    code, _, err = run_command(score, *arguments)
    assert (code, again.scored) == (0, TEXTS[2:])
    assert 'Resuming after line 2 from ' in err
    assert_lines(gzip.decompress((tmp_path / 'out.gz').read_bytes()).decode(), expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ['in', 'out.gz']


def test_a_program_that_writes_a_pair_and_waits_gets_its_answer(
    workdir, translator, expected, monkeypatch
):
    asking, answering = os.pipe(), os.pipe()
    monkeypatch.setattr('sys.stdin', os.fdopen(asking[0]))
    monkeypatch.setattr('sys.stdout', os.fdopen(answering[1], 'w'))
    monkeypatch.setattr(Translator, 'load', lambda *_, **__: translator)
    with ThreadPoolExecutor(1) as pool, open(answering[0]) as answers:
        command = pool.submit(score.main, ['--workdir', 'x'])
        with open(asking[1], 'wb', buffering=0) as questions:
            for pair, line in zip(PAIRS[:3], expected[:3], strict=True):
                questions.write(table([pair]))
                assert_lines(answers.readline(), [line])
        command.result()


@pytest.mark.parametrize(
    ('lines', 'sentence'),
    [
        (b'a\tb\nThe cat.\n', 'stdin, line 2, has 0 tabs: write SOURCE<TAB>TARGET'),
        (b'a\tb\tc\n', 'stdin, line 1, has 2 tabs: write SOURCE<TAB>TARGET'),
        (b'a\tb\n\n', 'stdin, line 2, has 0 tabs'),
        (b'a\tb\n\xff\tb\n', 'stdin, line 2, is not UTF-8'),
    ],
)
def test_a_line_that_is_no_pair_is_named(run_command, workdir, lines, sentence):
    code, out, err = run_command(score, '--workdir', workdir, stdin=lines)
    assert (code, out) == (2, '')
    assert sentence in err


def test_files_of_different_lengths_are_refused_before_anything_is_scored(
    run_command, workdir, tmp_path
):
    (tmp_path / 'a').write_text('1\n2\n')
    (tmp_path / 'b').write_text('1\n2\n3\n')
    for source, reference in (('a', 'b'), ('b', 'a')):
        files = ['--source', tmp_path / source, '--reference', tmp_path / reference]
        code, out, err = run_command(score, '--workdir', workdir, *files)
        assert (code, out) == (2, '')
        assert f"--source='{tmp_path / source}' has " in err and ' lines but --reference=' in err


def test_an_output_that_is_an_input_is_refused(run_command, workdir, tmp_path):
    for name in ('a', 'b'):
        (tmp_path / name).write_text('kept\n')
    arguments = ['--source', tmp_path / 'a', '--reference', tmp_path / 'b']
    for flag, name in (('--source', 'a'), ('--reference', 'b')):
        arguments = [*arguments, '--output', tmp_path / name]
        code, _, err = run_command(score, '--workdir', workdir, *arguments)
        assert code == 2
        assert f'is also {flag}' in err
        assert (tmp_path / name).read_text() == 'kept\n'


@pytest.mark.parametrize(
    ('arguments', 'sentence'),
    [
        (['--workdir', 'nowhere', '--source', 'x'], '--source and --reference belong together'),
        (
            ['--workdir', 'x', '--source', 'a', '--reference', 'b', '--input', 'c'],
            "--input='c' and --source='a' both name sources",
        ),
        (['--workdir', 'nowhere'], "workdir='nowhere' holds no trained model"),
        (['--workdir', 'nowhere', '--input', 'no'], "--input='no' does not exist"),
        (['--workdir', 'nowhere', '--pertoken'], 'unrecognized arguments: --pertoken'),
        ([], 'the following arguments are required: --workdir'),
    ],
)
def test_a_mistake_gives_exit_code_2_and_one_sentence(
    run_command, monkeypatch, tmp_path, arguments, sentence
):
    monkeypatch.chdir(tmp_path)
    code, out, err = run_command(score, *arguments)
    assert (code, out) == (2, '')
    assert err.startswith('error: ')
    assert err.count('\n') == 1
    assert sentence in err
