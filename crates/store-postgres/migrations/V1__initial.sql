-- The tables of a store on PostgreSQL, version 1.
--
-- Times are nanoseconds since the Unix epoch. Texts of authors are bytea: a text column takes no NUL, and bytea is ordered by
-- bytes as in every other store. Numbers in dictionaries (`automations`, `definitions`) keep the rows of executions small.
--
-- Functions name the columns that they write: a later release may add columns while daemons of this one run.

CREATE TABLE meta (name text COLLATE "C" PRIMARY KEY, value bytea NOT NULL);
CREATE SEQUENCE node_id;
CREATE SEQUENCE state_version;

-- A run of a daemon. Its number never comes back. `beat` rises while it runs.
CREATE TABLE nodes (
  id int8 PRIMARY KEY,
  name text NOT NULL,
  host text NOT NULL,
  release text NOT NULL,
  beat int8 NOT NULL DEFAULT 0,
  dead bool NOT NULL DEFAULT false,
  joined_ns int8 NOT NULL,
  -- The session that beats, which has the locks of the node.
  pid int4,
  -- The load that it reports with each beat: executions in memory, those that wait for a slot, and those that rest.
  in_flight int8 NOT NULL DEFAULT 0,
  queued int8 NOT NULL DEFAULT 0,
  resting int8 NOT NULL DEFAULT 0,
  -- The generation of definitions that it runs; NULL if those are of its own folder. And why it is not the newest; NULL if it is.
  generation int8,
  problem bytea,
  -- Its description of itself for the others, as JSON.
  details bytea
) WITH (fillfactor = 20);

-- A connection of a node that writes. Every transaction on it raises `batch` by one, or fails if the lane is dead.
CREATE TABLE lanes (
  node int8,
  lane int2,
  batch int8 NOT NULL DEFAULT 0,
  dead bool NOT NULL DEFAULT false,
  pid int4,
  PRIMARY KEY (node, lane)
) WITH (fillfactor = 20);

-- Shards divide by Automation what must be in one place: schedules, polls, subscriptions, and executions that wait for
-- each other. The owner of a shard has all of it. A shard changes its owner when that one is dead, or gives it up while no gated
-- execution of it is unfinished.
CREATE TABLE shards (id int2 PRIMARY KEY, owner int8) WITH (fillfactor = 20);
INSERT INTO shards (id) SELECT generate_series(0, 127);

-- Requests of a node to the owner of an execution, or of a shard, which writes the reply. The sender deletes it.
CREATE TABLE mail (id uuid PRIMARY KEY, execution uuid, sender int8 NOT NULL, body bytea NOT NULL, reply bytea, shard int2);

CREATE TABLE automations (
  no int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" UNIQUE NOT NULL
);
CREATE TABLE definitions (
  no int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  hash bytea UNIQUE NOT NULL,
  automation int4 NOT NULL,
  put int8 NOT NULL,
  path bytea NOT NULL,
  body bytea NOT NULL
);
CREATE INDEX definitions_by_automation ON definitions (automation, put);
-- The days of the ids of the executions of a definition, in place of a count that every execution would touch.
CREATE TABLE definition_days (definition int4, day int4, PRIMARY KEY (definition, day));

-- Generations of the deployed project: each has the paths of all its files, with the hashes of their texts. `id` is the request, by
-- which a repetition of it is recognised.
CREATE TABLE deployments (
  generation int8 PRIMARY KEY,
  id uuid UNIQUE NOT NULL,
  at_ns int8 NOT NULL,
  author bytea NOT NULL,
  note bytea NOT NULL,
  source text NOT NULL
);
CREATE TABLE deployed_files (generation int8, path bytea, hash bytea NOT NULL, PRIMARY KEY (generation, path));
CREATE INDEX deployed_files_by_hash ON deployed_files (hash);
-- `put_ns` is the time of the last deployment that was about to name it.
CREATE TABLE deployed_texts (hash bytea PRIMARY KEY, put_ns int8 NOT NULL, body bytea NOT NULL);

