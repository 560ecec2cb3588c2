"""The description of the interface as a page for people, at /docs."""

import html
from collections.abc import Iterator
from typing import Any

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Interface</title>
<link rel="icon" href="page.svg">
<link rel="stylesheet" href="page.css">
</head>
<body>
<main class="docs">
<h1>Interface</h1>
<p>What programs ask this server. <a href="spec">spec</a> is the same as JSON (OpenAPI).
People use <a href="./">the page</a>.</p>
{paths}
</main>
</body>
</html>
"""


def docs_page(document: dict[str, Any]) -> str:
    """Return a page that shows an OpenAPI document of `openapi.document`."""
    paths = (
        part
        for path, methods in document['paths'].items()
        for method, operation in methods.items()
        for part in _operation(f'{method.upper()} {path}', operation)
    )
    return _PAGE.format(paths='\n'.join(paths))


def _operation(title: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f'<h2><code>{html.escape(title)}</code></h2>'
    yield f'<p>{html.escape(operation["summary"])}</p>'
    if 'requestBody' in operation:
        content = operation['requestBody']['content']
        schema = next(iter(content.values()))['schema']
        yield f'<p class="soft">{html.escape(" or ".join(content))}</p>'
        yield '<table><thead><tr><th>Field</th><th>Value</th><th>What</th></tr></thead><tbody>'
        for name, of_field in schema['properties'].items():
            needed = '' if name in schema['required'] else ' (may be left out)'
            cells = f'{_value(of_field)}{needed}', of_field.get('description', '')
            shown = ''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)
            yield f'<tr><td><code>{html.escape(name)}</code></td>{shown}</tr>'
        yield '</tbody></table>'
    answers = ', '.join(operation['responses'])
    yield f'<p class="soft">Status: {html.escape(answers)}</p>'


def _value(schema: dict[str, Any]) -> str:
    """Return in words what a field may be."""
    if 'oneOf' in schema:
        return ' or '.join(map(_value, schema['oneOf']))
    if 'enum' in schema:
        return ', '.join(schema['enum'])
    kind = schema.get('type', 'anything')
    if kind == 'array':
        return f'a list of at most {schema["maxItems"]:,}'
    if kind == 'integer':
        return f'a whole number from {schema["minimum"]} to {schema["maximum"]}'
    if schema.get('format') == 'binary':
        return 'a file'
    return 'a text'
