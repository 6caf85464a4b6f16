-- The tables of a store on PostgreSQL, version 7: what a node tells the others about itself, as JSON. NULL for a node of an earlier release.
ALTER TABLE nodes ADD COLUMN details bytea;
