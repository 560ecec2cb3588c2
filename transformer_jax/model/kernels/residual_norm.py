"""LayerNorm(x + Dropout(y)) in few passes over the activations, for accelerators."""

import functools

import jax
import jax.numpy as jnp

from transformer_jax.model.kernels.dropout import KeepBits, drop


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def residual_norm(
    epsilon: float,
    x: jax.Array,
    y: jax.Array,
    keep: KeepBits | None,
    scale: jax.Array,
    bias: jax.Array,
) -> jax.Array:
    """Return LayerNorm(x + Dropout(y)) (section 5.4), computed in float32.

    The sum and the result are rounded to the dtype of `x`, and the backward pass keeps only the
    sum and two numbers for each position. JAX's own gradient keeps float32 activations.

    Args:
      epsilon: number added to the variance.
      x: [..., D].
      y: [..., D], the output of the sub-layer.
      keep: the random bits of dropout, from `keep_bits`; None for no dropout.
      scale: [D] float32.
      bias: [D] float32.

    Returns:
      [..., D], in the dtype of `x`.
    """
    return _forward(epsilon, x, y, keep, scale, bias)[0]


def _forward(epsilon, x, y, keep, scale, bias):
    total = (x.astype(jnp.float32) + drop(y.astype(jnp.float32), keep)).astype(x.dtype)
    exact = total.astype(jnp.float32)
    mean = exact.mean(-1, keepdims=True)
    variance = jnp.maximum((exact * exact).mean(-1, keepdims=True) - mean * mean, 0)
    factor = jax.lax.rsqrt(variance + epsilon)
    output = (exact - mean) * factor * _row(scale, x) + _row(bias, x)
    return output.astype(x.dtype), (total, keep, mean, factor, scale)


def _backward(epsilon, residuals, gradient):
    total, keep, mean, factor, scale = residuals
    normal = (total.astype(jnp.float32) - mean) * factor
    gradient = gradient.astype(jnp.float32)
    scaled = gradient * _row(scale, gradient)
    common = scaled.mean(-1, keepdims=True)
    along = (scaled * normal).mean(-1, keepdims=True)
    of_x = (factor * (scaled - common - normal * along)).astype(total.dtype)
    # Without the barrier, XLA would compute `of_x` twice and store the comparisons of the bits.
    of_y = drop(*jax.lax.optimization_barrier((of_x, keep)))
    of_scale, of_bias = jax.lax.reduce(  # both in one kernel
        (gradient * normal, gradient),
        (jnp.float32(0), jnp.float32(0)),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        range(gradient.ndim - 1),
    )
    return of_x, of_y, None, of_scale, of_bias


def _row(vector_D, x):
    return vector_D.reshape((1,) * (x.ndim - 1) + (-1,))


residual_norm.defvjp(_forward, _backward)
