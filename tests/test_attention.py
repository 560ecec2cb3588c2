"""The command `attention`."""

import json

import pytest

from transformer_jax import attention


def test_a_page_a_picture_and_json_of_a_line(run_command, tmp_path):
    page, picture, data = (tmp_path / f'a.{ending}' for ending in ('html', 'png', 'json'))
    flags = '--output', page, '--png', picture, '--json', data
    code, out, _ = run_command(
        attention, '--workdir', 'tatoeba_en_fr', *flags, stdin=b'The cat sleeps.\n'
    )
    assert code == 0
    assert [line.split(' shows ')[0] for line in out.splitlines()] == list(
        map(str, (page, picture, data))
    )
    assert '1. ' not in page.read_text() and 'The cat sleeps.' in page.read_text()
    assert picture.read_bytes().startswith(b'\x89PNG')
    (found,) = json.loads(data.read_text())
    assert found['text'] == 'The cat sleeps.' and len(found['cross']) == 4


def test_given_targets_take_the_place_of_outputs(run_command, tmp_path):
    (tmp_path / 'in').write_text('The cat sleeps.\nHello.\n')
    (tmp_path / 'out').write_text('Un chat.\nSalut.\n')
    files = '--input', tmp_path / 'in', '--target', tmp_path / 'out'
    streams = '--input', tmp_path / 'in', '--target', '-'
    data = tmp_path / 'a.json'
    flags = '--workdir', 'tatoeba_en_fr', '--json', data
    assert run_command(attention, *flags, *files)[0] == 0
    from_files = data.read_text()
    assert run_command(attention, *flags, *streams, stdin=b'Un chat.\nSalut.\n')[0] == 0
    assert data.read_text() == from_files
    assert [one['output'] for one in json.loads(data.read_text())] == ['Un chat.', 'Salut.']


def test_many_lines_get_a_progress_bar(run_command, tmp_path, monkeypatch):
    data = tmp_path / 'a.json'
    flags = '--workdir', 'tatoeba_en_fr', '--json', data
    assert 'Translating' not in run_command(attention, *flags, stdin=b'Hello.\n')[2]
    monkeypatch.setattr(attention, '_BAR_FROM', 1)
    assert 'Translating' in run_command(attention, *flags, stdin=b'Hello.\n')[2]


@pytest.mark.parametrize(
    ('flags', 'stdin', 'message'),
    [
        ([], b'a\n', 'there is nothing to write: name a page with --output, --png or --json.'),
        (['--workdir', 'x'], b'a\n', '--workdir is given 2 times, but attention is that of one mo'),
        (['--output', 'a.htm'], b'a\n', "--output='a.htm' must end in .html."),
        (['--output', 'no/a.html'], b'a\n', "--output='no/a.html': its folder does not exist"),
        (['--output', 'a.html'], b'', 'there is no line to show: give one on stdin or in --input.'),
        (['--png', 'a.png'], b'a\nb\n', '--png shows one line, but there are 2'),
        (
            ['--output', 'a.html', '--target', 'out'],
            b'a\nb\n',
            "--target='out' has 1 lines, but the input has 2: give a target for each line.",
        ),
        (['--output', 'a.html', '--input', 'none'], b'', "--input='none'"),
        (['--output', 'a.html', '--view', 'x'], b'', 'invalid choice'),
    ],
)
def test_mistakes_get_a_sentence_and_no_file(
    run_command, tmp_path, monkeypatch, flags, stdin, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'out').write_text('x\n')
    code, _, err = run_command(attention, '--workdir', 'tatoeba_en_fr', *flags, stdin=stdin)
    assert code == 2 and message in err
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith('a.')] == []
