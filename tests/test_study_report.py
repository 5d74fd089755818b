"""The report from end to end: one page that holds everything, the files beside it, the command."""

from __future__ import annotations

import csv
import json
import random
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from report_runs import OFFLINE, WITH_MODEL, pictures, run_folder
from sagehand.cli import study_report
from sagehand.errors import InputError, UnknownName

pytest.importorskip("statsmodels", reason="the report's tests need the extra `study`")
pytest.importorskip("matplotlib", reason="the report's tests need the extra `study`")

from sagehand.study.report.build import write_report

SMALL = {name: OFFLINE[name] for name in ("context", "nearest", "perceptual")}


class Seen(HTMLParser):
    """Tags, addresses, and whether every tag is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        values = dict(attrs)
        self.addresses += [str(values[name]) for name in ("src", "href") if name in values]
        if values.get("id"):
            self.ids.append(str(values["id"]))
        if tag not in ("meta", "link", "img", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def pics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pictures(tmp_path_factory.mktemp("data") / "pics").folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, pics: Path) -> Path:
    from sagehand.study.dataset.sample import StudyData

    return run_folder(tmp_path_factory.mktemp("runs") / "run", StudyData.load(pics), SMALL)


@pytest.fixture(scope="module")
def page(run: Path) -> str:
    write_report(run, run / "report.html")
    return (run / "report.html").read_text()


def test_the_page_holds_every_counterpart_and_fetches_nothing(page: str) -> None:
    seen = Seen(page)
    assert seen.open == []
    assert "script" not in seen.tags
    assert all(a.startswith(("data:", "#")) for a in seen.addresses), seen.addresses
    assert {a[1:] for a in seen.addresses if a.startswith("#")} <= set(seen.ids)
    assert len(set(seen.ids)) == len(seen.ids)
    for number in (*(f"table-{n}" for n in range(1, 7)), *(f"figure-{n}" for n in range(7, 19)), "gallery-prediction"):
        assert number in seen.ids
    assert sum(a.startswith("data:image/svg+xml") for a in seen.addresses) >= 8
    assert sum(a.startswith("data:image/jpeg") for a in seen.addresses) >= 10


def test_thumbnails_are_small_pictures(page: str) -> None:
    import base64
    import io

    from PIL import Image

    for data in set(re.findall(r"data:image/jpeg;base64,([^\"]+)", page)):
        assert max(Image.open(io.BytesIO(base64.b64decode(data))).size) <= 160


def test_every_table_lies_beside_as_markdown_and_csv(run: Path, page: str) -> None:
    folder = run / "report"
    with (folder / "main.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert [row[0] for row in rows] == ["arm", *SMALL]
    assert {len(row) for row in rows} == {len(rows[0])}
    text = (folder / "main.md").read_text()
    widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert widths == {12}
    for path in folder.glob("*.svg"):
        assert path.with_suffix(".csv").exists()
    assert "| mean rank of the correct result (SigLIP2) | 2.43 |" in (folder / "figure-9.md").read_text()


def test_the_same_records_in_any_order_give_the_same_bytes(run: Path, page: str, tmp_path: Path) -> None:
    other = tmp_path / "run"
    other.mkdir()
    for name in ("plan.yaml", "manifest.json"):
        (other / name).write_bytes((run / name).read_bytes())
    lines = (run / "records.jsonl").read_text().splitlines()
    random.Random(1).shuffle(lines)
    (other / "records.jsonl").write_text("\n".join(lines) + "\n")
    done = write_report(other, other / "report.html")
    assert (other / "report.html").read_text() == page
    assert {f.name for f in done.files} == {f.name for f in (run / "report").iterdir()}
    for file in done.files:
        assert file.read_bytes() == (run / "report" / file.name).read_bytes(), file.name


def test_names_from_files_are_shown_and_never_run(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>|`*_"
    data = pictures(tmp_path / "pics")
    rows = [json.loads(line) for line in (data.folder / "metadata.jsonl").read_text().splitlines()]
    for row in rows:
        row["device"] = evil if row["device"] == "ei" else row["device"]
    (data.folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    from sagehand.study.dataset.sample import StudyData

    run = run_folder(tmp_path / "run", StudyData.load(data.folder), SMALL | {"zero": WITH_MODEL["zero"]}, seeds=(0,))
    lines = (run / "records.jsonl").read_text().replace('"truncated"', json.dumps(evil))
    (run / "records.jsonl").write_text(lines)
    write_report(run, run / "report.html")
    page = (run / "report.html").read_text()
    assert "script" not in Seen(page).tags
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in (run / "report" / "figure-7.md").read_text().replace("\\<script", "")


def test_without_its_pictures_a_run_still_has_its_report(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "run"
    other.mkdir()
    for path in run.glob("*.*"):
        if path.suffix != ".html":
            (other / path.name).write_bytes(path.read_bytes())
    manifest = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps(manifest | {"data_folder": str(tmp_path / "gone")}))
    done = write_report(other, tmp_path / "page.html")
    assert any("not where it was" in w for w in done.warnings)
    assert "data:image/jpeg" not in (tmp_path / "page.html").read_text()
    with pytest.raises(InputError):
        write_report(other, tmp_path / "page.html", data=tmp_path / "gone")


def test_what_an_earlier_report_left_is_taken_away(run: Path, page: str) -> None:
    stale, other = run / "report" / "figure-10.svg", run / "report" / "mine.svg"
    stale.write_text("<svg/>")
    other.write_text("<svg/>")
    write_report(run, run / "report.html")
    assert not stale.exists()
    assert other.exists()
    other.unlink()


def command(*arguments: str) -> Any:
    app = typer.Typer()
    app.callback()(lambda: None)
    study_report.register(app)
    return CliRunner().invoke(app, ["report", *arguments])


def test_the_command_says_what_it_wrote(run: Path, tmp_path: Path) -> None:
    result = command(str(run), "--out", str(tmp_path / "r.html"), "--main", "nearest", "--json")
    assert result.exit_code == 0, result.output
    doc = json.loads(result.stdout)
    assert doc["page"] == str(tmp_path / "r.html")
    assert doc["main"] == "nearest"
    assert doc["arms"] == dict.fromkeys(SMALL, 72)
    assert all(Path(f).is_file() for f in doc["files"])
    assert "`method: guided`" in doc["missing"]["Table 2"]
    assert "warning: Views are clustered" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["RUN", "--main", "perceptuel"], UnknownName),
        (["RUN", "--out", "TMP/report.txt"], InputError),
        (["TMP"], InputError),
    ],
)
def test_a_slip_is_named_with_its_remedy(
    run: Path, tmp_path: Path, arguments: list[str], error: type[Exception], snapshot: Any
) -> None:
    result = command(*(a.replace("RUN", str(run)).replace("TMP", str(tmp_path)) for a in arguments))
    assert isinstance(result.exception, error)
    assert str(result.exception).replace(str(run), "RUN").replace(str(tmp_path), "TMP") == snapshot


def test_a_run_without_records_is_told(run: Path, tmp_path: Path, snapshot: Any) -> None:
    for name in ("plan.yaml", "manifest.json"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    with pytest.raises(InputError) as raised:
        write_report(tmp_path, tmp_path / "r.html")
    assert str(raised.value).replace(str(tmp_path), "TMP") == snapshot
