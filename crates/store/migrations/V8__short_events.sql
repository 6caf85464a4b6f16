-- The tables of a store, version 8: some events are lists.

-- Nothing to change: rows from before are read as they are. The number keeps earlier releases, which know no such events, from
-- taking them for damage. Of the events in `body`, a step that succeeded is `[at, tookUs, step, result]` from here on, an
-- execution that did `[at, result]`, with times in nanoseconds since the Unix epoch.
SELECT 1;
