"""The command `translate`: one line out for each line in, files, and resuming."""

import gzip
import json
import lzma
import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from tiny_run import TEXTS, tiny

from transformer_jax import translate
from transformer_jax.runtime.signals import Stopped
from transformer_jax.translator import Sampling, Translator


def test_each_line_gives_one_line_in_order(run_command, workdir, translator):
    lines = [TEXTS[1], '', TEXTS[0], TEXTS[2]]
    code, out, _ = run_command(translate, '--workdir', workdir, stdin='\n'.join(lines).encode())
    assert code == 0
    assert out.split('\n') == [*translator(lines), '']


def test_a_dash_is_stdin_and_stdout(run_command, workdir, translator, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    flags = ['--workdir', workdir, '--input', '-', '--output', '-']
    _, out, _ = run_command(translate, *flags, stdin=f'{TEXTS[0]}\n'.encode())
    assert out == f'{translator(TEXTS[0])}\n' and not os.listdir(tmp_path)


def test_a_terminal_is_prompted_for_each_line(run_command, workdir, translator):
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
            '--length_norm power --coverage_penalty 0.2 --min_length 2 --no_repeat_ngram 3'.split(),
            {
                'length_norm': 'power',
                'coverage_penalty': 0.2,
                'min_length': 2,
                'no_repeat_ngram': 3,
            },
        ),
        (['--suppress_tokens', '▁le .'], {'suppress_tokens': '▁le .'}),
        (['--align', '--no-alignment_shift'], {'align': True, 'alignment_shift': False}),
        (['--mbr', 'chrf', '--n_best', '3'], {'mbr': 'chrf', 'n_best': 3}),
        (['--paragraphs'], {'paragraphs': True}),
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
    [given] = asked
    assert given.items() >= options.items()


def test_an_alignment_follows_each_text(run_command, workdir, translator):
    flags = ['--workdir', workdir, '--align', '--scores']
    code, out, _ = run_command(translate, *flags, stdin=f'{TEXTS[0]}\n\n'.encode())
    [[found]] = translator.translate(TEXTS[:1], align=True)
    pairs = ' '.join(f'{source}-{target}' for source, target in found.alignment)
    assert code == 0
    assert out == f'{found.score:.4f}\t{found.text}\t{pairs}\n0.0000\t\t\n'


@pytest.mark.parametrize('kind, prefix', [('text', 'Un chien'), ('pieces', '▁le ▁la')])
def test_lines_may_have_the_beginning_of_their_output(
    run_command, workdir, translator, kind, prefix
):
    lines = f'{TEXTS[0]}\t{prefix}\n{TEXTS[1]}\n'.encode()
    code, out, _ = run_command(translate, '--workdir', workdir, '--prefix', kind, stdin=lines)
    prefixes = [prefix.split() if kind == 'pieces' else prefix, '']
    assert code == 0
    assert out.splitlines() == translator(TEXTS[:2], prefixes=prefixes)
    assert out.startswith(prefix if kind == 'text' else 'le la')


def test_a_line_with_two_tabs_has_no_single_prefix(run_command, workdir):
    code, out, err = run_command(
        translate, '--workdir', workdir, '--prefix', 'text', stdin=b'a\nb\tc\td\n'
    )
    assert (code, out) == (2, '')
    assert 'line 2 has 2 tabs: with --prefix write SOURCE<TAB>PREFIX, or a source alone' in err


def test_a_tab_between_sentences_is_no_column(run_command, workdir):
    pytest.importorskip('sentencex')
    flags = ['--workdir', workdir, '--paragraphs', '--scores', '--align']
    code, out, _ = run_command(translate, *flags, stdin=f'{TEXTS[0]} \t {TEXTS[2]}\n'.encode())
    assert code == 0
    assert out.count('\t') == 2


def test_mbr_writes_one_line_for_each_line(run_command, workdir, translator):
    flags = '--mbr bleu --n_best 8 --sample --seed 3'.split()
    lines = f'{TEXTS[0]}\n{TEXTS[1]}\n'.encode()
    code, out, _ = run_command(translate, '--workdir', workdir, *flags, stdin=lines)
    assert code == 0
    expected = translator(TEXTS[:2], mbr='bleu', n_best=8, sampling=Sampling(seed=3))
    assert out.splitlines() == expected


def test_several_workdirs_are_an_ensemble(run_command, workdir, translator):
    flags = ['--workdir', workdir, '--workdir', workdir, '--ensemble', 'log_probabilities']
    code, out, _ = run_command(translate, *flags, stdin=f'{TEXTS[0]}\n'.encode())
    assert (code, out.strip()) == (0, translator(TEXTS[0]))


