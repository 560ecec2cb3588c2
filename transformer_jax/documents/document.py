"""What all documents have in common, and the simplest of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

# Importing it takes seconds, in which no mistake would be answered.
if TYPE_CHECKING:
    from transformer_jax.inference.outputs import Translation


class Document(Protocol):
    """A document whose texts are translated.

    Attributes:
      texts: what to translate, in the order of the document.
      needs_alignment: whether `translated` needs translations with alignment.
    """

    texts: list[str]
    needs_alignment: bool

    def translated(self, outputs: Sequence['Translation']) -> Any:
        """Return the document with a translation in the place of each text.

        Args:
          outputs: of each text.
        """


class PlainText:
    """A text that is translated as a whole."""

    needs_alignment = False

    def __init__(self, text: str):
        """Take the text."""
        self.texts = [text]

    def translated(self, outputs: Sequence['Translation']) -> str:
        """Return the translation."""
        return outputs[0].text
