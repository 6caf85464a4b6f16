-- The tables of a store, version 7: files that rows name, such as large uploads.

-- Whether what the blob holds is a file as it came: then its own file is that, and is never compressed.
ALTER TABLE blobs ADD COLUMN is_file INTEGER NOT NULL DEFAULT 0;

-- One row per blob that is named in the text of a row of `events`; it counts among the blob's uses.
CREATE TABLE kept (
  execution BLOB NOT NULL,
  first INTEGER NOT NULL,
  blob BLOB NOT NULL,
  PRIMARY KEY (execution, first, blob)
) STRICT, WITHOUT ROWID;
