"""TensorFlow as this package wants it: silent, and with its hands off the accelerators."""

import contextlib
import os


def import_tensorflow():
    """Imports TensorFlow quietly, hides GPUs and TPUs from it and returns the module.

    Raises:
      ModuleNotFoundError: if TensorFlow is not installed.
    """
    # Both are read once, when TensorFlow is first imported.
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '1')
    os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '0')
    import tensorflow as tf

    # JAX owns the accelerators; TensorFlow would take all of a GPU's memory at its first operation.
    # Devices of a TensorFlow that already runs cannot be hidden any more, and need not be.
    with contextlib.suppress(RuntimeError):
        tf.config.set_visible_devices([], 'GPU')
        tf.config.set_visible_devices([], 'TPU')
    return tf
