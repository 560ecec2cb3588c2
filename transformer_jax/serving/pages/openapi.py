"""The description of the interface that the server gives at /spec: https://spec.openapis.org."""

from collections.abc import Collection
from typing import Any

from transformer_jax._version import __version__
from transformer_jax.documents.files import KINDS
from transformer_jax.serving.http.limits import Limits
from transformer_jax.serving.http.requests import FORMATS


def document(pairs: Collection[tuple[str, str]], limits: Limits) -> dict[str, Any]:
    """Return the OpenAPI document of a server.

    Args:
      pairs: (source, target) codes.
      limits: what a request may ask for.
    """
    text = {'type': 'string'}
    key = {'type': ['string', 'null'], 'description': 'If this server asks for one.'}
    texts = {
        'oneOf': [text, {'type': 'array', 'items': text, 'maxItems': limits.texts}],
        'description': f'At most {limits.characters:,} characters together.',
    }
    detected = _object(
        {'language': text, 'confidence': {'type': 'number', 'minimum': 0, 'maximum': 100}}
    )
    asked = {
        'q': texts,
        'source': {
            'enum': sorted({'auto', *(source for source, _ in pairs)}),
            'description': 'The language of the text; auto finds it.',
        },
        'target': {
            'enum': sorted({target for _, target in pairs}),
            'description': 'The language to translate to.',
        },
        'format': {
            'enum': [*FORMATS],
            'default': 'text',
            'description': 'With html, tags stay around the words that they mark.',
        },
        'alternatives': {
            'type': 'integer',
            'minimum': 0,
            'maximum': limits.alternatives,
            'default': 0,
            'description': 'Further translations of each text.',
        },
        'api_key': key,
    }
    answered = {
        'translatedText': _one_or_list(text),
        'detectedLanguage': _one_or_list(detected),
        'alternatives': {'type': 'array', 'items': _one_or_list(text)},
    }
    language = _object({'code': text, 'name': text, 'targets': {'type': 'array', 'items': text}})
    detections = {'type': 'array', 'items': _one_or_list(detected)}
    return {
        'openapi': '3.1.0',
        'info': {'title': 'transformer_jax', 'version': __version__},
        'paths': {
            '/translate': {
                'post': {
                    'summary': 'Translate a text, or several.',
                    'requestBody': _body(asked, ['q', 'source', 'target']),
                    'responses': _responses(_object(answered, ['translatedText']), asking=True),
                }
            },
            '/translate_file': {
                'post': {
                    'summary': 'Translate a file, whose structure stays.',
                    'requestBody': _form(
                        {
                            'file': {
                                'type': 'string',
                                'format': 'binary',
                                'description': f'Of the kind {", ".join(KINDS)}.',
                            },
                            'source': asked['source'],
                            'target': asked['target'],
                            'api_key': text,
                        },
                        ['file', 'source', 'target'],
                    ),
                    'responses': _responses(
                        _object(
                            {'translatedFileUrl': text, 'detectedLanguage': detected},
                            ['translatedFileUrl'],
                        ),
                        asking=True,
                    ),
                }
            },
            '/attention': {
                'post': {
                    'summary': 'Show what the model looks at while it translates a text.',
                    'requestBody': _body(
                        {'q': text}
                        | {name: asked[name] for name in ('source', 'target', 'api_key')},
                        ['q', 'source', 'target'],
                    ),
                    'responses': _responses(text, asking=True, kind='text/html'),
                }
            },
            '/detect': {
                'post': {
                    'summary': 'Say which language a text is in.',
                    'requestBody': _body({'q': texts, 'api_key': key}, ['q']),
                    'responses': _responses(detections, asking=True),
                }
            },
            '/languages': {
                'get': {
                    'summary': 'List the languages.',
                    'responses': _responses({'type': 'array', 'items': language}),
                }
            },
            '/frontend/settings': {
                'get': {
                    'summary': 'List the limits.',
                    'responses': _responses({'type': 'object'}),
                }
            },
            '/health': {
                'get': {
                    'summary': 'Answer once texts can be translated.',
                    'responses': _responses(_object({'status': {'const': 'ok'}})),
                }
            },
        },
    }


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    return {
        'type': 'object',
        'properties': properties,
        'required': [*properties] if required is None else required,
    }


def _one_or_list(schema: dict[str, Any]) -> dict[str, Any]:
    return {'oneOf': [schema, {'type': 'array', 'items': schema}]}


def _body(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = _object(properties, required)
    kinds = ('application/json', 'application/x-www-form-urlencoded', 'multipart/form-data')
    return {'required': True, 'content': {kind: {'schema': schema} for kind in kinds}}


def _form(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = _object(properties, required)
    return {'required': True, 'content': {'multipart/form-data': {'schema': schema}}}


def _responses(
    schema: dict[str, Any], asking: bool = False, kind: str = 'application/json'
) -> dict[str, Any]:
    error = {
        'description': 'The reason, in one sentence.',
        'content': {'application/json': {'schema': _object({'error': {'type': 'string'}})}},
    }
    codes = (400, 403, 408, 413, 415, 429, 500, 503) if asking else ()
    return {
        '200': {
            'description': 'The answer.',
            'content': {kind: {'schema': schema}},
        },
        **{str(code): error for code in codes},
    }
