from __future__ import annotations

import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.report.models import (
    CLOSING,
    SCRIPT,
    classifier,
    frame,
    labels,
    new_rows,
    regressor,
    response,
)

from oakgp import OAKRegressor
from oakgp.report.collect import collect

pytest.importorskip("plotly")


class Reader(HTMLParser):
    """Collects elements, their texts, and everything that would be fetched or run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("script", "style"):
            self.texts.append(data)


def read(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text("utf-8"))
    return reader


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert regressor().report(path, *new_rows()) == path
    return path


def test_names_are_shown_and_are_no_elements(written: Path) -> None:
    page = read(written)
    shown = " ".join(page.texts)
    assert SCRIPT in shown
    assert CLOSING in shown
    assert not any(tag in ("img", "b") for tag, _ in page.tags)
    scripts = [a for tag, a in page.tags if tag == "script"]
    assert [a.get("type") for a in scripts] == ["application/json", None, None]


def test_nothing_is_fetched(written: Path) -> None:
    page = read(written)
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        assert not any(name.startswith("on") for name in attributes)
        if "href" in attributes:
            assert attributes["href"].startswith(("#", "data:"))
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]


def test_the_file_is_small_and_holds_no_path_of_this_machine(written: Path) -> None:
    text = written.read_text("utf-8")
    assert len(text.encode()) < 6_000_000
    assert str(Path.home()) not in text.replace("/root", str(Path.home())) or "/root" not in text


def test_every_heading_follows_its_parent(written: Path) -> None:
    levels = [int(tag[1]) for tag, _ in read(written).tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_the_metrics_are_those_of_the_predictions() -> None:
    table, y = new_rows()
    model = regressor()
    page = collect(model, table, y)["page"]
    metrics = {m["name"]: m for m in page["quality"]["metrics"]}
    errors = y - model.predict(table)
    assert metrics["RMSE"]["value"] == pytest.approx(np.sqrt(np.mean(errors**2)))
    interval = model.predict_interval(table, 0.9)
    inside = np.mean((interval[:, 0] <= y) & (y <= interval[:, 1]))
    assert metrics["coverage of 90% intervals"]["value"] == pytest.approx(inside)
    assert all(m["low"] <= m["value"] <= m["high"] for m in metrics.values())


def test_contributions_of_a_row_add_up() -> None:
    table, y = new_rows()
    model = regressor()
    page = collect(model, table, y)["page"]
    output = page["outputs"][0]
    assert len(output["components"]) == 10  # 4 mains and 6 pairs
    for row in page["rows"]:
        k = int(row["name"].removeprefix("row "))
        parts = output["constant"] + sum(row["latent"][0]["means"])
        assert parts == pytest.approx(row["response"][0], abs=0.01 * np.std(y))
        assert row["response"][0] == pytest.approx(model.predict(table.iloc[[k]])[0])
        assert row["observed"] == pytest.approx(y[k])


def new_rows_with_large_errors_come_first() -> None:
    table, y = new_rows()
    model = regressor()
    page = collect(model, table, y, n_rows=9)["page"]
    mean, sd = model.predict(table, return_std=True)
    worst = np.argsort(-np.abs(y - mean) / sd)[:3]
    assert [r["name"] for r in page["rows"][:3]] == [f"row {k}" for k in worst]
    assert len(page["rows"]) == 9
    chosen = collect(model, table, y, rows=[4, 2])["page"]["rows"]
    assert [r["name"] for r in chosen] == ["row 4", "row 2"]


def test_all_kept_terms_of_a_truncated_model_are_shown() -> None:
    short = regressor().truncate(n_terms=3)
    found = collect(short, *new_rows())["page"]["outputs"][0]["components"]
    assert [tuple(c["term"]) for c in found] == [u for u in short.model_.posterior.kept if u]


@pytest.mark.parametrize(
    "model",
    [
        lambda: regressor(orthogonal=False),
        lambda: regressor(engine="basis"),
        lambda: regressor(likelihood="poisson"),
        lambda: regressor(likelihood="heteroscedastic_gaussian"),
        lambda: regressor(max_order=4, engine="sparse", n_inducing=15),
        lambda: regressor(max_order=1, forced_terms=(("a", "flag", "<b>kind</b>"),)),
    ],
)
def test_other_models_without_new_rows(model: Any, tmp_path: Path) -> None:
    path = model().report(tmp_path / "r.html")
    assert "No test rows" in path.read_text("utf-8")


def test_classifiers(tmp_path: Path) -> None:
    table, _ = new_rows()
    for n in (2, 3):
        model = classifier(n)
        y = labels(table, n)
        path = model.report(tmp_path / f"{n}.html", table, y)
        shown = " ".join(read(path).texts)
        for metric in ("AUC", "log loss", "Brier score", "accuracy"):
            assert metric in shown
        page = collect(model, table, y)["page"]
        accuracy = {m["name"]: m["value"] for m in page["quality"]["metrics"]}["accuracy"]
        assert accuracy == pytest.approx(model.score(table, y))


def test_a_model_of_constants_and_one_row(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": [1.0, 1.0, 1.0]})
    model = OAKRegressor().fit(table, [1.0, 2.0, 3.0])
    path = model.report(tmp_path / "r.html", table[:1], [1.5])
    assert "only a constant" in path.read_text("utf-8")


def test_exposure_reaches_the_metrics() -> None:
    model = regressor(likelihood="poisson")
    table, _ = new_rows()
    y = np.random.default_rng(0).poisson(3.0, len(table)).astype(float)
    exposure = np.full(len(table), 2.0)
    plain, doubled = (
        collect(model, table, y, given={"exposure": e})["page"]["quality"]["metrics"][0]["value"]
        for e in (None, exposure)
    )
    assert plain != doubled
    errors = y - model.predict(table, exposure=exposure)
    assert doubled == pytest.approx(np.sqrt(np.mean(errors**2)))


def test_refusals(tmp_path: Path) -> None:
    model, (table, y) = regressor(), new_rows()
    with pytest.raises(ValueError, match="y_test= needs X_test="):
        model.report(tmp_path / "r.html", y_test=y)
    with pytest.raises(ValueError, match="of equal length"):
        model.report(tmp_path / "r.html", table, y[:-1])
    with pytest.raises(FileNotFoundError, match="no such directory"):
        model.report(tmp_path / "nowhere" / "r.html")
    with pytest.raises(ValueError, match="n_rows=0"):
        model.report(tmp_path / "r.html", n_rows=0)
    with pytest.raises(ValueError, match="which training never saw"):
        classifier().report(tmp_path / "r.html", table, ["odd"] * len(table))
    assert list(tmp_path.iterdir()) == []


def test_without_plotly_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r'pip install "oakgp\[report\]"'):
        regressor().report(tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_reports_need_no_matplotlib() -> None:
    code = "import sys; sys.modules['matplotlib'] = None; import oakgp.report.collect, oakgp.edits"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_old_report_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="equal length"):
        regressor().report(path, frame(), response(frame())[:5])
    assert path.read_text() == "old"


@pytest.mark.slow
def test_thirty_features_take_ten_seconds_and_six_megabytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 600
    table = pd.DataFrame({f"number {i}": rng.normal(size=n) for i in range(26)})
    for i in range(4):
        table[f"kind {i}"] = rng.choice(list("abcdefgh")[: 3 + i], n)
    y = np.sin(table["number 0"]) + table["number 1"] * table["number 2"] + rng.normal(0, 0.3, n)
    model = OAKRegressor(max_order=2, max_iter=3, flow="none").fit(table, y)
    begin = time.process_time()
    path = model.report(tmp_path / "r.html", table, y)
    assert time.process_time() - begin < 10.0
    assert path.stat().st_size < 6_000_000
    page = collect(model, table, y)["page"]
    assert len(page["outputs"][0]["components"]) >= 30
    assert page["whatif"]["error"]["median"] < 0.1 * np.std(y)  # most of 435 pairs are held
