"""Compiles the programs for accelerators without one: python tests/accelerator_programs.py gpu.

XLA's compilers need JAX for the accelerator (pip install -e '.[cuda]' or '.[tpu]'), but no device
and no driver. They report unsupported programs, and the memory that each program needs on an H200
or a TPU v5e, but not its speed. For GPUs there is no autotuning, and cuBLAS does matrix products.
--config.data.packing=True compiles the training step of packed pairs, in rows of --length tokens.

--traffic prints what each program moves and computes. For GPUs it also prints a modelled time:
the sum over kernels of the greater of FLOP / peak and bytes / bandwidth, and 3 microseconds for
each launch. hlo_traffic.py says what it counts, and what too high or too low. For TPUs it prints
XLA's own analysis, which counts the body of a loop once.
"""

import argparse
import os
import re
import sys
import time
from pathlib import Path

import hlo_traffic

# The description of an H200 for XLA (stream_executor's GpuTargetConfigProto).
H200 = """
gpu_device_info {
  cuda_compute_capability { major: 9 }
  threads_per_block_limit: 1024
  threads_per_warp: 32
  threads_per_core_limit: 2048
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  registers_per_block_limit: 65536
  registers_per_core_limit: 65536
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  core_count: 132
  fpus_per_core: 128
  clock_rate_ghz: 1.98
  memory_bandwidth: 4800000000000
  l2_cache_size: 62914560
  device_memory_size: 150000000000
}
platform_name: "CUDA"
runtime_version { major: 13 }
dnn_version_info { major: 9 minor: 20 }
device_description_str: "NVIDIA H200"
"""
_GPU_FLAGS = '--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false'


