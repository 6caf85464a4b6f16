-- The tables of a store on PostgreSQL, version 3: requests to the owner of a shard, and the polls that are under way.

-- A request goes to the owner of an execution, or of a shard.
ALTER TABLE mail ALTER COLUMN execution DROP NOT NULL, ADD COLUMN shard int2;

-- The polls that are under way, with the node that polls. It is for people who look, so that a crash of the server may empty it.
CREATE UNLOGGED TABLE polling (automation text COLLATE "C" PRIMARY KEY, node int8 NOT NULL);
