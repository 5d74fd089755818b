"""``sagehand vlm probe``, and what settings and doctor say of the model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import enter, run
from vlm_servers import canned, stand_in

pytest.importorskip("openai", reason="the extra vlm is not installed")
KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    enter(tmp_path, monkeypatch)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture(scope="module")
def ollama() -> Iterator[str]:
    with stand_in("ollama", see="square", boxes="0-1000", max_images=5) as url:
        yield url


def test_a_probe_is_told_in_words_and_saved(ollama: str, here: Path) -> None:
    ran = run("vlm", "probe", "--base-url", ollama, "--model", "stand-in")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].startswith(f"stand-in at {ollama}: ")
    assert "ok  json_schema: kept to it in 3 of 3 replies" in lines
    assert any(line.startswith("no  required: ignored: ") for line in lines)
    assert "ok  images: 5; with 6: refused: 400: at most 5 image(s) may be provided in one request" in lines
    assert "profile: boxes 0-1000, json_schema > tools > text, at most 5 pictures a request" in lines
    saved = Path(lines[-1].removeprefix("saved: "))
    assert saved.is_relative_to(here / "cache")
    assert json.loads(saved.read_text())["model"] == "stand-in"
    assert ran.err == ""


def test_later_calls_and_doctor_use_the_saved_profile(ollama: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from sagehand.vlm.server import OpenAiBackend

    monkeypatch.setenv("SAGEHAND_BASE_URL", ollama)
    monkeypatch.setenv("SAGEHAND_VLM_MODEL", "stand-in")
    assert not OpenAiBackend(ollama, "stand-in").profile.probed
    (before,) = [f for f in run("doctor", "--json").json if f["what"] == "vlm"]
    assert (before["state"], before["remedy"]) == ("note", f"sagehand vlm probe --base-url {ollama} --model stand-in")
    ran = run("vlm", "probe", "--json")  # server and model from the settings
    assert ran.json["profile"]["boxes"] == "0-1000"
    assert ran.json["base_url"] == ollama
    assert {"asked", "answered", "honoured", "what"} == set(ran.json["findings"][0])
    profile = OpenAiBackend(f"{ollama}/", "stand-in").profile
    assert (profile.probed, profile.boxes, profile.max_images) == (True, "0-1000", 5)
    (after,) = [f for f in run("doctor", "--json").json if f["what"] == "vlm"]
    assert (after["state"], after["detail"]) == (
        "ok",
        f"stand-in at {ollama}: boxes 0-1000, json_schema > tools > text, at most 5 pictures a request",
    )


def test_one_model_need_not_be_named(ollama: str) -> None:
    assert run("vlm", "probe", "--base-url", ollama, "--json").json["model"] == "stand-in"
    with canned((200, {}, b'{"data": [{"id": "a"}, {"id": "b"}]}')) as server:
        assert "this server has: a, b (add --model NAME" in run("vlm", "probe", "--base-url", server.url).error


def test_a_server_that_is_not_there_is_one_line() -> None:
    assert run("vlm", "probe", "--base-url", "http://127.0.0.1:9/v1", "--model", "m").error == (
        "error: no connection to http://127.0.0.1:9/v1: All connection attempts failed "
        "(is the server running, and the address right?)"
    )
    assert "no connection" in run("vlm", "probe", "--base-url", "http://127.0.0.1:9/v1").error
    assert "no server was named" in run("vlm", "probe").error
    assert "no http:// or https:// address" in run("vlm", "probe", "--base-url", "localhost:8000", "--model", "m").error


def test_a_wrong_name_gets_the_right_ones() -> None:
    with stand_in("vllm") as url:
        error = run("vlm", "probe", "--base-url", url, "--model", "standin").error
    assert error == "error: unknown model of this server 'standin'; known: stand-in (did you mean 'stand-in'?)"


def test_the_key_comes_from_the_environment_and_is_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    with stand_in("vllm", key=KEY) as url:
        error = run("vlm", "probe", "--base-url", url, "--model", "stand-in").error
        assert "answered 401" in error
        monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-wrong-wrong")
        assert "sk-wrong" not in run("vlm", "probe", "--base-url", url, "--model", "stand-in").error
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        ran = run("vlm", "probe", "--base-url", url, "--model", "stand-in", "--json")
    assert ran.code == 0
    shown = [ran.out, run("config", "show").out, run("config", "show", "--json").out, run("doctor").out]
    assert not any(KEY in text for text in shown)
    assert run("config", "show", "--json").json["settings"]["api_key"] == {"value": "(hidden)", "source": "environment"}
    assert KEY not in Path(ran.json["saved"]).read_text()


def test_the_settings_file_may_name_server_and_key(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "sagehand.toml").write_text(
        f'base_url = "http://a/v1"\napi_key = "{KEY}"\nvlm_model = "m"\nvlm_seconds = 5\n'
    )
    shown = run("config", "show", "--json").json["settings"]
    assert (shown["base_url"]["value"], shown["api_key"]["value"], shown["vlm_seconds"]["value"]) == (
        "http://a/v1",
        "(hidden)",
        5,
    )
    monkeypatch.setenv("OPENAI_BASE_URL", "http://b/v1")
    assert run("config", "show", "--json").json["settings"]["base_url"] == {
        "value": "http://b/v1",
        "source": "environment",
    }
    monkeypatch.setenv("SAGEHAND_BASE_URL", "http://c/v1")
    assert run("config", "show", "--json").json["settings"]["base_url"]["value"] == "http://c/v1"
    monkeypatch.setenv("SAGEHAND_BASE_URL", "http://me:hunter2@c/v1")
    assert "hunter2" not in run("config", "show").out
    assert "hunter2" not in run("vlm", "probe").error


@pytest.mark.parametrize("line", ["api_key = 12345678", "api_key = true", 'api_key = ""', 'api_key = ["sk-1234"]'])
def test_a_key_of_another_type_is_refused_and_not_repeated(here: Path, line: str) -> None:
    (here / "sagehand.toml").write_text(line)
    error = run("config", "show").error
    assert "setting 'api_key'" in error
    assert "1234" not in error


def test_doctor_says_what_is_missing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vlm() -> dict[str, str]:
        return next(f for f in run("doctor", "--json").json if f["what"] == "vlm")

    assert vlm()["state"] == "note"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert vlm()["remedy"] == "set vlm_model to a model's name on that server"
    monkeypatch.setenv("OPENAI_BASE_URL", "nonsense")
    assert (vlm()["state"], run("doctor").code) == ("fail", 1)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("SAGEHAND_VLM_MODEL", "m")
    from sagehand.vlm.profile import profile_path

    path = profile_path("http://127.0.0.1:9/v1", "m")
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert vlm()["state"] == "fail"
    assert "sagehand vlm probe" in vlm()["remedy"]
