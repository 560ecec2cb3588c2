"""TensorFlow without messages, without accelerators, and at first without Keras."""

import contextlib
import importlib.util
import os
from collections.abc import Iterator


def import_tensorflow():
    """Import TensorFlow quietly, hide GPUs and TPUs from it, and return the module.

    Raises:
      ModuleNotFoundError: if TensorFlow is not installed.
    """
    # TensorFlow reads both once, when it is first imported.
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '1')
    os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '0')
    with _keras_later():
        import tensorflow as tf

    # Otherwise TensorFlow's first operation would take all of a GPU's memory from JAX. RuntimeError
    # means that TensorFlow already uses its devices, so they can no longer be hidden.
    with contextlib.suppress(RuntimeError):
        tf.config.set_visible_devices([], 'GPU')
        tf.config.set_visible_devices([], 'TPU')
    return tf


@contextlib.contextmanager
def _keras_later() -> Iterator[None]:
    """Keep TensorFlow from loading Keras 3, a quarter of its import, before `tf.keras` is used.

    It loads nothing at once if it is to use Keras 2 and that is not installed.
    """
    name = 'TF_USE_LEGACY_KERAS'
    if name in os.environ or importlib.util.find_spec('tf_keras'):
        yield
        return
    os.environ[name] = '1'
    try:
        yield
    finally:
        del os.environ[name]
