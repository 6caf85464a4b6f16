-- The tables of a store, version 9: how an execution began has a table of its own.

-- One row per execution accepted from here on: its first events, and the bytes of the request's body as they came. The row
-- of the execution says where it is, so no index leads here, and has what else belongs to the first event: that is not
-- said twice. Executions from before have their first row in `events`, as have all of them what came later.
CREATE TABLE starts (
  sequence INTEGER PRIMARY KEY,
  execution BLOB NOT NULL,
  -- A JSON list. With `raw`, its first item is `[at, method, pathFragment, queryParameters, rawQuery, headers,
  -- contentType, decided]`, without it `[at, payload]`; the others are as in `events`.
  body TEXT NOT NULL,
  raw BLOB
) STRICT;

-- The row in `starts`.
ALTER TABLE executions ADD COLUMN start INTEGER;
ALTER TABLE remains ADD COLUMN start INTEGER;
