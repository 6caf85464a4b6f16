-- The execution that another one replays gets a column. An index over the JSON text of the origin is computed for every row that is added.
ALTER TABLE executions ADD COLUMN replay_of BLOB;
UPDATE executions SET replay_of = unhex(replace(origin ->> '$.of', '-', '')) WHERE origin ->> '$.of' IS NOT NULL;
DROP INDEX executions_by_replay;
CREATE INDEX executions_by_replay ON executions (replay_of, id) WHERE replay_of IS NOT NULL;
