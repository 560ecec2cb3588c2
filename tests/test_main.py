"""Bad input to `main` gives exit code 2 and one sentence on stderr, and writes nothing."""

import pytest

from transformer_jax import main

CONFIG = """
from transformer_jax.config import Config

def get_config():
    config = Config().to_config_dict()
    config.model.update(num_layers=1, d_model=16, d_ff=32, num_heads=2)
    config.data.update(corpus='files', train_source='{0}/train.en', train_target='{0}/train.fr')
    config.data.update(vocab_size=300, max_length=64, tokens_per_batch=512, num_buckets=1)
    config.data.update(dev_size=2, test_size=2)
    return config
"""


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """The current folder, which holds a config and the thirty pairs that it trains on."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'train.en').write_text(''.join(f'the number {n}\n' for n in range(30)))
    (tmp_path / 'train.fr').write_text(''.join(f'le nombre {n}\n' for n in range(30)))
    (tmp_path / 'config.py').write_text(CONFIG.format(tmp_path))
    return tmp_path


@pytest.fixture
def fails(run_command):
    """Run `main`, check that it ends with code 2 and one sentence, and return the sentence."""

    def run(*arguments):
        code, out, err = run_command(main, *arguments)
        sentence = [line for line in err.splitlines() if line.startswith('error: ')]
        assert code == 2
        assert out == ''
        assert len(sentence) == 1
        assert 'Traceback' not in err
        return sentence[0].removeprefix('error: ')

    return run


@pytest.mark.parametrize(
    ('flag', 'sentence'),
    [
        (
            '--config.model.d_modle=8',
            'model.d_modle is not a field of the config; did you mean model.d_model?',
        ),
        (
            '--config.mdel.d_model=8',
            'mdel.d_model is not a field of the config; did you mean model.d_model?',
        ),
        (
            '--config.train.warmup_steps=8',
            'train.warmup_steps is not a field of the config; did you mean optimizer.warmup_steps?',
        ),
        ('--config.model.d_ff=wide', "model.d_ff='wide' must be of type int."),
        ('--config.model.d_ff=2.5', "model.d_ff='2.5' must be of type int."),
        ('--config.model.remat=yes', "model.remat='yes' must be True or False."),
        ('--config.train.steps=-1', 'train.steps=-1 must be from 1 to 2,147,483,647.'),
        ('--config.model.num_layers=0', 'model.num_layers=0 must be from 1 to 1,000.'),
        (
            '--config.model.num_heads=3',
            'model.d_model=16 is not divisible by model.num_heads=3: '
            'choose a multiple of it, or set model.d_k and model.d_v.',
        ),
        ('--config.model.dropout_rate=1.5', 'dropout_rate=1.5 must be at least 0 and below 1.'),
        ('--config.model.norm=pst', "must be one of post, pre: did you mean 'post'?"),
        ('--config.model=5', '--config.model is a section: name a field'),
        ('--config.model.d_ff', '--config.model.d_ff has no value'),
        ('--workdri=x', '--workdri=x is not a flag of this command'),
        (
            '--config.data.train_source=nowhere.en',
            "data.train_source='nowhere.en' does not exist",
        ),
        (
            '--config.data.max_length=2',
            'data.max_length=2 is shorter than every training pair: raise it.',
        ),
        (
            '--config.data.vocab_size=30000',
            'data.vocab_size=30000 is more than this text can support: set it to ',
        ),
        (
            '--config.data.vocab_size=100',
            'data.vocab_size=100 cannot hold the ',
        ),
        (
            '--config.data.tokens_per_batch=100',
            'data.tokens_per_batch=100 holds fewer than 8 sentences of data.max_length=64: '
            'set it to 512 or more, or lower data.max_length.',
        ),
        (
            '--config.data.vocabulary=config.py',
            "data.vocabulary='config.py' is not a SentencePiece model",
        ),
        (
            '--config.data.vocabulary=no.model',
            "data.vocabulary='no.model' cannot be read (No such file or directory)",
        ),
    ],
)
def test_a_bad_flag_is_refused_and_nothing_is_written(fails, corpus, flag, sentence):
    said = fails('--config=config.py', '--workdir=run', flag)
    assert sentence in said
    assert not (corpus / 'run').exists()


def test_files_of_different_length_are_refused(fails, corpus):
    (corpus / 'train.fr').write_text('un\ndeux\n')
    said = fails('--config=config.py', '--workdir=run')
    assert 'has 30 lines' in said
    assert 'has 2' in said
    assert not (corpus / 'run').exists()


def test_text_that_is_not_utf_8_is_reported_with_its_line(fails, corpus):
    (corpus / 'train.fr').write_bytes(b'le nombre\n' * 29 + 'été'.encode('latin-1') + b'\n')
    said = fails('--config=config.py', '--workdir=run')
    assert 'train.fr' in said
    assert 'line 30' in said
    assert not (corpus / 'run').exists()


def test_an_empty_corpus_is_refused(fails, corpus):
    (corpus / 'train.en').write_text('')
    (corpus / 'train.fr').write_text('')
    said = fails('--config=config.py', '--workdir=run')
    assert 'has no sentence pairs' in said
    assert not (corpus / 'run').exists()


def test_a_corpus_of_blank_lines_is_refused(fails, corpus):
    (corpus / 'train.fr').write_text('\n' * 30)
    said = fails('--config=config.py', '--workdir=run')
    assert 'fewer than 3 distinct source sentences with text on both sides' in said
    files = {'source': 'train.en', 'target': 'given.fr'}
    (corpus / 'given.fr').write_text('la\n' * 30)
    given = [f'--config.data.{s}_{side}={files[side]}' for s in ('dev', 'test') for side in files]
    said = fails('--config=config.py', '--workdir=run', *given)
    assert 'no training pair with text on both sides' in said
    assert not (corpus / 'run').exists()


def test_a_workdir_below_a_file_is_refused(fails, corpus):
    said = fails('--config=config.py', '--workdir=train.en/run')
    assert "workdir='train.en/run' cannot be a folder, because train.en is a file" in said


def test_a_workdir_that_is_not_writable_is_refused(fails, corpus, monkeypatch):
    monkeypatch.setattr('os.access', lambda *_: False)  # root may write anywhere
    said = fails('--config=config.py', '--workdir=run')
    assert "workdir='run' is not writable" in said
    assert not (corpus / 'run').exists()


def test_a_cache_that_cannot_be_written_is_reported(fails, corpus):
    said = fails('--config=config.py', '--config.data.cache_dir=train.en')
    assert said.startswith("'train.en' in the cache cannot be replaced (File exists): remove it")
    assert 'data.cache_dir or $TRANSFORMER_JAX_CACHE' in said


def test_missing_devices_are_reported(fails, corpus, monkeypatch):
    def devices():
        raise RuntimeError("Unable to initialize backend 'cuda'")

    monkeypatch.setattr('jax.devices', devices)
    monkeypatch.setenv('JAX_PLATFORMS', 'cuda')
    said = fails('--config=config.py')
    assert said.startswith("JAX_PLATFORMS='cuda' asks for devices that JAX does not find here (")


def test_a_missing_config_gives_a_list_of_the_configs_there(fails, corpus):
    said = fails('--config=confgi.py')
    assert said == (
        "--config='confgi.py' is not a file (there are 'config.py'): "
        'give the path of a config file.'
    )


def test_names_that_are_too_long_are_reported(fails, corpus):
    assert 'is neither a file nor one of the configs base, ' in fails(f'--config={"x" * 300}')
    said = fails('--config=config.py', f'--workdir={"x" * 300}')
    assert 'File name too long' in said


def test_an_empty_workdir_is_refused(fails, corpus):
    assert fails('--config=config.py', '--workdir=') == 'workdir is empty: give a path.'


@pytest.mark.parametrize(
    ('text', 'sentence'),
    [
        ('def get_config(:', 'bad.py, line 1: SyntaxError: invalid syntax.'),
        ('x = 1', "--config='bad.py' defines no get_config(): add it to the file."),
        ('def get_config():\n    return 5', "--config='bad.py': get_config() returned a int"),
        ('def get_config():\n    return 1 / 0', 'bad.py, line 2: ZeroDivisionError: division by'),
        (
            'from transformer_jax.config import Config\n'
            'def get_config():\n'
            '    config = Config().to_config_dict()\n'
            '    config.model.d_modle = 3\n',
            'bad.py, line 4: d_modle is not a field of the config; did you mean model.d_model?',
        ),
        (
            'from transformer_jax.config import Config\n'
            'def get_config():\n'
            '    config = Config().to_config_dict()\n'
            '    config.modle.d_ff = 3\n',
            'bad.py, line 4: modle is not a field of the config; did you mean model?',
        ),
        ('def get_config():\n    assert False', 'bad.py, line 2: AssertionError.'),
        ('import sys\nsys.exit("no data")', 'bad.py, line 2: SystemExit: no data.'),
        ('def get_config(folder):\n    return 5', "--config='bad.py' needs an argument (folder)"),
    ],
)
def test_a_bad_config_file_is_reported_with_its_line(fails, corpus, text, sentence):
    (corpus / 'bad.py').write_text(text)
    said = fails('--config=bad.py')
    assert sentence in said


def test_an_argument_that_the_config_does_not_take_is_refused(fails, corpus):
    said = fails('--config=config.py:folder')
    assert "--config='config.py' takes no argument, but got 'folder': leave out" in said


def test_a_missing_config_flag_is_reported(fails):
    said = fails()
    assert 'the following arguments are required: --config' in said
