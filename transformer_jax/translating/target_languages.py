"""The languages that a model translates into, and the tags that name them before a text."""

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from transformer_jax.config import DataConfig
from transformer_jax.data import language_codes
from transformer_jax.errors import UserError, did_you_mean, listing, shown

if TYPE_CHECKING:
    from transformer_jax.data.vocabulary.vocabulary import Vocabulary


class TargetLanguages:
    """The languages that a model translates into."""

    def __init__(self, vocabulary: 'Vocabulary', data: DataConfig):
        """Take what knows the tags.

        Args:
          vocabulary: of the source.
          data: section of the config of the model's run.
        """
        self._vocabulary, self._data = vocabulary, data

    @functools.cached_property
    def tags(self) -> dict[str, str]:
        """The tag of each language, by its code; '' if a text needs none.

        Tags that are no language, for example of a domain, are left out.
        """
        if self._vocabulary.language_codes:
            return _by_code(self._vocabulary.language_codes)
        data = self._data
        parts = [*data.parts().values()] if data.corpora else [data]
        # A language of an own code is known because a part of the corpus has it.
        named = {language_codes.canonical(part.target_language) for part in parts}

        def languages(tags: Sequence[str]) -> dict[str, str]:
            by_code = _by_code(tags)
            return {c: t for c, t in by_code.items() if c in named or language_codes.is_known(c)}

        untagged = {part.target_language: '' for part in parts if not part.tag}
        # How the model was trained says more than its vocabulary, which may be that of another.
        found = languages(self._vocabulary.tags) | untagged | languages(data.tags())
        return found or {data.target_language: ''}

    def tag(self, asked: str | None) -> str:
        """Return the tag of a language; '' if it needs none, or if None is asked for.

        Args:
          asked: a code, see `language_codes.find`, or a tag itself.

        Raises:
          UserError: if the model has no such language.
        """
        if asked is None:
            return ''
        if isinstance(asked, str):
            if asked and self._vocabulary.take_tag(asked) == (asked, ''):
                return asked
            code = language_codes.find(asked, self.tags)
            if code is not None:
                return self.tags[code]
        raise UserError(
            f'target_language={shown(asked)} is no language that this model translates into: '
            f'choose one of {listing(self.tags)}{did_you_mean(str(asked), self.tags)}'
        )

    def language(self, tag: str) -> str:
        """Return the code of the language that a tag names; without a language, the config's."""
        return next(
            (code for code, own in self.tags.items() if own == tag), self._data.target_language
        )

    def of_all(self, texts: Iterable[str]) -> str:
        """Return the language that all texts are translated into; if they differ, the config's."""
        found = {self.language(self.divide(text)[0]) for text in texts if text.strip()}
        return found.pop() if len(found) == 1 else self._data.target_language

    def divide(self, text: str, tag: str = '') -> tuple[str, str]:
        """Return the tag that holds for a text, and the text without it.

        Args:
          text: it may begin with a tag, which then holds.
          tag: holds otherwise.
        """
        own, text = self._vocabulary.take_tag(text)
        return own or tag, text


def tagged(tag: str, text: str) -> str:
    """Return a text behind its tag, if there are both."""
    return f'{tag} {text}' if tag and text.strip() else text


def _by_code(tags: Sequence[str]) -> dict[str, str]:
    """Return tags such as '<2fr>' and '>>fra<<' by the code of the language that they name."""
    found: dict[str, str] = {}
    for tag in tags:
        name = tag.strip('<>').removeprefix('2')
        code = language_codes.canonical(name)
        found[name if code in found else code] = tag
    return found
