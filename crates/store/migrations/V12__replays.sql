-- The tables of a store, version 12: the replays of an execution are found by its id.

CREATE INDEX executions_by_replay ON executions (origin ->> '$.of', id) WHERE origin ->> '$.of' IS NOT NULL;