-- Executions that have not ended: small rows without payloads. There is no index on `owner`: with one, the planner would scan
-- all executions of a node for each batch.
CREATE TABLE live (
  id uuid PRIMARY KEY,
  automation int4 NOT NULL,
  definition int4 NOT NULL,
  origin bytea NOT NULL,
  test bool NOT NULL,
  status int2 NOT NULL,
  started_ns int8 NOT NULL,
  -- The node that has it, from its acceptance to its end. NULL while its shard has no owner.
  owner int8,
  events int4 NOT NULL,
  logs int4 NOT NULL,
  -- Whether it keeps its concurrency permit while it waits.
  holds bool NOT NULL DEFAULT false,
  -- Whether it has open waits, and the earliest end of one.
  waits bool NOT NULL DEFAULT false,
  wake_ns int8,
  -- The execution that it replays.
  replay_of uuid,
  -- The shard in which it waits for others of its Automation; NULL if it never does.
  gate int2,
  -- Whether it was given to its owner, who does not have it in memory yet.
  handed bool NOT NULL DEFAULT false
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
        vacuum_truncate = off);

CREATE INDEX live_by_replay ON live (replay_of, id) WHERE replay_of IS NOT NULL;
CREATE INDEX live_by_gate ON live (gate) WHERE gate IS NOT NULL;
CREATE INDEX live_handed ON live (owner, id) WHERE handed;

