-- The tables of a store, version 11: the replay of a long log begins at a snapshot.

CREATE TABLE snapshots (
  execution BLOB PRIMARY KEY NOT NULL,
  -- The number of events that it stands for.
  events INTEGER NOT NULL,
  -- In the form of the engine.
  body TEXT NOT NULL
) STRICT;
