"""A process that appends to a table: `python writers.py KIND URI OPTIONS NUMBER COMMITS`.

Kind `alance` or `pylance`. Each commit adds one row: (number of the process, number of the commit).
"""

from __future__ import annotations

import asyncio
import json
import sys

import pyarrow as pa


def row(number: int, commit: int) -> pa.Table:
    return pa.table({"process": [number], "commit": [commit]})


async def with_alance(uri: str, options: dict[str, str], number: int, commits: int) -> None:
    import alance

    dataset = await alance.dataset(uri, storage_options=options)
    for commit in range(commits):
        if commit % 2:
            dataset = await dataset.insert(row(number, commit), max_retries=1000)
        else:
            dataset = await alance.write_dataset(
                row(number, commit), uri, mode="append", storage_options=options, max_retries=1000
            )
    await dataset.session.aclose()


def with_pylance(uri: str, options: dict[str, str], number: int, commits: int) -> None:
    import lance

    for commit in range(commits):
        while True:
            try:
                lance.write_dataset(
                    row(number, commit), uri, mode="append", storage_options=options or None
                )
                break
            except OSError as error:
                # It gives up after some attempts that others were faster than.
                if "conflict" not in str(error).lower() and "retr" not in str(error).lower():
                    raise


if __name__ == "__main__":
    kind, uri, options, number, commits = sys.argv[1:]
    if kind == "alance":
        asyncio.run(with_alance(uri, json.loads(options), int(number), int(commits)))
    else:
        with_pylance(uri, json.loads(options), int(number), int(commits))