-- Executions that have ended. Partitioned by day, with which an id begins, so that a page of a list reads one partition or two.
CREATE TABLE executions (
  id uuid NOT NULL,
  automation int4 NOT NULL,
  definition int4 NOT NULL,
  origin bytea NOT NULL,
  -- The status; 8 more if it is a test.
  shelf int2 NOT NULL,
  started_ns int8 NOT NULL,
  finished_ns int8,
  error bytea,
  events int4 NOT NULL,
  logs int4 NOT NULL,
  -- The first events of one that was accepted and ended at once, with the body of its request.
  start bytea,
  raw bytea,
  -- The last append, and the index of its first event.
  tail_first int4,
  tail bytea,
  replay_of uuid,
  PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX executions_by_automation ON executions (automation, shelf, id);
CREATE INDEX executions_by_shelf ON executions (shelf, id) WHERE shelf <> 2;
CREATE INDEX executions_by_replay ON executions (replay_of, id) WHERE replay_of IS NOT NULL;

-- One row per append: the events as a JSON list, and the index of the first. The row of index 0 is the start, with the body of
-- the request.
CREATE TABLE events (
  execution uuid NOT NULL,
  first int4 NOT NULL,
  body bytea NOT NULL,
  raw bytea,
  PRIMARY KEY (execution, first)
) PARTITION BY RANGE (execution);
-- One row per append: the log lines as a JSON list, and the index of the first.
CREATE TABLE logs (
  execution uuid NOT NULL,
  first int4 NOT NULL,
  lines bytea NOT NULL,
  PRIMARY KEY (execution, first)
) PARTITION BY RANGE (execution);
-- The blobs of the row of event `first`: a value that was removed from its text at the offset `at`, or, at -1, a file that the
-- text names.
CREATE TABLE blob_uses (
  execution uuid NOT NULL,
  first int4 NOT NULL,
  blob bytea NOT NULL,
  at int4 NOT NULL,
  PRIMARY KEY (execution, first, blob, at)
) PARTITION BY RANGE (execution);
CREATE INDEX blob_uses_by_blob ON blob_uses (blob);

-- Large values, by the SHA-256 of their content. `at_ns` is the time of the last write that names it.
CREATE TABLE blobs (hash bytea PRIMARY KEY, length int8 NOT NULL, stored int8 NOT NULL, at_ns int8 NOT NULL);
CREATE TABLE blob_chunks (hash bytea, no int4, bytes bytea NOT NULL, PRIMARY KEY (hash, no));
-- They are compressed where that pays.
ALTER TABLE blob_chunks ALTER bytes SET STORAGE EXTERNAL;

CREATE TABLE snapshots (execution uuid PRIMARY KEY, events int4 NOT NULL, body bytea NOT NULL);

CREATE TABLE waits (
  execution uuid NOT NULL,
  step bytea NOT NULL,
  until_ns int8,
  event bytea,
  path bytea NOT NULL,
  value bytea NOT NULL,
  condition bytea,
  child uuid,
  PRIMARY KEY (execution, step)
);
-- A value can be longer than an index takes.
CREATE INDEX waits_by_event ON waits (event, path, sha256(value), execution, step) WHERE event IS NOT NULL;
CREATE INDEX waits_by_child ON waits (child, execution, step) WHERE child IS NOT NULL;

-- A name that an execution takes in its Automation: a key (kind 0), until it is pruned, or a deduplication record (kind 1), until its end.
CREATE TABLE names (
  automation int4 NOT NULL,
  kind int2 NOT NULL,
  key bytea NOT NULL,
  execution uuid NOT NULL,
  content bytea,
  until_ns int8,
  PRIMARY KEY (automation, kind, key)
);
CREATE INDEX names_by_end ON names (until_ns) WHERE until_ns IS NOT NULL;
CREATE INDEX names_by_execution ON names (execution) WHERE until_ns IS NULL;

CREATE TABLE state (
  scope bytea NOT NULL,
  key bytea NOT NULL,
  version int8 NOT NULL,
  expires_ns int8,
  value bytea NOT NULL,
  PRIMARY KEY (scope, key)
);
CREATE INDEX state_by_expiry ON state (expires_ns) WHERE expires_ns IS NOT NULL;

CREATE TABLE addresses (automation text COLLATE "C" PRIMARY KEY, live text NOT NULL, test text NOT NULL);
CREATE TABLE watermarks (automation text COLLATE "C" PRIMARY KEY, schedule bytea NOT NULL, instant_ns int8 NOT NULL);
CREATE TABLE polls (automation text COLLATE "C" PRIMARY KEY, body bytea NOT NULL);
CREATE TABLE poll_keys (
  automation text COLLATE "C" NOT NULL,
  key bytea NOT NULL,
  seen_ns int8 NOT NULL,
  PRIMARY KEY (automation, key)
);
CREATE INDEX poll_keys_by_age ON poll_keys (automation, seen_ns);
CREATE TABLE poll_log (
  no int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  automation text COLLATE "C" NOT NULL,
  body bytea NOT NULL
);
CREATE INDEX poll_log_by_automation ON poll_log (automation, no);
-- The polls in progress, each with the node that polls. Only people read it, so a crash of the server may empty it.
CREATE UNLOGGED TABLE polling (automation text COLLATE "C" PRIMARY KEY, node int8 NOT NULL);
CREATE TABLE subscriptions (id bytea PRIMARY KEY, body bytea NOT NULL);

-- The token bucket of a rate limit. A node takes some tokens at once and holds those that it does not use yet, for a moment.
-- Tokens in the bucket and held ones together are never more than the burst. A full bucket is as good as none.
CREATE TABLE buckets (
  automation text COLLATE "C",
  test bool,
  tokens float8 NOT NULL,
  -- The time of `tokens`, by the clock of the database.
  at_ns int8 NOT NULL,
  -- When it will be full, and nobody holds any of it.
  full_ns int8 NOT NULL,
  -- The nodes that hold tokens, the number that each holds at most, and the end of that.
  holders int8[] NOT NULL DEFAULT '{}',
  held int4[] NOT NULL DEFAULT '{}',
  until_ns int8[] NOT NULL DEFAULT '{}',
  PRIMARY KEY (automation, test)
) WITH (fillfactor = 20);

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

-- Open pairings with senders that supply the secret of a webhook themselves.
CREATE TABLE pairings (automation text COLLATE "C" PRIMARY KEY, until_ns int8 NOT NULL);

-- Begins a batch of a lane: raises its number by exactly one. An error if the lane is dead or the number is not the next one.
CREATE FUNCTION fence(n int8, l int2, b int8) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE lanes SET batch = b WHERE node = n AND lane = l AND batch = b - 1 AND NOT dead;
  IF NOT FOUND THEN
    RAISE SQLSTATE 'CW001' USING MESSAGE = 'fenced';
  END IF;
END $$;

-- Writes the result of a poll. Keeps the latest `most_keys` keys and `most_entries` entries.
CREATE FUNCTION write_poll(
  of text, new_body bytea, forget bool, new_keys bytea[], seen int8, entry bytea, most_keys int4, most_entries int4
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO polls (automation, body) VALUES (of, new_body)
    ON CONFLICT (automation) DO UPDATE SET body = excluded.body;
  IF forget THEN
    DELETE FROM poll_keys WHERE automation = of;
  END IF;
  IF cardinality(new_keys) > 0 THEN
    INSERT INTO poll_keys (automation, key, seen_ns) SELECT DISTINCT of, k, seen FROM unnest(new_keys) AS k
      ON CONFLICT (automation, key) DO UPDATE SET seen_ns = excluded.seen_ns;
    DELETE FROM poll_keys WHERE automation = of AND key IN (
      SELECT key FROM poll_keys WHERE automation = of ORDER BY seen_ns DESC OFFSET most_keys);
  END IF;
  IF entry IS NOT NULL THEN
    INSERT INTO poll_log (automation, body) VALUES (of, entry);
    DELETE FROM poll_log WHERE automation = of AND no <= (
      SELECT no FROM poll_log WHERE automation = of ORDER BY no DESC OFFSET most_entries LIMIT 1);
  END IF;
END $$;

-- Accepts executions together, with the names that each takes. The verdict of each is 0: accepted, 1: `others` has the execution
-- that took a name before, 2: that one with different content, 4: accepted and given to the owner of its shard.
CREATE FUNCTION accept(
  node int8, ids uuid[], of_automation int4[], of_definition int4[], origins bytea[], tests bool[], statuses int2[],
  started int8[], ended bool[], finished int8[], errors bytea[], counts int4[], bodies bytea[], raws bytea[],
  line_counts int4[], lines bytea[],
  name_of int4[], name_kind int2[], name_key bytea[], name_content bytea[], name_until int8[],
  use_of int4[], use_blob bytea[], use_at int4[], replays uuid[], gates int2[],
  OUT verdicts int2[], OUT others uuid[]
) LANGUAGE plpgsql AS $$
DECLARE
  -- The next name and the next blob; both are in the order of their executions.
  n int4 := 1;
  u int4 := 1;
  taken_by uuid;
  differs bool;
  verdict int2;
  place int8;
  is_new bool;
BEGIN
  verdicts := '{}';
  others := '{}';
  FOR i IN 1 .. cardinality(ids) LOOP
    verdict := 0;
    is_new := false;
    taken_by := NULL;
    IF name_of[n] = i THEN
      BEGIN
        WHILE name_of[n] = i LOOP
          INSERT INTO names AS o (automation, kind, key, execution, content, until_ns)
            VALUES (of_automation[i], name_kind[n], name_key[n], ids[i], name_content[n], name_until[n])
            ON CONFLICT (automation, kind, key) DO UPDATE
              SET execution = excluded.execution, content = excluded.content, until_ns = excluded.until_ns
              WHERE o.until_ns <= started[i];
          IF NOT FOUND THEN
            SELECT o.execution, coalesce(o.content <> name_content[n], false) INTO taken_by, differs FROM names o
              WHERE o.automation = of_automation[i] AND o.kind = name_kind[n] AND o.key = name_key[n];
            RAISE SQLSTATE 'CW002';
          END IF;
          n := n + 1;
        END LOOP;
      EXCEPTION WHEN SQLSTATE 'CW002' THEN
        verdict := CASE WHEN differs THEN 2 ELSE 1 END;
      END;
    END IF;
    WHILE name_of[n] = i LOOP
      n := n + 1;
    END LOOP;
    IF verdict = 0 THEN
      is_new := true;
      IF ended[i] THEN
        INSERT INTO executions (id, automation, definition, origin, shelf, started_ns, finished_ns, error, events, logs, start, raw,
            replay_of)
          VALUES (ids[i], of_automation[i], of_definition[i], origins[i],
            statuses[i] + CASE WHEN tests[i] THEN 8 ELSE 0 END,
            started[i], finished[i], errors[i], counts[i], line_counts[i], bodies[i], raws[i], replays[i]);
      ELSE
        place := node;
        IF gates[i] IS NOT NULL THEN
          -- The shard stays where it is until this transaction ends.
          SELECT owner INTO place FROM shards WHERE id = gates[i] FOR SHARE;
        END IF;
        INSERT INTO live (id, automation, definition, origin, test, status, started_ns, owner, events, logs, replay_of, gate, handed)
          VALUES (ids[i], of_automation[i], of_definition[i], origins[i], tests[i], statuses[i], started[i], place,
            counts[i], line_counts[i], replays[i], gates[i], place IS DISTINCT FROM node);
        verdict := CASE WHEN place IS DISTINCT FROM node THEN 4 ELSE 0 END;
        INSERT INTO events (execution, first, body, raw) VALUES (ids[i], 0, bodies[i], raws[i]);
      END IF;
      IF lines[i] IS NOT NULL THEN
        INSERT INTO logs (execution, first, lines) VALUES (ids[i], 0, lines[i]);
      END IF;
    END IF;
    WHILE use_of[u] = i LOOP
      IF is_new THEN
        INSERT INTO blob_uses (execution, first, blob, at) VALUES (ids[i], 0, use_blob[u], use_at[u]);
      END IF;
      u := u + 1;
    END LOOP;
    verdicts := array_append(verdicts, verdict);
    others := array_append(others, taken_by);
  END LOOP;
END $$;

-- Changes values of the state, each under the version that it must have. Returns the index of the first that has another one, or
-- 0; then nothing is changed. A value that is NULL deletes.
CREATE FUNCTION change_state(
  scopes bytea[], keys bytea[], expected int8[], new_values bytea[], new_expiry int8[], OUT differs int4
) LANGUAGE plpgsql AS $$
BEGIN
  differs := 0;
  BEGIN
    FOR i IN 1 .. cardinality(scopes) LOOP
      differs := i;
      IF new_values[i] IS NULL THEN
        IF expected[i] IS NULL THEN
          PERFORM 1 FROM state WHERE scope = scopes[i] AND key = keys[i];
          IF FOUND THEN
            RAISE SQLSTATE 'CW002';
          END IF;
          CONTINUE;
        END IF;
        DELETE FROM state WHERE scope = scopes[i] AND key = keys[i] AND version = expected[i];
      ELSIF expected[i] IS NULL THEN
        INSERT INTO state (scope, key, version, expires_ns, value)
          VALUES (scopes[i], keys[i], nextval('state_version'), new_expiry[i], new_values[i])
          ON CONFLICT (scope, key) DO NOTHING;
      ELSE
        UPDATE state SET version = nextval('state_version'), expires_ns = new_expiry[i], value = new_values[i]
          WHERE scope = scopes[i] AND key = keys[i] AND version = expected[i];
      END IF;
      IF NOT FOUND THEN
        RAISE SQLSTATE 'CW002';
      END IF;
    END LOOP;
    differs := 0;
  EXCEPTION WHEN SQLSTATE 'CW002' THEN
    NULL;
  END;
END $$;

-- Appends to executions that go on. Returns for each whether it had the expected number of events. The rows are found one by one:
-- a join could read all of `live`, since its statistics say that it is empty whenever it was when they were taken.
CREATE FUNCTION append_many(
  node int8, ids uuid[], firsts int4[], counts int4[], new_statuses int2[], keeps bool[], bodies bytea[],
  line_counts int4[], new_lines bytea[], OUT done bool[]
) LANGUAGE plpgsql AS $$
DECLARE
  first_lines int4[] := array_fill(0, ARRAY[cardinality(ids)]);
  last_lines int4;
  any_lines bool := false;
BEGIN
  done := array_fill(false, ARRAY[cardinality(ids)]);
  FOR i IN 1 .. cardinality(ids) LOOP
    UPDATE live SET events = events + counts[i], logs = logs + line_counts[i], status = new_statuses[i], holds = keeps[i]
      WHERE id = ids[i] AND events = firsts[i] AND owner = node
      RETURNING logs INTO last_lines;
    IF FOUND THEN
      done[i] := true;
      IF line_counts[i] > 0 THEN
        first_lines[i] := last_lines - line_counts[i];
        any_lines := true;
      END IF;
    END IF;
  END LOOP;
  INSERT INTO events (execution, first, body)
    SELECT t.id, t.first, t.body FROM unnest(ids, firsts, bodies, done) AS t (id, first, body, done)
    WHERE t.done AND t.body IS NOT NULL;
  IF any_lines THEN
    INSERT INTO logs (execution, first, lines)
      SELECT t.id, t.first, t.lines FROM unnest(ids, first_lines, new_lines, done) AS t (id, first, lines, done)
      WHERE t.done AND t.lines IS NOT NULL;
  END IF;
END $$;

-- Ends executions that have no open waits. Returns for each whether it had the expected number of events.
CREATE FUNCTION end_many(
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
  -- The column of `places` has the name of the function `unnest`.
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

-- Appends to one execution, whatever the append has. Verdict 0: done, 1: it has `detail` events, 2: there is no such execution,
-- 3: the state value `detail` has another version, 4: another node runs it.
CREATE FUNCTION append_one(
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

-- Gives at most `most` executions of dead nodes, or of dead nodes with the name `of`, to a node, in the order of their ids from after
-- `last`. Gated ones go with their shard. Returns the last id, or NULL if none is left.
CREATE FUNCTION take_over(node int8, last uuid, most int4, of text) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
  gone int8[];
  taken uuid[];
BEGIN
  SELECT coalesce(array_agg(id), '{}') INTO gone FROM nodes WHERE dead AND (of IS NULL OR name = of);
  -- Nobody finds what a forgotten node owns.
  IF cardinality(gone) = 0 OR NOT EXISTS (SELECT 1 FROM nodes WHERE id = node AND NOT dead) THEN
    RETURN NULL;
  END IF;
  SELECT coalesce(array_agg(c.id), '{}') INTO taken FROM (
    SELECT id FROM live WHERE id > last AND owner = ANY (gone) AND gate IS NULL ORDER BY id LIMIT most
    FOR UPDATE SKIP LOCKED) c;
  UPDATE live SET owner = node, handed = true WHERE id = ANY (taken);
  RETURN taken[cardinality(taken)];
END $$;

-- Gives free shards to a node until it has `most`, with their gated executions.
CREATE FUNCTION take_shards(node int8, most int4) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  mine int4;
  taken int2[];
BEGIN
  SELECT count(*) INTO mine FROM shards WHERE owner = node;
  IF mine >= most THEN
    RETURN;
  END IF;
  SELECT coalesce(array_agg(c.id), '{}') INTO taken FROM (
    SELECT s.id FROM shards s WHERE s.owner IS NULL OR NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = s.owner AND NOT n.dead)
    ORDER BY s.id LIMIT most - mine FOR UPDATE SKIP LOCKED) c;
  UPDATE shards SET owner = node WHERE id = ANY (taken);
  UPDATE live SET owner = node, handed = true WHERE gate = ANY (taken) AND owner IS DISTINCT FROM node;
END $$;

-- Frees a shard of a node if no gated execution of it is unfinished. Returns whether it did.
CREATE FUNCTION give_up_shard(node int8, of int2) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM shards WHERE id = of AND owner = node FOR UPDATE;
  IF NOT FOUND OR EXISTS (SELECT 1 FROM live WHERE gate = of) THEN
    RETURN false;
  END IF;
  UPDATE shards SET owner = NULL WHERE id = of;
  RETURN true;
END $$;

-- Forgets dead nodes that own nothing, and requests that nobody waits for. A node that gets executions while it dies is locked by
-- the transaction that gives them. It stays until the next call.
CREATE FUNCTION forget_dead() RETURNS void LANGUAGE plpgsql AS $$
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

-- Stores a generation that follows the newest one, and deletes all but the last `keep`. Returns true, and stores nothing, if another
-- one is the newest. Returns false, and stores nothing, if a text is not stored.
CREATE FUNCTION deploy(
  of uuid, follows int8, by_author bytea, with_note bytea, from_source text, paths bytea[], hashes bytea[], keep int4
) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
  newest int8;
  now_ns int8 := (extract(epoch FROM clock_timestamp()) * 1e9)::int8;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('cogwork:' || current_schema() || ':deploy', 0));
  IF EXISTS (SELECT 1 FROM deployments WHERE id = of) THEN
    RETURN false;
  END IF;
  SELECT coalesce(max(generation), 0) INTO newest FROM deployments;
  IF newest <> follows THEN
    RETURN true;
  END IF;
  IF EXISTS (SELECT 1 FROM unnest(hashes) AS h WHERE NOT EXISTS (SELECT 1 FROM deployed_texts t WHERE t.hash = h)) THEN
    RETURN false;
  END IF;
  INSERT INTO deployments (generation, id, at_ns, author, note, source)
    VALUES (newest + 1, of, now_ns, by_author, with_note, from_source);
  INSERT INTO deployed_files (generation, path, hash) SELECT newest + 1, t.path, t.hash FROM unnest(paths, hashes) AS t (path, hash);
  DELETE FROM deployed_files WHERE generation <= newest + 1 - keep;
  DELETE FROM deployments WHERE generation <= newest + 1 - keep;
  -- A deployment that goes on has put its texts within the last hour.
  DELETE FROM deployed_texts t
    WHERE put_ns < now_ns - 3600000000000 AND NOT EXISTS (SELECT 1 FROM deployed_files f WHERE f.hash = t.hash);
  RETURN false;
END $$;

-- Makes the partitions of a day, which begins at the id `low` and ends before the id `high`. `ATTACH` does not stop readers and
-- writers, which `PARTITION OF` would.
CREATE FUNCTION make_day(day int4, low uuid, high uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  part record;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('cogwork:' || current_schema() || ':days', 0));
  FOR part IN SELECT t.name, t.key FROM (VALUES ('executions', 'id'), ('events', 'execution'), ('logs', 'execution'),
    ('blob_uses', 'execution')) AS t (name, key)
  LOOP
    IF to_regclass(format('%I', part.name || '_' || day)) IS NULL THEN
      EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', part.name || '_' || day, part.name);
      EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
        part.name, part.name || '_' || day, low, high);
    END IF;
  END LOOP;
END $$;

-- Drops the partitions of a day if all are empty, and returns whether it did. An execution that has not ended has events, so that
-- its day stays.
CREATE FUNCTION drop_day(day int4) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
  part text;
  found_row bool;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('cogwork:' || current_schema() || ':days', 0));
  SET LOCAL lock_timeout = '2s';
  FOREACH part IN ARRAY ARRAY['executions', 'events', 'logs', 'blob_uses'] LOOP
    IF to_regclass(format('%I', part || '_' || day)) IS NOT NULL THEN
      EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', part || '_' || day);
      EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I)', part || '_' || day) INTO found_row;
      IF found_row THEN
        RETURN false;
      END IF;
    END IF;
  END LOOP;
  FOREACH part IN ARRAY ARRAY['executions', 'events', 'logs', 'blob_uses'] LOOP
    EXECUTE format('DROP TABLE IF EXISTS %I', part || '_' || day);
  END LOOP;
  RETURN true;
