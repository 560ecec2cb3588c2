"""The flag --target_language of the commands, for a model of several languages."""

import json

import jax
import numpy as np
import pytest
from tiny_run import TEXTS

from transformer_jax import attention, evaluate, score, translate
from transformer_jax.conversion.release import write_release
from transformer_jax.storage.release import Release

pytestmark = pytest.mark.usefixtures('programs_kept')

CHINESE = {'target_language': 'zh-Hans'}


@pytest.fixture(scope='module')
def folder(polyglot, tmp_path_factory):
    """The release folder of a model of several languages, and a file of texts."""
    folder = tmp_path_factory.mktemp('polyglot')
    (folder / 'model').mkdir()
    write_release(
        folder / 'model',
        config=polyglot.config,
        vocabulary=polyglot.vocabulary,
        params=jax.tree.map(np.asarray, polyglot.params),
        name='polyglot',
        release=Release([1], 'apache-2.0', ''),
    )
    (folder / 'texts').write_text('\n'.join(TEXTS) + '\n')
    return folder


def flags(folder, target='zh', name='input'):
    return (
        f'--workdir={folder}/model',
        *([f'--target_language={target}'] if target else []),
        f'--{name}={folder}/texts',
    )


def test_lines_are_translated_into_it(run_command, folder, polyglot):
    code, out, _ = run_command(translate, *flags(folder))
    assert (code, out.splitlines()) == (0, polyglot(TEXTS, **CHINESE))


@pytest.mark.parametrize(
    'page, target',
    [
        ('<p>{}</p><p><b>{}</b></p>', 'zh'),
        # A tag holds for the whole document, and is left out of the translated one.
        ('<p>&gt;&gt;cmn_Hans&lt;&lt; {}</p><p><b>{}</b></p>', 'fr'),
        ('<p>&gt;&gt;cmn_Hans&lt;&lt; {}</p><p><b>{}</b></p>', ''),
    ],
)
def test_documents_are_translated_into_it(run_command, folder, polyglot, tmp_path, page, target):
    (tmp_path / 'a.html').write_text(page.format(*TEXTS[:2]))
    given, *others = flags(folder, target)[:-1]
    files = f'--input={tmp_path}/a.html', f'--output={tmp_path}/b.html'
    assert run_command(translate, given, *others, *files)[0] == 0
    first, second = polyglot(TEXTS[:2], **CHINESE)
    assert (tmp_path / 'b.html').read_text() == f'<p>{first}</p><p><b>{second}</b></p>'


def test_scores_are_those_for_it(run_command, folder, polyglot):
    names = [x.replace('--input', '--source') for x in flags(folder)]
    code, out, _ = run_command(score, *names, f'--reference={folder}/texts')
    expected = polyglot.score(TEXTS, TEXTS, **CHINESE)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [f'{x.log_prob:.6f}' for x in expected]


def test_attention_is_that_for_it(run_command, folder, tmp_path):
    code, _, _ = run_command(attention, *flags(folder), f'--json={tmp_path}/a.json')
    assert code == 0
    found = json.loads((tmp_path / 'a.json').read_text())
    assert [one['source'][0] for one in found] == ['>>cmn_Hans<<'] * len(TEXTS)
    assert [one['text'] for one in found] == TEXTS


@pytest.mark.parametrize('target', ['zh', ''])
def test_a_set_is_scored_in_it(run_command, folder, polyglot, tmp_path, target):
    """A set whose sources all have one tag is scored in its language, too."""
    sources = TEXTS if target else [f'>>cmn_Hans<< {text}' for text in TEXTS]
    (tmp_path / 'source').write_text('\n'.join(sources) + '\n')
    given = flags(folder, target)[:-1]
    files = f'--source={tmp_path}/source', f'--reference={folder}/texts'
    code, out, _ = run_command(evaluate, *given, *files)
    scores = polyglot.score(TEXTS, TEXTS, **CHINESE)
    nll = -sum(x.log_prob for x in scores) / sum(x.tokens for x in scores)
    assert code == 0
    assert '|tok:zh|' in out and ' per character (' in out
    assert f'{nll:.3f}' in out.partition('smoothed, ')[2][:8]


@pytest.mark.parametrize('command', [translate, score, attention, evaluate])
def test_a_language_that_the_model_lacks_is_refused(run_command, folder, tmp_path, command):
    given = [f'--workdir={folder}/model', '--target_language=de']
    given += [f'--json={tmp_path}/a.json'] if command is attention else []
    code, out, err = run_command(command, *given)
    assert (code, out) == (2, '')
    assert err == (
        "error: target_language='de' is no language that this model translates into: choose one "
        "of 'fr', 'zh-Hans'.\n"
    )
