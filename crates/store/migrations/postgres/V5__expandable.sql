-- The tables of a store on PostgreSQL, version 5: a later release may add columns to `live` while daemons of this one run, since no
-- function depends on the number of its columns any more.

-- As before, but for the columns of `gone`, which have their names.
CREATE OR REPLACE FUNCTION end_many(
  node int8, ids uuid[], firsts int4[], counts int4[], new_statuses int2[], finished int8[], new_errors bytea[], bodies bytea[],
  line_counts int4[], new_lines bytea[], OUT done bool[]
) LANGUAGE plpgsql AS $$
DECLARE
  l live%ROWTYPE;
  gone live[] := '{}';
  places int4[] := '{}';
BEGIN
  done := array_fill(false, ARRAY[cardinality(ids)]);
  FOR i IN 1 .. cardinality(ids) LOOP
    DELETE FROM live WHERE id = ids[i] AND events = firsts[i] AND NOT waits AND owner = node
      RETURNING * INTO l;
    IF FOUND THEN
      done[i] := true;
      gone := array_append(gone, l);
      places := array_append(places, i);
    END IF;
  END LOOP;
  -- The column of `places` has the name of the function.
  INSERT INTO executions (id, automation, definition, origin, shelf, started_ns, finished_ns, error, events, logs, tail_first, tail, replay_of)
    SELECT g.id, g.automation, g.definition, g.origin, new_statuses[g.unnest] + CASE WHEN g.test THEN 8 ELSE 0 END, g.started_ns,
      finished[g.unnest], new_errors[g.unnest], g.events + counts[g.unnest], g.logs + line_counts[g.unnest],
      CASE WHEN bodies[g.unnest] IS NOT NULL THEN g.events END, bodies[g.unnest], g.replay_of
    FROM unnest(gone, places) AS g;
  INSERT INTO logs (execution, first, lines)
    SELECT g.id, g.logs, new_lines[g.unnest]
    FROM unnest(gone, places) AS g
    WHERE line_counts[g.unnest] > 0;
END $$;

-- As before, but for an execution that goes on after its end, whose row is made by the names of its columns.
CREATE OR REPLACE FUNCTION append_one(
  node int8, of uuid, first_event int4, event_count int4, new_status int2, keeps bool, ends bool, finished int8, new_error bytea,
  new_body bytea, line_count int4, new_lines bytea,
  replaces bool, wait_step bytea[], wait_until int8[], wait_event bytea[], wait_path bytea[], wait_value bytea[],
  wait_condition bytea[], wait_child uuid[], wake int8,
  state_scope bytea[], state_key bytea[], state_expected int8[], state_value bytea[], state_expiry int8[],
  puts_snapshot bool, deletes_snapshot bool, snapshot_events int4, snapshot_body bytea,
  use_blob bytea[], use_at int4[],
  OUT verdict int2, OUT detail int4
) LANGUAGE plpgsql AS $$
DECLARE
  l live%ROWTYPE;
  e executions%ROWTYPE;
  has_ended bool := false;
BEGIN
  verdict := 0;
  SELECT * INTO l FROM live WHERE id = of FOR UPDATE;
  IF NOT FOUND THEN
    SELECT * INTO e FROM executions WHERE id = of FOR UPDATE;
    IF NOT FOUND THEN
      verdict := 2;
      RETURN;
    END IF;
    has_ended := true;
    l.id := of;
    l.automation := e.automation;
    l.definition := e.definition;
    l.origin := e.origin;
    l.test := e.shelf >= 8;
    l.status := e.shelf % 8;
    l.started_ns := e.started_ns;
    l.owner := node;
    l.events := e.events;
    l.logs := e.logs;
    l.holds := false;
    l.waits := false;
    l.replay_of := e.replay_of;
    l.handed := false;
  END IF;
  IF l.owner IS DISTINCT FROM node THEN
    verdict := 4;
    RETURN;
  END IF;
  IF l.events <> first_event THEN
    verdict := 1;
    detail := l.events;
    RETURN;
  END IF;
  IF cardinality(state_scope) > 0 THEN
    detail := change_state(state_scope, state_key, state_expected, state_value, state_expiry);
    IF detail > 0 THEN
      verdict := 3;
      RETURN;
    END IF;
  END IF;
  IF new_lines IS NOT NULL THEN
    INSERT INTO logs (execution, first, lines) VALUES (of, l.logs, new_lines);
  END IF;
  IF has_ended AND ends AND event_count = 0 THEN
    UPDATE executions SET logs = logs + line_count WHERE id = of;
    RETURN;
  END IF;
  IF has_ended THEN
    -- It goes on after its end: what its row of the history has of the log moves to the other events.
    INSERT INTO events (execution, first, body, raw) SELECT of, 0, e.start, e.raw WHERE e.start IS NOT NULL;
    INSERT INTO events (execution, first, body) SELECT of, e.tail_first, e.tail WHERE e.tail IS NOT NULL;
    DELETE FROM executions WHERE id = of;
  END IF;
  IF ends THEN
    DELETE FROM live WHERE id = of;
    IF l.waits THEN
      DELETE FROM waits WHERE execution = of;
    END IF;
    INSERT INTO executions (id, automation, definition, origin, shelf, started_ns, finished_ns, error, events, logs, tail_first, tail, replay_of)
      VALUES (of, l.automation, l.definition, l.origin, new_status + CASE WHEN l.test THEN 8 ELSE 0 END, l.started_ns,
        finished, new_error, l.events + event_count, l.logs + line_count,
        CASE WHEN new_body IS NOT NULL THEN first_event END, new_body, l.replay_of);
  ELSE
    l.status := new_status;
    l.events := l.events + event_count;
    l.logs := l.logs + line_count;
    l.holds := keeps;
    IF replaces THEN
      DELETE FROM waits WHERE execution = of;
      INSERT INTO waits (execution, step, until_ns, event, path, value, condition, child)
        SELECT of, t.* FROM unnest(
          wait_step, wait_until, wait_event, wait_path, wait_value, wait_condition, wait_child) AS t;
      l.waits := cardinality(wait_step) > 0;
      l.wake_ns := wake;
    END IF;
    IF has_ended THEN
      INSERT INTO live (id, automation, definition, origin, test, status, started_ns, owner, events, logs, holds, waits, wake_ns,
          replay_of, gate, handed)
        VALUES (l.id, l.automation, l.definition, l.origin, l.test, l.status, l.started_ns, l.owner, l.events, l.logs, l.holds,
          l.waits, l.wake_ns, l.replay_of, l.gate, l.handed);
    ELSE
      UPDATE live SET status = l.status, events = l.events, logs = l.logs, holds = l.holds,
        waits = l.waits, wake_ns = l.wake_ns WHERE id = of;
    END IF;
    IF new_body IS NOT NULL THEN
      INSERT INTO events (execution, first, body) VALUES (of, first_event, new_body);
    END IF;
  END IF;
  IF puts_snapshot THEN
    INSERT INTO snapshots (execution, events, body) VALUES (of, snapshot_events, snapshot_body)
      ON CONFLICT (execution) DO UPDATE SET events = excluded.events, body = excluded.body;
  ELSIF deletes_snapshot THEN
    DELETE FROM snapshots WHERE execution = of;
  END IF;
  INSERT INTO blob_uses (execution, first, blob, at)
    SELECT of, first_event, t.* FROM unnest(use_blob, use_at) AS t;
END $$;
