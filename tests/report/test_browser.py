"""The report in headless Chromium: clicked, typed into and read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.models import (
    CLOSING,
    LEVELS,
    SCRIPT,
    classifier,
    labels,
    new_rows,
    regressor,
)

pytest.importorskip("plotly")
playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = Path("/usr/bin/chromium")
if not CHROMIUM.exists():
    pytest.skip("no Chromium here", allow_module_level=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as p:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        found = p.chromium.launch(executable_path=str(CHROMIUM), args=options)
        yield found
        found.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    table, y = new_rows()
    written = {"numbers": regressor().report(folder / "numbers.html", table, y)}
    for n in (2, 3):
        path = folder / f"{n} classes.html"
        written[f"{n} classes"] = classifier(n).report(path, table, labels(table, n))
    triple = regressor(max_order=1, forced_terms=(("a", "flag", "<b>kind</b>"),))
    written["triple"] = triple.report(folder / "triple.html")
    return written


class Opened:
    """A page with everything it complained of."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_function("document.querySelector('#answer strong') !== null")

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def scroll(self) -> None:
        """Bring every chart into sight, so that it is drawn."""
        self.page.evaluate("document.querySelectorAll('.chart').forEach((c) => c.scrollIntoView())")
        for chart in self.page.locator(".chart").all():
            chart.scroll_into_view_if_needed()
            chart.locator(".main-svg").first.wait_for(timeout=20_000)

    def answer(self) -> float:
        return float(self.page.locator("#answer").get_attribute("data-value"))


@pytest.fixture
def opened(browser: Any, files: dict[str, Path]) -> Iterator[Any]:
    pages: list[Opened] = []

    def start(name: str = "numbers", **options: Any) -> Opened:
        pages.append(Opened(browser, files[name], **options))
        return pages[-1]

    yield start
    for each in pages:
        each.context.close()


@pytest.mark.parametrize("name", ["numbers", "2 classes", "3 classes", "triple"])
def test_all_is_drawn_without_a_complaint_or_a_request(opened: Any, name: str) -> None:
    report = opened(name)
    report.scroll()
    assert report.complaints == []
    fetched = [u for u in report.requests if not u.startswith(("data:", "blob:"))]
    assert fetched == [report.page.url]


def test_hostile_names_are_read_as_they_are(opened: Any) -> None:
    report = opened()
    report.scroll()
    titles = report.page.locator(".card h3").all_text_contents()
    assert SCRIPT in titles
    assert f"a × {SCRIPT}" in titles
    drawn = " ".join(report.page.locator("svg text").all_text_contents())
    assert SCRIPT in drawn
    assert "<b>kind</b>" in drawn
    options = report.page.locator("fieldset", has_text="<b>kind</b>").locator("option")
    assert set(LEVELS) <= set(options.all_text_contents())
    assert report.page.locator("main img, main b").count() == 0


def test_the_policy_stops_scripts_that_are_not_the_reports(opened: Any) -> None:
    report = opened()
    report.page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        " document.body.append(s); }"
    )
    assert report.page.evaluate("window.ran") is None
    failed = report.page.evaluate("fetch('https://example.org').then(() => false, () => true)")
    assert failed
    assert any("Content Security Policy" in text for text in report.complaints)


def row_of(report: Any) -> int:
    text = report.page.locator("#row-list button[aria-pressed=true]").text_content()
    return int(text.removeprefix("row "))


def set_number(report: Any, name: str, value: float) -> None:
    report.page.get_by_label(f"{name}, as a number", exact=True).fill(str(value))


def test_what_if_says_what_predict_says(opened: Any) -> None:
    report, model = opened(), regressor()
    table, _ = new_rows()
    row = table.iloc[[row_of(report)]].copy()
    assert report.answer() == pytest.approx(model.predict(row)[0])
    close = 0.005 * np.std(model.predict(table))
    set_number(report, "a", -0.4)
    row["a"] = -0.4
    assert report.answer() == pytest.approx(model.predict(row)[0], abs=close)
    report.page.get_by_label("<b>kind</b>", exact=True).select_option(CLOSING)
    row["<b>kind</b>"] = CLOSING
    assert report.answer() == pytest.approx(model.predict(row)[0], abs=close)
    box = report.page.locator("fieldset", has_text=SCRIPT).get_by_role("checkbox")
    box.set_checked(not box.is_checked())
    if box.is_checked():
        row[SCRIPT] = np.nan
    else:
        row[SCRIPT] = report.page.get_by_label(SCRIPT, exact=True).evaluate("e => +e.value")
    assert report.answer() == pytest.approx(model.predict(row)[0], abs=close)
    report.page.get_by_label("<b>kind</b>", exact=True).select_option("(not seen in training)")
    row["<b>kind</b>"] = "strange"
    assert report.answer() == pytest.approx(model.predict(row)[0], abs=close)
    assert "in place of" in report.page.locator("#answer").text_content()
    report.page.get_by_role("button", name="Back to the row's values").click()
    again = table.iloc[[row_of(report)]]
    assert report.answer() == pytest.approx(model.predict(again)[0])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_if_of_classes_says_what_predict_proba_says(opened: Any, n_classes: int) -> None:
    report, model = opened(f"{n_classes} classes"), classifier(n_classes)
    table, _ = new_rows()
    row = table.iloc[[row_of(report)]].copy()
    shown = 1 if n_classes == 2 else 0
    assert report.answer() == pytest.approx(model.predict_proba(row)[0, shown], abs=1e-6)
    set_number(report, "a", 0.25)
    row["a"] = 0.25
    assert report.answer() == pytest.approx(model.predict_proba(row)[0, shown], abs=0.03)
    if n_classes == 3:
        report.page.locator("#row-output").select_option("2")
        assert report.answer() == pytest.approx(model.predict_proba(row)[0, 2], abs=0.03)


