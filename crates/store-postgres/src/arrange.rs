//! Arrangement of the writes of a batch into statements.

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::forms::{Hash, KEY, RECORD, TEST_SHELF, id_of};
use super::op::{AcceptOp, AcceptRow, Item, Op, Params, borrowed};
use super::statements::{
    ACCEPT, ACCEPT_EVENTS, APPEND, APPEND_EVENTS, APPEND_ONE, CHANGE_STATE, CHANGE_STATE_EVENTS, END,
    NEW_ENDED, NEW_LIVE, NEW_LOGS, NEW_STARTS, NEW_USES, PUT_WATERMARK, WRITE_POLL,
};
use store::codec::{AppendRow, ExternalValues, StateChange, key_name, status_code, to_ns};
use store::{DedupRecord, OutboxRow, SnapshotChange};
use store::{PollWrite, Snapshot};

/// The offset of a use that is a file and not a removed value.
const FILE: i32 = -1;

/// A statement with its parameters, and the writes that its result concerns.
pub(super) struct Step<'batch> {
    pub(super) sql: &'static str,
    pub(super) params: StepParams<'batch>,
    pub(super) answers: Answers,
}

/// The parameters of a statement: arranged for it, or those of the write.
pub(super) enum StepParams<'batch> {
    Arranged(Vec<Box<dyn ToSql + Sync + Send + 'batch>>),
    Given(&'batch Params),
}

impl<'batch> StepParams<'batch> {
    /// Adds the parameters that follow these.
    fn and(self, more: Self) -> Self {
        match (self, more) {
            (Self::Arranged(mut params), Self::Arranged(more)) => {
                params.extend(more);
                Self::Arranged(params)
            }
            (own, _) => own,
        }
    }

    /// Returns the parameters as a client takes them.
    pub(super) fn borrowed(&self) -> Vec<&(dyn ToSql + Sync)> {
        match self {
            Self::Arranged(params) => params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect(),
            Self::Given(params) => borrowed(params),
        }
    }
}

/// The writes that the result of a statement concerns, by their index in the batch.
pub(super) enum Answers {
    /// None: the statement cannot refuse.
    None,
    /// These are done.
    Done(Vec<usize>),
    /// The appends that the statement reports as done. The others are written by the function for one append.
    Matched(Vec<usize>),
    /// The verdicts of an acceptance.
    Accepted(usize),
    /// The verdict of an append.
    Appended(usize),
    /// The verdict on values of the state.
    State(usize),
    /// The rows of a statement of this write.
    Rows(usize),
}

macro_rules! boxed {
    ($($value:expr),* $(,)?) => {
        StepParams::Arranged(vec![$(Box::new($value) as Box<dyn ToSql + Sync + Send + '_>),*])
    };
}

/// The parameters behind the other ones of a statement: events, by column.
macro_rules! events {
    ($rows:expr) => {
        boxed![
            $rows.iter().map(|row| id_of(row.id)).collect::<Vec<_>>(),
            $rows.iter().map(|row| row.name.as_bytes()).collect::<Vec<_>>(),
            $rows.iter().map(|row| row.body.as_bytes()).collect::<Vec<_>>(),
            $rows.iter().map(|row| to_ns(row.at)).collect::<Vec<_>>(),
        ]
    };
}

/// Returns the statements of a batch, in order. `node` is the owner of what is accepted.
pub(super) fn arrange(node: i64, items: &[Item]) -> Vec<Step<'_>> {
    let mut groups = Groups::default();
    let mut steps = Vec::new();
    for (index, item) in items.iter().enumerate() {
        match &item.op {
            Op::Accept(accept) if accept.is_plain() && !item.alone => {
                groups.accepts.extend(accept.executions.first().map(|row| (index, row)));
            }
            Op::Accept(accept) => accept_call(node, index, accept, &mut steps),
            Op::Append(row) if item.slow => steps.push(append_call(node, index, row)),
            Op::Append(row) => groups.appends.push((index, row)),
            Op::State(changes, emits) => {
                let (sql, params) = match (emits.is_empty(), state_params(changes)) {
                    (true, params) => (CHANGE_STATE, params),
                    (false, params) => (CHANGE_STATE_EVENTS, params.and(events!(emits))),
                };
                steps.push(Step { sql, params, answers: Answers::State(index) });
            }
            Op::Statements(list) => {
                steps.extend(list.iter().map(|(sql, params)| statement(index, sql, params)))
            }
        }
    }
    groups.arrange(node, &mut steps);
    steps
}

fn statement<'batch>(index: usize, sql: &'static str, params: &'batch Params) -> Step<'batch> {
    Step { sql, params: StepParams::Given(params), answers: Answers::Rows(index) }
}

/// The writes that share statements.
#[derive(Default)]
struct Groups<'batch> {
    accepts: Vec<(usize, &'batch AcceptRow)>,
    appends: Vec<(usize, &'batch AppendRow<Hash>)>,
}

impl<'batch> Groups<'batch> {
    fn arrange(mut self, node: i64, steps: &mut Vec<Step<'batch>>) {
        // In the order of the ids, so that two batches lock rows in the same order.
        self.accepts.sort_unstable_by_key(|(_, new)| new.row.id);
        self.appends.sort_unstable_by_key(|(_, row)| row.execution);
        let (ended, live): (Vec<_>, Vec<_>) =
            self.accepts.into_iter().partition(|(_, new)| new.row.status.is_terminal());
        let (ends, appends): (Vec<_>, Vec<_>) =
            self.appends.into_iter().partition(|(_, row)| row.status.is_terminal());
        new_details(live.iter().chain(&ended).map(|(_, new)| *new), steps);
        if !live.is_empty() {
            new_live(node, &live, steps);
        }
        if !ended.is_empty() {
            steps.push(new_ended(&ended));
        }
        if !appends.is_empty() {
            steps.push(append(node, &appends));
        }
        if !ends.is_empty() {
            steps.push(end(node, &ends));
        }
    }
}

fn indexes<T>(group: &[(usize, T)]) -> Vec<usize> {
    group.iter().map(|(index, _)| *index).collect()
}

/// Collects a column of a group.
macro_rules! column {
    ($group:expr, $row:ident => $value:expr) => {
        $group.iter().map(|(_, $row)| $value).collect::<Vec<_>>()
    };
}

fn new_live<'batch>(node: i64, group: &[(usize, &'batch AcceptRow)], steps: &mut Vec<Step<'batch>>) {
    let params = boxed![
        node,
        column!(group, new => id_of(new.row.id)),
        column!(group, new => new.automation),
        column!(group, new => new.definition),
        column!(group, new => new.row.origin.as_bytes()),
        column!(group, new => new.row.is_test),
        column!(group, new => code(new)),
        column!(group, new => new.row.started_ns),
        column!(group, new => signed(new.row.count)),
        column!(group, new => line_count(new.row.lines.as_ref())),
        column!(group, new => new.row.cause.map(id_of)),
    ];
    steps.push(Step { sql: NEW_LIVE, params, answers: Answers::Done(indexes(group)) });
    let params = boxed![
        column!(group, new => id_of(new.row.id)),
        column!(group, new => new.row.body.as_bytes()),
        column!(group, new => new.row.raw.as_deref()),
    ];
    steps.push(Step { sql: NEW_STARTS, params, answers: Answers::None });
}

fn new_ended<'batch>(group: &[(usize, &'batch AcceptRow)]) -> Step<'batch> {
    let params = boxed![
        column!(group, new => id_of(new.row.id)),
        column!(group, new => new.automation),
        column!(group, new => new.definition),
        column!(group, new => new.row.origin.as_bytes()),
        column!(group, new => shelf(code(new), new.row.is_test)),
        column!(group, new => new.row.started_ns),
        column!(group, new => new.row.finished_ns),
        column!(group, new => new.row.error.as_ref().map(String::as_bytes)),
        column!(group, new => signed(new.row.count)),
        column!(group, new => line_count(new.row.lines.as_ref())),
        column!(group, new => new.row.body.as_bytes()),
        column!(group, new => new.row.raw.as_deref()),
        column!(group, new => new.row.cause.map(id_of)),
    ];
    Step { sql: NEW_ENDED, params, answers: Answers::Done(indexes(group)) }
}

