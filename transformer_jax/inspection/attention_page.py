"""Attention as one HTML page that needs no network, and as JSON."""

import base64
import html
import json
import string
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transformer_jax.forced.attention_maps import Attention
from transformer_jax.storage.files import finite

_FOLDER = Path(__file__).parent


def attention_page(found: Sequence[Attention], title: str) -> str:
    """Return an HTML page that shows the attention for one pair of texts or several.

    Args:
      found: at least one.
      title: of the page.
    """
    parts = {
        'title': html.escape(title),
        'style': (_FOLDER / 'page.css').read_text(encoding='utf-8'),
        'script': (_FOLDER / 'page.js').read_text(encoding='utf-8'),
        'data': _in_script([_for_page(one) for one in found]),
    }
    return string.Template((_FOLDER / 'page.html').read_text(encoding='utf-8')).substitute(parts)


def attention_json(found: Sequence[Attention]) -> str:
    """Return JSON: a list with an object for each pair, whose members are those of `Attention`."""
    return json.dumps(finite([_members(one) for one in found]), ensure_ascii=False)


def _members(one: Attention) -> dict[str, Any]:
    """Return the members of `one` as JSON has them, weights rounded to six digits."""
    weights = {
        name: np.round(getattr(one, name).astype(float), 6).tolist()
        for name in ('encoder', 'decoder', 'cross', 'log_probs')
    }
    return {**_texts(one), **weights}


def _for_page(one: Attention) -> dict[str, Any]:
    """Return what page.js needs: weights as bytes, compressed, in base64."""
    stacks = (one.encoder, one.decoder, one.cross)
    stacks = (np.round(255 * np.nan_to_num(weights)) for weights in stacks)
    weights = b''.join(weights.astype(np.uint8).tobytes() for weights in stacks)
    return {
        **_texts(one),
        'probs': np.round(np.exp(one.log_probs.astype(float)), 4).tolist(),
        'layers': len(one.encoder),
        'heads': one.encoder.shape[1],
        'weights': base64.b64encode(zlib.compress(weights, 9)).decode(),
    }


def _texts(one: Attention) -> dict[str, Any]:
    names = ('source', 'inputs', 'target', 'source_words', 'target_words', 'text', 'output')
    top = [[[piece, round(p, 4)] for piece, p in step] for step in one.top]
    return {**{name: getattr(one, name) for name in names}, 'top': top}


def _in_script(value: Any) -> str:
    """Return JSON that cannot end the script element that holds it, whatever the texts are."""
    text = json.dumps(finite(value), ensure_ascii=False, separators=(',', ':'))
    return text.replace('<', '\\u003c')
