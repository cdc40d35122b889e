"""The compiled kernels, wherever alance's Python files are.

They are installed as a module of their own, `_alance_kernels`: Python puts the current folder first
on its path, so that a folder of alance's sources hides the installed package, but not its kernels.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

try:
    import _alance_kernels
    from _alance_kernels import *  # noqa: F403  all of them, and `_kernels.pyi` lists them
except ImportError as error:
    raise ImportError(
        f"alance's compiled kernels are not installed ({error}): `pip install .` in the folder of "
        "alance's sources builds them"
    ) from error

if sha256(Path(__file__).with_suffix(".pyi").read_bytes()).hexdigest() != _alance_kernels.INTERFACE:
    raise ImportError(
        f"the compiled kernels in {_alance_kernels.__file__} were built from other sources than "
        f"{Path(__file__).parent}: `pip install .` in the folder of these sources builds theirs"
    )
