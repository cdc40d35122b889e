"""Protocols of codecs, one for each place where values are compressed, and their input.

A page holds many chunks. A codec decodes the chunks of a page at once, with one call of a kernel,
because a call a chunk would cost more than the decoding.

Source: encodings_v2_1.proto, CompressiveEncoding; docs/format/encodings.md, "Overview".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from alance.errors import CorruptFileError, UnsupportedError

if TYPE_CHECKING:
    from types import TracebackType

    import numpy.typing as npt

    from alance.format.blocks import Block, Bytes, FixedWidth, VariableWidth


@dataclass(frozen=True, slots=True)
class ChunkBuffers:
    """Where the buffers of each chunk stand in one array of bytes.

    Buffer b of chunk c is `data[starts[b, c] : starts[b, c] + sizes[b, c]]`. The kernels check
    every span, so `starts` and `sizes` may come straight from a file.
    """

    data: Bytes  # holds all chunks, any alignment
    starts: npt.NDArray[np.int64]  # shape (num_buffers, num_chunks)
    sizes: npt.NDArray[np.int64]  # shape (num_buffers, num_chunks)
    counts: npt.NDArray[np.int64]  # shape (num_chunks,): values of each chunk

    @property
    def num_chunks(self) -> int:
        return len(self.counts)

    @property
    def num_values(self) -> int:
        return int(self.counts.sum())

    @classmethod
    def of_one(cls, data: Bytes, num_values: int) -> ChunkBuffers:
        """A single chunk of one buffer, such as a dictionary."""
        return cls(
            data,
            np.zeros((1, 1), np.int64),
            np.full((1, 1), len(data), np.int64),
            np.array([num_values], np.int64),
        )


class MiniBlockCodec(Protocol):
    """Values of a mini-block page: a fixed number of buffers a chunk."""

    @property
    def num_buffers(self) -> int:
        """Buffers of each chunk."""
        ...

    def decode_chunks(self, chunks: ChunkBuffers) -> Block:
        """Values of all chunks, end to end; arrays are fresh, not views into `chunks.data`.

        Raises:
            CorruptFileError: the bytes of a chunk contradict its description or count.
            UnsupportedError: strings of more bytes than 32-bit offsets can say.
        """
        ...

    def max_bytes(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """The most bytes that buffer 0 of chunks with `counts` values may have, if known.

        Bounds what is decompressed for this codec.
        """
        ...


class BlockCodec(Protocol):
    """Values stored on their own: the levels of a chunk, a dictionary. One buffer."""

    def decode_blocks(self, blocks: ChunkBuffers) -> Block:
        """Values of all blocks, end to end.

        Raises:
            CorruptFileError: the bytes of a block contradict its description or count.
            UnsupportedError: strings of more bytes than 32-bit offsets can say.
        """
        ...

    def max_bytes(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """The most bytes that blocks with `counts` values may have, if known."""
        ...


class PerValueCodec(Protocol):
    """Values that decode one by one, as full-zip pages store them."""

    @property
    def encoded(self) -> Literal["fixed", "variable"]:
        """Whether an encoded value has always the same size."""
        ...

    @property
    def bits_per_value(self) -> int | None:
        """Size of an encoded value; None if it varies."""
        ...

    def decode_values(self, values: FixedWidth | VariableWidth) -> Block:
        """Decode the values that were unzipped from rows; may return a view of them.

        Args:
            values: `FixedWidth` of `bits_per_value`, or `VariableWidth` with offsets of any type.

        Raises:
            CorruptFileError: a value contradicts the description.
            UnsupportedError: strings of more bytes than 32-bit offsets can say.
        """
        ...


class _KernelErrors:
    """Translates what kernels raise: `with kernel_errors:` around their calls."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, OverflowError):
            raise UnsupportedError(f"{error}: read fewer rows at once") from error
        if isinstance(error, ValueError):
            raise CorruptFileError(str(error)) from error


kernel_errors = _KernelErrors()
