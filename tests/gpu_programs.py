"""Compiles what runs on a GPU where there is none: python tests/gpu_programs.py.

XLA's compiler for GPUs needs JAX for them (pip install -e '.[cuda]'), but no GPU and no driver. It
says what it refuses and how much memory each program takes of an H200; how fast they are, only a
GPU can tell. Kernels are not chosen by trial here, and matrix products are cuBLAS's.
"""

import argparse
import os
import sys
import time

# As an H200 describes itself to XLA (stream_executor's GpuTargetConfigProto).
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
_XLA_FLAGS = '--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false'


def main() -> None:
    """Compiles each program, and prints a line about it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--config', default='configs/base.py', help='its sizes; overrides follow')
    parser.add_argument('--rows', type=int, default=512, help='sentence pairs of a batch')
    parser.add_argument('--length', type=int, default=48, help='tokens of each sentence')
    flags, overrides = parser.parse_known_args()
    os.environ |= {
        'JAX_PLATFORMS': 'cpu',
        'XLA_FLAGS': f'{_XLA_FLAGS} {os.environ.get("XLA_FLAGS", "")}',
    }

    import jax
    from jax.experimental.topologies import get_topology_desc

    from transformer_jax import command
    from transformer_jax.model import layers

    config = command.load_config(flags.config, overrides)
    # The package asks for the device at hand when it is traced.
    jax.default_backend = lambda: 'gpu'
    layers._has_cudnn_attention = lambda: True
    for count, meshes in ((1, ['1x1x1']), (8, ['8x1x1', '2x2x2'])):
        gpus = get_topology_desc('', 'cuda', target_config=H200, topology=f'1x1x{count}').devices
        for mesh in meshes:
            for attention in ('xla', 'cudnn'):
                name = f'training step, attention of {attention}, mesh {mesh}'
                _say(name, lambda *a: [_step(*a)], config, flags, gpus, mesh, attention)
        _say(f'beam search, mesh {count}x1x1', _search, config, flags, gpus, None)
        _say(f'sampling, mesh {count}x1x1', _search, config, flags, gpus, 0)


def _say(name, compiled, *arguments):
    from transformer_jax.memory import needed_memory

    begin = time.perf_counter()
    needed = max(map(needed_memory, compiled(*arguments)))
    seconds = time.perf_counter() - begin
    print(f'{name:48}{needed / 2**30:8.2f} GiB of a GPU{seconds:7.1f} s to compile', flush=True)


def _step(config, flags, gpus, mesh, attention):
    import dataclasses

    from transformer_jax.config import MeshConfig
    from transformer_jax.data.batching import Bucket
    from transformer_jax.preflight import compile_steps
    from transformer_jax.sharding import make_mesh

    model = dataclasses.replace(config.model, attention_implementation=attention)
    config = dataclasses.replace(config, model=model, mesh=MeshConfig(*map(int, mesh.split('x'))))
    bucket = Bucket(flags.rows, flags.length, flags.length)
    mesh = make_mesh(config.mesh, devices=list(gpus))
    return compile_steps(config, config.data.vocab_size, (bucket,), mesh)[bucket].compiled


def _search(config, flags, gpus, top_k):
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    from transformer_jax import search
    from transformer_jax.model import Transformer, in_compute_dtype
    from transformer_jax.preflight import abstract_state
    from transformer_jax.sharding import MeshLayout, batch_sharding, make_mesh

    mesh, vocab_size = make_mesh(devices=list(gpus)), config.data.vocab_size
    model = Transformer(config.model, vocab_size, MeshLayout(mesh))

    def array(dtype, *shape):
        sharding = batch_sharding(mesh) if shape else NamedSharding(mesh, PartitionSpec())
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    def like(shapes, shardings):
        return jax.tree.map(
            lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), shapes, shardings
        )

    params = abstract_state(config, vocab_size, mesh).params
    converted = jax.eval_shape(lambda params: in_compute_dtype(config.model, params), params)
    params = like(converted, jax.tree.map(lambda x: x.sharding, params))
    source, numbers = array(jnp.int32, flags.rows, flags.length), array(jnp.int32, flags.rows)
    hypotheses = config.decode.beam_size if top_k is None else 1
    start = search._start.lower(params, source, model, hypotheses)
    started = start.compile()
    found = search._search.lower(
        params,
        like(start.out_info, started.output_shardings),
        source,
        numbers,
        numbers,
        array(jnp.float32),
        array(jnp.uint32),
        array(jnp.float32),
        model=model,
        eos_id=2,
        unknown_id=1,
        beam_size=config.decode.beam_size,
        max_extra_length=config.decode.max_extra_length,
        n_best=1,
        sampling=None if top_k is None else search.Sampling(top_k=top_k),
    )
    return [started, found.compile()]


if __name__ == '__main__':
    sys.exit(main())