def test_an_ensemble_needs_one_vocabulary(run_command, workdir, run_of):
    other = run_of('tiny', tiny())
    flags = ['--workdir', workdir, '--workdir', other]
    code, out, err = run_command(translate, *flags, stdin=b'a\n')
    assert (code, out) == (2, '')
    assert f"workdir='{other}' has another vocabulary than '{workdir}'" in err


def test_only_newlines_end_a_line(run_command, workdir, translator, tmp_path):
    # U+2028 does not end a line; a carriage return before a newline is dropped.
    (tmp_path / 'in').write_bytes(f'{TEXTS[0]}\r\nThe\u2028cat\n'.encode())
    code, out, _ = run_command(
        translate,
        '--workdir', workdir, '--input', tmp_path / 'in', '--output', tmp_path / 'out',
    )  # fmt: skip
    assert (code, out) == (0, '')
    written = (tmp_path / 'out').read_text(encoding='utf-8').split('\n')
    assert written == [translator(TEXTS[0]), translator('The\u2028cat'), '']


def test_n_best_outputs_carry_line_number_and_score(run_command, workdir, translator):
    _, out, _ = run_command(
        translate,
        '--workdir', workdir, '--n_best', 2, '--scores', stdin=TEXTS[0].encode(),
    )  # fmt: skip
    best = translator(TEXTS[0], n_best=2)
    assert out == ''.join(f'1\t{one.score:.4f}\t{one.text}\n' for one in best)


def test_bad_utf_8_reports_the_line_and_keeps_the_old_output(run_command, workdir, tmp_path):
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


def test_an_output_link_stays_a_link_and_its_target_is_written(run_command, workdir, tmp_path):
    (tmp_path / 'target').write_text('old')
    (tmp_path / 'link').symlink_to('target')
    arguments = ['--workdir', workdir, '--output', tmp_path / 'link']
    run_command(translate, *arguments, stdin=b'\n')
    assert (tmp_path / 'link').is_symlink()
    assert (tmp_path / 'target').read_text() == '\n'


def test_an_output_pipe_stays_a_pipe(run_command, workdir, tmp_path):
    os.mkfifo(tmp_path / 'pipe')
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit((tmp_path / 'pipe').read_text)
        arguments = ['--workdir', workdir, '--output', tmp_path / 'pipe']
        run_command(translate, *arguments, stdin=b'\n\n')
        assert read.result() == '\n\n'
    assert (tmp_path / 'pipe').is_fifo()


def test_a_full_disk_is_reported(run_command, workdir):
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
def test_an_output_suffix_of_an_unsupported_compression_is_refused(
    run_command, workdir, tmp_path, suffix
):
    output = tmp_path / f'out{suffix}'
    output.write_bytes(b'kept')
    code, _, err = run_command(translate, '--workdir', workdir, '--output', output, stdin=b'\n')
    assert code == 2
    assert f'compressed as {suffix[1:]}, which is not written: let its name end in .gz' in err
    assert output.read_bytes() == b'kept'


def test_an_output_named_as_a_file_descriptor_may_be_a_pipe(run_command, workdir):
    reading, writing = os.pipe()
    arguments = ['--workdir', workdir, '--output', f'/dev/fd/{writing}']
    assert run_command(translate, *arguments, stdin=b'\n\n')[0] == 0
    os.close(writing)
    with open(reading) as pipe:
        assert pipe.read() == '\n\n'


class Stopping:
    """Makes `Translator.translate` stop as if by SIGTERM after `after` chunks."""

    def __init__(self, monkeypatch, after):
        self._left, self._translate = after, Translator.translate
        self.translated = []
        monkeypatch.setattr(translate, '_chunk_size', lambda _: 3)
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


def test_a_stopped_command_resumes_where_it_stopped(
    run_command, workdir, translator, stopped, monkeypatch
):
    assert not (stopped / 'out.gz').exists()
    assert len((stopped / 'out.gz.partial').read_text().splitlines()) == 3
    with (stopped / 'out.gz.partial').open('a') as file:
        file.write('half of what a killed command wro')
    again = Stopping(monkeypatch, after=-1)
    code, _, err = run_command(translate, *_arguments(workdir, stopped))
    assert (code, again.translated) == (0, LINES[3:])
    assert 'Resuming after line 3 from ' in err
    written = gzip.decompress((stopped / 'out.gz').read_bytes()).decode()
    assert written.splitlines() == translator(LINES)
    assert sorted(path.name for path in stopped.iterdir()) == ['in', 'out.gz']


