"""Changes of a table as another writer makes them, which checks less."""

from __future__ import annotations

from typing import TYPE_CHECKING

import alance
from alance.operations import UpdateConfig, UpdateMap

if TYPE_CHECKING:
    from collections.abc import Mapping


async def by_another_writer(dataset: alance.Dataset, values: Mapping[str, str]) -> alance.Dataset:
    """Change the configuration without the checks of `update_config`."""
    return await alance.commit(dataset, UpdateConfig(config_updates=UpdateMap(dict(values))))
