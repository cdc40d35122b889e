"""Datasets in other processes, event loops and threads: pickled, forked, shared."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import threading
from typing import TYPE_CHECKING, Any

import obstore.store
import pytest

import alance
import alance.sync
from alance.distributed import in_any_loop
from alance.io.opening.secrets import portable
from alance.session import _of_loop as sessions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from alance.testing.lab import Lab

ROWS = 100
PATIENCE_S = 250  # three interpreters start and import alance: minutes on a very busy machine
SECRET = "AVerySecretSecret"


def looked_at(dataset: alance.Dataset) -> tuple[int, Any, int]:
    async def look() -> tuple[int, Any, int]:
        return await dataset.count_rows(), await dataset.get(7, "id"), dataset.version

    return asyncio.run(look())


def looked_at_blocking(dataset: alance.sync.Dataset) -> tuple[int, Any, int]:
    return dataset.count_rows(), dataset.get(7, "id"), dataset.version


def counted(source: Any) -> int:
    count: int = source.count_rows()
    return count


@pytest.fixture
def dataset(tmp_path: Path) -> alance.Dataset:
    async def make() -> alance.Dataset:
        rows = {"id": list(range(ROWS))}
        dataset = await alance.write_dataset(rows, str(tmp_path / "t"), max_rows_per_file=40)
        return await dataset.delete("id = 50")

    return asyncio.run(make())


async def test_a_pickle_is_of_its_table_in_any_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("here", "elsewhere"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        dataset = await alance.write_dataset({"place": [folder]}, "t")
    pickled = pickle.dumps(dataset)
    monkeypatch.chdir(tmp_path / "here")
    inserted = await pickle.loads(pickled).insert({"place": ["more"]})
    assert (await inserted.to_table())["place"].to_pylist() == ["elsewhere", "more"]
    assert inserted.uri == str(tmp_path / "elsewhere" / "t")
    assert await (await alance.dataset("t")).count_rows() == 1
    for again in (in_any_loop(dataset), in_any_loop(dataset, {})):
        assert (await again.to_table())["place"].to_pylist() == ["elsewhere"]


ANSWER = (ROWS - 1, {"id": 7}, 2)


class Forgotten(asyncio.BaseEventLoop):
    """A loop that has ended, and that another thread forgets while this one looks."""

    def is_closed(self) -> bool:
        sessions.pop(self, None)
        return True


def test_loops_that_begin_in_threads_forget_the_same_loops(dataset: alance.Dataset) -> None:
    ended = [Forgotten() for _ in range(3)]
    for loop in ended:
        sessions[loop] = alance.Session()
    assert looked_at(dataset) == ANSWER
    assert not any(loop in sessions for loop in ended)


def test_a_dataset_is_used_in_one_loop_after_the_other(dataset: alance.Dataset) -> None:
    for _ in range(3):
        assert looked_at(dataset) == ANSWER
    for number in range(2):
        appended = asyncio.run(dataset.insert({"id": [number]}))
        assert appended.version == 3 + number
        assert looked_at(appended)[2] == appended.version


def test_a_dataset_is_used_in_many_threads(dataset: alance.Dataset) -> None:
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(looked_at(dataset))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [ANSWER] * 8


def test_a_session_that_was_given_stays_in_its_loop(dataset: alance.Dataset) -> None:
    async def opened() -> alance.Dataset:
        return await alance.dataset(dataset.uri, session=alance.Session())

    bound = asyncio.run(opened())
    with pytest.raises(alance.InvalidInputError):
        looked_at(bound)
    assert looked_at(pickle.loads(pickle.dumps(bound))) == ANSWER


def test_what_is_pickled_is_the_version(dataset: alance.Dataset) -> None:
    copied = pickle.loads(pickle.dumps(dataset))
    assert (copied.uri, copied.version, copied.schema) == (dataset.uri, 2, dataset.schema)
    assert copied.summary == dataset.summary
    assert looked_at(copied) == ANSWER
    asyncio.run(dataset.delete("true"))
    assert looked_at(pickle.loads(pickle.dumps(copied))) == ANSWER
    scanner = dataset.scanner(["id"], filter="id > :least", params={"least": 90})
    again = pickle.loads(pickle.dumps(scanner))
    assert asyncio.run(again.to_table())["id"].to_pylist() == list(range(91, ROWS))
    fragment = pickle.loads(pickle.dumps(dataset.fragments[1]))
    assert asyncio.run(fragment.count_rows()) == 39


@pytest.mark.filterwarnings("ignore:lance is not fork-safe")  # where other tests import it
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_datasets_work_in_other_processes(dataset: alance.Dataset, method: str) -> None:
    blocking = alance.sync.dataset(dataset.uri)
    assert looked_at_blocking(blocking) == ANSWER
    scanner = blocking.scanner(filter="id < ?", params=[10])
    jobs: list[tuple[Callable[..., object], Any, object]] = [
        (looked_at, dataset, ANSWER),
        (looked_at_blocking, blocking, ANSWER),
        (counted, blocking.fragments[1], 39),
        (counted, scanner, 10),
    ]
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        for work, arguments, answer in jobs:
            assert pool.map_async(work, [arguments] * 3).get(PATIENCE_S) == [answer] * 3
    assert looked_at_blocking(blocking) == ANSWER


def test_secrets_stay_unless_the_options_say_so() -> None:
    options: dict[str, object] = {
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "aws_access_key_id": SECRET,
        "token": SECRET,
        "account_key": SECRET,
        "service_account_key": SECRET,
        "default_headers": {"Authorization": SECRET},
        "proxy_url": f"http://user:{SECRET}@proxy",
        "region": "here",
        "endpoint": "http://127.0.0.1:1",
        "service_account": "/keys.json",
        "base:s3://other/": {"secret_access_key": SECRET, "region": "there"},
        "base:s3://text/": '{"sas_key": "' + SECRET + '"}',
        "base:*": looked_at,
    }
    assert portable(options) == {
        "region": "here",
        "endpoint": "http://127.0.0.1:1",
        "service_account": "/keys.json",
        "base:s3://other/": {"region": "there"},
        "base:s3://text/": {},
        "base:*": looked_at,
    }
    assert portable({**options, "pickle_secrets": True}) == {**options, "pickle_secrets": True}
    assert portable(None) is None


async def test_a_remote_table_needs_the_credentials_of_the_other_side(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**lab.lance_options(), "secret_access_key": SECRET}
    uri = "s3://lab/pickled"
    dataset = await alance.write_dataset({"id": [1, 2]}, uri, storage_options=options)
    pickled = pickle.dumps(dataset)
    assert SECRET.encode() not in pickled
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "lab")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "lab")
    with lab.recording() as seen:
        copied = pickle.loads(pickled)
        assert copied.schema == dataset.schema
    assert not seen.records
    assert await copied.count_rows("id > 1") == 1
    whole = await alance.dataset(uri, storage_options={**options, "pickle_secrets": "true"})
    assert SECRET.encode() in pickle.dumps(whole)
    await alance.Session.of_loop().aclose()


def provider() -> Any:
    return {"access_key_id": "lab", "secret_access_key": SECRET, "expires_at": None}


async def test_store_objects_are_made_again_with_the_names_of_their_providers(lab: Lab) -> None:
    store = obstore.store.S3Store(
        "lab",
        config={"endpoint": lab.endpoint, "region": "us-east-1"},
        client_options={"allow_http": True},
        credential_provider=provider,
    )
    dataset = await alance.write_dataset({"id": [1, 2]}, "given", store=store)
    pickled = pickle.dumps(dataset)
    assert SECRET.encode() not in pickled
    assert b"provider" in pickled
    copied = pickle.loads(pickled)
    assert await copied.count_rows("id > 1") == 1
    await alance.Session.of_loop().aclose()
