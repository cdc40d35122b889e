"""Bit-packing of 1024 values in numpy: the order written down once more, without any speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

ORDER = (0, 4, 2, 6, 1, 5, 3, 7)
# Bits of a value, bits of it when packed; SHA-256 of a block of 1024, its width before it.
DIGESTS = [
    (8, 1, "74122b52c9a0d4fcd4551fdc1796f83b931cff688097c780e1991a2219474370"),
    (8, 3, "e1e3ac95a89c5e337570a83776084a1afd66ed659ae3d918d7d4549406daeeeb"),
    (8, 5, "6c40bc8c170e1ae3e3452eec80191992654b517b75ac7797fec78ab396f81607"),
    (16, 3, "4bd0a3d1344e7aee6494ef02289b52415c074360f148fa6544788ed24947fea6"),
    (16, 11, "fda69bfb37a0584bbe2c02be807c526d26b0c5bf903ccfd2fdecfa7f71387c19"),
    (32, 1, "cba00e8b840ba82e974a15f49dd4191ed02645d6fd4f80b070b6ca137038a13d"),
    (32, 5, "217c877e3450cb5afff3f4632cfcca21a5e6a37fef8e4710217f58b3c7f0d25f"),
    (32, 13, "cf25b0ced62ade470622d9765b625a5f0abf49897c745adeff2dc79260c05bdd"),
    (32, 31, "b59ee714c07affda5d06b3c7113fb534b59b9a35b1369caaba98e82caf34ea96"),
    (64, 7, "74b05228a507cfd0e354be46e0dd042962a803e33dc09de2c6d523c53f22da96"),
    (64, 33, "bf1cfbca1369cecc9291ac7605c12b304532072ca2fe17e95fe002595ba58740"),
    (64, 63, "256a616474c38dc47845772be15dda69ddad896c049239246cd23cd2de098180"),
]


def positions(width: int) -> npt.NDArray[np.int64]:
    """Position of the value of each row and lane; shape (width, 1024 / width)."""
    rows, lanes = np.arange(width), np.arange(1024 // width)
    groups = np.array(ORDER)[rows // 8]
    return (16 * groups + 128 * (rows % 8))[:, np.newaxis] + lanes


def pack(values: Sequence[int] | npt.NDArray[np.unsignedinteger], width: int, packed: int) -> bytes:
    """Pack 1024 values of `width` bits at `packed` bits each."""
    wide = np.array(values, np.uint64)
    bits = (wide[:, np.newaxis] >> np.arange(packed, dtype=np.uint64) & np.uint64(1)).astype("u1")
    by_lane = bits[positions(width)].transpose(1, 0, 2)  # (lanes, rows, bits of a code)
    stream = by_lane.reshape(1024 // width, packed, width)  # (lanes, words, bits of a word)
    words = np.packbits(stream, axis=2, bitorder="little")  # (lanes, words, bytes of a word)
    return words.transpose(1, 0, 2).tobytes()