EXCEPTION WHEN lock_not_available THEN
  RETURN false;
END $$;

-- Deletes ended executions with all that belongs to them. Their ids are from `low` to `high`. Returns how many it deleted.
CREATE FUNCTION prune_executions(ids uuid[], low uuid, high uuid) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE
  gone uuid[];
BEGIN
  WITH d AS (DELETE FROM executions WHERE id = ANY (ids) AND id BETWEEN low AND high RETURNING id)
    SELECT coalesce(array_agg(id), '{}') INTO gone FROM d;
  DELETE FROM events WHERE execution = ANY (gone) AND execution BETWEEN low AND high;
  DELETE FROM logs WHERE execution = ANY (gone) AND execution BETWEEN low AND high;
  DELETE FROM blob_uses WHERE execution = ANY (gone) AND execution BETWEEN low AND high;
  DELETE FROM snapshots WHERE execution = ANY (gone);
  RETURN cardinality(gone);
END $$;

-- Takes at most `wanted` tokens for a node, which uses one at once and holds the others for at most `hold_ns`. What it held before
-- is used up or given up. If there is no token, `wait_ns` is the time until there is one.
CREATE FUNCTION take_tokens(
  of text, of_test bool, taker int8, per_second float8, burst int4, wanted int4, hold_ns int8, OUT granted int4, OUT wait_ns int8
) LANGUAGE plpgsql AS $$
DECLARE
  bucket buckets;
  now_ns int8;
  -- The tokens that other nodes hold, and the ends of that.
  others int4;
  first_end int8;
  last_end int8;
  fill float8;
