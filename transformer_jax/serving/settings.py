"""What pages are told at /frontend/settings."""

from typing import Any

from transformer_jax.documents.files import KINDS
from transformer_jax.serving.http.access import Access
from transformer_jax.serving.http.limits import Limits
from transformer_jax.serving.http.requests import FORMATS
from transformer_jax.serving.languages import Languages, language_name


def settings(languages: Languages, limits: Limits, access: Access) -> dict[str, Any]:
    """Return the settings of a server, under the names of LibreTranslate."""
    first = next(one for one in languages.listed() if one['targets'])
    target = first['targets'][0]
    return {
        'alternativesLimit': limits.alternatives,
        'apiKeys': access.keys is not None,
        'charLimit': limits.characters,
        'frontendTimeout': 500,
        'keyRequired': access.keys is not None,
        'language': {
            'source': {name: first[name] for name in ('code', 'name')},
            'target': {'code': target, 'name': language_name(target)},
        },
        'languageDetection': languages.can_detect,
        'suggestions': False,
        'supportedFilesFormat': [*KINDS],
        'supportedFormats': [*FORMATS],
    }
