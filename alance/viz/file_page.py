"""HTML page about a data file: bytes and encodings by column and page.

The page has no script and loads nothing. Names are users' data, so they are escaped.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from alance.file.open.describe import ColumnDescription, FileDescription

MAX_STRIPS: Final = 400  # pages of a column that are drawn individually; the rest is one strip
HUES: Final = 12

_STYLE: Final = """
:root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.2rem; overflow-wrap: anywhere; }
.bar { display: flex; height: 2.2rem; border-radius: 4px; overflow: hidden; gap: 1px; }
.bar.small { height: 1rem; min-width: 14rem;
  background: color-mix(in srgb, currentColor 10%, transparent); }
.bar i { min-width: 1px; }
table { border-collapse: collapse; width: 100%; margin-top: 1.5rem; }
th, td { text-align: left; padding: .35rem .6rem; vertical-align: top;
  border-bottom: 1px solid color-mix(in srgb, currentColor 18%, transparent); }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font-size: .85em; overflow-wrap: anywhere; }
.mark { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin-right: .5em; }
"""


def file_page(file: FileDescription) -> str:
    """Return the text of an HTML page that shows a file."""
    largest = sorted(file.columns, key=lambda column: -column.num_bytes)
    marks = {column.path: _colour(number) for number, column in enumerate(file.columns)}
    inside = sum(column.num_bytes for column in file.columns)
    parts = [_strip(column.num_bytes, marks[column.path], column.path) for column in largest]
    parts.append(_strip(file.num_bytes - inside, "gray", "metadata, global buffers, padding"))
    most = max((column.num_bytes for column in file.columns), default=0) or 1
    rows = "".join(_row(column, marks[column.path], most) for column in largest)
    title = escape(file.location)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p>Version {escape(file.version)}, {file.num_rows:,} rows, {len(file.columns):,} columns,
{file.num_bytes:,} bytes, {inside:,} of them in pages.</p>
<div class="bar" role="img" aria-label="Bytes of the file by column">{"".join(parts)}</div>
<table>
<thead><tr><th>Column</th><th>Type</th><th>Bytes</th><th>Bytes a row</th><th>Pages</th>
<th>Pages by bytes</th><th>Layout and encoding</th></tr></thead>
<tbody>{rows}</tbody>
</table>
</body>
</html>
"""


def _row(column: ColumnDescription, colour: str, most: int) -> str:
    num_rows = sum(page.num_rows for page in column.pages)
    shown = column.pages[:MAX_STRIPS]
    strips = [
        _strip(page.num_bytes, colour, f"page {number}: {page.num_rows:,} rows")
        for number, page in enumerate(shown)
    ]
    num_bytes = sum(page.num_bytes for page in column.pages[MAX_STRIPS:])
    if num_bytes:
        strips.append(_strip(num_bytes, "gray", f"{len(column.pages) - MAX_STRIPS:,} more pages"))
    empty = f'<i style="flex:{most - column.num_bytes}"></i>' if column.num_bytes < most else ""
    encodings = "<br>".join(f"<code>{escape(text)}</code>" for text in column.layouts)
    return (
        f'<tr><td><span class="mark" style="background:{colour}"></span>{escape(column.path)}</td>'
        f"<td><code>{escape(str(column.type))}</code></td>"
        f'<td class="number">{column.num_bytes:,}</td>'
        f'<td class="number">{column.num_bytes / num_rows if num_rows else 0:,.2f}</td>'
        f'<td class="number">{len(column.pages):,}</td>'
        f'<td><div class="bar small">{"".join(strips)}{empty}</div></td><td>{encodings}</td></tr>'
    )


def _strip(num_bytes: int, colour: str, label: str) -> str:
    title = escape(f"{label}: {num_bytes:,} bytes", quote=True)
    return f'<i style="flex:{num_bytes};background:{colour}" title="{title}"></i>'


def _colour(number: int) -> str:
    """Return the colour of a column; adjacent columns have very different hues."""
    hue = number * 5 % HUES * (360 // HUES)
    return f"hsl({hue} 55% {45 + number // HUES % 3 * 10}%)"
