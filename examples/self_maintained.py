"""A table that looks after itself, and readers that follow it, on a local S3 server.

Shops upsert and delete orders. The sink maintains the table by a policy that the table stores. One
reader keeps the sum of the orders of each shop up to date, change by change; another one serves
them through a handle that is at most a second behind.

python examples/self_maintained.py
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import timedelta

import pyarrow as pa

import alance
from alance.testing.lab import Lab

URI = "s3://lab/orders.lance"
SCHEMA = pa.schema([("id", pa.int64()), ("shop", pa.string()), ("price", pa.int64())])
ROUNDS, ORDERS, SHOPS = 24, 10, 4
POLICY = alance.MaintenancePolicy(
    min_small_fragments=8, max_unindexed_rows=100, older_than=timedelta(days=1)
)


async def create(options: dict[str, str]) -> None:
    """Create the table with an index of the keys, and its policy."""
    dataset = await alance.write_dataset(
        SCHEMA.empty_table(), URI, stable_row_ids=True, storage_options=options
    )
    dataset = await dataset.create_scalar_index("id", "BTREE")
    await dataset.update_config(POLICY.to_config())


async def sell(options: dict[str, str]) -> None:
    """Upsert orders, change some of them later, and cancel others; a commit a round."""
    dice = random.Random(7)
    async with alance.ingest(URI, on="id", maintain=True, storage_options=options) as sink:
        for number in range(ROUNDS):
            ids = range(number * ORDERS, (number + 1) * ORDERS)
            ids = [*ids, *dice.sample(range((number + 1) * ORDERS), 3)]
            await sink.upsert([order(key, dice.randrange(100)) for key in ids])
            await sink.delete({"id": [dice.randrange((number + 1) * ORDERS)]})
            await sink.flush()
    steps = sink.maintenance.num_steps if sink.maintenance else 0
    print(f"sold in {sink.metrics.num_commits} commits; {steps} steps of maintenance beside them")


def order(key: int, price: int) -> dict[str, object]:
    """One row."""
    return {"id": key, "shop": f"shop {key % SHOPS}", "price": price}


class Sums:
    """Sums of the prices of each shop, kept up to date by the changes of the table."""

    def __init__(self) -> None:
        self.of_shop: Counter[str] = Counter()
        self.token: str | None = None  # place behind the last change that is in the sums

    async def follow(self, dataset: alance.Dataset, *, wait: bool) -> None:
        """Add up changes: rows as they are now, and rows as they were, which are subtracted."""
        since = 0 if self.token is None else self.token
        async for change in dataset.follow(since=since, before=True, wait=wait):
            is_deletion = change.kind == "delete"
            for sign, rows in ((-1 if is_deletion else 1, change.rows), (-1, change.before)):
                for row in rows.to_pylist() if rows is not None else ():
                    self.of_shop[row["shop"]] += sign * row["price"]
            self.token = change.token


async def main() -> None:
    """Run all of it, and compare what the reader has with the table."""
    with Lab() as lab:
        options = lab.lance_options()
        await create(options)
        live = await alance.dataset(URI, follow=1.0, storage_options=options)
        sums = Sums()
        reader = asyncio.create_task(sums.follow(live.pinned(), wait=True))
        await sell(options)
        reader.cancel()  # it may end anywhere: the token says where to go on
        await asyncio.gather(reader, return_exceptions=True)
        dataset = await live.checkout_latest()
        await sums.follow(dataset, wait=False)

        rows = await dataset.to_table(["shop", "price"])
        expected = rows.group_by("shop").aggregate([("price", "sum")]).to_pydict()
        assert +sums.of_shop == +Counter(dict(zip(*expected.values(), strict=True)))
        print(f"the sums of {len(sums.of_shop)} shops are those of {rows.num_rows} orders")
        report = await dataset.maintain(
            alance.MaintenancePolicy(older_than=timedelta(0), min_old_versions=8)
        )
        print(
            *[f"{step.outcome}: {step.kind}, as {step.reason}" for step in report.steps], sep="\n"
        )
        health = await (await live.checkout_latest()).health()
        print(f"{health.num_fragments} fragments, {health.num_versions} versions are left")


if __name__ == "__main__":
    asyncio.run(main())
