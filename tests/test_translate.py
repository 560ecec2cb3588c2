"""The command `translate`: lines in, lines out."""

import contextlib
import gzip
import json
import lzma
import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from tiny_run import TEXTS

from transformer_jax import translate
from transformer_jax.errors import UserError
from transformer_jax.runtime.signals import Stopped
from transformer_jax.translator import Sampling, Translator


def test_lines_out_are_as_lines_in(run_command, workdir, translator):
    lines = [TEXTS[1], '', TEXTS[0], TEXTS[2]]
    code, out, _ = run_command(translate, '--workdir', workdir, stdin='\n'.join(lines).encode())
    assert code == 0
    assert out.split('\n') == [*translator(lines), '']


def test_at_a_terminal_it_asks_for_each_line(run_command, workdir, translator):
    lines = f'{TEXTS[0]}\n{TEXTS[2]}\n'.encode()
    code, out, err = run_command(translate, '--workdir', workdir, stdin=lines, terminal=True)
    assert code == 0
    assert out.splitlines() == translator([TEXTS[0], TEXTS[2]])
    assert err.startswith('> > > ')


@pytest.mark.parametrize(
    ('flags', 'options'),
    [
        (['--beam_size', '1'], {'beam_size': 1}),
        (['--length_penalty', '2'], {'length_penalty': 2.0}),
        (['--max_source_length', '3'], {'max_source_length': 3}),
        (
            '--sample --temperature 1.5 --top_k 40 --top_p 0.9 --seed 3'.split(),
            {'sampling': Sampling(1.5, 40, 0.9, 3)},
        ),
    ],
)
def test_flags_reach_the_translator(run_command, translator, monkeypatch, flags, options):
    asked = []

    def note(_, texts, **given):
        asked.append(given)
        return [[]] * len(texts)

    monkeypatch.setattr(Translator, 'load', lambda *_, **__: translator)
    monkeypatch.setattr(Translator, 'translate', note)
    assert run_command(translate, '--workdir', 'x', *flags, stdin=b'\n')[0] == 0
    assert [given.items() >= options.items() for given in asked] == [True, True]


def test_files_and_line_ends(run_command, workdir, translator, tmp_path):
    # A line separator inside a sentence does not end its line; a carriage return does not count.
    (tmp_path / 'in').write_bytes(f'{TEXTS[0]}\r\nThe\u2028cat\n'.encode())
    code, out, _ = run_command(
        translate,
        '--workdir', workdir, '--input', tmp_path / 'in', '--output', tmp_path / 'out',
    )  # fmt: skip
    assert (code, out) == (0, '')
    written = (tmp_path / 'out').read_text(encoding='utf-8').split('\n')
    assert written == [translator(TEXTS[0]), translator('The\u2028cat'), '']


def test_n_best_with_scores(run_command, workdir, translator):
    _, out, _ = run_command(
        translate,
        '--workdir', workdir, '--n_best', 2, '--scores', stdin=TEXTS[0].encode(),
    )  # fmt: skip
    best = translator(TEXTS[0], n_best=2)
    assert out == ''.join(f'1\t{one.score:.4f}\t{one.text}\n' for one in best)


def test_bad_utf_8_names_the_line_and_keeps_the_old_output(run_command, workdir, tmp_path):
    (tmp_path / 'in').write_bytes(b'The cat.\n\xff\n')
    (tmp_path / 'out').write_text('kept')
    code, _, err = run_command(
        translate,
        '--workdir', workdir, '--input', tmp_path / 'in', '--output', tmp_path / 'out',
    )  # fmt: skip
    assert code == 2
    assert err.startswith('error: ')
    assert 'line 2, is not UTF-8' in err
    assert (tmp_path / 'out').read_text() == 'kept'
    assert sorted(path.name for path in tmp_path.iterdir()) == ['in', 'out']


def test_a_link_stays_and_what_it_leads_to_is_written(run_command, workdir, tmp_path):
    (tmp_path / 'target').write_text('old')
    (tmp_path / 'link').symlink_to('target')
    arguments = ['--workdir', workdir, '--output', tmp_path / 'link']
    run_command(translate, *arguments, stdin=b'\n')
    assert (tmp_path / 'link').is_symlink()
    assert (tmp_path / 'target').read_text() == '\n'


