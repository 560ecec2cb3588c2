"""The kernels that XLA has chosen for GPUs by trying them, as text.

XLA keeps its choice in the memory of the process. Every program can write all of it to a file, and
the first program that names a file reads it. XLA looks there before it tries kernels, and before it
takes the first kernel for a deterministic program.
"""

import tempfile
from pathlib import Path

import jax

_known: set[str] = set()  # texts whose kernels are in XLA's memory


def chosen_kernels() -> str:
    """Return all kernels that XLA has chosen in this process, a text of XLA's AutotuneResults."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'kernels.txtpb'
        _compile_nothing('xla_gpu_dump_autotune_results_to', path)
        text = path.read_text(encoding='utf-8')
    _known.add(text)
    return text


def use_kernels(text: str) -> None:
    """Let XLA take these kernels in this process.

    Args:
      text: from `chosen_kernels`.

    Raises:
      ValueError: if XLA does not take them, or has others in its memory already.
    """
    if text in _known:
        return
    if _known:  # XLA would read no second file, without a word
        raise ValueError('this process has other kernels')
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'kernels.txtpb'
        path.write_text(text, encoding='utf-8')
        try:
            _compile_nothing('xla_gpu_load_autotune_results_from', path)
        except jax.errors.JaxRuntimeError as error:
            raise ValueError(str(error)) from error
    _known.add(text)


def _compile_nothing(option: str, path: Path) -> None:
    # JAX's cache does not have this program, because the path is in its key.
    jax.jit(lambda: 0).lower().compile({option: str(path)})
