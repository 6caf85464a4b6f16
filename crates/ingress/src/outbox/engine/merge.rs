//! Merges rows of one trigger on an event of the engine: those with the same automation, kind, error and step.

use std::collections::HashMap;

use jiff::Timestamp;
use model::ExecutionId;
use runtime::EngineRow;
use sha2::{Digest as _, Sha256};
use store::OutboxRow;
use value::{Map, Value};

/// The maximum number of rows that one execution stands for; the others wait for the next.
const MAX_ROWS: usize = 10_000;

/// The rows that one execution stands for.
#[derive(Debug)]
pub(super) struct Group {
    /// Their common part, as a short text.
    pub(super) id: String,
    /// The first of them.
    pub(super) first: EngineRow,
    /// The last of them.
    pub(super) last: EngineRow,
    /// When the first was written.
    pub(super) at: Timestamp,
    /// Their places.
    pub(super) rows: Vec<ExecutionId>,
    /// The number of failures.
    pub(super) count: u64,
    /// The data of an execution that stands for several groups; `None` for one.
    joined: Option<Value>,
}

/// The groups of the rows of one trigger, in the order of their first rows.
#[derive(Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    by_id: HashMap<String, usize>,
    /// The rows that cannot be read.
    pub(super) unreadable: Vec<ExecutionId>,
    /// The number of rows that belong to a group which is full.
    pub(super) left: usize,
}

impl Groups {
    /// Adds a row. `id` makes the text of what rows have in common.
    pub(super) fn add(&mut self, row: OutboxRow, id: impl Fn(&EngineRow) -> String) {
        let read = serde_json::from_str::<EngineRow>(&row.body);
        let Ok(body) = read.inspect_err(|error| {
            tracing::error!(event = row.name, place = %row.id, %error, "an event cannot be read; it starts nothing");
        }) else {
            return self.unreadable.push(row.id);
        };
        let id = id(&body);
        let count = count_of(&body.data);
        let index = *self.by_id.entry(id.clone()).or_insert(self.groups.len());
        match self.groups.get_mut(index) {
            Some(group) if group.rows.len() >= MAX_ROWS => self.left += 1,
            Some(group) => {
                group.rows.push(row.id);
                group.count = group.count.saturating_add(count);
                group.last = body;
            }
            None => {
                let (at, rows) = (row.at, vec![row.id]);
                self.groups.push(Group {
                    id,
                    first: body.clone(),
                    last: body,
                    at,
                    rows,
                    count,
                    joined: None,
                });
            }
        }
    }

    pub(super) fn into_groups(self) -> Vec<Group> {
        self.groups
    }
}

impl Group {
    /// Returns the data of the execution that stands for the rows.
    pub(super) fn data(&self) -> Value {
        if let Some(joined) = &self.joined {
            return joined.clone();
        }
        if self.rows.len() == 1 {
            return self.first.data.clone();
        }
        let title = text_of(&self.first.data, "title");
        with(
            &self.first.data,
            [
                ("count", Value::from(self.count)),
                ("title", Value::from(format!("{title} ({} times)", self.count))),
            ],
        )
    }

    /// Returns the data of the execution that stands for this number of failures in a row, the last of which is the last row.
    pub(super) fn streak_data(&self, failures: u64) -> Value {
        if failures <= 1 {
            return self.last.data.clone();
        }
        let title = text_of(&self.last.data, "title");
        with(
            &self.last.data,
            [
                ("count", Value::from(failures)),
                ("title", Value::from(format!("{title} ({failures} times in a row)"))),
            ],
        )
    }

    /// Merges different groups into one.
    pub(super) fn join(groups: Vec<Self>) -> Option<Self> {
        let mut groups = groups.into_iter();
        let mut joined = groups.next()?;
        let Some(second) = groups.next() else { return Some(joined) };
        let mut automation = joined.first.data.get("automation");
        for group in std::iter::once(second).chain(groups) {
            automation = automation.filter(|of| Some(of) == group.first.data.get("automation").as_ref());
            joined.count = joined.count.saturating_add(group.count);
            joined.rows.extend(group.rows);
            joined.at = joined.at.min(group.at);
        }
        let title = text_of(&joined.first.data, "title");
        let title = format!("{title} (and {} more, also of others)", joined.count.saturating_sub(1));
        let data = with(
            &joined.first.data,
            ["trigger", "error", "execution", "file", "eventName"].map(|name| (name, Value::Null)),
        );
        joined.joined = Some(with(
            &data,
            [
                ("title", Value::from(title)),
                ("count", Value::from(joined.count)),
                ("automation", automation.unwrap_or_default()),
            ],
        ));
        joined.first.sender = None;
        Some(joined)
    }
}

