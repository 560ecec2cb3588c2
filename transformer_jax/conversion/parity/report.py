"""conversion.json: what a conversion compared, and how well it agreed."""

import json
from pathlib import Path
from typing import Any

from transformer_jax._version import __version__
from transformer_jax.storage.files import atomic_write
from transformer_jax.storage.release import REPORT


def write_report(folder: Path, kind: str, **content: Any) -> None:
    """Write conversion.json.

    Args:
      folder: the new folder.
      kind: form of the model: a value of --to, or 'import'.
      **content: what was found, of types that JSON has.
    """
    report = {'format': 1, 'transformer_jax': __version__, 'kind': kind, **content}
    with atomic_write(folder / REPORT) as file:
        json.dump(report, file, ensure_ascii=False, indent=2)
