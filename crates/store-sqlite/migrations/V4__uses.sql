-- The number of executions of each definition moves into small rows, numbered as the texts are: a commit that counts executions of
-- a thousand Automations changes three pages, and changed twenty.
CREATE TABLE definition_uses (
  -- The number of the row in `definition_texts`.
  definition INTEGER PRIMARY KEY,
  executions INTEGER NOT NULL
) STRICT;
INSERT INTO definition_uses (definition, executions)
  SELECT sequence, executions FROM definitions JOIN definition_texts USING (hash);
ALTER TABLE definitions DROP COLUMN executions;
