"""The texts that a vision-language model is asked with: one file a question, which an integrator can read and override.

A file is plain text with places, as in ``$previous``; ``$$`` is a dollar sign. An own folder holds the files that are to be
other than the packaged ones, under the same names. A file holds the places of the packaged one and no others; those that
describe a case or the query, and the count of turns, may be left out.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from string import Template

from sagehand.errors import InputError, UnknownName

__all__ = ["FOLDER", "Prompts"]

FOLDER = Path(__file__).parent
"""Where the packaged texts are."""

_MOST_BYTES = 100_000
_MAY_BE_LEFT_OUT = {
    "case": frozenset(("device", "family", "place", "state", "history", "remaining", "last")),
    "query": frozenset(("place", "family")),
    "crop_box": frozenset(("turn", "most")),
    "crop_grid": frozenset(("turn", "most")),
}
"""Places without which a prompt still asks its question; without any other, something that the answer needs is not said."""


class Prompts:
    """The prompts, packaged or own.

    Args:
        folder: Own files (``NAME.md``) that take the place of the packaged ones; None for the packaged ones.

    Raises:
        UnknownName: A file of the folder is no prompt, or names a place that the prompt does not have.
        InputError: The folder or a file of it cannot be read; a file is empty, or lacks a place that the question needs.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
        if folder is not None:
            self._texts |= dict(_own(folder, self._texts))

    @property
    def names(self) -> tuple[str, ...]:
        """The prompts that there are."""
        return tuple(self._texts)

    @cached_property
    def digest(self) -> str:
        """16 hex digits that stand for all texts: it is written into every decision that they led to."""
        whole = "\0".join(f"{name}\0{text}" for name, text in sorted(self._texts.items()))
        return hashlib.blake2b(whole.encode(), digest_size=8).hexdigest()

    def __call__(self, name: str, **values: object) -> str:
        """A prompt with its places filled.

        Args:
            name: As of its file, without ``.md``.
            **values: What stands in its places; runs of blanks and line ends within a value are kept.
        """
        return Template(self._texts[name]).substitute({k: str(v) for k, v in values.items()}).strip()


def _own(folder: Path, packaged: dict[str, str]) -> list[tuple[str, str]]:
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder of prompts", hint=f"copy files to change from {FOLDER} into a folder")
    texts = []
    for path in sorted(folder.glob("*.md")):
        if path.stem == "README":
            continue
        if path.stem not in packaged:
            raise UnknownName(f"prompt in {folder}", path.stem, packaged)
        try:
            data = path.read_bytes()
            text = data.decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read as UTF-8 text: {error}", hint="save it in UTF-8") from error
        if len(data) > _MOST_BYTES:
            raise InputError(f"{path}: larger than {_MOST_BYTES:,} bytes", hint="a prompt has a few kilobytes")
        if not text.strip():
            raise InputError(f"{path}: is empty", hint="delete it to use the packaged prompt")
        if not Template(text).is_valid():
            raise InputError(f"{path}: a '$' that begins no place", hint="write $$ for a dollar sign")
        places = Template(packaged[path.stem]).get_identifiers()
        own = Template(text).get_identifiers()
        for place in own:
            if place not in places:
                raise UnknownName(f"place in {path}", place, places)
        lacking = [p for p in places if p not in own and p not in _MAY_BE_LEFT_OUT.get(path.stem, ())]
        if lacking:
            named = ", ".join(f"${place}" for place in lacking)
            raise InputError(f"{path}: leaves out {named}", hint=f"the packaged text is {FOLDER / path.name}")
        texts.append((path.stem, text))
    return texts
