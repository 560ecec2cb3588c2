"""The command `convert`: its flags."""

import re

import pytest

from transformer_jax import convert


def test_every_kind_has_a_module_and_its_options_are_flags():
    flags = {action.dest for action in convert._parser()._actions}
    for kind in convert.TARGETS.values():
        assert callable(kind.load().export)
        assert set(kind.options) <= flags
    for kind in convert.SOURCES.values():
        assert callable(kind.load().recognises) and callable(kind.load().import_model)
        assert set(kind.options) <= flags


@pytest.mark.parametrize(
    ('arguments', 'sentence'),
    [
        (['--workdir=a'], r'give --from=DIR to import a model, or --to=KIND and --output=DIR'),
        (
            ['--workdir=a', '--to=release', '--from=b'],
            'not both: give --from=DIR to import a model',
        ),
        (['--workdir=a', '--to=release'], '--to=release writes a folder: name it with --output'),
        (['--workdir=a', '--to=relaese', '--output=b'], "invalid choice: 'relaese'"),
        (['--workdir=a', '--to=release', '--output=.'], "--output='.' exists already"),
        (['--workdir=a', '--to=release', '--output=b'], "workdir='a' holds no trained model"),
        (['--workdir=a', '--to=release', '--output=b', '--steps=x'], "--steps='x' must be steps"),
        (
            ['--workdir=a', '--to=release', '--output=b', '--license=my own'],
            "--license='my own' is no SPDX name of a licence",
        ),
        (['--workdir=a', '--from=b', '--license=my own'], "--license='my own' is no SPDX name"),
        (['--workdir=a', '--from=b', '--output=c'], '--output is not for --from, which writes'),
        (['--workdir=a', '--from=b'], "--from='b' does not exist: name a folder"),
    ],
)
def test_a_mistake_gives_one_sentence_and_writes_nothing(
    run_command, tmp_path, monkeypatch, arguments, sentence
):
    monkeypatch.chdir(tmp_path)
    code, out, err = run_command(convert, *arguments)
    assert (code, out, err.count('\n')) == (2, '', 1)
    assert re.search(sentence, err), err
    assert list(tmp_path.iterdir()) == []
