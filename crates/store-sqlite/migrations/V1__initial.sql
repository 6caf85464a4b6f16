-- The tables of a store on SQLite, version 1.
--
-- Small rows with 16-byte keys are WITHOUT ROWID: one tree each. Rows that carry a payload are not, for two
-- reasons: a tree that keeps whole rows in its inner pages grows deep when rows are large, and rows numbered in
-- order of arrival make one batch dirty few pages, however many executions it touches.
--
-- Times are nanoseconds since the Unix epoch, 1677 to 2262.

-- `CogW`: tells this file from any other that SQLite can read.
PRAGMA application_id = 1131374423;

-- One row per execution: the members of lists, and the number of its events and log lines.
CREATE TABLE executions (
  id BLOB PRIMARY KEY NOT NULL,
  automation TEXT NOT NULL,
  definition BLOB NOT NULL,
  -- JSON.
  origin TEXT NOT NULL,
  -- 0 queued, 1 running, 2 succeeded, 3 failed, 4 cancelled, 5 stuck, 6 waiting.
  status INTEGER NOT NULL,
  -- Its list, 8 more if it is a test: 0 running, 6 waiting, 7 waiting with a permit of its concurrency group, 16 waiting
  -- for a slot; after its end its status. An execution that is accepted to begin at once is in list 0 from the start, so
  -- most executions move only once.
  shelf INTEGER NOT NULL,
  started_ns INTEGER NOT NULL,
  finished_ns INTEGER,
  error TEXT,
  events INTEGER NOT NULL,
  logs INTEGER NOT NULL,
  -- The number of open waits, so that the end of an execution without any touches no other table.
  waits INTEGER NOT NULL DEFAULT 0,
  -- The row in `starts`.
  start INTEGER
) STRICT, WITHOUT ROWID;

-- Every list is a few ranges of one of these two, read from its newest end.
CREATE INDEX executions_by_shelf ON executions (shelf, id);
CREATE INDEX executions_by_automation ON executions (automation, shelf, id);
CREATE INDEX executions_by_replay ON executions (origin ->> '$.of', id) WHERE origin ->> '$.of' IS NOT NULL;

-- One row per execution: its first events, and the bytes of the request's body as they came. The row of the execution
-- has its number, so it needs no index, and what else belongs to the first event, which is not stored twice.
CREATE TABLE starts (
  sequence INTEGER PRIMARY KEY,
  execution BLOB NOT NULL,
  -- A JSON list. With `raw`, its first item is `[at, method, pathFragment, queryParameters, rawQuery, headers,
  -- contentType, decided]`, without it `[at, payload]`; the others are as in `events`.
  body TEXT NOT NULL,
  raw BLOB
) STRICT;

