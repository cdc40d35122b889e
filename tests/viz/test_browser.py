"""The page of a trace in a real browser: `make test-browser`.

Chromium is looked for under its usual names, or is what ALANCE_BROWSER names.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from alance.io.events import trace as records
from alance.viz.page import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
EVIL = "s3://b/<img src=x onerror=document.title='hit'>\"'&amp;</script>.lance"


def browser_path() -> str:
    """The browser's program."""
    named = os.environ.get("ALANCE_BROWSER")
    result = named or next(filter(None, map(shutil.which, NAMES)), None)
    if result is None:
        pytest.fail(
            f"no browser: none of {', '.join(NAMES)} is installed (apt-get install chromium)"
        )
    return result


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        # Its own empty profile, kept by nobody.
        context = started.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("profile")),
            executable_path=browser_path(),
            args=ARGUMENTS,
            viewport={"width": 1280, "height": 800},
        )
        yield context
        context.close()


class Shown:
    """A page, with what it asked for and complained of."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.urls: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.urls.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-drawn]")


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Any]:
    pages: list[Shown] = []

    def opened(recorder: Recorder, title: str = "a trace") -> Shown:
        path = tmp_path / "trace.html"
        recorder.to_html(path, title=title)
        pages.append(Shown(browser.new_page(), path))
        return pages[-1]

    yield opened
    for page in pages:
        assert page.complaints == []
        assert [url.partition(":")[0] for url in page.urls] == ["file"]
        page.page.close()


def event(number: int, begun: float, **more: Any) -> records.RequestEvent:
    settings: dict[str, Any] = {
        "kind": "get",
        "location": f"s3://b/t.lance/data/file-{number % 7}.lance",
        "start": number * 1000,
        "stop": number * 1000 + 500,
        "reasons": ("take",),
        "begun": begun,
        "ended": begun + 0.03,
        "num_bytes": 500,
        "ok": True,
    }
    return records.RequestEvent(**(settings | more))


def two_rounds(count: int) -> Recorder:
    recorder = Recorder()
    for number in range(count):
        recorder.events.append(event(number, 0.0 if number < count // 2 else 0.05))
    return recorder


def test_a_bar_a_request_by_object_and_round(show: Any) -> None:
    page = show(two_rounds(40)).page
    assert page.locator(".bar").count() == 40
    assert page.locator(".group").count() == 7
    assert page.locator("#waves i").count() == 2
    assert page.locator("#ticks b").all_inner_texts() == ["round 1", "round 2"]
    tile = page.locator("#totals div").first.inner_text()
    assert tile.split("\n") == ["Requests", "40", "to 7 objects"]
    boxes = [item.bounding_box() for item in page.locator(".bar .run").all()]
    assert all(box["width"] > 5 and box["height"] > 3 for box in boxes)


def test_details_on_hover(show: Any) -> None:
    recorder = Recorder()
    recorder.places.add("s3://b/x.lance", {"price": lambda: [(0, 200_000)]})
    recorder.events.append(
        event(
            0,
            0.01,
            location="s3://b/x.lance",
            stop=100_000,
            num_bytes=100_000,
            queued=0.0,
            first_byte=0.02,
            ranges=((0, 25_000),),
            callers=("user 1", "user 2"),
            retries=1,
        )
    )
    page = show(recorder).page
    tip = page.locator("#tip")
    assert not tip.is_visible()
    page.locator(".bar .ring").hover()
    text = tip.inner_text()
    for part in (
        "s3://b/x.lance",
        "bytes 0 to 100,000",
        "75 KB (75 %) nobody asked for",
        "price",
        "2: user 1, user 2",
        "10.0 ms",
        "retries",
    ):
        assert part in text, part
    page.mouse.move(5, 5)
    assert not tip.is_visible()


def test_the_keyboard_reaches_every_bar(show: Any) -> None:
    page = show(two_rounds(14)).page
    page.locator(".bar[tabindex='0']").focus()
    seen = set()
    for _ in range(14):
        seen.add(page.evaluate("document.activeElement.dataset.request"))
        assert page.locator("#tip").is_visible()
        page.keyboard.press("ArrowRight")
    assert len(seen) == 14
    page.keyboard.press("Home")
    first = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert first.startswith("get take, 500 B, s3://b/t.lance/data/file-0.lance, from 0.00 ms")
    page.keyboard.press("ArrowDown")
    assert "file-1" in page.evaluate("document.activeElement.getAttribute('aria-label')")


def test_the_page_zooms_by_keys_and_by_the_mouse(show: Any) -> None:
    page = show(two_rounds(4)).page
    bar = page.locator(".bar .run").first
    width = bar.bounding_box()["width"]
    page.keyboard.press("+")
    page.keyboard.press("0")
    assert bar.bounding_box()["width"] == pytest.approx(width)
    box = page.locator("#ticks").bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 80, steps=4)
    page.mouse.up()
    assert bar.bounding_box()["width"] > 2 * width
    page.get_by_role("button", name="all").click()
    assert bar.bounding_box()["width"] == pytest.approx(width)


def test_search_and_legend(show: Any) -> None:
    recorder = two_rounds(21)
    recorder.events.append(event(0, 0.0, reasons=("manifest",), location="s3://b/m"))
    page = show(recorder).page
    page.get_by_label("Find requests").fill("file-3")
    assert page.locator("#found").inner_text() == "3 of 22"
    assert page.locator(".bar.faint").count() == 19
    page.get_by_label("Find requests").fill("")
    page.get_by_role("button", name="rows 21").click()
    assert page.locator(".bar:visible").count() == 1


def test_paths_are_texts(show: Any) -> None:
    recorder = Recorder()
    recorder.events.append(event(0, 0.0, location=EVIL, reasons=(EVIL,), callers=(EVIL,)))
    page = show(recorder, EVIL).page
    page.locator(".bar .ring").hover()
    page.locator("#list summary").click()
    page.wait_for_selector("#list td")
    assert page.locator("img").count() == 0
    assert page.title() == EVIL
    assert EVIL in page.locator("#tip").inner_text()
    assert EVIL in page.locator("#list td").nth(4).inner_text()


def test_many_requests_stay_readable(show: Any) -> None:
    page = show(two_rounds(3000)).page
    assert page.locator(".bar").count() == 3000
    heights = page.evaluate(
        "[...document.querySelectorAll('.bar .run')].map((one) => one.getBBox().height)"
    )
    assert min(heights) >= 4
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_have_contrast(show: Any, scheme: Any) -> None:
    page = show(two_rounds(4)).page
    page.emulate_media(color_scheme=scheme)
    colours = page.evaluate(
        "['color', 'backgroundColor'].map((n) => getComputedStyle(document.body)[n])"
    )
    ink, paper = (sum(map(int, colour[4:-1].split(","))) for colour in colours)
    assert (ink < paper) == (scheme == "light")
    assert abs(ink - paper) > 400


def test_an_empty_trace(show: Any) -> None:
    page = show(Recorder()).page
    assert "No requests." in page.locator("#rows").inner_text()
