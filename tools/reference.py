"""Extension of the reference in `make docs`: classes of `alance.base.records` are dataclasses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from griffe import Extension

if TYPE_CHECKING:
    from griffe import Alias


class Records(Extension):
    """Show the parameters of classes that `alance.base.records.dataclass` decorates."""

    def on_alias_instance(self, *, alias: Alias, **_: Any) -> None:
        """Treat the decorator as that of `dataclasses`."""
        if alias.target_path == "alance.base.records.dataclass":
            alias.target_path = "dataclasses.dataclass"