/// Adds the log lines and the blobs of new executions.
fn new_details<'batch>(rows: impl Iterator<Item = &'batch AcceptRow>, steps: &mut Vec<Step<'batch>>) {
    let (mut logged, mut lines) = (Vec::new(), Vec::new());
    let mut uses = Uses::default();
    for new in rows {
        if let Some((_, text)) = &new.row.lines {
            logged.push(id_of(new.row.id));
            lines.push(text.as_bytes());
        }
        uses.add(id_of(new.row.id), &new.row.external);
    }
    if !logged.is_empty() {
        steps.push(Step { sql: NEW_LOGS, params: boxed![logged, lines], answers: Answers::None });
    }
    if !uses.of.is_empty() {
        let params = boxed![uses.of, uses.blobs, uses.at];
        steps.push(Step { sql: NEW_USES, params, answers: Answers::None });
    }
}

fn append<'batch>(node: i64, group: &[(usize, &'batch AppendRow<Hash>)]) -> Step<'batch> {
    let params = boxed![
        node,
        column!(group, row => id_of(row.execution)),
        column!(group, row => signed(row.first)),
        column!(group, row => signed(row.count)),
        column!(group, row => small(status_code(row.status))),
        column!(group, row => row.keeps_permit),
        column!(group, row => row.body.as_ref().map(String::as_bytes)),
        column!(group, row => line_count(row.lines.as_ref())),
        column!(group, row => row.lines.as_ref().map(|(_, lines)| lines.as_bytes())),
    ];
    Step { sql: APPEND, params, answers: Answers::Matched(indexes(group)) }
}

