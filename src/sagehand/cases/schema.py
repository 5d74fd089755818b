"""The tables of a case base, their version, and how older files are brought up to it."""

from __future__ import annotations

import sqlite3

from sagehand.errors import NewerCaseBase, NotACaseBase

__all__ = ["APPLICATION_ID", "MIGRATIONS", "SCHEMA_VERSION", "check_version", "migrate", "write_schema"]

APPLICATION_ID = 0x53414745  # "SAGE"
SCHEMA_VERSION = 3

MIGRATIONS: dict[int, tuple[str, ...]] = {
    2: ("ALTER TABLE cases ADD COLUMN depth_unit TEXT",),
    3: ("ALTER TABLE decisions ADD COLUMN relief BLOB",),
}
"""Version → the statements that bring a file of the version before it to this one."""

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE cases (
  n INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,            -- Picture.pixel_id: the same pixels are the same case
  row TEXT NOT NULL,                  -- JSON, key order kept
  line TEXT,                          -- the row as it was written, until it is corrected
  box TEXT,                           -- JSON [left, top, right, bottom], pixels of the original
  sha256 TEXT NOT NULL,               -- of the picture's file
  depth_sha256 TEXT,
  retired INTEGER NOT NULL DEFAULT 0,
  seq INTEGER NOT NULL,               -- history.seq of the last change
  vector_seq INTEGER NOT NULL,        -- history.seq of the last change of the vectors
  family TEXT NOT NULL, device TEXT NOT NULL, step INTEGER, file_name TEXT NOT NULL,
  previous_action TEXT, next_action TEXT, place TEXT, near_group TEXT,
  depth_unit TEXT                     -- of the depth image: m, mm or um; NULL, before format 2, stands for mm
);
CREATE INDEX cases_by_device ON cases (family, device, step);
CREATE INDEX cases_by_seq ON cases (seq);
CREATE TABLE pictures (sha256 TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE vectors (n INTEGER PRIMARY KEY, vector BLOB, depth BLOB);
CREATE TABLE steps (
  family TEXT NOT NULL, device TEXT NOT NULL, step INTEGER NOT NULL, name TEXT,
  PRIMARY KEY (family, device, step)
) WITHOUT ROWID;
CREATE TABLE history (
  seq INTEGER PRIMARY KEY,
  batch INTEGER NOT NULL,             -- what was done in one go, and is undone in one go
  time TEXT NOT NULL,
  operation TEXT NOT NULL,
  case_id TEXT,                       -- NULL for a change of the declared steps or of the embedder
  before TEXT, after TEXT,            -- JSON
  reason TEXT NOT NULL DEFAULT '',
  undoes INTEGER                      -- the batch that this one reverts
);
CREATE INDEX history_by_batch ON history (batch);
CREATE INDEX history_by_case ON history (case_id, seq);
CREATE TABLE decisions (
  n INTEGER PRIMARY KEY,
  time TEXT NOT NULL,
  object_id TEXT,
  revision INTEGER NOT NULL,          -- of the case base, when it was decided
  doc TEXT NOT NULL,
  vector BLOB,
  thumbnail BLOB,
  relief BLOB                         -- the query's depth vector; NULL, before format 3, says nothing
);
CREATE INDEX decisions_by_object ON decisions (object_id, n);
"""


def write_schema(connection: sqlite3.Connection, meta: dict[str, str]) -> None:
    """Lay out an empty file."""
    pragmas = f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={SCHEMA_VERSION};"
    connection.executescript(f"BEGIN; {pragmas} {SCHEMA} COMMIT;")
    connection.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))


def check_version(version: int, name: str) -> None:
    """Refuse a format that this sagehand cannot read."""
    if version > SCHEMA_VERSION:
        raise NewerCaseBase(
            f"{name} has format {version}; this sagehand reads formats up to {SCHEMA_VERSION}", hint="upgrade sagehand"
        )
    if version < 1:
        raise NotACaseBase(f"{name} has format {version}, which no sagehand wrote")


def migrate(connection: sqlite3.Connection) -> None:
    """Bring an older file up to date, inside a write transaction; does nothing where another process has done it."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    for step in range(version + 1, SCHEMA_VERSION + 1):
        for statement in MIGRATIONS[step]:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={step}")