def test_a_pipe_stays_one(run_command, workdir, tmp_path):
    os.mkfifo(tmp_path / 'pipe')
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit((tmp_path / 'pipe').read_text)
        arguments = ['--workdir', workdir, '--output', tmp_path / 'pipe']
        run_command(translate, *arguments, stdin=b'\n\n')
        assert read.result() == '\n\n'
    assert (tmp_path / 'pipe').is_fifo()


def test_a_full_disk_is_said(run_command, workdir):
    arguments = ['--workdir', workdir, '--output', '/dev/full']
    code, _, err = run_command(translate, *arguments, stdin=b'\n')
    assert code == 2
    assert "--output='/dev/full' cannot be written (No space left on device)" in err


def test_compressed_files_are_read(run_command, workdir, translator, tmp_path):
    (tmp_path / 'in.gz').write_bytes(gzip.compress(f'{TEXTS[0]}\n'.encode()))
    _, out, _ = run_command(translate, '--workdir', workdir, '--input', tmp_path / 'in.gz')
    assert out == f'{translator(TEXTS[0])}\n'


@pytest.mark.parametrize(
    ('suffix', 'decompress'), [('.gz', gzip.decompress), ('.XZ', lzma.decompress)]
)
def test_compressed_files_are_written(
    run_command, workdir, translator, tmp_path, suffix, decompress
):
    output = tmp_path / f'out{suffix}'
    run_command(translate, '--workdir', workdir, '--output', output, stdin=f'{TEXTS[0]}\n'.encode())
    assert decompress(output.read_bytes()).decode() == f'{translator(TEXTS[0])}\n'


@pytest.mark.parametrize('suffix', ['.bz2', '.zst'])
def test_a_name_does_not_promise_what_is_not_in_the_file(run_command, workdir, tmp_path, suffix):
    output = tmp_path / f'out{suffix}'
    output.write_bytes(b'kept')
    code, _, err = run_command(translate, '--workdir', workdir, '--output', output, stdin=b'\n')
    assert code == 2
    assert f'compressed as {suffix[1:]}, which is not written: let its name end in .gz' in err
    assert output.read_bytes() == b'kept'


def test_a_pipe_that_nobody_reads_any_more():
    reading, writing = os.pipe()
    with contextlib.ExitStack() as stack, os.fdopen(writing):
        output = translate._open_output(f'/dev/fd/{writing}', stack)
        os.close(reading)
        with pytest.raises(UserError, match=r'cannot be written \(Broken pipe\): choose another'):
            output.write(['x'], ['a'], 0)


def test_stdout_by_its_name_may_be_a_pipe(run_command, workdir):
    reading, writing = os.pipe()
    arguments = ['--workdir', workdir, '--output', f'/dev/fd/{writing}']
    assert run_command(translate, *arguments, stdin=b'\n\n')[0] == 0
    os.close(writing)
    with open(reading) as pipe:
        assert pipe.read() == '\n\n'


def test_an_output_is_one_line_whatever_is_in_it(tmp_path):
    with contextlib.ExitStack() as stack:
        output = translate._open_output(str(tmp_path / 'out'), stack)
        output.begin(None, '')
        output.write(['x'], ['a\rb\nc'], 0)
        output.commit()
    assert (tmp_path / 'out').read_bytes() == b'a b c\n'


def test_a_second_command_that_writes_the_same_file_is_refused(tmp_path):
    with contextlib.ExitStack() as stack:
        first = translate._open_output(str(tmp_path / 'out'), stack)
        (tmp_path / 'out.partial.json').write_text('{}')
        with pytest.raises(UserError, match='is being written by another command'):
            translate._open_output(str(tmp_path / 'out'), stack)
        (tmp_path / 'out.partial.json').unlink()
        first.begin(None, '')
        first.write(['x'], ['a'], 0)
        first.commit()
    assert (tmp_path / 'out').read_text() == 'a\n'


