-- The tables of a store on PostgreSQL, version 6: executions that a node gives to another one, and pairings.

-- Open pairings with senders that supply the secret of a webhook themselves.
CREATE TABLE pairings (automation text COLLATE "C" PRIMARY KEY, until_ns int8 NOT NULL);

-- Forgets dead nodes that own nothing, and requests that nobody waits for. A node that gets executions while it dies is locked by
-- the transaction that gives them. It stays, and is looked at again.
CREATE OR REPLACE FUNCTION forget_dead() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  locked int8[];
  gone int8[];
BEGIN
  SELECT coalesce(array_agg(d.id), '{}') INTO locked FROM (SELECT id FROM nodes WHERE dead FOR UPDATE SKIP LOCKED) d;
  -- Read behind the locks.
  SELECT coalesce(array_agg(n.id), '{}') INTO gone FROM unnest(locked) AS n (id)
    WHERE NOT EXISTS (SELECT 1 FROM shards WHERE owner = n.id) AND NOT EXISTS (SELECT 1 FROM live WHERE owner = n.id);
  DELETE FROM lanes WHERE node = ANY (gone);
  DELETE FROM nodes WHERE id = ANY (gone);
  DELETE FROM mail WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = sender AND NOT n.dead)
    AND (reply IS NOT NULL OR NOT EXISTS (SELECT 1 FROM live WHERE id = execution));
END $$;
