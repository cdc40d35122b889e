"""Providers of credentials that expire: asked in time, once for all, and told to nobody else."""

from __future__ import annotations

import asyncio
import itertools
import logging
import pickle
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import alance
from alance.io.opening import credentials
from alance.io.opening.credentials import Renewed
from alance.io.opening.secrets import portable
from tests.access.foreign import serving

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

SECRET = "s3cr3t-of-a-provider"
_numbers = itertools.count(1)


class NumberedProvider:
    """A provider that numbers its answers."""

    def __init__(self, lasts_s: float = 3600, **more: Any) -> None:
        self.count = 0
        self.lasts_s = lasts_s
        self.more = more

    def answer(self) -> dict[str, Any]:
        self.count += 1
        return {
            "aws_access_key_id": f"AKID{self.count}",
            "aws_secret_access_key": SECRET,
            "expires_at": datetime.now(UTC) + timedelta(seconds=self.lasts_s),
            **self.more,
        }

    async def __call__(self) -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return self.answer()


class Lances:
    """A provider as Lance has them: texts, and milliseconds."""

    def fetch_storage_options(self) -> dict[str, str]:
        millis = str(int((time.time() + 3600) * 1000))
        return {"access_key_id": "lab", "secret_access_key": "lab", "expires_at_millis": millis}


def by_name() -> dict[str, Any]:
    return {"access_key_id": "lab", "secret_access_key": "lab"}


def beside(lab: Lab) -> dict[str, Any]:
    """Return the lab's options other than its keys."""
    return {
        key: value
        for key, value in lab.lance_options().items()
        if "access_key" not in key and "secret" not in key
    }


def place() -> str:
    return f"s3://lab/provided-{next(_numbers)}"


@pytest.mark.parametrize(
    "provider", [NumberedProvider(), NumberedProvider().answer, Lances(), by_name]
)
async def test_a_table_is_written_and_read_with_what_a_provider_gives(
    lab: Lab, provider: Any
) -> None:
    options = beside(lab) | {"credentials": provider}
    dataset = await alance.write_dataset({"id": [1, 2]}, place(), storage_options=options)
    assert (await dataset.take([1])).to_pylist() == [{"id": 2}]


async def test_a_table_on_gcs_is_written_with_a_token_of_a_provider(lab: Lab) -> None:
    options = {"google_base_url": lab.endpoint, "allow_http": "true"}
    arguments = options | {"credentials": lambda: {"token": SECRET}}
    uri = place().replace("s3:", "gs:")
    dataset = await alance.write_dataset({"id": [1]}, uri, storage_options=arguments)
    assert await dataset.count_rows() == 1