fn end<'batch>(node: i64, group: &[(usize, &'batch AppendRow<Hash>)]) -> Step<'batch> {
    let params = boxed![
        node,
        column!(group, row => id_of(row.execution)),
        column!(group, row => signed(row.first)),
        column!(group, row => signed(row.count)),
        column!(group, row => small(status_code(row.status))),
        column!(group, row => row.finished_ns),
        column!(group, row => row.error.as_ref().map(String::as_bytes)),
        column!(group, row => row.body.as_ref().map(String::as_bytes)),
        column!(group, row => line_count(row.lines.as_ref())),
        column!(group, row => row.lines.as_ref().map(|(_, lines)| lines.as_bytes())),
    ];
    Step { sql: END, params, answers: Answers::Matched(indexes(group)) }
}

/// The names that executions of an acceptance take.
#[derive(Default)]
struct Names<'batch> {
    of: Vec<i32>,
    kinds: Vec<i16>,
    keys: Vec<Vec<u8>>,
    contents: Vec<Option<&'batch [u8]>>,
    until: Vec<Option<i64>>,
}

impl<'batch> Names<'batch> {
    /// Adds the names of the execution at this position, each once.
    fn add(&mut self, of: i32, new: &'batch AcceptRow) {
        let mut seen: Vec<&[u8; 32]> = Vec::new();
        for DedupRecord { key, content, until } in &new.row.dedup {
            if seen.contains(&key) {
                continue;
            }
            seen.push(key);
            self.push(of, RECORD, key.to_vec(), content.as_ref().map(|hash| &hash[..]), Some(to_ns(*until)));
        }
        if let Some(key) = &new.row.key {
            self.push(of, KEY, key_name(key), None, None);
        }
    }

    fn push(&mut self, of: i32, kind: i16, key: Vec<u8>, content: Option<&'batch [u8]>, until: Option<i64>) {
        self.of.push(of);
        self.kinds.push(kind);
        self.keys.push(key);
        self.contents.push(content);
        self.until.push(until);
    }
}

