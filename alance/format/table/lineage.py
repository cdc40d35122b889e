"""Where rows come from: their ids, and the versions that created and changed them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Lineage:
    """Of each row of a fragment, deleted ones included, in physical order; shape (n,)."""

    row_ids: U64
    created_at: U64
    last_updated_at: U64
