"""gapless: differentially private releases from tables with missing values.

>>> import gapless as gl
>>> schema = gl.Schema("people", [gl.Integer("age", bounds=(0, 120)), gl.Boolean("smoker", may_be_missing=True)])
"""

import re
from importlib import import_module
from pkgutil import get_data
from typing import Any

__version__ = "0.1.0"

# Where each public name lives is written once, in the stub. Rooms are entered when a name is first used: `import
# gapless` stays light.
_STUB = get_data(__name__, "__init__.pyi").decode()
_HOME = {name: room for room, name in re.findall(r"^from (\S+) import (\w+) as \2\b", _STUB, re.MULTILINE)}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gapless' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