BEGIN
  -- The row is never locked while a commit waits for a standby.
  PERFORM set_config('synchronous_commit', 'local', true);
  INSERT INTO buckets AS o (automation, test, tokens, at_ns, full_ns) VALUES (of, of_test, burst, 0, 0)
    ON CONFLICT (automation, test) DO UPDATE SET at_ns = o.at_ns RETURNING * INTO bucket;
  -- Read behind the lock, so that it never goes back from one node to the next.
  now_ns := extract(epoch FROM clock_timestamp()) * 1000000000;
  SELECT coalesce(array_agg(h.holder), '{}'), coalesce(array_agg(h.tokens), '{}'), coalesce(array_agg(h.ends), '{}'),
      coalesce(sum(h.tokens), 0), min(h.ends), coalesce(max(h.ends), 0)
    INTO bucket.holders, bucket.held, bucket.until_ns, others, first_end, last_end
    FROM unnest(bucket.holders, bucket.held, bucket.until_ns) AS h (holder, tokens, ends)
    -- One that ends later is of a clock that was set back.
    WHERE h.holder <> taker AND h.ends > now_ns AND h.ends <= now_ns + hold_ns;
  fill := bucket.tokens + greatest(now_ns - bucket.at_ns, 0) / 1e9 * per_second;
  fill := greatest(least(fill, burst - others), 0);
  granted := least(wanted, floor(fill));
  wait_ns := 0;
  IF granted = 0 THEN
    wait_ns := greatest((1 - fill) / per_second * 1e9, 0);
    IF burst - others < 1 THEN
      wait_ns := greatest(wait_ns, first_end - now_ns);
    END IF;
  ELSIF granted > 1 THEN
    last_end := now_ns + hold_ns;
    bucket.holders := bucket.holders || taker;
    bucket.held := bucket.held || granted - 1;
    bucket.until_ns := bucket.until_ns || last_end;
  END IF;
  fill := fill - granted;
  UPDATE buckets SET tokens = fill, at_ns = now_ns, holders = bucket.holders, held = bucket.held, until_ns = bucket.until_ns,
      full_ns = greatest(least(now_ns + (burst - fill) / per_second * 1e9, 9e18), last_end)
    WHERE automation = of AND test = of_test;
END $$;

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
