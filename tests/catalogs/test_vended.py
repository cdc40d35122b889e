"""Credentials that a catalog gives for a table: used, renewed, and told to nobody."""

from __future__ import annotations

import time
import traceback
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lance_namespace_urllib3_client.models import DescribeTableResponse

import alance
from alance import Session, StoreError
from alance.catalogs.client import Vended

if TYPE_CHECKING:
    from alance.testing.lab import Lab


URI = "s3://lab/vended"


class Server:
    """Tells of one table, and gives credentials for it that are good for a moment."""

    def __init__(self, options: dict[str, str], seconds: float | None) -> None:
        self.options = options
        self.seconds = seconds
        self.num_requests = 0

    def list_tables(self, request: Any) -> Any:
        raise NotImplementedError

    def describe_table(self, request: Any) -> Any:
        self.num_requests += 1
        vended = dict(self.options)
        if self.seconds is not None:
            vended["expires_at_millis"] = str(int((time.time() + self.seconds) * 1000))
        answer = {"location": URI, "storage_options": vended}
        return type("Answer", (), answer)


async def opened(lab: Lab, seconds: float | None, session: Session) -> tuple[Server, Any]:
    options = lab.lance_options()
    await alance.write_dataset(
        pa.table({"id": range(10)}), URI, mode="overwrite", storage_options=options, session=session
    )
    server = Server(options, seconds)
    catalog = await alance.connect(server, session=session)
    return server, catalog


async def test_credentials_that_last_are_options(lab: Lab) -> None:
    async with Session() as session:
        server, catalog = await opened(lab, None, session)
        place = await catalog.place("t")
        assert dict(place.storage_options) == server.options
        assert await (await catalog.open_table("t")).count_rows() == 10


async def test_credentials_that_expire_are_asked_for_again(lab: Lab) -> None:
    async with Session() as session:
        server, catalog = await opened(lab, 1.5, session)
        place = await catalog.place("t")
        provider = place.storage_options["credentials"]
        assert isinstance(provider, Vended)
        assert "secret_access_key" not in str(sorted(place.storage_options))
        num_requests = server.num_requests
        dataset = await catalog.open_table("t")
        assert server.num_requests == num_requests + 1
        first = provider.fetch_storage_options()
        again = provider.fetch_storage_options()
        assert set(first) == set(again) > {"expires_at_millis"}
        assert int(again["expires_at_millis"]) >= int(first["expires_at_millis"])
        assert (await dataset.take([3]))["id"].to_pylist() == [3]
        assert "access_key" not in repr(provider) + repr(place) + repr(catalog)


async def test_an_answer_that_is_refused_is_not_shown() -> None:
    class Wrong(Server):
        def describe_table(self, request: Any) -> Any:
            return DescribeTableResponse(storage_options={"secret_access_key": ["hidden"]})

    catalog = await alance.connect(Wrong({}, None))
    with pytest.raises(StoreError, match="is not of the protocol: storage_options") as raised:
        await catalog.place("t")
    assert "hidden" not in "".join(traceback.format_exception(raised.value))
