-- The tables of a store, version 4: where polls stand, and what other applications were asked to tell.

-- One row per Automation that ever polled.
CREATE TABLE polls (
  automation TEXT PRIMARY KEY NOT NULL,
  -- JSON.
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What was seen, bounded for each Automation: the oldest goes first.
CREATE TABLE poll_keys (
  automation TEXT NOT NULL,
  key TEXT NOT NULL,
  seen_ns INTEGER NOT NULL,
  PRIMARY KEY (automation, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX poll_keys_by_age ON poll_keys (automation, seen_ns);

-- What came of the latest polls, bounded for each Automation: a poll that found nothing leaves no more than its row here.
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
