"""Row id sequences in hex, each with the ids that it says."""

from __future__ import annotations

# docs/format/table.md, "Row id sequences".
VECTORS = [
    ("0a060a04080a1014", list(range(10, 20))),
    ("0a060a0408071008", [7]),
    ("", []),
    ("0a11120f10e8071a0a0a08080312040000f101", [n for n in range(1000) if n not in (3, 500)]),
    ("0a081a06100a1a025503", [0, 2, 4, 6, 8, 9]),
    ("0a151a13080110631a0ddbb66ddbb66ddbb66ddbb66d03", [n for n in range(1, 99) if n % 3]),
    ("0a0e220c0a0a12080000e803204e60ea", [0, 1000, 20000, 60000]),
    ("0a14221212100805120c000000003b420f00fb933577", [5, 1_000_000, 2_000_000_000]),
    ("0a1622141a12121005000000000000000000000000010000", [5, 1 << 40]),
    ("0a0e2a0c0a0a08011206020000000100", [3, 1, 2]),
    ("0a102a0e120c080112086f11010000000000", [70000, 1]),
]
