"""YAML from others, as values of a given shape."""

from typing import Any

import yaml

from transformer_jax.errors import first_line, is_utf8
from transformer_jax.storage.files import check_shape

_LONGEST = 1 << 20  # bytes of a text
_MOST = 10_000  # values of a text, each counted wherever an alias repeats it
_DEEPEST = 50


def parse_yaml(text: bytes, shape: Any) -> Any:
    """Return the content of a YAML text of a given shape.

    Args:
      text: YAML in UTF-8; an empty text is None.
      shape: as for `parse_json`.

    Raises:
      ValueError: if the text is not YAML, is too large, or has another shape; the message says
        where.
    """
    if len(text) > _LONGEST:
        raise ValueError(f'it is larger than {_LONGEST:,} bytes')
    try:
        loader = yaml.SafeLoader(text.decode('utf-8-sig'))
        node = loader.get_single_node()
        # A few lines of aliases of aliases can name more values than memory can hold.
        if node is not None and _size(node, {}, _DEEPEST) > _MOST:
            raise ValueError(f'it has more than {_MOST:,} values')
        value = None if node is None else loader.construct_document(node)
    except RecursionError as error:
        raise ValueError('it is nested too deeply') from error
    except Exception as error:  # values that are wrong for their tags raise many kinds
        raise ValueError(first_line(error)) from error
    check_shape(value, shape)
    return value


def _size(node: yaml.Node, sizes: dict[int, int], depth: int) -> int:
    """Return how many values a node has, if each alias is another value.

    Args:
      node: the node.
      sizes: of the nodes so far, by their `id`.
      depth: how deep values may be nested.
    """
    if depth == 0:  # also where a value contains itself
        raise ValueError('it is nested too deeply')
    if isinstance(node, yaml.ScalarNode):
        if not is_utf8(node.value):
            raise ValueError('it has half a character (a surrogate)')
        return 1
    if id(node) not in sizes:
        inner = node.value
        if isinstance(node, yaml.MappingNode):
            inner = [part for pair in node.value for part in pair]
        sizes[id(node)] = 1 + sum(_size(one, sizes, depth - 1) for one in inner)
    return sizes[id(node)]
