//! The rights that the user of the database lacks, as the statements that grant them.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::connect::{in_time, message};
use super::op::Op;

/// Maximum number of statements in a message; above it, a grant on all tables is shorter.
const MOST: usize = 3;

/// The grants of the rights on tables and sequences that the user lacks. Partitions are written by their table, and the sequence of an
/// identity column needs no right.
const MISSING: &str = "SELECT format('GRANT %s ON %s%I.%I TO %I', string_agg(needed, ', ' ORDER BY nth), \
      CASE relkind WHEN 'S' THEN 'SEQUENCE ' ELSE '' END, current_schema(), relname, current_user) \
    FROM pg_class c, unnest(CASE relkind WHEN 'S' THEN ARRAY['USAGE'] ELSE ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'] END) \
      WITH ORDINALITY AS rights (needed, nth) \
    WHERE relnamespace = current_schema()::regnamespace AND NOT relispartition AND CASE \
      WHEN relkind IN ('r', 'p') THEN NOT has_table_privilege(c.oid, needed) \
      WHEN relkind = 'S' THEN NOT has_sequence_privilege(c.oid, needed) \
        AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'i') \
      ELSE false END \
    GROUP BY c.oid, relkind, relname ORDER BY relkind = 'S', relname LIMIT 4";

/// Returns the statements that grant the rights which the user lacks, if there are few.
pub(super) async fn grants(client: &Client) -> Option<String> {
    let rows = in_time(client.query(MISSING, &[])).await.ok()?;
    let grants: Vec<String> = rows.iter().map_while(|row| row.try_get(0).ok()).collect();
    let is_few = (1..=MOST).contains(&grants.len()) && grants.len() == rows.len();
    is_few.then(|| grants.iter().map(|grant| format!("`{grant}`")).collect::<Vec<_>>().join(" and "))
}

/// Returns the reason of a refused write, with its kind, and with the way out after a semicolon if the user lacks a right.
pub(super) async fn explain(client: &Client, op: &Op, error: &tokio_postgres::Error) -> String {
    let said = match op.name() {
        Some(name) => format!("{} (for {name})", message(error)),
        None => message(error),
    };
    if error.code() != Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        return said;
    }
    match grants(client).await {
        Some(grants) => format!("{said}; {grants}"),
        None => said,
    }
}
