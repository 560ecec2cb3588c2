"""Writes a trained model as a package that Argos Translate and LibreTranslate install."""

import json
import tempfile
import zipfile
from pathlib import Path

from transformer_jax.conversion.ctranslate2.peer_ctranslate2 import ArgosPeer
from transformer_jax.conversion.ctranslate2.to_ctranslate2 import (
    check_ctranslate2,
    ctranslate2_proof,
    write_ctranslate2,
)
from transformer_jax.conversion.exported import write_readme
from transformer_jax.conversion.original import Original
from transformer_jax.errors import UserError

_PACKAGE_VERSION = '1.0'
_ARGOS_VERSION = '1.9'  # the first whose tokenizer decodes bytes
# English names, which users of the package see. The code is the name of another language.
_NAMES = dict(
    pair.split(':')
    for pair in (
        'ar:Arabic bg:Bulgarian ca:Catalan cs:Czech da:Danish de:German el:Greek en:English '
        'es:Spanish et:Estonian eu:Basque fa:Persian fi:Finnish fr:French ga:Irish gl:Galician '
        'he:Hebrew hi:Hindi hr:Croatian hu:Hungarian id:Indonesian is:Icelandic it:Italian '
        'ja:Japanese ko:Korean lt:Lithuanian lv:Latvian mk:Macedonian mt:Maltese nb:Norwegian '
        'nl:Dutch pl:Polish pt:Portuguese ro:Romanian ru:Russian sk:Slovak sl:Slovenian '
        'sq:Albanian sr:Serbian sv:Swedish th:Thai tr:Turkish uk:Ukrainian vi:Vietnamese '
        'zh:Chinese'
    ).split()
)


def export(original: Original, folder: Path, *, quantization: str = 'int8') -> str:
    """Write a package translate-en_fr-1_0.argosmodel, and compare its model with ours.

    Args:
      original: the model.
      folder: an empty folder.
      quantization: the type in which weights are stored, see --quantization.

    Returns:
      What was found, for people.

    Raises:
      UserError: if CTranslate2 is not installed, or a package cannot express the model.
      RuntimeError: if the package's model computes something else.
    """
    check_argos(original)
    source, target = _codes(original)
    proof = ctranslate2_proof('argos', original, argos_notes(original))
    name = f'translate-{source}_{target}-{_PACKAGE_VERSION.replace(".", "_")}'
    package = folder / f'{name}.argosmodel'
    with tempfile.TemporaryDirectory() as parent:
        content = Path(parent, name)
        Path(content, 'model').mkdir(parents=True)
        write_ctranslate2(proof, content / 'model', quantization, ArgosPeer)
        (content / 'sentencepiece.model').write_bytes(original.vocabulary.source.model)
        metadata = _metadata(source, target)
        (content / 'metadata.json').write_text(json.dumps(metadata, indent=2), encoding='utf-8')
        write_readme(original, content, _use(package.name, source, target))
        with zipfile.ZipFile(package, 'w', zipfile.ZIP_DEFLATED) as file:
            for path in sorted(content.rglob('*')):
                file.write(path, path.relative_to(parent))
        # For people, who see only the package otherwise.
        (folder / 'README.md').write_bytes((content / 'README.md').read_bytes())
    proof.write(folder)
    return proof.text()


def check_argos(original: Original) -> None:
    """Raise UserError if CTranslate2 is not installed or a package cannot express a model."""
    check_ctranslate2(original.config, '--to=argos')
    source, target = _codes(original)
    if not (source and target):
        raise UserError(
            f'data.source_language={source!r} and data.target_language={target!r} must both be '
            'codes of languages, by which Argos Translate finds a package: export to ctranslate2.'
        )
    if getattr(original.vocabulary.source, 'language_codes', ()):
        raise UserError(
            'the model translates into several languages, each named by a piece such as '
            f"'{original.vocabulary.source.language_codes[0]}' that Argos Translate would not give "
            'it: export to ctranslate2 or huggingface.'
        )


def argos_notes(original: Original) -> list[str]:
    """Return what Argos Translate does otherwise, a sentence each."""
    return [
        'Argos Translate searches with its own settings: log-probability / length^0.2, a beam of '
        '4, and underscores become spaces.',
        'The package has no sentence splitter: Argos Translate downloads its own when it first '
        'translates.',
    ]


def _codes(original: Original) -> tuple[str, str]:
    return original.config.data.source_language, original.config.data.target_language


def _metadata(source: str, target: str) -> dict[str, object]:
    return {
        'package_version': _PACKAGE_VERSION,
        'argos_version': _ARGOS_VERSION,
        'type': 'translate',
        'from_code': source,
        'from_name': _NAMES.get(source, source),
        'to_code': target,
        'to_name': _NAMES.get(target, target),
        'links': [],
    }


def _use(package: str, source: str, target: str) -> str:
    return f"""\
```python
import argostranslate.package
import argostranslate.translate

argostranslate.package.install_from_path('{package}')
print(argostranslate.translate.translate('One sentence.', '{source}', '{target}'))
```

LibreTranslate takes the package from the folder of Argos Translate's packages on its machine."""
