"""What etils.epath has no public name for: the one file to mend if a new version has moved it."""

from etils import epath


def decide_again() -> None:
    """Let epath read EPATH_USE_TF again; it would keep the answer of its first use."""
    epath.gpath._is_tf_installed.cache_clear()