-- One row per later append: the events as a JSON list, and the index of the first of them. A step that succeeded is
-- `[at, tookUs, step, result]`, an execution that did `[at, result]`, a call `[at, call, step]`; all others are objects.
CREATE TABLE events (
  sequence INTEGER PRIMARY KEY,
  execution BLOB NOT NULL,
  first INTEGER NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_by_execution ON events (execution, first);

-- The replay of a long log begins at a snapshot.
CREATE TABLE snapshots (
  execution BLOB PRIMARY KEY NOT NULL,
  -- The number of events that it stands for.
  events INTEGER NOT NULL,
  -- In the form of the engine.
  body TEXT NOT NULL
) STRICT;

-- One row per append: the log lines as a JSON list, and the index of the first of them.
CREATE TABLE logs (
  sequence INTEGER PRIMARY KEY,
  execution BLOB NOT NULL,
  first INTEGER NOT NULL,
  lines TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX logs_by_execution ON logs (execution, first);

-- Large values, in files beside this one. One row per file, named by the SHA-256 of its content.
CREATE TABLE blobs (
  hash BLOB PRIMARY KEY NOT NULL,
  -- Bytes of its content, and of the file, which may be compressed.
  length INTEGER NOT NULL,
  stored INTEGER NOT NULL,
  -- The number of rows of `cuts` and `kept` that name it.
  uses INTEGER NOT NULL,
  -- 1 if the content is a file as it came, such as a large upload: then the file of the blob is never compressed.
  is_file INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX blobs_unused ON blobs (hash) WHERE uses = 0;

-- One row per value that was removed from the text of a row of `starts` or `events`, with its offset in the text that is left.
CREATE TABLE cuts (
  execution BLOB NOT NULL,
  first INTEGER NOT NULL,
  at INTEGER NOT NULL,
  blob BLOB NOT NULL,
  PRIMARY KEY (execution, first, at)
) STRICT, WITHOUT ROWID;

-- One row per blob that the text of a row of `starts` or `events` names.
CREATE TABLE kept (
  execution BLOB NOT NULL,
  first INTEGER NOT NULL,
  blob BLOB NOT NULL,
  PRIMARY KEY (execution, first, blob)
) STRICT, WITHOUT ROWID;

-- Executions that are deleted but whose events and logs are not all gone yet: those go in bounded steps.
CREATE TABLE remains (
  execution BLOB PRIMARY KEY NOT NULL,
  start INTEGER
) STRICT, WITHOUT ROWID;

-- One row per open wait.
CREATE TABLE waits (
  execution BLOB NOT NULL,
  step TEXT NOT NULL,
  until_ns INTEGER,
  event TEXT,
  child BLOB,
  -- A step waits for the events of a name whose member at `path` has the value `value`, both as texts; if both are empty,
  -- for every event of the name.
  path TEXT NOT NULL DEFAULT '',
  value TEXT NOT NULL DEFAULT '',
  -- The rest of its condition, with the values that it reads, in the form of the engine. NULL if only the execution itself
  -- can evaluate the condition, or if there is none.
  condition TEXT,
  PRIMARY KEY (execution, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX waits_by_event ON waits (event, path, value, execution, step) WHERE event IS NOT NULL;
CREATE INDEX waits_by_child ON waits (child, execution, step) WHERE child IS NOT NULL;

-- The keys that are taken. An execution's id begins with its time, which is the age of the key.
CREATE TABLE keys (
  automation TEXT NOT NULL,
  key TEXT NOT NULL,
  execution BLOB NOT NULL,
  PRIMARY KEY (automation, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_by_execution ON keys (execution);

-- One row per deduplication record: a hash of a sender's id, of all that was signed, or of a caller's key. It is kept
-- until its end, also if its execution is deleted.
CREATE TABLE sendings (
  automation TEXT NOT NULL,
  key BLOB NOT NULL,
  -- A hash of the whole request, if the key must not stand for another one.
  content BLOB,
  execution BLOB NOT NULL,
  until_ns INTEGER NOT NULL,
  PRIMARY KEY (automation, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX sendings_by_end ON sendings (until_ns);

-- A definition without its text: the number of executions that refer to it, and the order in which the definitions of an
-- Automation were put.
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

-- One row per Automation that ever polled.
CREATE TABLE polls (
  automation TEXT PRIMARY KEY NOT NULL,
  -- JSON.
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The keys of known items, bounded for each Automation: the oldest goes first.
CREATE TABLE poll_keys (
  automation TEXT NOT NULL,
  key TEXT NOT NULL,
  seen_ns INTEGER NOT NULL,
  PRIMARY KEY (automation, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX poll_keys_by_age ON poll_keys (automation, seen_ns);

-- The results of the latest polls, bounded for each Automation: a poll without new items leaves only its row here.
CREATE TABLE poll_log (
  sequence INTEGER PRIMARY KEY,
  automation TEXT NOT NULL,
  -- JSON.
  body TEXT NOT NULL
) STRICT;
CREATE INDEX poll_log_by_automation ON poll_log (automation, sequence);

-- One row per subscription that another application has, is to have, or is to lose.
CREATE TABLE subscriptions (
  id TEXT PRIMARY KEY NOT NULL,
  automation TEXT NOT NULL,
  -- JSON.
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

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

-- Single values. `stateVersion` is the latest version of a state value: no version is used twice, so a reader notices
-- that a value was deleted and written again. `blobBytes` is the size of all files of `blobs`.
CREATE TABLE meta (
  name TEXT PRIMARY KEY NOT NULL,
  value ANY NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('stateVersion', 0), ('blobBytes', 0);
