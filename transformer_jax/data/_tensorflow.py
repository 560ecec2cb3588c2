"""TensorFlow as this package wants it: silent, and with its hands off the accelerators."""

import contextlib
import os

from transformer_jax.errors import UserError


def import_tensorflow():
    """Imports TensorFlow quietly, hides GPUs and TPUs from it and returns the module.

    Raises:
      UserError: if TensorFlow is not installed.
    """
    # Both are read once, when TensorFlow is first imported.
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '1')
    os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '0')
    try:
        import tensorflow as tf
    except ModuleNotFoundError as error:
        if (error.name or '').split('.')[0] != 'tensorflow':
            raise  # TensorFlow is there, but broken: its own message says more
        raise UserError(
            'TensorFlow is not installed, and it reads this data: pip install tensorflow-cpu.'
        ) from None
    # JAX owns the accelerators; TensorFlow would take all of a GPU's memory at its first operation.
    # Devices of a TensorFlow that already runs cannot be hidden any more, and need not be.
    with contextlib.suppress(RuntimeError):
        tf.config.set_visible_devices([], 'GPU')
        tf.config.set_visible_devices([], 'TPU')
    return tf
