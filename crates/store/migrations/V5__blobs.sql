-- The tables of a store, version 5: large values, kept in files beside this one.

-- One row per file: named by the SHA-256 of what it holds.
CREATE TABLE blobs (
  hash BLOB PRIMARY KEY NOT NULL,
  -- Bytes of what it holds, and of the file, which may be compressed.
  length INTEGER NOT NULL,
  stored INTEGER NOT NULL,
  -- How many rows of `cuts` name it.
  uses INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX blobs_unused ON blobs (hash) WHERE uses = 0;

-- One row per value that was cut out of the text of a row of `events`, and where it is to be put back: the offset in
-- the text that is left.
CREATE TABLE cuts (
  execution BLOB NOT NULL,
  first INTEGER NOT NULL,
  at INTEGER NOT NULL,
  blob BLOB NOT NULL,
  PRIMARY KEY (execution, first, at)
) STRICT, WITHOUT ROWID;

-- Bytes of all those files, so that nobody has to add them up.
INSERT INTO meta (name, value) VALUES ('blobBytes', 0);
