"""Compiles the programs for accelerators without one: python tests/accelerator_programs.py gpu.

XLA's compilers need JAX for the accelerator (pip install -e '.[cuda]' or '.[tpu]'), but no device
and no driver. They report unsupported programs, and the memory that each program needs on an H200
or a TPU v5e, but not its speed. For GPUs there is no autotuning, and cuBLAS does matrix products.
"""

import argparse
import os
import sys
import time

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
    """Compile each program and print its memory and compile time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('accelerator', choices=('gpu', 'tpu'))
    parser.add_argument(
        '--config', default='configs/base.py', help='config with the sizes; overrides may follow'
    )
    parser.add_argument('--rows', type=int, default=512, help='sentence pairs of a batch')
    parser.add_argument('--length', type=int, default=48, help='tokens of each sentence')
    flags, overrides = parser.parse_known_args()
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
                _say(name, lambda *a: [_step(*a)], config, flags, devices, mesh, attention)
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


def _say(name, compiled, *arguments):
    from transformer_jax.runtime.memory import needed_memory

    begin = time.perf_counter()
    needed = max(map(needed_memory, compiled(*arguments)))
    seconds = time.perf_counter() - begin
    print(f'{name:48}{needed / 2**30:8.2f} GiB of a device{seconds:7.1f} s to compile', flush=True)


def _step(config, flags, devices, mesh, attention):
    import dataclasses

    from transformer_jax.config import MeshConfig
    from transformer_jax.data.batching.buckets import Bucket
    from transformer_jax.sharding import make_mesh
    from transformer_jax.training.compile import compile_steps

    model = dataclasses.replace(config.model, attention_implementation=attention)
    config = dataclasses.replace(config, model=model, mesh=MeshConfig(*map(int, mesh.split('x'))))
    bucket = Bucket(flags.rows, flags.length, flags.length)
    mesh = make_mesh(config.mesh, devices=devices)
    return compile_steps(config, config.data.vocab_size, (bucket,), mesh)[bucket].compiled


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
    return [started, found.compile()]


if __name__ == '__main__':
    sys.exit(main())
