"""Names of the arrays of Marian models: ours, Hugging Face's and Marian's own."""

from collections.abc import Iterator
from typing import NamedTuple

_STACKS = {
    'encoder': ('self_attention', 'feed_forward'),
    'decoder': ('self_attention', 'cross_attention', 'feed_forward'),
}
_ATTENTION = {
    'self_attention': ('self_attn', 'self'),
    'cross_attention': ('encoder_attn', 'context'),
}
_PROJECTIONS = {'query': 'q', 'key': 'k', 'value': 'v', 'output': 'o'}


class Place(NamedTuple):
    """An array of a layer.

    Attributes:
      ours: path of the parameter, for example 'encoder/layer_0/self_attention/query'.
      huggingface: name in Hugging Face's files, where matrices are [out, in].
      marian: name in Marian's files, where matrices are [in, out] and vectors [1, n].
      is_matrix: whether it is a matrix; otherwise it is a vector.
    """

    ours: str
    huggingface: str
    marian: str
    is_matrix: bool = False


def layer_places(num_layers: int) -> Iterator[Place]:
    """Yield the arrays of all layers of a model with `num_layers` on each side."""
    for stack, sublayers in _STACKS.items():
        for index in range(num_layers):
            ours = f'{stack}/layer_{index}'
            theirs = f'model.{stack}.layers.{index}'
            marian = f'{stack}_l{index + 1}'
            for name in sublayers:
                if name == 'feed_forward':
                    yield from _feed_forward(ours, theirs, marian)
                else:
                    yield from _attention(name, ours, theirs, marian)


def last_norm_places() -> Iterator[Place]:
    """Yield the arrays of the norm behind all layers of each side, if a model has `norm='pre'`."""
    for stack in _STACKS:
        yield from _norm(stack, f'model.{stack}.layer_norm', f'{stack}_top_ln')


def _attention(name: str, ours: str, theirs: str, marian: str) -> Iterator[Place]:
    of_theirs, of_marian = _ATTENTION[name]
    for projection, letter in _PROJECTIONS.items():
        linear = 'out_proj' if letter == 'o' else f'{letter}_proj'
        path, there = f'{ours}/{name}/{projection}', f'{theirs}.{of_theirs}.{linear}'
        yield Place(path, f'{there}.weight', f'{marian}_{of_marian}_W{letter}', is_matrix=True)
        yield Place(f'{path}_bias', f'{there}.bias', f'{marian}_{of_marian}_b{letter}')
    yield from _norm(
        f'{ours}/{name}_residual', f'{theirs}.{of_theirs}_layer_norm', f'{marian}_{of_marian}_Wo_ln'
    )


def _feed_forward(ours: str, theirs: str, marian: str) -> Iterator[Place]:
    for number, name in ((1, 'inner'), (2, 'outer')):
        path, there = f'{ours}/feed_forward/{name}', f'{theirs}.fc{number}'
        yield Place(f'{path}/kernel', f'{there}.weight', f'{marian}_ffn_W{number}', is_matrix=True)
        yield Place(f'{path}/bias', f'{there}.bias', f'{marian}_ffn_b{number}')
    yield from _norm(
        f'{ours}/feed_forward_residual', f'{theirs}.final_layer_norm', f'{marian}_ffn_ffn_ln'
    )


def _norm(ours: str, theirs: str, marian: str) -> Iterator[Place]:
    yield Place(f'{ours}/norm/scale', f'{theirs}.weight', f'{marian}_scale')
    yield Place(f'{ours}/norm/bias', f'{theirs}.bias', f'{marian}_bias')