/// Returns a short text of what rows have in common that are merged: the automation, the kind, the file or the event, the kind of the
/// error and its step.
pub(super) fn group_id(row: &EngineRow) -> String {
    let part = |path: &[&str]| {
        let value = path.iter().try_fold(row.data.clone(), |value, name| value.get(name));
        value.map(|value| value.to_text()).unwrap_or_default()
    };
    let of_error = [part(&["error", "kind"]), part(&["error", "step"])];
    let subject =
        [part(&["automation", "id"]), part(&["kind"]), part(&["file", "path"]), part(&["eventName"])];
    let parts = [subject.as_slice(), of_error.as_slice()].concat();
    hex::encode(Sha256::digest(parts.join("\n")).get(..6).unwrap_or_default())
}

fn count_of(data: &Value) -> u64 {
    data.get("count").and_then(|count| count.to_text().parse().ok()).unwrap_or(1)
}

fn text_of(data: &Value, name: &str) -> String {
    data.get(name).map(|value| value.to_text()).unwrap_or_default()
}

fn with<const N: usize>(data: &Value, changes: [(&str, Value); N]) -> Value {
    let mut members: Map = data.as_map().cloned().unwrap_or_default();
    for (name, value) in changes {
        members.insert(name, value);
    }
    Value::from(members)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn row(number: u8, automation: &str, step: &str, count: u64) -> OutboxRow {
        let error = Map::from_iter([("kind", "status"), ("step", step)]);
        let data = Map::from_iter([
            ("kind", Value::from("execution")),
            ("title", Value::from(format!("{automation} failed"))),
            ("automation", Value::from(Map::from_iter([("id", automation)]))),
            ("error", Value::from(error)),
            ("count", Value::from(count)),
        ]);
        let body = EngineRow { id: number.to_string(), data: data.into(), sender: None, streak: None };
        let at = Timestamp::UNIX_EPOCH;
        let body = serde_json::to_string(&body).expect("JSON");
        OutboxRow { id: ExecutionId::new(at, [number; 10]), name: "cogwork.failure:a".to_owned(), body, at }
    }

    pub(in super::super) fn groups(rows: Vec<OutboxRow>) -> Vec<Group> {
        let mut groups = Groups::default();
        rows.into_iter().for_each(|row| groups.add(row, group_id));
        groups.into_groups()
    }

    fn shown(group: &Group) -> String {
        let data = group.data();
        let automation = data.get("automation").and_then(|automation| automation.get("id"));
        let automation = automation.map_or_else(|| "none".to_owned(), |id| id.to_text());
        format!("{} {} {automation}", text_of(&data, "title"), text_of(&data, "count"))
    }

    #[test]
    fn rows_of_one_automation_kind_and_step_are_one_group_with_the_sum_of_their_counts() {
        let groups =
            groups(vec![row(1, "a", "x", 1), row(2, "a", "y", 1), row(3, "a", "x", 3), row(4, "b", "x", 1)]);
        let shown: Vec<String> = groups.iter().map(shown).collect();
        assert_eq!(shown, ["a failed (4 times) 4 a", "a failed 1 a", "b failed 1 b"]);
    }

    #[test]
    fn a_full_group_leaves_further_rows() {
        let mut all = Groups::default();
        for _ in 0..MAX_ROWS + 2 {
            all.add(row(1, "a", "x", 1), group_id);
        }
        assert_eq!(all.left, 2);
        assert_eq!(all.into_groups()[0].count, MAX_ROWS as u64);
    }

    #[test]
    fn joined_groups_keep_the_automation_only_if_it_is_that_of_all() {
        let same = Group::join(groups(vec![row(1, "a", "x", 1), row(2, "a", "y", 1)])).expect("a group");
        assert_eq!(shown(&same), "a failed (and 1 more, also of others) 2 a");
        let other = Group::join(groups(vec![row(1, "a", "x", 1), row(2, "b", "y", 4)])).expect("a group");
        assert_eq!(shown(&other), "a failed (and 4 more, also of others) 5 none");
        assert_eq!(other.rows.len(), 2);
        let alone = Group::join(groups(vec![row(1, "a", "x", 1)])).expect("a group");
        assert_eq!(shown(&alone), "a failed 1 a");
    }
}
