-- The tables of a store, version 6: those that wait for a slot stand in a list of their own.

-- On the shelf 16, 8 more if it is a test: a million of them are not looked through for the few that run. One that is
-- accepted to begin at once stands among those that run from the start, so most executions are moved only once.
UPDATE executions SET shelf = shelf + 16 WHERE shelf IN (0, 8) AND status = 0;
