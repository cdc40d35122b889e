"""The kinds of scalar indices, for tests that run over all of them: a new kind is in each."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from alance.ops.lookup.kinds import KINDS
from alance.ops.lookup.kinds.zones import ZonesKind

ALL_KINDS: Final = [kind.index_type for kind in KINDS.values()]
TEXT_KINDS: Final = [kind.index_type for kind in KINDS.values() if kind.suits(pa.string())]
NUMBER_KINDS: Final = [kind.index_type for kind in KINDS.values() if kind.suits(pa.int16())]
ZONE_KINDS: Final = [kind.index_type for kind in KINDS.values() if isinstance(kind, ZonesKind)]