def main() -> None:
    """Compile each program and print its memory, its compile time and, if asked, its traffic."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('accelerator', choices=('gpu', 'tpu'))
    parser.add_argument(
        '--config', default='configs/base.py', help='config with the sizes; overrides may follow'
    )
    parser.add_argument('--rows', type=int, default=512, help='rows of a batch')
    parser.add_argument('--length', type=int, default=48, help='tokens of each row')
    parser.add_argument('--target-length', type=int, help='of targets, if it is another')
    parser.add_argument('--only', default='', metavar='TEXT', help='programs whose name has it')
    parser.add_argument('--traffic', action='store_true', help='print bytes, FLOP and times')
    parser.add_argument(
        '--kernels', type=int, default=0, help='with --traffic: the kinds that move the most bytes'
    )
    parser.add_argument(
        '--measured', nargs=2, metavar=('GPU', 'MS'), help='compare with a time: H100 45.1'
    )
    parser.add_argument('--hlo', type=Path, metavar='FOLDER', help='write the programs there')
    flags, overrides = parser.parse_known_args()
    if flags.measured and flags.measured[0] not in hlo_traffic.GPUS:
        parser.error(
            f'--measured: {flags.measured[0]} must be one of {", ".join(hlo_traffic.GPUS)}.'
        )
    os.environ |= {'JAX_PLATFORMS': 'cpu', 'TPU_SKIP_MDS_QUERY': '1'}
    if flags.accelerator == 'gpu':
        os.environ['XLA_FLAGS'] = f'{_GPU_FLAGS} {os.environ.get("XLA_FLAGS", "")}'

    import jax

    from transformer_jax.config.loading import load_config
    from transformer_jax.model.kernels import accelerators

    config = load_config(flags.config, overrides)
    # The package asks for the kind of device while it is traced.
    jax.default_backend = lambda: flags.accelerator
    accelerators._has_cudnn_attention = lambda: flags.accelerator == 'gpu'
    for count, meshes in ((1, ['1x1x1']), (8, ['8x1x1', '2x2x2'])):
        devices = _devices(flags.accelerator, count)
        for mesh in meshes:
            for attention in ('xla', 'cudnn') if flags.accelerator == 'gpu' else ('xla',):
                name = f'training step, attention of {attention}, mesh {mesh}'
                _say(name, _step, config, flags, devices, mesh, attention)
        _say(f'beam search, mesh {count}x1x1', _search, config, flags, devices, None)
        _say(f'sampling, mesh {count}x1x1', _search, config, flags, devices, 0)


def _devices(accelerator, count):
    from jax.experimental.topologies import get_topology_desc

    if accelerator == 'gpu':
        topology = get_topology_desc('', 'cuda', target_config=H200, topology=f'1x1x{count}')
    elif count == 1:
        bounds = {'chips_per_host_bounds': [1, 1, 1], 'num_slices': 1}
        topology = get_topology_desc('v5e:1x1', 'tpu', **bounds)
    else:
        topology = get_topology_desc('v5e:2x4', 'tpu')
    return list(topology.devices)


def _say(name, compiled, config, flags, *arguments):
    from transformer_jax.runtime.memory import needed_memory

    if flags.only not in name:
        return
    begin = time.perf_counter()
    programs = compiled(config, flags, *arguments)
    needed = max(map(needed_memory, programs.values()))
    seconds = time.perf_counter() - begin
    print(f'{name:48}{needed / 2**30:8.2f} GiB of a device{seconds:7.1f} s to compile', flush=True)
    for part, program in programs.items():
        if flags.hlo:
            flags.hlo.mkdir(parents=True, exist_ok=True)
            file = re.sub(r'\W+', '_', f'{name} {part}'.strip())
            (flags.hlo / f'{file}.hlo').write_text(program.as_text())
        if flags.traffic and flags.accelerator == 'gpu':
            _print_traffic(part, program.as_text(), flags)
        elif flags.traffic:
            cost = program.cost_analysis()
            moved, flops = cost['bytes accessed'] / 1e9, cost['flops'] / 1e12
            print(f'  {part:46}{moved:8.2f} GB{flops:8.3f} TFLOP, by XLA')


def _print_traffic(part, text, flags):
    kernels = hlo_traffic.read_kernels(text)
    for loop in dict.fromkeys(kernel.loop for kernel in kernels):
        group = [kernel for kernel in kernels if kernel.loop == loop]
        title = ', '.join(filter(None, (part, loop and f'one pass of {loop}')))
        times = ''.join(f'{f"{gpu} ms":>9}' for gpu in hlo_traffic.GPUS)
        print(f'  {title:32}kernels  GB read  written  TFLOP{times}')
        total = hlo_traffic.Total.of(group)
        for place, sums in (hlo_traffic.by_place(group) | {'in all': total}).items():
            _print_row(place, sums)
        if flags.measured:
            gpu, measured = flags.measured[0], float(flags.measured[1])
            modelled = 1e3 * total.seconds[list(hlo_traffic.GPUS).index(gpu)]
            print(f'  {gpu}: {modelled:.1f} ms modelled, {measured} measured: ', end='')
            print(f'{modelled / measured - 1:+.0%}')
        for what, sums in hlo_traffic.heaviest(group, flags.kernels):
            _print_row('', sums, what)
    sys.stdout.flush()


def _print_row(name, sums, what=''):
    times = ''.join(f'{1e3 * seconds:9.3f}' for seconds in sums.seconds)
    moved = f'{sums.read / 1e9:9.3f}{sums.written / 1e9:9.3f}{sums.flops / 1e12:7.3f}'
    print(f'  {name:32}{sums.kernels:7}{moved}{times}  {what}'.rstrip())


def _step(config, flags, devices, mesh, attention):
    import dataclasses

    from transformer_jax.config import MeshConfig
    from transformer_jax.data.batching.buckets import Bucket
    from transformer_jax.sharding import make_mesh
    from transformer_jax.training.compile import compile_steps

    model = dataclasses.replace(config.model, attention_implementation=attention)
    config = dataclasses.replace(config, model=model, mesh=MeshConfig(*map(int, mesh.split('x'))))
    bucket = Bucket(flags.rows, flags.length, flags.target_length or flags.length)
    mesh = make_mesh(config.mesh, devices=devices)
    return {'': compile_steps(config, config.data.vocab_size, (bucket,), mesh)[bucket].compiled}


def _search(config, flags, devices, top_k):
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    from transformer_jax.config.sampling import Sampling
    from transformer_jax.inference.network import Ensemble
    from transformer_jax.model import Transformer, in_compute_dtype
    from transformer_jax.sharding import MeshLayout, batch_sharding, make_mesh
    from transformer_jax.training.initialization import abstract_state
    from transformer_jax.translating import batch_decoder
    from transformer_jax.translating.options import search_options

    mesh, vocab_size = make_mesh(devices=devices), config.data.vocab_size
    ensemble = Ensemble((Transformer(config.model, vocab_size, MeshLayout(mesh)),))

    def array(dtype, *shape):
        sharding = batch_sharding(mesh) if shape else NamedSharding(mesh, PartitionSpec())
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    def like(shapes, shardings):
        return jax.tree.map(
            lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), shapes, shardings
        )

    params = abstract_state(config, vocab_size, mesh).params
    converted = jax.eval_shape(lambda params: in_compute_dtype(config.model, params), params)
    variables = ({'params': like(converted, jax.tree.map(lambda x: x.sharding, params))},)
    source, numbers = array(jnp.int32, flags.rows, flags.length), array(jnp.int32, flags.rows)
    start = batch_decoder._start.lower(variables, source, ensemble=ensemble)
    started = start.compile()
    sampling = None if top_k is None else Sampling(top_k=top_k)
    options = search_options(
        config.decode, sampling=sampling, suppress=[] if top_k is None else [1]
    )
    found = batch_decoder._search.lower(
        variables,
        like(start.out_info, started.output_shardings),
        batch_decoder.Batch(source, numbers, numbers),
        jax.tree.map(lambda x: array(x.dtype), options),
        ensemble=ensemble,
        eos_id=2,
    )
    return {'start': started, 'search': found.compile()}


if __name__ == '__main__':
    sys.exit(main())
