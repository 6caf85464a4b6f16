-- One row per event on its way to triggers, by its place in the order of delivery.
CREATE TABLE outbox (id uuid PRIMARY KEY, name bytea NOT NULL, body bytea NOT NULL, at_ns int8 NOT NULL)
  WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
        vacuum_truncate = off);
-- A name can be longer than an index takes.
CREATE INDEX outbox_by_name ON outbox (sha256(name), id);
