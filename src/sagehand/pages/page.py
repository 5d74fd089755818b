"""What every page shares: the template environment, pictures as ``data:`` addresses, and clean text.

Every value is escaped on its way into a template, a name that a template does not get is an error, and the layout
forbids scripts and fetches by a Content-Security-Policy, so that a label holding HTML is shown and never run.
"""

from __future__ import annotations

from base64 import b64encode
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sagehand.errors import NotAPicture

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["data_uri", "render"]

# Control characters have no place in HTML; a NUL ends the text in some viewers.
_CONTROLS = {code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def data_uri(name: str, data: bytes) -> str:
    """The picture as a ``data:`` address that stands in the page itself.

    Args:
        name: What the picture is called, for the error.
        data: JPEG, PNG, GIF or WebP bytes, as they shall appear: nothing is decoded or resized here.

    Raises:
        NotAPicture: The bytes are of no kind that every browser shows.
    """
    if data.startswith(b"\xff\xd8\xff"):
        kind = "jpeg"
    elif data.startswith(b"\x89PNG\r\n\x1a\n"):
        kind = "png"
    elif data.startswith((b"GIF87a", b"GIF89a")):
        kind = "gif"
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "webp"
    else:
        message = f"page picture {name!r}: {len(data)} bytes that are neither JPEG, PNG, GIF nor WebP"
        raise NotAPicture(message, hint="encode it with sagehand.picture.to_jpeg first")
    return f"data:image/{kind};base64,{b64encode(data).decode('ascii')}"


def render(template: str, **values: Any) -> str:
    """Fill a template of ``pages/templates`` and give the page as text that UTF-8 can hold.

    Control characters become U+FFFD and lone surrogates (a file name that is not UTF-8) their escape.
    """
    text = _environment().get_template(template).render(**values)
    return text.translate(_CONTROLS).encode("utf-8", "backslashreplace").decode("utf-8")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("sagehand.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
