"""The command `benchmark`: every part, its JSON file and its mistakes."""

import json
import subprocess
import sys

import pytest
from tiny_run import config_file, trained

from transformer_jax.benchmark import __main__ as benchmark
from transformer_jax.benchmark import measure, report
from transformer_jax.benchmark.workload import synthetic_store
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
        '    config.data.update(vocab_size=50, max_length=8, tokens_per_batch=80)\n'
        '    config.data.num_buckets = 2\n'
        '    return config\n'
    )
    return f'--config={path}'


@pytest.mark.slow
def test_every_part_is_measured_and_printed_and_written_as_json(
    config, capsys, monkeypatch, tmp_path
):
    monkeypatch.setattr(report, '_SECONDS', 0.05)
    monkeypatch.setattr(report, '_ROWS', (1, 8, 65))  # 64 is the most on CPUs
    monkeypatch.setattr(measure, '_PRODUCTS', {'cpu': (64, 1)})
    benchmark.main([config, '--synthetic=300', f'--json={tmp_path}/out.json'])
    out = capsys.readouterr().out
    figures = json.loads((tmp_path / 'out.json').read_text())
    assert figures['devices'] == 8 and figures['mesh'] == {'data': 8, 'fsdp': 1, 'tensor': 1}
    assert f'input: {figures["input"]["pairs_per_second"]:,.0f} pairs/s, ' in out
    # Embedding 50·16, encoder layer 4·16² + 2·16² + 32 + 4·16, decoder 8·16² + 2·16² + 32 + 6·16.
    compiled = figures['compile']
    assert compiled['parameters'] == 5120
    assert '5,120 parameters, vocabulary of 50; 2 shapes compiled in ' in out
    assert compiled['warm_seconds'] > 0 and compiled['cold_seconds'] > 0
    # The devices exchange the gradient, 4 bytes for each parameter, and little else.
    assert 20_480 <= compiled['moved_bytes']['all-reduce'] < 20_600
    assert len(figures['train']['shapes']) == 2
    for found in [*figures['train']['shapes'], figures['train']['mix']]:
        assert found['target_tokens_per_second'] > found['sentences_per_second'] > 0
        share = found['flops_per_second'] / figures['matrix_flops_per_second']
        assert found['utilisation'] == pytest.approx(share)
    assert 0 <= figures['train']['mix']['waiting_share'] <= 1
    assert figures['train']['peak_memory']['bytes'] > 10**8
    decoded = [(d['beam_size'], d['max_rows']) for d in figures['decode']['throughput']]
    assert decoded == [(1, 1), (1, 8), (4, 1), (4, 8)]
    for found in figures['decode']['latency']:
        assert 0 < found['median_seconds'] <= found['p95_seconds']


@pytest.mark.slow
def test_searches_are_measured_as_named(config, monkeypatch, tmp_path):
    monkeypatch.setattr(report, '_SECONDS', 0.05)
    monkeypatch.setattr(measure, '_PRODUCTS', {'cpu': (64, 1)})
    flags = ['--parts=decode', '--searches=2x8,1x4,4x256', '--synthetic=300']  # 64 at most on CPUs
    benchmark.main([config, *flags, f'--json={tmp_path}/out.json'])
    decoded = json.loads((tmp_path / 'out.json').read_text())['decode']
    assert [(d['beam_size'], d['max_rows']) for d in decoded['throughput']] == [(2, 8), (1, 4)]
    assert decoded['latency'] == []


@pytest.mark.slow
def test_a_config_with_init_from_is_measured_and_traced_on_its_own_corpus(
    workdir, capsys, monkeypatch, tmp_path
):
    monkeypatch.setattr(report, '_SECONDS', 0.05)
    monkeypatch.setattr(measure, 'start', lambda flags: 2.5)
    monkeypatch.setattr(measure, '_PRODUCTS', {'cpu': (64, 1)})
    data = {'vocab_size': 450, 'subword_sampling': 0.1}  # the run's own has 500 pieces
    run = trained().to_dict()
    config = Config.from_mapping(
        run | {'data': run['data'] | data, 'train': run['train'] | {'init_from': str(workdir)}}
    )
    file = config_file(tmp_path / 'config.py', config)
    parts = '--parts=start,input,compile,train'
    files = [f'--json={tmp_path}/out.json', f'--profile={tmp_path}/trace']
    benchmark.main([f'--config={file}', parts, *files])
    figures = json.loads((tmp_path / 'out.json').read_text())
    assert figures['compile']['vocabulary'] == 500
    assert figures['input']['pairs_per_second'] > 0
    assert figures['train']['mix']['target_tokens_per_second'] > 0
    assert list((tmp_path / 'trace').rglob('*.xplane.pb'))
    assert figures['start'] == {'as_found_seconds': 2.5, 'warm_seconds': 2.5}


def test_collective_bytes_counts_the_outputs_of_collectives():
    hlo = """
  %a = f32[4,8]{1,0} all-reduce(f32[4,8]{1,0} %x), channel_id=1
  ROOT %b = (bf16[10]{0}, s32[]) all-reduce(%y, %z)
  %c = (f32[2]{0}, f32[16]{0}) all-gather-start(%w)
  %d = f32[16]{0} all-gather-done(%c)
  %e = f32[100]{0} add(%all-reduce, %all-reduce)
"""
    assert report.collective_bytes(hlo) == {'all-reduce': 128 + 24, 'all-gather': 64}


def test_synthetic_lengths_are_realistic():
    config = Config(data=DataConfig(max_length=256))
    lengths = synthetic_store(5000, config).source.lengths
    assert 28 < lengths.mean() < 32
    assert lengths.max() <= 256


@pytest.mark.parametrize(
    ('flags', 'sentence'),
    [
        (['--parts=inptu'], "--parts='inptu' must be among"),
        (['--synthetic=0'], '--synthetic=0 must be from 1 to 10,000,000.'),
        (['--synthetic=10000001'], '--synthetic=10000001 must be from 1 to 10,000,000.'),
        (
            ['--synthetic=9', '--parts=start,input'],
            "--parts=start times a training on the config's own corpus",
        ),
        (['--searches=4x'], "--searches='4x' must be beam and batch sizes, such as 1x16,4x64."),
        (['--json=/no/such/folder/a'], 'is in a folder that does not exist'),
        (['--json=/proc/a'], 'is in a folder that cannot be written to'),
        ([f'--json={"x" * 300}'], r'cannot be a file \(File name too long\)'),
        (['--json=/dev/full'], 'is a pipe, a device or a broken link'),
        ([f'--profile={"x" * 300}'], r'cannot be written to \(File name too long\)'),
        (['--profile=/proc/a'], "--profile='/proc/a' cannot be written to"),
    ],
)
def test_a_mistake_is_reported_with_its_flag(config, flags, sentence):
    with pytest.raises(UserError, match=sentence):
        benchmark.main([config, *flags])


def test_help_and_mistakes_are_answered_before_jax_is_imported(config):
    code = (
        'import sys\n'
        'from transformer_jax.benchmark.__main__ import main\n'
        'for flags in (["--help"], [sys.argv[1], "--config.model.d_ff=0"]):\n'
        '    try:\n'
        '        main(flags)\n'
        '    except (SystemExit, ValueError) as error:\n'
        '        print(error)\n'
        'print("jax" in sys.modules)\n'
    )
    out = subprocess.check_output([sys.executable, '-c', code, config], text=True)
    assert out.splitlines()[-2:] == ['model.d_ff=0 must be from 1 to 262,144.', 'False']
