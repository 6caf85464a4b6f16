-- The tables of a store, version 2: what executions wait for, and values that outlive them.

-- An execution that waits has the status 6. It stands in a list of its own: on the shelf 6, or on 7 if it keeps a
-- place among others while it waits; 8 more if it is a test.

-- How many open waits an execution has, so that the end of one without any touches no other table.
ALTER TABLE executions ADD COLUMN waits INTEGER NOT NULL DEFAULT 0;

-- One row per open wait.
CREATE TABLE waits (
  execution BLOB NOT NULL,
  step TEXT NOT NULL,
  until_ns INTEGER,
  event TEXT,
  child BLOB,
  PRIMARY KEY (execution, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX waits_by_event ON waits (event, execution, step) WHERE event IS NOT NULL;
CREATE INDEX waits_by_child ON waits (child, execution, step) WHERE child IS NOT NULL;

-- One row per value. It may be large, so it is not WITHOUT ROWID.
CREATE TABLE state (
  sequence INTEGER PRIMARY KEY,
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  version INTEGER NOT NULL,
  expires_ns INTEGER,
  -- JSON.
  value TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX state_by_key ON state (scope, key);
CREATE INDEX state_by_expiry ON state (expires_ns) WHERE expires_ns IS NOT NULL;

-- What there is one of. `stateVersion` is the version given last: a version is never given twice, so that whoever
-- read a value can tell that it was deleted and written anew.
CREATE TABLE meta (
  name TEXT PRIMARY KEY NOT NULL,
  value ANY NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('stateVersion', 0);
