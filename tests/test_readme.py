"""Every command of the README runs, and the output it shows is what comes out."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from sagehand.cli import main
from sagehand.demo import cell_folder
from vlm_servers import stand_in

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    line
    for kind, text in BLOCKS
    if kind == "sh"
    for line in text.splitlines()
    if line.startswith(".venv/bin/sagehand ") and "MODEL" not in line and not line.endswith("\\")
]
STUDY = [command for command in COMMANDS if command.split()[1] == "study"]
WORLD = [command for command in COMMANDS if command.split()[1] == "world"]
COMMANDS = [command for command in COMMANDS if command not in (*STUDY, *WORLD)]
LESS = {
    "render": ["--per-step", "3"],
    "run": ["--seeds", "0", "--arms", "nearest,perceptual"],
    "agree": ["--grasps", "12"],
}
"""What makes the long commands short enough for a test."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the README takes it to be."""
    cell = cell_folder()
    shutil.copytree(cell / "images", tmp_path / "photos" / "images")
    shutil.copy(cell / "metadata.jsonl", tmp_path / "photos")
    shutil.copy(cell / "actions.yaml", tmp_path)
    shutil.copy(cell / "queries" / "kalo_step2_view4.jpg", tmp_path / "new.jpg")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_runs_in_the_order_of_the_readme(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(COMMANDS) > 12
    for command in COMMANDS:
        code = main(shlex.split(command)[1:])
        told = capsys.readouterr()
        assert code == 0, f"{command}: {told.err}"
        assert "Traceback" not in told.err
    assert (place / "page.html").is_file()
    assert (place / "again.html").is_file()
    assert (place / "exported" / "metadata.jsonl").is_file()


@pytest.mark.slow
@pytest.mark.render
def test_the_commands_of_the_study_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco", reason="the renderer needs MuJoCo")
    pytest.importorskip("statsmodels", reason="the study extra is not installed")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    assert [shlex.split(command)[2] for command in STUDY] == ["render", "run", "report", "compare"]
    for command in STUDY:
        words = shlex.split(command)[1:]
        assert main([*words, *LESS.get(words[1], [])]) == 0, command
    assert (tmp_path / "out" / "run" / "report.html").stat().st_size > 100_000


@pytest.mark.slow
@pytest.mark.render
def test_the_commands_of_the_world_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("frankik", reason="the world extra is not installed")
    monkeypatch.chdir(tmp_path)
    assert [shlex.split(command)[2] for command in WORLD] == ["try", "try", "render", "agree"]
    printed = {}
    for command in WORLD:
        words = shlex.split(command)[1:]
        assert main([*words, *LESS.get(words[1], [])] if words[1] == "agree" else words) == 0, command
        printed[command] = capsys.readouterr().out
    assert (tmp_path / "out" / "mug.gif").stat().st_size > 100_000
    assert (tmp_path / "out" / "agree" / "summary.md").is_file()
    (shown,) = [text for kind, text in BLOCKS if kind == "output"]
    seconds = re.compile(r"[\d.]+ s to work out")
    assert seconds.sub("", printed[WORLD[1]]).strip() == seconds.sub("", shown).strip()


def test_the_commands_with_a_model_run_against_a_server(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("openai", reason="the vlm extra is not installed")
    joined = README.replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line.startswith(".venv/bin/sagehand ") and "MODEL" in line]
    assert [shlex.split(line)[1] for line in lines] == ["vlm", "predict", "crop"]
    main(["cases", "import", "photos", "--into", "cell.cases"])
    with stand_in(dialect="ollama", see="square", boxes="0-1000") as url:
        for line in lines:
            words = [url if w.startswith("http://") else "stand-in" if w == "MODEL" else w for w in shlex.split(line)]
            code = main(words[1:])
            assert code == 0, f"{line}: {capsys.readouterr().err}"
    assert (place / "page.html").is_file()
    assert (place / "crop.html").is_file()


def test_the_python_of_the_readme_runs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["cases", "import", "photos", "--into", "cell.cases"])
    (code,) = [text for kind, text in BLOCKS if kind == "python"]
    capsys.readouterr()
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("lever 0.")


def test_the_action_list_and_the_row_of_the_readme_are_valid(place: Path) -> None:
    from sagehand.action.library import ActionLibrary
    from sagehand.cases import parse_row

    (text,) = [text for kind, text in BLOCKS if kind == "yaml"]
    assert ActionLibrary.parse(text, source="README.md").actions["lever"].confirm
    (row,) = [text for kind, text in BLOCKS if kind == "json"]
    import json

    assert parse_row(json.loads(row))["device"] == "kalo"


def test_the_demo_prints_what_the_readme_shows(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    (shown,) = [text for kind, text in BLOCKS if kind == "text"]

    def steady(text: str) -> str:
        return re.sub(r"\d+ ms", "N ms", text).strip()

    assert steady(capsys.readouterr().out) == steady(shown)


def test_no_link_of_the_documents_is_broken() -> None:
    for document in [ROOT / "README.md", *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links {target}"
