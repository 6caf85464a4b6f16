-- The tables of a store, version 1.
--
-- Small rows with 16-byte keys are WITHOUT ROWID: one tree each. Rows that carry a payload are not, for two
-- reasons: a tree that keeps whole rows in its inner pages grows deep when rows are large, and rows numbered in
-- order of arrival make one batch dirty few pages, however many executions it touches.
--
-- Times are nanoseconds since the Unix epoch, 1677 to 2262.

-- `CogW`: what tells this file from any other that SQLite can read.
PRAGMA application_id = 1131374423;

-- One row per execution: what lists show, and how many events and log lines are stored.
CREATE TABLE executions (
  id BLOB PRIMARY KEY NOT NULL,
  automation TEXT NOT NULL,
  definition BLOB NOT NULL,
  -- JSON.
  origin TEXT NOT NULL,
  -- 0 queued, 1 running, 2 succeeded, 3 failed, 4 cancelled, 5 stuck.
  status INTEGER NOT NULL,
  -- The list it stands in: 0 while it has not ended, then its status; 8 more if it is a test. Queued and running
  -- share one, so that most appends touch no index.
  shelf INTEGER NOT NULL,
  started_ns INTEGER NOT NULL,
  finished_ns INTEGER,
  error TEXT,
  events INTEGER NOT NULL,
  logs INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Every list is a few ranges of one of these two, read from its newest end.
CREATE INDEX executions_by_shelf ON executions (shelf, id);
CREATE INDEX executions_by_automation ON executions (automation, shelf, id);

-- One row per append: the events as a JSON list, and the index of the first of them.
CREATE TABLE events (
  sequence INTEGER PRIMARY KEY,
  execution BLOB NOT NULL,
  first INTEGER NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_by_execution ON events (execution, first);

-- One row per append: the log lines as a JSON list, and the index of the first of them.
CREATE TABLE logs (
  sequence INTEGER PRIMARY KEY,
  execution BLOB NOT NULL,
  first INTEGER NOT NULL,
  lines TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX logs_by_execution ON logs (execution, first);

-- The keys that are taken. An execution's id begins with its time, which is the age of the key.
CREATE TABLE keys (
  automation TEXT NOT NULL,
  key TEXT NOT NULL,
  execution BLOB NOT NULL,
  PRIMARY KEY (automation, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_by_execution ON keys (execution);

-- What is known of a definition besides its text: how many executions refer to it, and which of an Automation's
-- definitions was put last.
CREATE TABLE definitions (
  hash BLOB PRIMARY KEY NOT NULL,
  automation TEXT NOT NULL,
  put INTEGER NOT NULL,
  executions INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX definitions_by_automation ON definitions (automation, put);

CREATE TABLE definition_texts (
  sequence INTEGER PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE,
  path TEXT NOT NULL,
  text TEXT NOT NULL
) STRICT;

CREATE TABLE addresses (
  automation TEXT PRIMARY KEY NOT NULL,
  live TEXT NOT NULL,
  test TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE watermarks (
  automation TEXT PRIMARY KEY NOT NULL,
  schedule TEXT NOT NULL,
  instant_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Executions that are deleted but whose events and logs are not all gone yet: those go in bounded steps.
CREATE TABLE remains (
  execution BLOB PRIMARY KEY NOT NULL
) STRICT, WITHOUT ROWID;
