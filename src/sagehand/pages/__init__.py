"""Self-contained HTML pages from plain data: one file, no script, nothing fetched.

``page`` renders any template over the shared layout, ``words`` turns numbers into what an operator reads, ``decision``,
``crop``, ``index`` and ``study`` are the pages there are. A new page is a template that extends ``base.html`` and uses
``macros.html``.
"""

from __future__ import annotations

from sagehand.pages.crop import crop_page
from sagehand.pages.decision import decision_page
from sagehand.pages.index import IndexEntry, index_page
from sagehand.pages.page import data_uri, render
from sagehand.pages.study import study_page

__all__ = ["IndexEntry", "crop_page", "data_uri", "decision_page", "index_page", "render", "study_page"]