def test_a_file_in_the_way_of_the_partial_one_is_left_be(tmp_path):
    (tmp_path / 'out.partial').write_text("somebody's own")
    with (
        contextlib.ExitStack() as stack,
        pytest.raises(UserError, match=r'out\.partial.* exists already: move it'),
    ):
        translate._open_output(str(tmp_path / 'out'), stack)
    assert (tmp_path / 'out.partial').read_text() == "somebody's own"


class Stopping:
    """Has the translation of a chunk stop as by SIGTERM, once so many chunks are done."""

    def __init__(self, monkeypatch, after):
        self._left, self._translate = after, Translator.translate
        self.translated = []
        monkeypatch.setattr(translate, '_lines_at_once', lambda _: 3)
        monkeypatch.setattr(Translator, 'translate', lambda *args, **rest: self(*args, **rest))

    def __call__(self, translator, texts, **options):
        if texts and self._left == 0:
            raise Stopped('Stopped by SIGTERM.')
        self._left -= bool(texts)
        self.translated += texts
        return self._translate(translator, texts, **options)


LINES = [f'{TEXTS[k % 4]}' for k in range(9)]


@pytest.fixture
def stopped(run_command, workdir, tmp_path, monkeypatch):
    """A folder in which a translation of `LINES` into 'out.gz' was stopped after a chunk."""
    (tmp_path / 'in').write_text('\n'.join(LINES))
    with monkeypatch.context() as patch:
        Stopping(patch, after=1)
        code, _, err = run_command(translate, *_arguments(workdir, tmp_path))
    assert code == 75
    assert 'Stopped by SIGTERM: 3 lines are done, in ' in err
    return tmp_path


def _arguments(workdir, folder):
    return ['--workdir', workdir, '--input', folder / 'in', '--output', folder / 'out.gz']


def test_a_stopped_command_goes_on_where_it_stopped(
    run_command, workdir, translator, stopped, monkeypatch
):
    assert not (stopped / 'out.gz').exists()
    assert len((stopped / 'out.gz.partial').read_text().splitlines()) == 3
    with (stopped / 'out.gz.partial').open('a') as file:
        file.write('half of what a kill had it wri')
    again = Stopping(monkeypatch, after=-1)
    code, _, err = run_command(translate, *_arguments(workdir, stopped))
    assert (code, again.translated) == (0, LINES[3:])
    assert 'Going on after line 3, from ' in err
    written = gzip.decompress((stopped / 'out.gz').read_bytes()).decode()
    assert written.splitlines() == translator(LINES)
    assert sorted(path.name for path in stopped.iterdir()) == ['in', 'out.gz']


@pytest.mark.parametrize(
    ('damage', 'sentence'),
    [
        (lambda partial, _: partial.write_text('x' * partial.stat().st_size), 'has been changed'),
        (lambda _, state: state.write_text('[]'), 'cannot be read, so that nobody knows'),
    ],
)
def test_what_is_done_is_not_gone_on_with_if_it_was_changed(
    run_command, workdir, stopped, damage, sentence
):
    damage(stopped / 'out.gz.partial', stopped / 'out.gz.partial.json')
    code, _, err = run_command(translate, *_arguments(workdir, stopped))
    assert code == 2
    assert sentence in err


def test_a_partial_file_that_has_lost_lines_is_begun_anew_and_said(
    run_command, workdir, translator, stopped
):
    (stopped / 'out.gz.partial').write_text('')
    code, _, err = run_command(translate, *_arguments(workdir, stopped))
    assert code == 0
    assert 'was changed: beginning anew' in err
    written = gzip.decompress((stopped / 'out.gz').read_bytes()).decode()
    assert written.splitlines() == translator(LINES)


def test_outputs_cut_before_a_stop_are_counted(run_command, workdir, stopped):
    state = stopped / 'out.gz.partial.json'
    state.write_text(json.dumps(json.loads(state.read_text()) | {'cut': 3}))
    _, _, err = run_command(translate, *_arguments(workdir, stopped))
    assert re.search(r'[3-9] of 9 outputs ended at the limit', err)


