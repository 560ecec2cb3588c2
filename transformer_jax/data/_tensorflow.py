"""TensorFlow without messages and without accelerators."""

import contextlib
import os


def import_tensorflow():
    """Import TensorFlow quietly, hide GPUs and TPUs from it, and return the module.

    Raises:
      ModuleNotFoundError: if TensorFlow is not installed.
    """
    # TensorFlow reads both once, when it is first imported.
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '1')
    os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '0')
    import tensorflow as tf

    # Otherwise TensorFlow's first operation would take all of a GPU's memory from JAX. RuntimeError
    # means that TensorFlow already uses its devices, so they can no longer be hidden.
    with contextlib.suppress(RuntimeError):
        tf.config.set_visible_devices([], 'GPU')
        tf.config.set_visible_devices([], 'TPU')
    return tf
