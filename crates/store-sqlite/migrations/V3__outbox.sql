-- One row per event on its way to triggers. It may be large, so it is not WITHOUT ROWID.
CREATE TABLE outbox (
  -- The place in the order of delivery.
  id BLOB PRIMARY KEY NOT NULL,
  name TEXT NOT NULL,
  -- JSON, in the form of the engine.
  body TEXT NOT NULL,
  at_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX outbox_by_name ON outbox (name, id);
