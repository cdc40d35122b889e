"""The lab's server, over plain HTTP and by the clients that it is made for."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.etree import ElementTree

import pytest

from alance.errors import StoreError
from alance.testing.lab import Lab

if TYPE_CHECKING:
    from tests.testing.conftest import Client

GCS = {"Authorization": "Bearer a-token"}
DIGITS = b"0123456789"


@pytest.mark.parametrize(
    ("range_header", "content"),
    [
        ("bytes=2-4", b"234"),
        ("bytes=7-", b"789"),
        ("bytes=7-100", b"789"),
        ("bytes=-3", b"789"),
        ("bytes=-100", DIGITS),
    ],
)
def test_ranges_are_answered_in_part(client: Client, range_header: str, content: bytes) -> None:
    client.status("PUT", "/ranges", DIGITS)
    status, result, headers = client.ask("GET", "/ranges", headers={"Range": range_header})
    start = 10 - len(content) if content.endswith(b"9") else 2
    assert (status, result) == (206, content)
    assert headers["Content-Range"] == f"bytes {start}-{start + len(content) - 1}/10"


@pytest.mark.parametrize("range_header", ["bytes=10-", "bytes=10-12", "bytes=-0"])
def test_ranges_outside_of_an_object_are_refused(client: Client, range_header: str) -> None:
    client.status("PUT", "/ranges", DIGITS)
    assert client.status("GET", "/ranges", headers={"Range": range_header}) == 416


def test_heads_and_missing_objects(client: Client) -> None:
    client.status("PUT", "/a%20b%2Bc", DIGITS)
    status, body, headers = client.ask("HEAD", "/a%20b%2Bc")
    assert (status, body, headers["Content-Length"]) == (200, b"", "10")
    assert client.status("HEAD", "/nowhere") == 404
    status, body, _ = client.ask("GET", "/nowhere")
    assert status == 404
    assert b"<Code>NoSuchKey</Code>" in body


def test_conditional_writes_check_the_tag(client: Client) -> None:
    absent = {"If-None-Match": "*"}
    assert client.status("PUT", "/once", b"first", absent) == 200
    assert client.status("PUT", "/once", b"second", absent) == 412
    tag = client.ask("HEAD", "/once")[2]["ETag"]
    assert client.status("PUT", "/once", b"third", {"If-Match": tag}) == 200
    assert client.status("PUT", "/once", b"fourth", {"If-Match": tag}) == 412
    assert client.status("PUT", "/none", b"", {"If-Match": tag}) == 404
    assert client.read("once") == b"third"


def test_conditional_reads_check_the_tag(client: Client) -> None:
    client.status("PUT", "/read", b"old")
    tag = client.ask("HEAD", "/read")[2]["ETag"]
    assert client.status("GET", "/read", headers={"If-Match": tag}) == 200
    assert client.status("GET", "/read", headers={"If-None-Match": tag}) == 304
    client.status("PUT", "/read", b"new")
    assert client.status("GET", "/read", headers={"If-Match": tag}) == 412
    assert client.status("GET", "/read", headers={"If-None-Match": tag}) == 200


def test_the_dialect_of_gcs(client: Client) -> None:
    new = {**GCS, "x-goog-if-generation-match": "0"}
    status, _, headers = client.ask("PUT", "/gcs", b"first", new)
    assert status == 200
    generation = headers["x-goog-generation"]
    assert client.ask("HEAD", "/gcs")[2]["x-goog-generation"] == generation
    assert client.status("PUT", "/gcs", b"second", new) == 412
    equal = {**GCS, "x-goog-if-generation-match": generation}
    assert client.status("PUT", "/gcs", b"third", equal) == 200
    assert client.status("PUT", "/gcs", b"fourth", equal) == 412
    source = {**GCS, "x-goog-copy-source": "lab/gcs"}
    assert client.status("PUT", "/gcs-copy", headers=source) == 200
    assert client.read("gcs-copy") == b"third"
    assert client.status("DELETE", "/gcs", headers=GCS) == 204
    assert client.status("DELETE", "/gcs", headers=GCS) == 404
    assert client.status("DELETE", "/gcs") == 204  # S3 does not mind


class Page:
    def __init__(self, content: bytes) -> None:
        tree = ElementTree.fromstring(content)
        space = tree.tag.partition("}")[0] + "}"
        self.keys = [item.text for item in tree.iterfind(f"{space}Contents/{space}Key")]
        self.folders = [item.text for item in tree.iterfind(f"{space}CommonPrefixes/{space}Prefix")]
        self.token = tree.findtext(f"{space}NextContinuationToken")


def pages(client: Client, query: str) -> list[Page]:
    """All pages of a listing."""
    result = [Page(client.ask("GET", f"?list-type=2&{query}")[1])]
    while result[-1].token:
        token = quote(result[-1].token, safe="")
        result.append(
            Page(client.ask("GET", f"?list-type=2&{query}&continuation-token={token}")[1])
        )
    return result


def test_listings_are_sorted_and_cut_into_pages(client: Client) -> None:
    names = ["l/a", "l/b/1", "l/b/2", "l/b c&<d>", "l/d/e/f", "l/z"]
    for name in [*names, "lower", "m"]:
        client.status("PUT", "/" + quote(name), b"")
    in_order = sorted(names)
    (page,) = pages(client, "prefix=l/")
    assert page.keys == in_order
    for limit in range(1, 7):
        result = pages(client, f"prefix=l/&max-keys={limit}")
        assert [key for page in result for key in page.keys] == in_order
        assert all(len(page.keys) <= limit for page in result)
        result = pages(client, f"prefix=l/&delimiter=/&max-keys={limit}")
        assert [key for page in result for key in page.keys] == ["l/a", "l/b c&<d>", "l/z"]
        assert [name for page in result for name in page.folders] == ["l/b/", "l/d/"]
    (page,) = pages(client, "prefix=l/&start-after=l/b/1")
    assert page.keys == ["l/b/2", "l/d/e/f", "l/z"]
    (page,) = pages(client, "prefix=nowhere/")
    assert page.keys == []
    assert client.status("GET", "?list-type=2&max-keys=some") == 400


def test_multipart_uploads_join_their_parts(client: Client) -> None:
    def begin(key: str) -> str:
        tree = ElementTree.fromstring(client.ask("POST", f"/{key}?uploads")[1])
        (result,) = (item.text for item in tree if item.tag.endswith("UploadId"))
        assert result
        return result

    def end(key: str, upload: str, *numbers: int, **headers: str) -> int:
        parts = "".join(f"<Part><PartNumber>{n}</PartNumber></Part>" for n in numbers)
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        return client.status("POST", f"/{key}?uploadId={upload}", body, headers)

    upload = begin("parts")
    for number, content in ((3, b"three"), (1, b"one"), (2, b"two"), (4, b"left out")):
        client.status("PUT", f"/parts?uploadId={upload}&partNumber={number}", content)
    assert client.lab.stats()["uploads"] == 1
    assert end("parts", upload, 1, 5) == 400
    assert client.status("HEAD", "/parts") == 404
    assert end("parts", upload, 1, 2, 3) == 200
    assert client.read("parts") == b"onetwothree"
    assert end("parts", upload, 1) == 404

    upload = begin("parts")
    copied = {"x-amz-copy-source": "/lab/parts", "x-amz-copy-source-range": "bytes=3-5"}
    client.status("PUT", f"/parts?uploadId={upload}&partNumber=1", headers=copied)
    assert end("parts", upload, 1, **{"If-None-Match": "*"}) == 412
    assert end("parts", upload, 1) == 200
    assert client.read("parts") == b"two"

    upload = begin("dropped")
    client.status("PUT", f"/dropped?uploadId={upload}&partNumber=1", b"one")
    assert client.status("DELETE", f"/dropped?uploadId={upload}") == 204
    assert client.lab.stats()["uploads"] == 0
    assert list((client.lab.root / ".uploads").iterdir()) == []


def test_copies_and_deletes(client: Client) -> None:
    client.status("PUT", "/c/one", DIGITS)
    assert client.status("PUT", "/c/two", headers={"x-amz-copy-source": "lab/c/one"}) == 200
    body = b"<Delete><Object><Key>c/one</Key></Object><Object><Key>c/no</Key></Object></Delete>"
    assert client.status("POST", "?delete", body) == 200
    assert client.status("HEAD", "/c/one") == 404
    assert client.read("c/two") == DIGITS
    assert client.status("DELETE", "/c/two") == 204
    assert client.status("PUT", "/c", b"no folder any more") == 200


def test_bodies_in_chunks(client: Client) -> None:
    chunks = [b"0\r\n\r\n", b"5\r\n", b"the end"]
    client.http.request(
        "PUT",
        "/lab/chunks",
        iter(chunks),
        encode_chunked=True,
        headers={"Transfer-Encoding": "chunked"},
    )
    answer = client.http.getresponse()
    assert (answer.status, answer.read()) == (200, b"")
    assert client.read("chunks") == b"".join(chunks)
    signed = b"5;chunk-signature=0\r\n01234\r\n0;chunk-signature=1\r\nx-amz-checksum:a\r\n\r\n"
    client.status("PUT", "/signed", signed, {"Content-Encoding": "aws-chunked"})
    assert client.read("signed") == b"01234"


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/file/below", {}),
        ("/folder", {}),
        ("/../outside", {}),
        ("/number", {"x-goog-if-generation-match": "none"}),
    ],
)
def test_what_cannot_be_written(client: Client, target: str, headers: dict[str, str]) -> None:
    client.status("PUT", "/file", b"")
    client.status("PUT", "/folder/file", b"")
    assert client.status("PUT", target, b"body", headers) == 400
    assert client.lab.stats()["in_flight"] == 0
    assert list((client.lab.root / ".uploads").iterdir()) == []


def test_files_put_there_by_hand(client: Client) -> None:
    path = Path(client.lab.root) / "lab" / "by hand"
    path.write_bytes(DIGITS)
    assert client.status("GET", "/by%20hand") == 404
    client.lab.rescan()
    assert client.read("by%20hand") == DIGITS
    path.unlink()
    client.lab.rescan()
    assert client.status("GET", "/by%20hand") == 404


def test_the_weather_is_checked(client: Client) -> None:
    for wrong in (
        {"latency": 1},
        {"faults": [{"action": "explode"}]},
        {"faults": [{"action": "reset", "when": 1}]},
        {"faults": [{"action": "reset", "key": "("}]},
    ):
        with pytest.raises(StoreError, match=r"the lab: config: .*(settings|fault)"):
            client.lab.config(**wrong)
        with pytest.raises(ValueError, match=r"settings|fault"):
            Lab(**wrong)
    assert client.status("GET", "?list-type=2&prefix=none") == 200


def test_the_log_has_every_request_in_order(client: Client) -> None:
    client.status("PUT", "/logged", DIGITS)
    with client.lab.recording() as seen:
        client.status("GET", "/logged", headers={"Range": "bytes=2-4"})
        client.status("HEAD", "/logged")
        client.status("PUT", "/logged", b"abc")
        client.status("GET", "/nowhere")
        client.ask("GET", "?list-type=2&prefix=logged")
    assert [record["op"] for record in seen.records] == ["GET", "HEAD", "PUT", "GET", "LIST"]
    get, head, put, missing, listed = seen.records
    assert (get["range"], get["out"], get["st"]) == ([2, 5], 3, 206)
    assert (head["out"], put["in"], missing["st"], listed["listed"]) == (0, 3, 404, 1)
    assert all(record["t0"] <= record["t1"] <= record["t2"] for record in seen.records)
    summary = seen.summary()
    assert summary["requests"] == summary["phases"] == 5
    assert summary["by_op"] == {"GET": 2, "HEAD": 1, "LIST": 1, "PUT": 1}
    assert summary["errors"] == {"404": 1}
    assert (summary["peak_in_flight"], summary["connections"]) == (1, 1)


def test_serving_from_the_shell(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "object").write_bytes(DIGITS)
    command = [sys.executable, "-m", "alance.testing.lab", "serve", str(tmp_path)]
    with subprocess.Popen([*command, "--latency-ms", "1"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            port = json.loads(process.stdout.readline())["port"]
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/some/object", headers={"Connection": "close"})
            assert connection.getresponse().read() == DIGITS
            connection.close()
        finally:
            process.terminate()
        assert process.wait(60) == 0


def test_a_server_that_does_not_start(tmp_path: Path) -> None:
    (tmp_path / ".uploads").write_bytes(b"in the way")
    with pytest.raises(StoreError, match="did not start"), Lab(tmp_path, buckets=()):
        pass
