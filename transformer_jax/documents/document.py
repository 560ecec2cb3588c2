"""What all documents have in common, and the simplest of them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from transformer_jax.inference.target_languages import tagged

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


class TaggedDocument:
    """A document in which a tag before a text holds for all texts from there on.

    A tag names the language to translate into, and has no place in the translated document.
    """

    def __init__(self, document: Document, divide: Callable[[str, str], tuple[str, str]]):
        """Take a document, and `TargetLanguages.divide`."""
        self.texts: list[str] = []
        self.needs_alignment = document.needs_alignment
        self._document = document
        # The words of each text that alignments do not count, because they are its tag.
        self._before: list[int] = []
        tag = ''
        for text in document.texts:
            tag, rest = divide(text, tag)
            self.texts.append(tagged(tag, rest))
            self._before.append(len(text.split()) - len(rest.split()))

    def translated(self, outputs: Sequence['Translation']) -> Any:
        """Return the document with a translation in the place of each text."""
        return self._document.translated(
            [
                output._replace(alignment=tuple((s + before, t) for s, t in output.alignment))
                if before and output.alignment
                else output
                for output, before in zip(outputs, self._before, strict=True)
            ]
        )
