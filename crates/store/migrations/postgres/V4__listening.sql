-- The tables of a store on PostgreSQL, version 4: listening at test addresses on any node.

-- The latest session at a test address. `turn` numbers the sessions of an Automation, `last` the captures of this one.
CREATE TABLE listenings (
  automation text COLLATE "C" PRIMARY KEY,
  turn int8 NOT NULL DEFAULT 0,
  since_ns int8 NOT NULL,
  until_ns int8 NOT NULL,
  most int4 NOT NULL,
  -- Captured requests that could have started an execution.
  count int4 NOT NULL DEFAULT 0,
  last int4 NOT NULL DEFAULT 0
);
CREATE TABLE captures (
  automation text COLLATE "C",
  number int4,
  -- The request to store it, by which a repetition is recognised.
  id uuid NOT NULL,
  aside bool NOT NULL,
  size int8 NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (automation, number)
);

-- Begins a session in place of the one before, and deletes sessions beyond `sessions`: those that are over first, then the oldest.
CREATE FUNCTION begin_listening(of text, since int8, ends int8, new_most int4, sessions int4) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE
  new_turn int8;
  gone text[];
BEGIN
  PERFORM set_config('synchronous_commit', 'local', true);
  INSERT INTO listenings AS l (automation, since_ns, until_ns, most) VALUES (of, since, ends, new_most)
    ON CONFLICT (automation) DO UPDATE SET turn = l.turn + 1, since_ns = since, until_ns = ends, most = new_most, count = 0, last = 0
    RETURNING turn INTO new_turn;
  SELECT coalesce(array_agg(o.automation), '{}') INTO gone FROM (
    SELECT automation FROM listenings WHERE automation <> of
      ORDER BY until_ns > since AND count < most DESC, CASE WHEN until_ns > since AND count < most THEN until_ns ELSE since_ns END DESC
      OFFSET sessions - 1) o;
  DELETE FROM listenings WHERE automation = ANY (gone);
  DELETE FROM captures WHERE automation = of OR automation = ANY (gone);
  RETURN new_turn;
END $$;

-- Stores a capture if a session is active, and deletes the oldest ones of the largest session while all of them have more than
-- `most_bytes`. Returns false if no session is active.
CREATE FUNCTION add_capture(
  of text, new_id uuid, now_ns int8, is_aside bool, new_size int8, new_body bytea, most_asides int4, most_bytes int8
) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
  new_number int4;
  total int8;
  largest text;
BEGIN
  PERFORM set_config('synchronous_commit', 'local', true);
  -- One at a time, so that sums are of what is there.
  PERFORM pg_advisory_xact_lock(hashtextextended('cogwork:' || current_schema() || ':captures', 0));
  IF EXISTS (SELECT 1 FROM captures WHERE automation = of AND id = new_id) THEN
    RETURN true;
  END IF;
  PERFORM 1 FROM listenings WHERE automation = of AND until_ns > now_ns AND count < most FOR UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  IF is_aside AND (SELECT count(*) FROM captures WHERE automation = of AND aside) >= most_asides THEN
    RETURN true;
  END IF;
  UPDATE listenings SET last = last + 1, count = count + CASE WHEN is_aside THEN 0 ELSE 1 END WHERE automation = of
    RETURNING last INTO new_number;
  INSERT INTO captures (automation, number, id, aside, size, body)
    VALUES (of, new_number, new_id, is_aside, new_size, new_body);
  LOOP
    SELECT sum(s.size), (array_agg(s.automation ORDER BY s.size DESC))[1] INTO total, largest
      FROM (SELECT automation, sum(size) AS size FROM captures GROUP BY automation) s;
    EXIT WHEN total IS NULL OR total <= most_bytes;
    DELETE FROM captures WHERE automation = largest
      AND number = (SELECT min(number) FROM captures WHERE automation = largest);
  END LOOP;
  RETURN true;
END $$;
