"""The command `corpus`."""

import pytest

from transformer_jax import corpus

TRAIN = [
    ('The cat sleeps.', 'Le chat dort.'),
    ('A dog runs.', 'Un chien court.'),
    ('A dog runs.', 'Un chien court.'),
    ('Paris', 'Paris'),
    ('It is 7.', 'Il est 8.'),
]


@pytest.fixture
def config(tmp_path):
    for split, pairs in (('train', TRAIN), ('dev', TRAIN[:1]), ('test', [('x', 'Le chat dort.')])):
        for side, name in enumerate(('en', 'fr')):
            text = ''.join(pair[side] + '\n' for pair in pairs)
            (tmp_path / f'{split}.{name}').write_text(text)
    path = tmp_path / 'config.py'
    fields = {
        f'{split}_{side}': str(tmp_path / f'{split}.{name}')
        for split in ('train', 'dev', 'test')
        for side, name in (('source', 'en'), ('target', 'fr'))
    }
    data = {'corpus': 'files', 'target_language': 'fr', **fields}
    path.write_text(
        'from ml_collections import ConfigDict\n'
        f'def get_config():\n    return ConfigDict({{"data": {data!r}}})\n'
    )
    return path


def test_the_report_has_lengths_duplicates_overlap_and_filters(run_command, config):
    code, out, err = run_command(corpus, '--config', config)
    assert code == 0, err
    assert 'train: 5 pairs' in out and '0 with an empty side, 1 duplicates' in out
    assert 'source: 13 words; in a sentence up to 3 (50 %)' in out
    assert '1 sources and 1 targets occur in train' in out  # dev
    assert '0 sources and 1 targets occur in train' in out  # test
    shares = {line.split()[0]: line.split()[1] for line in out.splitlines() if ' pairs, ' in line}
    assert shares == {
        'ratio=3': '0',
        'identical': '1',
        'duplicates': '1',
        'letters=0.5': '0',
        'digits': '1',
    }
    assert 'data.vocab_size=2000 is usual' in out


@pytest.mark.parametrize('code', ['>>fra<<', '<2fr>'])
def test_language_codes_are_no_words_of_the_report(run_command, config, tmp_path, code):
    path = tmp_path / 'train.en'
    path.write_text(''.join(f'{code} {source}\n' for source, _ in TRAIN))
    _, out, _ = run_command(corpus, '--config', config)
    assert 'source: 13 words; in a sentence up to 3 (50 %)' in out
    assert '1 sources and 1 targets occur in train' in out
    assert 'identical                     1 pairs' in out and '1 duplicates' in out


def test_the_filters_of_the_config_are_tried(run_command, config):
    code, out, _ = run_command(corpus, '--config', config, '--config.data.filters=length=2')
    assert code == 0 and 'length=2' in out and 'ratio' not in out


def test_a_mistake_in_augment_is_refused(run_command, config):
    code, _, err = run_command(corpus, f'--config={config}', '--config.data.augment=uper=0.05')
    assert code == 2
    assert "data.augment='uper=0.05' has 'uper', which is none of upper, title, typos" in err


def test_the_report_is_written_as_a_page(run_command, config, tmp_path):
    page = tmp_path / 'report.html'
    code, out, _ = run_command(corpus, '--config', config, '--output', page)
    assert code == 0 and out.endswith(f'{page} shows this report\n')
    text = page.read_text()
    assert 'data:image/png;base64,' in text and 'train: 5 pairs' in text


def test_another_ending_is_refused(run_command, config):
    code, _, err = run_command(corpus, '--config', config, '--output', 'a.txt')
    assert code == 2 and "--output='a.txt' must end in .html." in err


def test_a_corpus_is_prepared_once(run_command, config, tmp_path):
    small = '--config.data.vocab_size=290', f'--config.data.cache_dir={tmp_path / "cache"}'
    for count in (1, 0):
        code, out, err = run_command(corpus, '--config', config, '--prepare', *small)
        assert (code, err.count('Training a vocabulary')) == (0, count), err
        assert out.startswith('5 training pairs, ') and 'vocabulary of 290 pieces' in out
    assert len(list((tmp_path / 'cache').glob('tokens-*'))) == 1


@pytest.mark.parametrize(
    ('flag', 'problem'),
    [
        ('--output=a.html', "--output='a.html' is of the report: leave out --prepare."),
        ('--config.train.init_from=x', "train.init_from='x' brings a vocabulary of its own"),
    ],
)
def test_what_does_not_go_with_prepare_is_refused(run_command, config, flag, problem):
    code, _, err = run_command(corpus, '--config', config, '--prepare', flag)
    assert code != 0 and problem in err
