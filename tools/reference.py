"""What the reference of `make docs` reads of the sources beside what it understands by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from griffe import Extension

if TYPE_CHECKING:
    from griffe import Alias


class Records(Extension):
    """Classes of `alance.base.records` have the parameters of dataclasses, which they are."""

    def on_alias_instance(self, *, alias: Alias, **_: Any) -> None:
        """Take the decorator for that of `dataclasses`."""
        if alias.target_path == "alance.base.records.dataclass":
            alias.target_path = "dataclasses.dataclass"
