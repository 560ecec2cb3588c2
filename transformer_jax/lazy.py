"""Names that a package exports but imports only when they are first used (PEP 562)."""

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def lazy_exports(
    package: str, exports: Mapping[str, Iterable[str]], submodules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package.

    Type checkers do not run this, so the package also imports the names `if TYPE_CHECKING`.

    Args:
      package: the package's `__name__`.
      exports: the names that the package exports, by the full name of the module that has them.
      submodules: names of modules in the package that are attributes without an import statement.
    """
    module_of = {name: module for module, names in exports.items() for name in names}
    module_of |= {name: f'{package}.{name}' for name in submodules}
    submodules = frozenset(submodules)

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(
                f'module {package!r} has no attribute {name!r}',
                name=name,
                obj=sys.modules[package],
            )
        module = importlib.import_module(module_of[name])
        value = module if name in submodules else getattr(module, name)
        setattr(sys.modules[package], name, value)  # Python does not ask again
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return get, names, sorted(module_of.keys() - submodules)
