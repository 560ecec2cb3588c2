"""The pairs of languages that a server translates, and which language a text is in."""

import importlib.util
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from transformer_jax.data.language_codes import canonical, language_of
from transformer_jax.errors import UserError

Pair = tuple[str, str]


class Detected(NamedTuple):
    """A language that a text may be in.

    Attributes:
      language: its code.
      confidence: from 0 to 100.
    """

    language: str
    confidence: float


class Languages:
    """The languages of some pairs.

    Attributes:
      pairs: (source, target) codes.
      can_detect: whether the package that knows languages is there, and knows one of them.
    """

    def __init__(self, pairs: Iterable[Pair]):
        """Load the package that knows languages, if it is there and there are several."""
        self.pairs = tuple(pairs)
        # The package knows languages, not regions or scripts.
        self._codes: dict[str, list[str]] = {}
        if importlib.util.find_spec('py3langid') is not None:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier

            self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
            known = set(self._identifier.labels)
            for code in sorted({code for pair in self.pairs for code in pair}):
                if language_of(code) in known:
                    self._codes.setdefault(language_of(code), []).append(code)
            if self._codes:
                self._identifier.set_languages([*self._codes])
        self.can_detect = bool(self._codes)

    def listed(self) -> list[dict[str, object]]:
        """Return code, name and targets of each language; one that is no source has no targets."""
        return [
            {
                'code': code,
                'name': language_name(code),
                'targets': sorted(target for source, target in self.pairs if source == code),
            }
            for code in sorted({code for pair in self.pairs for code in pair})
        ]

    def detect(self, text: str, among: Collection[str] | None = None) -> list[Detected]:
        """Return the languages that a text may be in, the likeliest first.

        Args:
          text: the text.
          among: codes to choose among; None chooses among all.

        Raises:
          UserError: if the package that knows languages is missing, or knows none of these.
        """
        if not self.can_detect:
            raise UserError(
                "source='auto' needs a package that knows the language: "
                "pip install 'transformer_jax[language]' on the server, or name the language."
            )
        return [
            Detected(code, round(100 * float(share), 1))
            for base, share in self._identifier.rank(text)
            for code in self._codes[base]
            if among is None or code in among
        ]

    def source_for(self, text: str, target: str) -> Detected:
        """Return the language of a text to translate into `target`; it may be `target` itself.

        Raises:
          UserError: as `detect`, or if the detector does not know one of our languages: it would
            report another.
        """
        sources = {source for source, to in self.pairs if to == target}
        known = {code for codes in self._codes.values() for code in codes}
        if self.can_detect and not sources <= known:
            raise UserError(
                f"source='auto' does not recognise {' or '.join(sorted(sources - known))}: "
                'name the language of the text.'
            )
        return self.detect(text, sources | {target})[0]


def translators_by_pair(translators: Mapping[str, Any]) -> dict[Pair, Any]:
    """Return translators by their pairs of languages; a model may have several targets.

    Args:
      translators: by --workdir.

    Raises:
      UserError: if two have the same pair.
    """
    found: dict[Pair, tuple[str, Any]] = {}
    for workdir, translator in translators.items():
        for target in translator.target_languages:
            pair = translator.config.data.source_language, target
            if pair in found:
                raise UserError(
                    f'--workdir={workdir!r} translates {pair[0]} to {pair[1]}, as '
                    f'--workdir={found[pair][0]!r} does: name one of them.'
                )
            found[pair] = workdir, translator
    return {pair: translator for pair, (_, translator) in found.items()}


def language_name(code: str) -> str:
    """Return the English name of a language; the code itself if it has none."""
    from babel import Locale

    names = Locale('en').languages
    return names.get(canonical(code).replace('-', '_')) or names.get(language_of(code)) or code
