"""Config files: how they are found and run, and overrides."""

import os
from pathlib import Path

import pytest
from tiny_run import config_file

from transformer_jax.config import Config, loading
from transformer_jax.config.loading import config_name, load_config, packaged_configs
from transformer_jax.errors import UserError


def test_overrides_add_the_sections_that_a_config_leaves_out(tmp_path):
    path = tmp_path / 'config.py'
    path.write_text(
        'import ml_collections\n'
        'def get_config():\n'
        "    return ml_collections.ConfigDict({'model': {'d_ff': 64}, 'train': 3})\n"
    )
    with pytest.raises(UserError, match=r'train=3 must be a section'):
        load_config(str(path), ['--config.train.steps=3'])
    path.write_text(path.read_text().replace(", 'train': 3", ''))
    config = load_config(str(path), ['--config.data.seed=3'])
    assert (config.model.d_ff, config.data.seed) == (64, 3)


def test_overrides_change_the_config(tmp_path):
    path = config_file(tmp_path / 'config.py', Config())
    overrides = ['--config.model.d_ff=64', '--config.data.vocabulary', 'a=b']
    config = load_config(str(path), overrides)
    assert (config.model.d_ff, config.data.vocabulary) == (64, 'a=b')


def test_the_text_after_the_colon_is_the_argument_of_get_config(tmp_path):
    (tmp_path / 'folder.py').write_text(
        'from transformer_jax.config import Config\n'
        'def get_config(folder):\n'
        '    config = Config().to_config_dict()\n'
        '    config.data.data_dir = folder\n'
        '    return config\n'
    )
    assert load_config(f'{tmp_path}/folder.py:../data').data.data_dir == '../data'
    assert config_name('configs/folder.py:../data') == 'folder'


def test_a_config_without_read_permission_is_reported(tmp_path, monkeypatch):
    path = config_file(tmp_path / 'config.py', Config())

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(loading, 'open', refuse, raising=False)  # root may read everything
    with pytest.raises(UserError, match=r"config\.py' may not be read: change its permissions\.$"):
        load_config(str(path))


def test_a_config_that_misses_a_file_reports_line_and_file(tmp_path):
    (tmp_path / 'config.py').write_text("def get_config():\n    open('missing.txt')\n")
    with pytest.raises(UserError, match=r"py, line 2: FileNotFoundError: .*'missing\.txt'\.$"):
        load_config(f'{tmp_path}/config.py')


def test_a_config_that_is_a_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / 'config.py')
    with pytest.raises(UserError, match='is not a file'):
        load_config(f'{tmp_path}/config.py')


@pytest.mark.parametrize(
    ('flag', 'argument', 'name'),
    [('demo', None, 'demo'), ('table3:big', 'big', 'table3'), ('big', None, 'big')],
)
def test_a_bare_name_finds_a_config_that_comes_with_the_package(flag, argument, name):
    path = Path(__file__).parents[2] / 'configs' / f'{name}.py'
    same = f'{path}:{argument}' if argument else str(path)
    assert load_config(flag) == load_config(same)
    assert config_name(flag) == name


def test_a_file_in_the_current_folder_comes_before_a_packaged_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'demo').write_text(
        'from transformer_jax.config import Config\n'
        'def get_config():\n    return Config().to_config_dict()\n'
    )
    assert load_config('demo') == Config()


def test_an_unknown_name_gets_the_nearest_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        load_config('deom')
    assert "'deom' is neither a file nor one of the configs base, " in str(error.value)
    assert str(error.value).endswith(": did you mean 'demo'?")


def test_an_installed_package_has_its_configs_inside(tmp_path, monkeypatch):
    (tmp_path / 'package' / 'configs').mkdir(parents=True)
    (tmp_path / 'package' / 'configs' / 'mine.py').touch()
    monkeypatch.setattr(loading, '_PACKAGE', tmp_path / 'package')
    assert list(packaged_configs()) == ['mine']
