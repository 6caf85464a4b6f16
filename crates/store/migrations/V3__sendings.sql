-- The tables of a store, version 3: what was sent before.

-- One row per name of something that was sent: a hash of a sender's id, of all that was signed, or of a caller's key. It
-- is remembered until its end, whatever becomes of the execution that it started.
CREATE TABLE sendings (
  automation TEXT NOT NULL,
  key BLOB NOT NULL,
  -- A hash of all of it, where the key must not stand for anything else.
  content BLOB,
  execution BLOB NOT NULL,
  until_ns INTEGER NOT NULL,
  PRIMARY KEY (automation, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX sendings_by_end ON sendings (until_ns);