def test_choosing_a_row_shows_its_contributions(opened: Any) -> None:
    report, model = opened(), regressor()
    table, _ = new_rows()
    report.page.locator("#row-list button").nth(2).click()
    k = row_of(report)
    assert report.answer() == pytest.approx(model.predict(table.iloc[[k]])[0])
    report.page.get_by_text("Contributions, as a table").click()
    lines = report.page.locator("#contributions tbody tr").all()
    found = {
        line.locator("th").text_content(): line.locator("td").nth(1).text_content()
        for line in lines
    }
    expected = model.component(table.iloc[[k]], "a")[0][0]
    said = float(found["a"].replace("−", "-").replace("+", ""))
    assert said == pytest.approx(expected, rel=0.01, abs=0.01)


def test_components_can_be_found_and_read_as_tables(opened: Any) -> None:
    report, model = opened(), regressor()
    report.page.locator("#component-search").fill("FLAG")
    shown = report.page.locator(".card:visible h3").all_text_contents()
    assert sorted(shown) == sorted(
        t for t in report.page.locator(".card h3").all_text_contents() if "flag" in t
    )
    card = report.page.locator('.card:has(h3:text-is("flag"))')
    card.get_by_text("Values as a table").click()
    card.locator("tbody td").first.wait_for()
    cells = card.locator("tbody tr", has_text="True").locator("td").all_text_contents()
    table, _ = new_rows()
    expected = model.component(table.iloc[:1].assign(flag=True), "flag")
    assert float(cells[0].replace("−", "-")) == pytest.approx(expected[0][0], rel=0.01)
    assert float(cells[1]) == pytest.approx(2 * expected[1][0], rel=0.01)


def test_curves_are_the_components(opened: Any) -> None:
    report, model = opened(), regressor()
    report.scroll()
    traces = report.page.evaluate(
        "[...document.querySelectorAll('.card')].find((c) => c.querySelector('h3').textContent === "
        "'a').querySelector('.chart').data.filter((t) => t.mode === 'lines' && t.customdata)"
        ".map((t) => ({x: Array.from(t.x), y: Array.from(t.y)}))"
    )
    table, _ = new_rows()
    x = np.array(traces[0]["x"])
    expected, _ = model.component(table.iloc[[0] * len(x)].assign(a=x), "a")
    assert np.abs(np.array(traces[0]["y"]) - expected).max() < 0.003 * np.std(model.predict(table))


def test_the_keyboard_is_enough(opened: Any) -> None:
    report = opened()
    page = report.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.locator("#theme").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    before = report.answer()
    page.get_by_label("a", exact=True).focus()
    for _ in range(40):
        page.keyboard.press("ArrowLeft")
    assert report.answer() != before
    page.locator("#row-list button").nth(1).focus()
    page.keyboard.press("Space")
    assert page.locator("#row-list button").nth(1).get_attribute("aria-pressed") == "true"
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, input, select, [role=img]')].filter((e) => "
        "!e.textContent.trim() && !e.getAttribute('aria-label') && !(e.labels && e.labels.length))"
        ".map((e) => e.outerHTML)"
    )
    assert unnamed == []


def test_colours_follow_the_system_and_the_button(opened: Any) -> None:
    report = opened(color_scheme="dark")
    body = "getComputedStyle(document.body).backgroundColor"
    dark = report.page.evaluate(body)
    report.page.locator("#theme").click()
    light = report.page.evaluate(body)
    assert sum(map(int, dark[4:-1].split(","))) < 150 < 600 < sum(map(int, light[4:-1].split(",")))


def test_a_phone_shows_all_of_it(opened: Any) -> None:
    report = opened(viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    report.scroll()
    assert report.page.evaluate("document.documentElement.scrollWidth") <= 360
    widths = report.page.evaluate(
        "[...document.querySelectorAll('section, .card, .chart')].map((e) => "
        "e.getBoundingClientRect().right)"
    )
    assert max(widths) <= 360


def test_paper_shows_the_charts(opened: Any) -> None:
    report = opened()
    report.page.emulate_media(media="print")
    report.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    for chart in report.page.locator("#cards .chart").all():
        chart.locator(".main-svg").first.wait_for(state="attached", timeout=20_000)
    assert not report.page.locator("#whatif-box").is_visible()
