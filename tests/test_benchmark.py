import pytest

from transformer_jax import benchmark
from transformer_jax.config import Config, DataConfig
from transformer_jax.errors import UserError


@pytest.fixture
def config(tmp_path):
    path = tmp_path / 'config.py'
    path.write_text(
        'from transformer_jax.config import Config\n'
        'def get_config():\n'
        '    config = Config().to_config_dict()\n'
        '    config.model.update(num_layers=1, d_model=16, d_ff=16, num_heads=2)\n'
        '    config.data.update(vocab_size=50, max_length=40, tokens_per_batch=400)\n'
        '    config.data.num_buckets = 2\n'
        '    return config\n'
    )
    return f'--config={path}'


def test_it_prints_rates_and_a_row_for_each_shape(config, capsys, monkeypatch):
    monkeypatch.setattr(benchmark, '_SECONDS', 0.1)
    benchmark.main([config, '--synthetic=300'])
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith('input: ')
    assert ' pairs/s, ' in out[0]
    assert '; padding ' in out[0]
    # Embedding 50·16, encoder layer 4·16² + 2·16² + 32 + 4·16, decoder 8·16² + 2·16² + 32 + 6·16.
    assert out[1].startswith('5,120 parameters, vocabulary of 50; 2 shapes compiled in ')
    assert out[2].split() == ['rows', 'source', 'target', 'TFLOP', 'GiB', 'target', 'tokens/s']
    assert len(out) == 5


def test_synthetic_lengths_are_realistic():
    config = Config(data=DataConfig(max_length=256))
    lengths = benchmark.synthetic_store(5000, config).source.lengths
    assert 28 < lengths.mean() < 32
    assert lengths.max() <= 256


@pytest.mark.parametrize('flag', ['--parts=inptu', '--synthetic=0'])
def test_a_mistake(config, flag):
    with pytest.raises(UserError, match='must be'):
        benchmark.main([config, flag])