async def test_a_provider_may_stand_in_place_of_the_options(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in beside(lab).items():
        monkeypatch.setenv(f"AWS_{name.removeprefix('aws_').upper()}", str(value))
    request = NumberedProvider()
    uri = place()
    await alance.write_dataset({"id": [1]}, uri, storage_options=request)
    async with alance.ingest(uri, storage_options=request) as sink:
        await sink.write({"id": [2]})
    assert await (await alance.dataset(uri, storage_options=request)).count_rows() == 2
    assert request.count == 1


async def test_many_callers_in_many_loops_ask_once(lab: Lab) -> None:
    request, uri = NumberedProvider(), place()
    await alance.write_dataset({"id": [1]}, uri, storage_options=lab.lance_options())

    async def read() -> None:
        options = beside(lab) | {"credentials": request}
        tables = [alance.dataset(uri, storage_options=options) for _ in range(16)]
        assert {table.version for table in await asyncio.gather(*tables)} == {1}
        await alance.Session.of_loop().aclose()

    threads = [threading.Thread(target=asyncio.run, args=(read(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    await read()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert request.count == 1


async def test_credentials_are_renewed_before_they_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(credentials.time, "time", lambda: now)
    request = NumberedProvider()
    renewed = Renewed("s3", request)
    first = await renewed()
    now += 3600 - credentials.RENEW_BEFORE_S - 10
    assert await renewed() == first
    now += 20
    assert (await renewed())["access_key_id"] == "AKID2"
    assert first["expires_at"].timestamp() < now < first["expires_at"].timestamp() + 300


async def test_the_last_credentials_are_used_while_they_are_good(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now, works = time.time(), True
    monkeypatch.setattr(credentials.time, "time", lambda: now)
    request = NumberedProvider()

    async def provider() -> dict[str, Any]:
        if not works:
            raise RuntimeError(f"no token: {SECRET}")
        return request.answer()

    renewed = Renewed("s3", provider)
    await renewed()
    works = False
    now += 3590
    assert (await renewed())["access_key_id"] == "AKID1"
    assert "RuntimeError" in caplog.text
    now += 20
    with pytest.raises(credentials.ProviderError, match="it raised RuntimeError"):
        await renewed()
    assert SECRET not in caplog.text


async def test_a_caller_that_is_cancelled_leaves_the_others_their_answer() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    count = 0

    async def provider() -> dict[str, Any]:
        nonlocal count
        count += 1
        begun.set()
        await go_on.wait()
        return by_name()

    renewed = Renewed("s3", provider)
    first, second = asyncio.create_task(renewed()), asyncio.create_task(renewed())
    await begun.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    go_on.set()
    assert (await second)["access_key_id"] == "lab"
    assert count == 1


def _exits() -> dict[str, Any]:
    raise SystemExit(SECRET)


async def _exits_later() -> dict[str, Any]:
    return _exits()


@pytest.mark.parametrize("provider", [_exits, _exits_later])
async def test_a_provider_that_exits_ends_no_loop(
    provider: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(credentials.ProviderError, match="it raised SystemExit"):
        await Renewed("s3", provider)()
    assert SECRET not in caplog.text


async def test_a_function_that_never_answers_is_called_once_and_keeps_no_thread_from_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(credentials, "PROVIDER_ANSWER_S", 0.01)
    answered, calls = threading.Event(), itertools.count(1)

    def provider() -> dict[str, Any]:
        answered.wait()
        return by_name() | {"token": str(next(calls))}

    renewed = Renewed("s3", provider)
    for _ in range(40):  # more than there are threads for `asyncio.to_thread`
        with pytest.raises(credentials.ProviderError, match="it gave no answer within 0 s"):
            await renewed()
    assert await asyncio.to_thread(lambda: "free") == "free"
    monkeypatch.setattr(credentials, "PROVIDER_ANSWER_S", 60.0)
    answered.set()
    assert (await renewed())["token"] == "1"
    assert "never retrieved" not in caplog.text


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_loop_that_ends_while_it_asks_leaves_the_question_to_the_next(
    is_cancelled: bool,
) -> None:
    async def stuck() -> dict[str, Any]:
        if threading.current_thread() is not threading.main_thread():
            await asyncio.sleep(3600)
        return by_name()

    renewed = Renewed("s3", stuck)

    async def leave() -> None:
        task = asyncio.create_task(renewed())
        await asyncio.sleep(0.01)
        if is_cancelled:
            task.cancel()

    thread = threading.Thread(target=asyncio.run, args=(leave(),))
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert asyncio.run(renewed())["access_key_id"] == "lab"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"region": "x"}, "did not give access_key_id"),
        ({"access_key_id": "a"}, "did not give access_key_id, secret_access_key"),
        ({**by_name(), "region": "x"}, "region"),
        ({**by_name(), "expires_at": 5}, "expires_at is a int"),
        ({**by_name(), "expires_at": datetime(2020, 1, 1)}, "expired already"),
        ([SECRET], "it gave list"),
        ({**by_name(), "access_key_id": f"{SECRET}\n"}, "access_key_id has a line break"),
        ({**by_name(), "secret_access_key": 5}, "secret_access_key is a int"),
    ],
)
async def test_an_answer_that_is_none_says_so_and_shows_no_value(
    lab: Lab, answer: Any, message: str
) -> None:
    options = beside(lab) | {"credentials": lambda: answer, "client_max_retries": 0}
    with pytest.raises(alance.AccessError, match=message) as raised:
        await alance.dataset(place(), storage_options=options)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("uri", "options", "message"),
    [
        ("s3://b/t", {"credentials": "text"}, "expected a function"),
        ("s3://b/t", {"credentials": by_name, "secret_access_key": "x"}, "one of them"),
        ("http://h/t", {"credentials": by_name}, "http stores"),
    ],
)
async def test_a_provider_that_cannot_be_used_is_refused(
    uri: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(alance.InvalidInputError, match=message):
        await alance.dataset(uri, storage_options=options)


@pytest.mark.parametrize(
    ("kind", "answer", "credential"),
    [
        ("s3", {"access_key_id": "a", "secret_access_key": "b", "token": "c"}, {"token": "c"}),
        ("gcs", {"google_storage_token": "t"}, {"token": "t"}),
        ("gcs", {"token": "t"}, {"token": "t"}),
        ("azure", {"azure_storage_sas_token": "s"}, {"sas_token": "s"}),
        ("azure", {"account_key": "k"}, {"access_key": "k"}),
        ("azure", {"bearer_token": "t"}, {"token": "t"}),
    ],
)
async def test_each_cloud_gets_its_own_kind_of_credentials(
    kind: Any, answer: dict[str, str], credential: dict[str, str]
) -> None:
    arguments = await Renewed(kind, lambda: answer)()
    assert arguments["expires_at"] is None
    assert credential.items() <= arguments.items()


async def test_the_store_is_told_the_renewed_key(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    async with alance.FileWriter.open(tmp_path / "b" / "f.lance") as writer:
        await writer.write({"id": [1]})
    request = NumberedProvider(lasts_s=0.2)
    with serving(tmp_path) as server:
        options = {"endpoint": server.url, "allow_http": "true", "region": "x"}
        options["credentials"] = request  # type: ignore[assignment]
        reader = await alance.FileReader.open("s3://b/f.lance", storage_options=options)
        await asyncio.sleep(0.25)
        async with alance.Session() as session:
            again = await alance.FileReader.open(
                "s3://b/f.lance", storage_options=options, session=session
            )
        assert reader.num_rows == again.num_rows == 1
        assert "AKID1/" in server.received
        assert "AKID2/" in server.received
        assert SECRET not in server.received


def test_a_pickle_has_functions_by_name_and_no_answer() -> None:
    local = {"region": "x", "credentials": lambda: by_name()}
    assert portable(local) == {"region": "x"}
    assert portable({"region": "x", "credentials": NumberedProvider()}) == {"region": "x"}
    named = {
        "credentials": by_name,
        "base:s3://other/": by_name,
        "base:s3://b/": NumberedProvider(),
    }
    retained = portable(named)
    assert retained == {"credentials": by_name, "base:s3://other/": by_name, "base:s3://b/": {}}
    assert pickle.loads(pickle.dumps(retained)) == retained


async def test_a_dataset_in_another_process_asks_the_provider_by_its_name(lab: Lab) -> None:
    options = beside(lab) | {"credentials": by_name}
    dataset = await alance.write_dataset({"id": [1]}, place(), storage_options=options)
    pickled = pickle.dumps(dataset)
    assert b"by_name" in pickled
    assert await pickle.loads(pickled).count_rows() == 1


async def test_an_entry_for_another_place_may_be_a_provider(lab: Lab, tmp_path: Path) -> None:
    source = await alance.write_dataset(
        {"id": [1, 2]}, place(), storage_options=lab.lance_options()
    )
    clone = await source.shallow_clone(tmp_path / "clone")
    request = NumberedProvider()
    entry = beside(lab) | {"credentials": request}
    opened = await alance.dataset(clone.uri, storage_options={"base:s3://lab/": entry})
    assert (await opened.take([0])).to_pylist() == [{"id": 1}]
    assert request.count == 1


async def test_missing_credentials_are_told_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from alance.io.stores.store import translate

    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("AWS_PROFILE", "work")
    text = "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 5s"
    error = translate(OSError(text), "s3://b/t")
    assert isinstance(error, alance.AccessError)
    assert "AWS_ACCESS_KEY_ID" in str(error)
    assert "'work' (AWS_PROFILE)" in str(error)
    busy = translate(Exception(f"{text} status code: 503"), "s3://b/t")
    assert isinstance(busy, alance.StoreError)
    assert busy.retryable


@pytest.mark.parametrize(
    ("location", "variable"),
    [
        ("s3a://b/t", "AWS_ACCESS_KEY_ID"),
        ("s3://b#2/t", "AWS_ACCESS_KEY_ID"),
        ("gs://b/t", "GOOGLE_SERVICE_ACCOUNT"),
        ("az://b/t", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("abfss://b@account.dfs.core.windows.net/t", "AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_the_hint_names_the_variables_of_the_cloud_whatever_the_scheme(
    location: str, variable: str
) -> None:
    from alance.io.stores.store import translate

    error = translate(OSError("Generic error: GET http://169.254.169.254/latest"), location)
    assert isinstance(error, alance.AccessError)
    assert variable in str(error)


async def test_dynamodb_takes_no_provider() -> None:
    with pytest.raises(alance.UnsupportedError, match="credentials"):
        await alance.dataset("s3+ddb://b/t?ddbTableName=t", storage_options=by_name)


def test_blocking_code_may_give_a_provider_too(lab: Lab) -> None:
    from alance import sync

    options = beside(lab) | {"credentials": NumberedProvider()}
    dataset = sync.write_dataset({"id": [1]}, place(), storage_options=options)
    assert dataset.take([0]).num_rows == 1


async def test_a_large_object_is_sent_with_what_a_provider_gives(lab: Lab) -> None:
    """In parts, by the store object for writes: it shares the provider."""
    request = NumberedProvider()
    options = beside(lab) | {"credentials": request}
    values = np.random.default_rng(1).bytes(24 << 20)
    uri = place()
    async with alance.FileWriter.open(f"{uri}/f.lance", storage_options=options) as writer:
        await writer.write({"value": [values[start::24] for start in range(24)]})
    reader = await alance.FileReader.open(f"{uri}/f.lance", storage_options=options)
    assert reader.num_rows == 24
    assert request.count == 1
