"""Pictures of every odd kind through ``cases import`` and ``predict``: used, or named with the reason; the rest goes on."""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from syrupy.assertion import SnapshotAssertion

import sagehand.action.page
import sagehand.cases
import sagehand.cases.folder
from command_line import enter, files_below, phone_base, phone_folder, photo, run, state
from folders import write_rows
from sagehand.cases import CaseBase
from sagehand.picture import load

BROKEN = ["bomb.png", "no_pixels.png", "nothing.jpg", "text.jpg", "half.png"]
LABEL = {"family": "phone", "device": "x1", "step": 1, "next_action": "unscrew"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(tmp_path, monkeypatch)


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few hundred bytes that says it has many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")


def good(folder: Path) -> dict[str, str | None]:
    """Write odd pictures that can be used; name → what the picture's notes say, in part."""
    folder.mkdir(exist_ok=True)
    Image.new("RGB", (1, 1), (9, 8, 7)).save(folder / "one_by_one.png")
    photo(1, 11).convert("CMYK").save(folder / "cmyk.jpg")
    Image.fromarray((np.arange(48 * 64, dtype=np.uint16) * 20).reshape(48, 64)).save(folder / "grey16.png")
    frames = [photo(2, view).convert("P") for view in (20, 21, 22)]
    frames[0].save(folder / "animated.gif", save_all=True, append_images=frames[1:])
    rgba = photo(3, 13).convert("RGBA")
    rgba.putalpha(100)
    rgba.save(folder / "transparent.png")
    photo(4, 14).save(folder / "a_png_in_truth.jpg", "PNG")
    photo(4, 15).convert("L").save(folder / "grey.png")
    return {
        "one_by_one.png": None,
        "cmyk.jpg": None,
        "grey16.png": "16-bit",
        "animated.gif": "first of 3 frames",
        "transparent.png": "transparency",
        "a_png_in_truth.jpg": None,
        "grey.png": None,
    }


def bad(folder: Path) -> list[str]:
    """Write files that cannot be used; returns their names."""
    folder.mkdir(exist_ok=True)
    (folder / "bomb.png").write_bytes(bomb(30_000, 30_000))
    (folder / "no_pixels.png").write_bytes(bomb(0, 5))
    (folder / "nothing.jpg").write_bytes(b"")
    (folder / "text.jpg").write_text("no picture at all")
    whole = (folder / "x").with_suffix(".png")
    photo(1, 30).save(whole)
    (folder / "half.png").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    whole.unlink()
    return BROKEN


def rows_for(names: Sequence[str]) -> list[dict[str, Any]]:
    return [{"file_name": name, **LABEL} for name in names]


def test_import_uses_what_it_can_and_names_the_rest() -> None:
    folder = Path("odd")
    fine, broken = good(folder), bad(folder)
    write_rows(folder, rows_for([*broken, *fine]))
    ran = run("cases", "import", folder, "--into", "p.cases", "--embedder", "hash", "--json")
    assert ran.code == 1
    assert (ran.json["added"], len(ran.json["failed"])) == (len(fine), len(broken))
    lines = ran.err.splitlines()
    assert len(lines) == len(broken)
    for number, name in enumerate(broken, 1):
        assert lines[number - 1].startswith(f"odd: line {number}: {name}: ")
    assert "900,000,000 pixels, more than the cap of 100,000,000" in lines[0]
    with CaseBase.open("p.cases") as base:
        assert {case.file_name for case in base.cases()} == set(fine)
        for case in base.cases():
            assert base.image(case.id) == (folder / case.file_name).read_bytes()
    assert state(Path("p.cases")) == (len(fine), len(fine), "ok")
    again = run("cases", "import", folder, "--into", "p.cases", "--json")
    assert (again.code, again.json["added"], again.json["unchanged"]) == (1, 0, len(fine))


@pytest.mark.parametrize("name", BROKEN)
def test_add_and_predict_refuse_in_one_line(name: str, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    base = phone_base(tmp_path)
    bad(Path("odd"))
    before = state(base)
    label = [word for key in ("family", "device") for word in ("--set", f"{key}={LABEL[key]}")]
    for words in (["cases", "add", base, f"odd/{name}", *label], ["predict", f"odd/{name}", "--cases", base]):
        assert run(*words).error == snapshot
    assert state(base) == before


def test_predict_says_what_was_done_to_a_picture(tmp_path: Path) -> None:
    base = phone_base(tmp_path)
    for name, note in good(Path("odd")).items():
        notes = run("predict", f"odd/{name}", "--cases", base, "--json").json["query"]["notes"]
        assert note is None or any(note in said for said in notes), (name, notes)


def test_eight_exif_turns_of_one_picture_are_one_case() -> None:
    folder = Path("turned")
    folder.mkdir()
    upright = photo(2, 1)
    turns = Image.Transpose
    # how each must be stored so that it shows upright: the inverse of what EXIF says to do
    stored = [None, turns.FLIP_LEFT_RIGHT, turns.ROTATE_180, turns.FLIP_TOP_BOTTOM, turns.TRANSPOSE]
    stored += [turns.ROTATE_90, turns.TRANSVERSE, turns.ROTATE_270]
    for orientation, turn in enumerate(stored, 1):
        exif = Image.Exif()
        exif[0x0112] = orientation
        (upright if turn is None else upright.transpose(turn)).save(folder / f"{orientation}.png", exif=exif)
    write_rows(folder, rows_for([f"{n}.png" for n in range(1, 9)]))
    ran = run("cases", "import", folder, "--into", "p.cases", "--embedder", "hash", "--json")
    assert (ran.code, ran.json["added"], len(ran.json["conflicts"])) == (1, 1, 7)
    assert all("the same picture is in the case base as '1.png'" in line for line in ran.err.splitlines())
    assert load(folder / "6.png").pixel_id == load(np.asarray(upright)).pixel_id


def test_predict_on_a_folder_goes_on_past_broken_files(tmp_path: Path) -> None:
    base = phone_base(tmp_path)
    fine, broken = good(Path("odd")), bad(Path("odd"))
    text = run("predict", "odd", "--cases", base, "--report", "pages")
    assert text.code == 1
    assert [line.split("\t")[0] for line in text.out.splitlines()] == sorted(fine)
    assert [line.split(":")[0] for line in text.err.splitlines()] == [*sorted(broken), "pages"]
    names = sorted([*fine, *broken])
    pages = {f"{names.index(name) + 1:04d}.html" for name in fine}
    assert files_below(Path("pages")) == {*pages, "index.html"}
    index = Path("pages/index.html").read_text()
    assert all(page in index for page in pages)
    assert all(name in index for name in names)
    docs = run("predict", "odd", "--cases", base, "--json").json
    assert [d["file_name"] for d in docs] == names
    assert {d["file_name"] for d in docs if "error" in d} == set(broken)


def test_predict_on_a_folder_of_nothing_but_broken_files(tmp_path: Path) -> None:
    bad(Path("odd"))
    ran = run("predict", "odd", "--cases", phone_base(tmp_path), "--json")
    assert ran.code == 2
    assert len(ran.json) == len(ran.err.splitlines()) == 5


def test_import_of_nothing_but_broken_files() -> None:
    write_rows(Path("odd"), rows_for(bad(Path("odd"))))
    ran = run("cases", "import", "odd", "--into", "p.cases", "--embedder", "hash")
    assert ran.code == 2
    assert ran.out.startswith("0 cases added, 0 there already, 0 conflicts, 5 failed")


def test_a_file_that_vanishes_while_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = phone_folder(Path("phones"))
    list_files = sagehand.cases.folder.image_files

    def then_one_goes(where: Path) -> list[str]:
        names = list_files(where)
        (folder / "s2v1.png").unlink()
        return names

    monkeypatch.setattr(sagehand.cases.folder, "image_files", then_one_goes)
    ran = run("cases", "import", folder, "--into", "p.cases", "--embedder", "hash")
    assert ran.code == 1
    assert ran.err == "phones: line 5: s2v1.png: no such file (it was there when the import began)\n"
    assert state(Path("p.cases")) == (11, 11, "ok")


def test_a_file_that_vanishes_before_it_is_decided_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, folder = phone_base(tmp_path), phone_folder(Path("phones"), views=1)
    list_files = sagehand.cases.image_files

    def then_one_goes(where: Path) -> list[str]:
        names = list_files(where)
        (folder / "s2v0.png").unlink()
        return names

    monkeypatch.setattr(sagehand.cases, "image_files", then_one_goes)
    ran = run("predict", folder, "--cases", base, "--json")
    assert ran.code == 1
    assert ran.err.startswith("s2v0.png: no such file")
    assert len(ran.json) == 4


def test_a_file_that_vanishes_before_its_page_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, folder = phone_base(tmp_path), phone_folder(Path("phones"), views=1)
    write = sagehand.action.page.write_pages

    def after_one_goes(*arguments: Any, **named: Any) -> None:
        (folder / "s2v0.png").unlink()
        write(*arguments, **named)

    monkeypatch.setattr(sagehand.action.page, "write_pages", after_one_goes)
    ran = run("predict", folder, "--cases", base, "--report", "pages")
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 4
    assert files_below(Path("pages")) == {"0001.html", "0003.html", "0004.html", "index.html"}
    assert "no page" in Path("pages/index.html").read_text()


def test_file_names_that_are_not_utf8(tmp_path: Path) -> None:
    base, folder = phone_base(tmp_path), Path("odd")
    folder.mkdir()
    name = os.fsencode(folder) + b"/m\xffg.png"
    photo(1, 3).save("plain.png")
    shutil.copy("plain.png", name)
    docs = run("predict", folder, "--cases", base, "--json", "--report", "pages").json
    assert docs[0]["file_name"] == "m\udcffg.png"
    assert files_below(Path("pages")) == {"0001.html", "index.html"}
