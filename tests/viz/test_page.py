"""The page of a trace, without a browser: its records, its escaping, its size."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

import alance
from alance.io.events import trace as records
from alance.viz.page import MAX_COLUMNS, Recorder, group_of, page

if TYPE_CHECKING:
    from pathlib import Path

    from alance.io.events.trace import Kind

EVIL = "s3://b/</script><img src=x onerror=alert(1)>/<!--/'\"&amp;.lance"


def event(
    reason: str = "take", *, at: float = 0.0, kind: Kind = "get", **more: Any
) -> records.RequestEvent:
    settings: dict[str, Any] = {"location": "s3://b/t.lance/data/f.lance", "num_bytes": 100}
    settings |= more
    location, num_bytes = settings.pop("location"), settings.pop("num_bytes")
    return records.RequestEvent(
        kind, location, 0, 100, (reason,), at, at + 0.03, num_bytes, settings.pop("ok", True),
        **settings,
    )  # fmt: skip


def data_of(text: str) -> dict[str, Any]:
    """The records of a page."""
    (results,) = re.findall(r'<script type="application/json" id="records">(.*?)</script>', text)
    result: dict[str, Any] = json.loads(results)
    return result


def test_the_former_name_of_the_ranges_of_a_request_warns() -> None:
    request = event(ranges=((0, 10),))
    with pytest.warns(DeprecationWarning, match="now ranges"):
        assert request.asked == request.ranges == ((0, 10),)


def test_what_a_page_holds() -> None:
    recorder = Recorder()
    recorder.events.append(event("scan", at=0.05, ranges=((0, 10), (20, 60)), queued=0.04))
    recorder.events.append(event("manifest", callers=("b",), retries=2, first_byte=0.01))
    recorder.hops.append(records.HopEvent("decode", 0.08, 0.081, 0.09, "thread_0", True))
    recorder.looks["search cache", True] = 3
    recorder.looks["search cache", False] = 1
    result = data_of(page(recorder, "mine"))
    assert result["title"] == "mine"
    assert result["totals"]["requests"] == 2
    assert result["totals"]["wasted"] == 50
    assert result["totals"]["retries"] == 2
    assert result["totals"]["looks"] == [["search cache", 3, 4]]
    assert result["waves"] == [[0, 30], [50, 80]]
    first, second = result["bars"]
    assert (first["group"], first["head"], first["callers"]) == ("manifest", 10, ["b"])
    assert (second["group"], second["queued"], second["sent"]) == ("scan", 40, 50)
    (hop,) = result["hops"]
    assert (hop["sent"], hop["ended"], hop["object"]) == (81, 90, "thread_0")


@pytest.mark.parametrize("place", ["title", "location", "callers", "reason"])
def test_texts_of_users_are_no_markup(place: str) -> None:
    recorder, title = Recorder(), "t"
    if place == "title":
        title = EVIL
    elif place == "reason":
        recorder.events.append(event(EVIL))
    else:
        recorder.events.append(event(**{place: (EVIL,) if place == "callers" else EVIL}))
    text = page(recorder, title)
    assert "onerror" in text
    assert "<img" not in text
    assert "<!--" not in text
    assert text.count("</script>") == 2
    assert json.dumps(EVIL) in json.dumps(data_of(text), ensure_ascii=True)


def test_marks_of_the_template_are_texts_in_records() -> None:
    recorder = Recorder()
    recorder.events.append(event(location="/*style*/ /*script*/ /*records*/"))
    text = page(recorder)
    assert data_of(text)["bars"][0]["object"] == "/*style*/ /*script*/ /*records*/"


def test_a_page_names_no_other_address() -> None:
    text = page(Recorder())
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=\"(?!data:,)", text)
    assert len(text) < 40_000


def test_long_lists_are_cut() -> None:
    recorder = Recorder()
    recorder.events.append(event(callers=tuple(f"caller {n}" for n in range(100))))
    (bar,) = data_of(page(recorder))["bars"]
    assert bar["shared"] == 100
    assert bar["callers"][-1] == f"and {100 - MAX_COLUMNS} more"


def test_what_a_request_is_for() -> None:
    assert group_of(event("take")) == "rows"
    assert group_of(event("open files")) == "footers"
    assert group_of(event("nobody knows")) == "other"
    assert group_of(event("anything", kind="put")) == "writes"


def test_a_recorder_of_the_package_writes_itself(tmp_path: Path) -> None:
    with alance.trace() as recorder:
        pass
    recorder.to_html(tmp_path / "trace.html")
    assert (tmp_path / "trace.html").read_text().startswith("<!doctype html>")
    assert "0 in" not in recorder._repr_html_()
