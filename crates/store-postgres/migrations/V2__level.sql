-- The level of the language that a daemon knows. NULL: a daemon of a release that does not write it, which knows level 1.
ALTER TABLE nodes ADD COLUMN level int4;

-- The level that the definitions of the store may have is the row `level` of `meta`; without it, 1.
CREATE FUNCTION store_level() RETURNS int4 LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT convert_from(value, 'UTF8')::int4 FROM meta WHERE name = 'level'), 1)
$$;

-- A daemon of an earlier release can have read `oldest` before it was raised: it must not join behind that.
CREATE FUNCTION check_level() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF coalesce(NEW.level, 1) < store_level() THEN
    RAISE EXCEPTION 'the definitions of the database need a release that knows level % of the language; use the release that wrote them, or a later one',
      store_level();
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER check_level BEFORE INSERT ON nodes FOR EACH ROW EXECUTE FUNCTION check_level();

-- Raises the level of the store to `wanted`, for which a release has to know the tables of version `needs`. Changes nothing, and returns the
-- daemons that do not know that level, while there are any.
CREATE FUNCTION raise_level(wanted int4, needs int4) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  older text[];
BEGIN
  -- Nobody joins meanwhile.
  PERFORM pg_advisory_xact_lock(hashtextextended('cogwork:' || current_schema() || ':join', 0));
  IF store_level() >= wanted THEN
    RETURN '{}';
  END IF;
  SELECT coalesce(array_agg('the daemon ' || id || ' on `' || host || '` (release ' || release || ')' ORDER BY id), '{}') INTO older
    FROM nodes WHERE NOT dead AND coalesce(level, 1) < wanted;
  IF cardinality(older) > 0 THEN
    RETURN older;
  END IF;
  INSERT INTO meta (name, value) VALUES ('level', convert_to(wanted::text, 'UTF8'))
    ON CONFLICT (name) DO UPDATE SET value = excluded.value;
  INSERT INTO meta AS m (name, value) VALUES ('oldest', convert_to(needs::text, 'UTF8'))
    ON CONFLICT (name) DO UPDATE
      SET value = convert_to(greatest(convert_from(m.value, 'UTF8')::int4, needs)::text, 'UTF8');
  RETURN '{}';
END $$;