@pytest.mark.parametrize('name', ['config.json', 'new'])
def test_no_file_of_the_run_is_an_output(run_command, workdir, name):
    before = {path.name for path in workdir.iterdir()}
    arguments = ['--workdir', workdir, '--output', workdir / name]
    code, _, err = run_command(translate, *arguments, stdin=b'a\n')
    assert code == 2
    assert 'is in the work directory, whose files belong to the run' in err
    assert {path.name for path in workdir.iterdir()} == before


def test_the_input_is_no_output(run_command, workdir, tmp_path):
    (tmp_path / 'in').write_text('a\n')
    (tmp_path / 'link').symlink_to('in')
    arguments = ['--workdir', workdir, '--input', tmp_path / 'in', '--output', tmp_path / 'link']
    code, _, err = run_command(translate, *arguments)
    assert code == 2
    assert 'is the input as well' in err
    assert (tmp_path / 'in').read_text() == 'a\n'


def test_what_another_command_has_done_is_not_gone_on_with(run_command, workdir, stopped):
    before = (stopped / 'out.gz.partial').read_bytes()
    arguments = _arguments(workdir, stopped)
    changed_lines = stopped / 'other'
    changed_lines.write_text('The dog.\n' * 9)
    for changed in (['--beam_size', 1], ['--input', changed_lines]):
        code, _, err = run_command(translate, *arguments, *changed)
        assert code == 2
        assert 'is what is done of another command' in err
        assert (stopped / 'out.gz.partial').read_bytes() == before


def test_a_program_that_writes_a_line_and_waits_gets_its_answer(workdir, translator, monkeypatch):
    asking, answering = os.pipe(), os.pipe()
    monkeypatch.setattr('sys.stdin', os.fdopen(asking[0]))
    monkeypatch.setattr('sys.stdout', os.fdopen(answering[1], 'w'))
    monkeypatch.setattr(Translator, 'load', lambda *_, **__: translator)
    with ThreadPoolExecutor(1) as pool, open(answering[0]) as answers:
        command = pool.submit(translate.main, ['--workdir', 'x'])
        with open(asking[1], 'w', buffering=1) as questions:
            for text in TEXTS[:3]:
                questions.write(f'{text}\n')
                assert answers.readline() == f'{translator(text)}\n'
        command.result()


def test_outputs_that_were_cut_are_counted(run_command, workdir):
    lines = '\n'.join(TEXTS).encode()
    arguments = ['--workdir', workdir, '--max_extra_length', 0]
    _, _, err = run_command(translate, *arguments, stdin=lines * 2)
    assert re.search(r'\d of 9 outputs ended at the limit of max_extra_length=0 tokens', err)


def test_a_name_that_is_too_long_is_said(run_command, workdir):
    code, _, err = run_command(translate, '--workdir', workdir, '--output', 'x' * 300, stdin=b'\n')
    assert code == 2
    assert 'cannot be written (File name too long)' in err


@pytest.mark.parametrize(
    ('arguments', 'sentence'),
    [
        (['--workdir', 'nowhere', '--top_k', '5'], '--top_k=5 is of --sample, which is not given'),
        (
            ['--workdir', 'nowhere', '--sample', '--beam_size', '8'],
            '--beam_size=8 is of the search that --sample replaces',
        ),
        (['--workdir', '~no_such_user/x'], "workdir='~no_such_user/x' is of somebody who has no"),
        (['--workdir', 'nowhere'], "workdir='nowhere' holds no trained model"),
        (['--workdir', 'nowhere', '--input', 'no'], "--input='no' does not exist"),
        (['--workdir', 'nowhere', '--sample', '--top_p', '2'], 'top_p=2.0 must be greater than 0'),
        (['--workdir', 'nowhere', '--bean_size', '2'], 'unrecognized arguments: --bean_size'),
        ([], 'the following arguments are required: --workdir'),
    ],
)
def test_a_mistake(run_command, monkeypatch, tmp_path, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, err = run_command(translate, *arguments)
    assert (code, out) == (2, '')
    assert err.startswith('error: ')
    assert err.count('\n') == 1
    assert sentence in err
