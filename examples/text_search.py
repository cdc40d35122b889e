"""Finds lines of text by their words, in a table on a local S3 server.

python examples/text_search.py
"""

from __future__ import annotations

import asyncio

import pyarrow as pa

import alance
from alance.testing.lab import Lab

URI = "s3://lab/lines.lance"
LINES = (
    "The river runs quietly over the stones",
    "Stones of the river bank are warm at night",
    "A paper boat runs down the river",
    "The night was quiet, and the clouds were running",
    "Light of the moon on quiet water",
    "Rivers, clouds and stones: a book of paper",
)


async def main(options: dict[str, str]) -> None:
    table = pa.table({"line": range(len(LINES)), "text": LINES})
    dataset = await alance.write_dataset(table, URI, storage_options=options)
    dataset = await dataset.create_index("text", "INVERTED", with_position=True)

    queries: dict[str, alance.TextQuery] = {
        "run or river": alance.MatchQuery("run river"),
        "night and quiet": alance.MatchQuery("night quiet", operator="AND"),
        "nearly 'stonse'": alance.MatchQuery("stonse", fuzziness=2),
        "'stones of the river'": alance.PhraseQuery("stones of the river"),
        "river, but no paper": alance.BooleanQuery(
            [("MUST", alance.MatchQuery("river")), ("MUST_NOT", alance.MatchQuery("paper"))]
        ),
    }
    for title, query in queries.items():
        best = await dataset.search_text(query, 3, columns=["text"])
        print(title)
        for text, score in zip(*best.to_pydict().values(), strict=True):
            print(f"{score:6.3f}  {text}")


if __name__ == "__main__":
    with Lab() as lab:
        asyncio.run(main(lab.lance_options()))