fn accept_call<'batch>(node: i64, index: usize, accept: &'batch AcceptOp, steps: &mut Vec<Step<'batch>>) {
    let rows: Vec<(usize, &AcceptRow)> = accept.executions.iter().enumerate().collect();
    let (mut names, mut use_of, mut uses) = (Names::default(), Vec::new(), Uses::default());
    for (position, new) in &rows {
        // The arrays of the database begin at 1.
        let of = i32::try_from(position + 1).unwrap_or(i32::MAX);
        names.add(of, new);
        uses.add(id_of(new.row.id), &new.row.external);
        use_of.resize(uses.of.len(), of);
    }
    let params = boxed![
        node,
        column!(rows, new => id_of(new.row.id)),
        column!(rows, new => new.automation),
        column!(rows, new => new.definition),
        column!(rows, new => new.row.origin.as_bytes()),
        column!(rows, new => new.row.is_test),
        column!(rows, new => code(new)),
        column!(rows, new => new.row.started_ns),
        column!(rows, new => new.row.status.is_terminal()),
        column!(rows, new => new.row.finished_ns),
        column!(rows, new => new.row.error.as_ref().map(String::as_bytes)),
        column!(rows, new => signed(new.row.count)),
        column!(rows, new => new.row.body.as_bytes()),
        column!(rows, new => new.row.raw.as_deref()),
        column!(rows, new => line_count(new.row.lines.as_ref())),
        column!(rows, new => new.row.lines.as_ref().map(|(_, lines)| lines.as_bytes())),
        names.of,
        names.kinds,
        names.keys,
        names.contents,
        names.until,
        use_of,
        uses.blobs,
        uses.at,
        column!(rows, new => new.row.cause.map(id_of)),
        column!(rows, new => new.gate),
    ];
    if accept.concerns_outbox() {
        let own = accept.emits.iter().map(|event| (0, event));
        let of_executions = rows.iter().flat_map(|(position, new)| {
            let of = i32::try_from(position + 1).unwrap_or(i32::MAX);
            new.row.emits.iter().map(move |event| (of, event))
        });
        let (of, sent): (Vec<i32>, Vec<&OutboxRow>) = own.chain(of_executions).unzip();
        let params = params.and(boxed![of]).and(events!(sent)).and(boxed![accept.delivered.as_slice()]);
        steps.push(Step { sql: ACCEPT_EVENTS, params, answers: Answers::Accepted(index) });
    } else {
        steps.push(Step { sql: ACCEPT, params, answers: Answers::Accepted(index) });
    }
    if let Some(mark) = &accept.watermark {
        let params = boxed![mark.trigger.to_string(), mark.schedule.as_bytes(), to_ns(mark.instant)];
        steps.push(Step { sql: PUT_WATERMARK, params, answers: Answers::None });
    }
    if let Some(poll) = &accept.poll {
        let params = boxed![
            poll.trigger.to_string(),
            poll.standing.as_bytes(),
            poll.forget,
            poll.keys.iter().map(String::as_bytes).collect::<Vec<_>>(),
            poll.at_ns,
            poll.entry.as_ref().map(String::as_bytes),
            i32::try_from(PollWrite::MAX_KEYS).unwrap_or(i32::MAX),
            signed(PollWrite::MAX_ENTRIES),
        ];
        steps.push(Step { sql: WRITE_POLL, params, answers: Answers::None });
    }
}

