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
    assert out[1].endswith('for 8 cpu device(s), mesh data 8 x fsdp 1 x tensor 1')
    assert out[2].split()[:3] == ['rows', 'source', 'target']
    # What moves is the gradient, 4 bytes for each parameter, and little else.
    moved = next(line for line in out if line.startswith('  all-reduce'))
    assert 20_480 <= int(moved.split()[1].replace(',', '')) < 20_600
    rates = out[out.index('  rows  source  target  target tokens/s') + 1 :]
    assert len(rates) == 3
    assert 'GFLOP/s of a device' in rates[-1]


def test_collectives_are_counted_by_the_bytes_they_put_out():
    hlo = """
  %a = f32[4,8]{1,0} all-reduce(f32[4,8]{1,0} %x), channel_id=1
  ROOT %b = (bf16[10]{0}, s32[]) all-reduce(%y, %z)
  %c = (f32[2]{0}, f32[16]{0}) all-gather-start(%w)
  %d = f32[16]{0} all-gather-done(%c)
  %e = f32[100]{0} add(%all-reduce, %all-reduce)
"""
    assert benchmark.collective_bytes(hlo) == {'all-reduce': 128 + 24, 'all-gather': 64}


def test_synthetic_lengths_are_realistic():
    config = Config(data=DataConfig(max_length=256))
    lengths = benchmark.synthetic_store(5000, config).source.lengths
    assert 28 < lengths.mean() < 32
    assert lengths.max() <= 256


@pytest.mark.parametrize('flag', ['--parts=inptu', '--synthetic=0'])
def test_a_mistake(config, flag):
    with pytest.raises(UserError, match='must be'):
        benchmark.main([config, flag])
