-- The tables of a store on PostgreSQL, version 2: rate limits over all nodes.

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
