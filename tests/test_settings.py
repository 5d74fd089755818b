"""File < environment < flags, and errors that name place, value and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from sagehand.errors import SettingsError
from sagehand.settings import load_settings


def test_each_layer_wins_over_the_one_before_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "sagehand.toml").write_text('risk = 0.2\nthreads = 3\ncases = "a.cases"\n')
    resolved = load_settings(
        directory=tmp_path,
        environment={"SAGEHAND_THREADS": "4", "SAGEHAND_RISK": "0.1"},
        flags={"risk": 0.05, "crop": None},
    )
    assert (resolved.settings.risk, resolved.settings.threads, resolved.settings.cases) == (0.05, 4, Path("a.cases"))
    assert {n: resolved.sources[n] for n in ("risk", "threads", "cases", "crop")} == {
        "risk": "flag",
        "threads": "environment",
        "cases": "file",
        "crop": "default",
    }


@pytest.mark.parametrize(
    ("text", "environment", "flags", "words"),
    [
        ("risk = 2", {}, {}, ["sagehand.toml", "'risk'", "2", "less than 1"]),
        ("rsik = 0.1", {}, {}, ["unknown setting 'rsik'", "did you mean 'risk'"]),
        ("risk = ", {}, {}, ["cannot be read"]),
        ("", {"SAGEHAND_THREADS": "many"}, {}, ["SAGEHAND_THREADS", "'many'", "integer"]),
        ("", {}, {"domain_level": 1.5}, ["--domain-level", "1.5"]),
        ("", {"SAGEHAND_CONFIG": "nowhere.toml"}, {}, ["nowhere.toml", "no such settings file"]),
        ('depth_unit = "cm"', {}, {}, ["'cm'", "'m', 'mm' or 'um'"]),
    ],
)
def test_bad_settings(
    tmp_path: Path, text: str, environment: dict[str, str], flags: dict[str, object], words: list[str]
) -> None:
    (tmp_path / "sagehand.toml").write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings(directory=tmp_path, environment=environment, flags=flags)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)