@pytest.mark.parametrize(
    ('damage', 'sentence'),
    [
        (lambda partial, _: partial.write_text('x' * partial.stat().st_size), 'has been changed'),
        (lambda _, state: state.write_text('[]'), ', cannot be read: remove both files'),
    ],
)
def test_a_changed_partial_file_is_not_resumed(run_command, workdir, stopped, damage, sentence):
    damage(stopped / 'out.gz.partial', stopped / 'out.gz.partial.json')
    code, _, err = run_command(translate, *_arguments(workdir, stopped))
    assert code == 2
    assert sentence in err


def test_a_shortened_partial_file_is_started_again_with_a_message(
    run_command, workdir, translator, stopped
):
    (stopped / 'out.gz.partial').write_text('')
    code, _, err = run_command(translate, *_arguments(workdir, stopped))
    assert code == 0
    assert 'was changed: starting from the first line' in err
    written = gzip.decompress((stopped / 'out.gz').read_bytes()).decode()
    assert written.splitlines() == translator(LINES)


def test_outputs_cut_before_a_stop_are_counted_after_it(run_command, workdir, stopped):
    state = stopped / 'out.gz.partial.json'
    state.write_text(json.dumps(json.loads(state.read_text()) | {'cut': 3}))
    _, _, err = run_command(translate, *_arguments(workdir, stopped))
    assert re.search(r'[3-9] of 9 outputs ended at the limit', err)


@pytest.mark.parametrize('name', ['config.json', 'new'])
def test_an_output_in_the_work_directory_is_refused(run_command, workdir, name):
    before = {path.name for path in workdir.iterdir()}
    arguments = ['--workdir', workdir, '--output', workdir / name]
    code, _, err = run_command(translate, *arguments, stdin=b'a\n')
    assert code == 2
    assert 'is in the work directory, which holds files of the run only' in err
    assert {path.name for path in workdir.iterdir()} == before


def test_an_output_that_is_the_input_is_refused(run_command, workdir, tmp_path):
    (tmp_path / 'in').write_text('a\n')
    (tmp_path / 'link').symlink_to('in')
    arguments = ['--workdir', workdir, '--input', tmp_path / 'in', '--output', tmp_path / 'link']
    code, _, err = run_command(translate, *arguments)
    assert code == 2
    assert 'is also --input: choose another name' in err
    assert (tmp_path / 'in').read_text() == 'a\n'


def test_a_partial_file_of_another_command_is_not_resumed(run_command, workdir, stopped):
    before = (stopped / 'out.gz.partial').read_bytes()
    arguments = _arguments(workdir, stopped)
    changed_lines = stopped / 'other'
    changed_lines.write_text('The dog.\n' * 9)
    for changed in (['--beam_size', 1], ['--input', changed_lines]):
        code, _, err = run_command(translate, *arguments, *changed)
        assert code == 2
        assert 'holds outputs of another command' in err
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


def test_cut_outputs_are_counted_in_a_warning(run_command, workdir):
    # An output of a text of one token reaches its limit unless it is empty.
    lines = '\n'.join([*TEXTS, 'The']).encode()
    arguments = ['--workdir', workdir, '--max_extra_length', 0]
    _, _, err = run_command(translate, *arguments, stdin=lines)
    assert re.search(r'\d of 6 outputs ended at the limit of max_extra_length=0 tokens', err)


def test_a_file_name_that_is_too_long_is_reported(run_command, workdir):
    code, _, err = run_command(translate, '--workdir', workdir, '--output', 'x' * 300, stdin=b'\n')
    assert code == 2
    assert 'cannot be written (File name too long)' in err


@pytest.mark.parametrize(
    ('arguments', 'sentence'),
    [
        (['--workdir', 'nowhere', '--top_k', '5'], '--top_k=5 requires --sample: add it.'),
        (
            ['--workdir', 'nowhere', '--sample', '--beam_size', '8'],
            '--beam_size=8 is for beam search, which --sample replaces',
        ),
        (['--workdir', '~no_such_user/x'], "workdir='~no_such_user/x' names a user without a home"),
        (['--workdir', 'nowhere'], "workdir='nowhere' holds no trained model"),
        (['--workdir', 'nowhere', '--input', 'no'], "--input='no' does not exist"),
        (['--workdir', 'nowhere', '--sample', '--top_p', '2'], 'top_p=2.0 must be greater than 0'),
        (['--workdir', 'nowhere', '--bean_size', '2'], 'unrecognized arguments: --bean_size'),
        ([], 'the following arguments are required: --workdir'),
    ],
)
def test_a_mistake_gives_exit_code_2_and_one_sentence(
    run_command, monkeypatch, tmp_path, arguments, sentence
):
    monkeypatch.chdir(tmp_path)
    code, out, err = run_command(translate, *arguments)
    assert (code, out) == (2, '')
    assert err.startswith('error: ')
    assert err.count('\n') == 1
    assert sentence in err
