"""The command `translate` with a document."""

import pytest

from transformer_jax import translate

PAGE = '<p>The <b>cat</b> sleeps.</p>\n<p>Where is the house?</p>'
SUBTITLES = '1\n00:00:00,000 --> 00:00:01,000\nThe cat sleeps.\n\n'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'a.html').write_text(PAGE)
    (tmp_path / 'a.srt').write_text(SUBTITLES)
    (tmp_path / 'c.srt').mkdir()
    return tmp_path


def test_its_structure_stays(run_command, workdir, translator, folder):
    for name, source in (('a.html', PAGE), ('a.srt', SUBTITLES)):
        output = folder / f'fr.{name}'
        flags = f'--workdir={workdir}', f'--input={folder / name}', f'--output={output}'
        assert run_command(translate, *flags)[0] == 0
        text = output.read_text().replace('<b>', '').replace('</b>', '')
        for sentence in ('The cat sleeps.', 'Where is the house?'):
            source = source.replace(sentence, translator(sentence))
        source = source.replace('The <b>cat</b> sleeps.', translator('The cat sleeps.'))
        assert text == source
    assert '<b>' in (folder / 'fr.a.html').read_text()


@pytest.mark.parametrize(
    ('flags', 'problem'),
    [
        ('--input=a.srt', "a.srt' is a document: name the translated one with --output=NAME.srt."),
        ('--input=a.srt --output=b.txt', 'name the translated one with --output=NAME.srt.'),
        ('--input=a.srt --output=a.srt', 'is also --input'),
        ('--input=b.srt --output=d.srt', 'cannot be read (No such file or directory)'),
        ('--input=a.srt --output=b/c.srt', 'its folder does not exist: make it first.'),
        ('--input=a.srt --output=b.srt --align', 'with which --align has no meaning'),
        ('--input=a.srt --output=b.srt --n_best=2', 'with which --n_best has no meaning'),
        ('--input=bad.srt --output=b.srt', "bad.srt': these are no subtitles"),
        ('--input=a.srt --output=c.srt', "--output='c.srt' is a folder: name a file."),
        ('--input=a.srt.gz --output=b.srt.gz', "'a.srt.gz' is compressed: unpack it first."),
        ('--input=a.json', "'a.json' is of a kind that is not read: convert it to .txt or .srt"),
        ('--input=a.vtt', "'a.vtt' is of a kind that is not read: convert it to .txt or .srt"),
    ],
)
def test_a_mistake_is_answered_and_nothing_is_written(
    run_command, folder, monkeypatch, flags, problem
):
    monkeypatch.chdir(folder)
    (folder / 'bad.srt').write_text('bad')
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    code, _, err = run_command(translate, '--workdir=absent', *flags.split())
    assert code == 2
    assert problem in err
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
