"""Pictures by matplotlib, which is not installed with the package."""

from pathlib import Path
from typing import TYPE_CHECKING

from transformer_jax.errors import UserError
from transformer_jax.storage.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(flag: str, width: float, height: float) -> 'Figure':
    """Return an empty figure that needs no display and leaves pyplot's state alone.

    Args:
      flag: the flag or argument that asked for a picture, for the message of an error.
      width: in inches.
      height: in inches.

    Raises:
      UserError: if matplotlib is missing, or refuses MPLBACKEND.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        if (error.name or '').split('.')[0] != 'matplotlib':
            raise
        raise UserError(
            f"{flag} needs matplotlib: pip install 'transformer_jax[plots]'."
        ) from error
    except ValueError as error:
        raise UserError(f'matplotlib cannot start ({error}): unset MPLBACKEND.') from error
    return Figure(figsize=(width, height), layout='constrained')


def save_png(figure: 'Figure', path: Path) -> None:
    """Write `figure` to `path` as PNG, whole or not at all."""
    with atomic_write(path, 'wb') as file:
        figure.savefig(file, format='png', dpi=150)