fn append_call(node: i64, index: usize, row: &AppendRow<Hash>) -> Step<'_> {
    let waits = row.waits.as_deref().unwrap_or_default();
    let event = |wait: &'_ store::Wait| wait.event.clone().unwrap_or_default();
    let mut uses = Uses::default();
    uses.add(id_of(row.execution), &row.external);
    let snapshot = match &row.snapshot {
        SnapshotChange::Put(Snapshot { events, body }) => Some((signed(*events), body.as_bytes())),
        _ => None,
    };
    let params = boxed![
        node,
        id_of(row.execution),
        signed(row.first),
        signed(row.count),
        small(status_code(row.status)),
        row.keeps_permit,
        row.status.is_terminal(),
        row.finished_ns,
        row.error.as_ref().map(String::as_bytes),
        row.body.as_ref().map(String::as_bytes),
        line_count(row.lines.as_ref()),
        row.lines.as_ref().map(|(_, lines)| lines.as_bytes()),
        row.waits.is_some(),
        waits.iter().map(|wait| wait.step.as_bytes()).collect::<Vec<_>>(),
        waits.iter().map(|wait| wait.until.map(to_ns)).collect::<Vec<_>>(),
        waits.iter().map(|wait| wait.event.as_ref().map(|event| event.name.as_bytes())).collect::<Vec<_>>(),
        waits.iter().map(|wait| event(wait).key.path.into_bytes()).collect::<Vec<_>>(),
        waits.iter().map(|wait| event(wait).key.value.into_bytes()).collect::<Vec<_>>(),
        waits.iter().map(|wait| event(wait).condition.map(String::into_bytes)).collect::<Vec<_>>(),
        waits.iter().map(|wait| wait.child.map(id_of)).collect::<Vec<_>>(),
        waits.iter().filter_map(|wait| wait.until.map(to_ns)).min(),
        row.state.iter().map(|change| change.scope.as_bytes()).collect::<Vec<_>>(),
        row.state.iter().map(|change| change.key.as_bytes()).collect::<Vec<_>>(),
        row.state.iter().map(|change| change.expected).collect::<Vec<_>>(),
        row.state.iter().map(|change| change.value.as_ref().map(String::as_bytes)).collect::<Vec<_>>(),
        row.state.iter().map(|change| change.expires_ns).collect::<Vec<_>>(),
        snapshot.is_some(),
        matches!(row.snapshot, SnapshotChange::Delete),
        snapshot.map(|(events, _)| events),
        snapshot.map(|(_, body)| body),
        uses.blobs,
        uses.at,
    ];
    let (sql, params) = match row.emits.is_empty() {
        true => (APPEND_ONE, params),
        false => (APPEND_EVENTS, params.and(events!(row.emits))),
    };
    Step { sql, params, answers: Answers::Appended(index) }
}

fn state_params(changes: &[StateChange]) -> StepParams<'_> {
    boxed![
        changes.iter().map(|change| change.scope.as_bytes()).collect::<Vec<_>>(),
        changes.iter().map(|change| change.key.as_bytes()).collect::<Vec<_>>(),
        changes.iter().map(|change| change.expected).collect::<Vec<_>>(),
        changes.iter().map(|change| change.value.as_ref().map(String::as_bytes)).collect::<Vec<_>>(),
        changes.iter().map(|change| change.expires_ns).collect::<Vec<_>>(),
    ]
}

/// The blobs that rows use.
#[derive(Default)]
struct Uses {
    of: Vec<Uuid>,
    blobs: Vec<Vec<u8>>,
    at: Vec<i32>,
}

impl Uses {
    fn add(&mut self, of: Uuid, external: &ExternalValues<Hash>) {
        for cut in &external.cuts {
            self.push(of, &cut.blob, i32::try_from(cut.at).unwrap_or(i32::MAX));
        }
        let mut seen: Vec<&Hash> = Vec::new();
        for file in &external.files {
            if !seen.contains(&file) {
                seen.push(file);
                self.push(of, file, FILE);
            }
        }
    }

    fn push(&mut self, of: Uuid, blob: &Hash, at: i32) {
        self.of.push(of);
        self.blobs.push(blob.to_vec());
        self.at.push(at);
    }
}

fn code(new: &AcceptRow) -> i16 {
    small(status_code(new.row.status))
}

/// Returns the shelf of an ended execution in the table.
fn shelf(status: i16, is_test: bool) -> i16 {
    if is_test { status + TEST_SHELF } else { status }
}

fn line_count(lines: Option<&(u32, String)>) -> i32 {
    lines.map_or(0, |(count, _)| signed(*count))
}

/// Converts a number of events or lines, of which an execution has fewer than two billions.
fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn small(number: i64) -> i16 {
    i16::try_from(number).unwrap_or(i16::MAX)
}
