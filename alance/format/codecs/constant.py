"""Constant codec: every value is the one in the description; there are no bytes of it elsewhere.

In blocks and zipped rows of files up to 2.2. Sequences of 2.3 have their own, see `sequence`.

Source: encodings_v2_1.proto, message Constant; docs/format/encodings.md, "Constant, Range".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import FixedWidth
from alance.format.codecs.flat import check_fixed

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.format.blocks import VariableWidth
    from alance.format.codecs.base import ChunkBuffers
    from alance.format.proto import encodings_v2_1_pb2 as pb


@dataclass(frozen=True, slots=True)
class Constant:
    """One fixed-width value for all slots."""

    encoded: ClassVar[Literal["fixed"]] = "fixed"
    bits_per_value: ClassVar[int] = 0  # encoded

    value: bytes

    @classmethod
    def from_proto(cls, message: pb.Constant) -> Constant:
        if not message.value:
            raise UnsupportedError("constant without a value: nulls are told by levels")
        return cls(message.value)

    def decode_blocks(self, blocks: ChunkBuffers) -> FixedWidth:
        if num_bytes := int(blocks.sizes.sum()):
            raise CorruptFileError(f"constant: {num_bytes} bytes, the description has the value")
        return self._repeated(blocks.num_values)

    def decode_values(self, values: FixedWidth | VariableWidth) -> FixedWidth:
        return self._repeated(check_fixed(values, self.bits_per_value).num_values)

    def max_bytes(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.zeros_like(counts)

    def _repeated(self, num_values: int) -> FixedWidth:
        data = np.tile(np.frombuffer(self.value, np.uint8), num_values)
        return FixedWidth(8 * len(self.value), num_values, data)
