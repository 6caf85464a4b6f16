-- The tables of a store, version 10: an event finds the steps that wait for it by a key.

-- A step waits for the events of a name whose member at `path` has the value `value`, both as texts; if both are empty, for
-- every event of the name.
ALTER TABLE waits ADD COLUMN path TEXT NOT NULL DEFAULT '';
ALTER TABLE waits ADD COLUMN value TEXT NOT NULL DEFAULT '';
-- The rest of its condition, with the values that it reads, in the form of the engine. NULL if only the execution itself can
-- evaluate the condition, or if there is none.
ALTER TABLE waits ADD COLUMN condition TEXT;

DROP INDEX waits_by_event;
CREATE INDEX waits_by_event ON waits (event, path, value, execution, step) WHERE event IS NOT NULL;
