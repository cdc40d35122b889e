"""Keys, tokens and signatures are in no text: not of objects, errors, traces or logs."""

from __future__ import annotations

import gc
import traceback
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import alance
from alance.errors import AlanceError
from alance.io.loop.limits import TimeLimits
from alance.io.opening.registry import StoreRegistry
from alance.versioning.table import open_table

if TYPE_CHECKING:
    from alance.testing.lab import Lab

SECRET = "s3cr3t-that-nobody-may-read"
OPTIONS: dict[str, dict[str, Any]] = {
    "s3://b/t": {
        "access_key_id": f"{SECRET}-id",
        "secret_access_key": SECRET,
        "session_token": SECRET,
        "sse_customer_key_base64": SECRET,
        "default_headers": {"authorization": f"Bearer {SECRET}"},
        "region": "x",
    },
    "gs://b/t": {"bearer_token": SECRET, "proxy_url": f"http://user:{SECRET}@127.0.0.1:9"},
    "az://c/t": {"account_name": "a", "sas_key": f"sv=2024&sig={SECRET}"},
    "abfss://c@a.dfs.core.windows.net/t": {"client_id": "i", "tenant_id": "t"}
    | {"client_secret": SECRET},
    "http://127.0.0.1:9/t": {"default_headers": {"authorization": f"Basic {SECRET}"}},
}


def is_ours(kind: type) -> bool:
    return str(kind.__module__).startswith("alance.")


def texts_of_all() -> list[str]:
    """`repr` and `str` of every object of ours."""
    ours = [live_object for live_object in gc.get_objects() if is_ours(type(live_object))]
    return [f"{our!r} {our}" for our in ours if not isinstance(our, type)]


@pytest.mark.parametrize("uri", OPTIONS)
def test_no_object_shows_the_options_that_it_holds(uri: str) -> None:
    registry = StoreRegistry(TimeLimits(1))
    table = open_table(registry, uri, storage_options=OPTIONS[uri])
    objects = getattr(table.store, "objects", None)
    assert SECRET not in repr([registry, table, table.on_branch("b"), objects])
    assert [text for text in texts_of_all() if SECRET in text] == []


@pytest.mark.parametrize("uri", OPTIONS)
def test_an_option_that_is_wrong_is_not_quoted(uri: str) -> None:
    wrong = {"timeout": f"{SECRET}", "no_such_option": SECRET, "client_max_retries": SECRET}
    for key, value in wrong.items():
        with pytest.raises(AlanceError) as caught:
            StoreRegistry().open(uri, storage_options=OPTIONS[uri] | {key: value})
        assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "rule",
    [
        {"action": "status", "status": 403, "code": "AccessDenied"},
        {"action": "status", "status": 500},
        {"action": "status", "status": 400},
        {"action": "reset"},
        {"action": "stall"},
    ],
    ids=lambda rule: f"{rule['action']}{rule.get('status', '')}",
)
async def test_requests_that_fail_show_no_secret(
    lineitem_lab: Lab, rule: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    options = lineitem_lab.lance_options() | {
        "secret_access_key": SECRET,
        "session_token": SECRET,
        "default_headers": {"x-api-key": SECRET},
    }
    uri, rows = "s3://lab/lineitem.lance", pa.table({"a": [1]})
    texts = []
    async with alance.Session(timeout=2) as session:
        more: dict[str, Any] = {"storage_options": options, "session": session}
        dataset = await alance.dataset(uri, **more)
        scanner = dataset.scanner(["l_orderkey"])
        with alance.trace() as traced:
            await dataset.take([1])
            lineitem_lab.config(faults=[rule])
            for call in (
                scanner.to_table,
                lambda: alance.dataset(uri, **more),
                lambda: alance.write_dataset(rows, "s3://lab/secrets.lance", **more),
            ):
                with pytest.raises(AlanceError) as caught:
                    await call()
                texts += traceback.format_exception(caught.value)
                texts.append(repr(caught.value))
        texts += [repr(session), repr(dataset), repr(scanner), str(traced), repr(traced)]
        texts += texts_of_all()
    assert [text for text in [*texts, caplog.text] if SECRET in text] == []
