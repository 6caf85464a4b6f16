//! Stores that have grown large: a long history, a long backlog.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::stores::Location;
use futures_util::future::join_all;
use jiff::Timestamp;
use model::automation::TriggerId;
use model::{AutomationId, DefinitionHash, Event, ExecutionId, Origin, Outcome, Payload, Status};
use store::{
    Accept, Append, Definition, Durability, ExecutionFilter, InitialEvents, NewExecution, Options, Page,
    Store,
};
use tokio::net::TcpListener;
use value::{Map, Value};

use super::Terms;
use crate::Error;
use crate::daemon::Daemon;
use crate::driver::{Connection, authorized};
use crate::project::Project;
use crate::report::{Report, Row, Target, Unit, mebibytes};

/// The default number of executions, and the number of the quick form.
const EXECUTIONS: u64 = 200_000;
const QUICK: u64 = 20_000;
/// The number that is stored in one batch.
const BATCH: u64 = 500;
/// The number of their automations, the last of which has few.
const AUTOMATIONS: u64 = 20;
/// The time that a history spans.
const SPAN: Duration = Duration::from_secs(30 * 86_400);
/// The number on a page, and the number of reads of each page.
const PAGE: u32 = 50;
const TURNS: usize = 20;
/// The number of pages that are read one after another.
const DEEP: usize = 100;
/// The milliseconds that a page may take: of a history, of a backlog.
const HISTORY_MS: f64 = 100.0;
const BACKLOG_MS: f64 = 300.0;
/// The milliseconds that a daemon with a backlog may take to start, and the mebibytes that it may have.
const START_MS: f64 = 5000.0;
const MAX_MIB: f64 = 256.0;

/// Pages of a long history: as the store gives them to a connection that was just opened, and as the API does.
pub(super) async fn history(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let count = executions(terms);
    let project = Project::new()?;
    fill(&project, count).await?;
    let data = project.data();
    let what = format!("of {count} executions");
    for (name, filter, before) in pages(count) {
        let (slowest, found) = slowest_page(&data, &filter, before, TURNS).await?;
        let name = format!("slowest page {what}: {name} ({found} found)");
        let row = Row::new("history", name, milliseconds(slowest), Unit::Milliseconds);
        report.add(row.target(Some(Target::AtMost(HISTORY_MS))));
    }
    let (mut most, mut asked) = ((Duration::ZERO, String::new()), 0);
    for (filter, before) in combinations(count) {
        let (took, _) = slowest_page(&data, &filter, before, 1).await?;
        asked += 1;
        if took > most.0 {
            most = (took, format!("{filter:?}"));
        }
    }
    say(&format!("the slowest of {asked} combinations: {}", most.1));
    let name = format!("slowest page {what}: {asked} combinations of all filters, each asked once");
    let row = Row::new("history", name, milliseconds(most.0), Unit::Milliseconds);
    report.add(row.target(Some(Target::AtMost(HISTORY_MS))));
    let bytes = engine::stores::open_read_only(&Location::from(data.as_path()))?.info().await?.bytes;
    report.add(Row::new("history", format!("the store {what}"), mebibytes(bytes), Unit::Mebibytes));
    through_the_api(terms, &project, count, report).await
}

/// Stores this many executions of several automations.
async fn fill(project: &Project, count: u64) -> Result<(), Error> {
    let filled = Instant::now();
    let store = open(&project.data())?;
    let text = "trigger:\n  manual: {}\nsteps: []\n";
    let automations: Vec<Definition> =
        (0..AUTOMATIONS).map(|number| definition(&name(number), text)).collect();
    for automation in &automations {
        project.put(automation.automation.as_str(), text)?;
        store.put_definition(automation.clone()).await?;
    }
    let mut last = 0;
    while last < count {
        let batch: Vec<Entry> =
            (last..count.min(last + BATCH)).map(|number| Entry::numbered(number, count)).collect();
        last += BATCH;
        let new = batch.iter().map(|entry| entry.of_one(&automations)).collect();
        store.accept(&Accept { executions: new, ..Accept::default() }).await?;
        let ends: Vec<Append> = batch.iter().filter_map(Entry::end).collect();
        for ended in join_all(ends.iter().map(|end| store.append(end))).await {
            ended?;
        }
    }
    store.close().await?;
    say(&format!("stored {count} executions in {} s", filled.elapsed().as_secs()));
    Ok(())
}

/// The longest time of a page in several reads, and the number on it. A connection's own cache is empty at
/// first, as after a pause; the system's cache is not.
async fn slowest_page(
    data: &Path,
    filter: &ExecutionFilter,
    before: Option<ExecutionId>,
    turns: usize,
) -> Result<(Duration, usize), Error> {
    let store = engine::stores::open_read_only(&Location::from(data))?;
    let (mut slowest, mut found) = (Duration::ZERO, 0);
    for _ in 0..turns {
        let asked = Instant::now();
        found = store.executions(filter, Page { before, limit: PAGE }).await?.len();
        slowest = slowest.max(asked.elapsed());
    }
    store.close().await?;
    Ok((slowest, found))
}

/// The response of a daemon over the history, through its API. It first ends the unfinished executions.
async fn through_the_api(
    terms: Terms<'_>,
    project: &Project,
    count: u64,
    report: &mut Report,
) -> Result<(), Error> {
    let daemon = Daemon::start_with(terms.processors, project, &["--retention-days", "3650"]).await?;
    daemon.drained().await?;
    let (token, middle) = (daemon.token()?, Entry::numbered(count / 2, count));
    let mut connection = Connection::open(daemon.admin()).await?;
    let paths = [
        ("executions".to_owned(), "pages", DEEP),
        ("executions?status=failed".to_owned(), "pages of those that failed", DEEP),
        (format!("executions?automation={}&until={}", name(3), middle.at), "pages of one, older ones", DEEP),
        (format!("executions/{}", middle.id()), "one execution whole", TURNS),
        (format!("executions/{}/logs", middle.id()), "its log", TURNS),
        ("status".to_owned(), "how the daemon stands", TURNS),
    ];
    for (path, what, turns) in paths {
        let (mut slowest, mut cursor) = (Duration::ZERO, String::new());
        for _ in 0..turns {
            let sign = if path.contains('?') { '&' } else { '?' };
            let path = if cursor.is_empty() { path.clone() } else { format!("{path}{sign}cursor={cursor}") };
            let asked = Instant::now();
            let answer = connection.ask(&authorized(&format!("/api/v1/{path}"), &token)).await?;
            slowest = slowest.max(asked.elapsed());
            if answer.status != 200 {
                let text = String::from_utf8_lossy(answer.body);
                return Err(Error::Server(format!("`{path}` was answered with {}: {text}", answer.status)));
            }
            let page: serde_json::Value = serde_json::from_slice(answer.body).unwrap_or_default();
            cursor = page["next"].as_str().unwrap_or_default().to_owned();
        }
        let name = format!("slowest answer of the API with {count} executions: {what}, {turns} times");
        let row = Row::new("history", name, milliseconds(slowest), Unit::Milliseconds);
        report.add(row.target(Some(Target::AtMost(HISTORY_MS))));
    }
    drop(connection);
    daemon.stop().await
}

/// A daemon that finds a long backlog when it starts.
pub(super) async fn backlog(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let count = executions(terms);
    // The execution that blocks all others in the queue waits for an answer from here.
    let silent = TcpListener::bind("127.0.0.1:0").await.map_err(Error::io("a listener"))?;
    let address = silent.local_addr().map_err(Error::io("a listener"))?;
    let first = format!(
        "trigger:\n  manual: {{}}\nsteps:\n  - action: http.request\n    with: {{url: \"http://{address}/\", timeout: 15m}}\n"
    );
    let project = Project::new()?;
    let store = open(&project.data())?;
    let texts = [("first", first.as_str()), ("others", "trigger:\n  manual: {}\nsteps: []\n")];
    let definitions = texts.map(|(name, text)| definition(name, text));
    for (definition, (name, text)) in definitions.iter().zip(texts) {
        project.put(name, text)?;
        store.put_definition(definition.clone()).await?;
    }
    let mut last = 0;
    while last < count {
        let entries = (last..count.min(last + BATCH)).map(|number| Entry::numbered(number, count));
        let new = entries.map(|entry| entry.started(&definitions[usize::from(entry.number > 0)])).collect();
        last += BATCH;
        store.accept(&Accept { executions: new, ..Accept::default() }).await?;
    }
    store.close().await?;
    let arguments = ["--limits-in-flight", "1", "--outbound-allow", "127.0.0.1", "--retention-days", "3650"];
    let daemon = Daemon::start_with(terms.processors, &project, &arguments).await?;
    let what = format!("with {count} executions that wait");
    let row =
        Row::new("backlog", format!("start {what}"), milliseconds(daemon.came_up_in), Unit::Milliseconds);
    report.add(row.target(Some(Target::AtMost(START_MS))));
    let mut connection = Connection::open(daemon.admin()).await?;
    for query in ["", "&status=queued", "&status=running", "&automation=others", "&automation=first"] {
        let ask = authorized(&format!("/api/v1/executions?limit={PAGE}{query}"), &daemon.token()?);
        let mut slowest = Duration::ZERO;
        for _ in 0..TURNS {
            let asked = Instant::now();
            let answer = connection.ask(&ask).await?;
            if answer.status != 200 {
                return Err(Error::Server(format!("the list was answered with {}", answer.status)));
            }
            slowest = slowest.max(asked.elapsed());
        }
        let name = format!("slowest list {what}{}", query.replace('&', ", "));
        let row = Row::new("backlog", name, milliseconds(slowest), Unit::Milliseconds);
        report.add(row.target(Some(Target::AtMost(BACKLOG_MS))));
    }
    if let Some(bytes) = daemon.process().resident() {
        let row = Row::new("backlog", format!("memory {what}"), mebibytes(bytes), Unit::Mebibytes);
        report.add(row.target(Some(Target::AtMost(MAX_MIB))));
    }
    daemon.stop().await
}

/// One execution of many.
struct Entry {
    number: u64,
    at: Timestamp,
}

impl Entry {
    /// The one with this number of `count`, spread over the span.
    fn numbered(number: u64, count: u64) -> Self {
        const START: i64 = 1_790_000_000;
        let step = SPAN.as_nanos() / u128::from(count.max(1));
        let nanoseconds =
            i128::from(START) * 1_000_000_000 + i128::try_from(step * u128::from(number)).unwrap_or(0);
        Self { number, at: Timestamp::from_nanosecond(nanoseconds).unwrap_or(Timestamp::MAX) }
    }

    fn id(&self) -> ExecutionId {
        let mut bits = [0; 10];
        bits[2..].copy_from_slice(&self.number.to_be_bytes());
        ExecutionId::new(self.at, bits)
    }

    /// Of one of these; one in ten thousand of the last.
    fn of_one(&self, automations: &[Definition]) -> NewExecution {
        let last = automations.len() - 1;
        let index = if self.number.is_multiple_of(10_000) {
            last
        } else {
            usize::try_from(self.number).unwrap_or(0) % last
        };
        self.started(&automations[index])
    }

    fn started(&self, definition: &Definition) -> NewExecution {
        let started = Event::Started {
            at: self.at,
            automation: definition.automation.clone(),
            definition: definition.hash,
            origin: if self.number % 200 == 1 { Origin::Test } else { Origin::Manual },
            payload: Payload::manual(Map::new()).into(),
            trigger: TriggerId::MAIN,
            inputs: None,
        };
        NewExecution {
            id: self.id(),
            started,
            key: None,
            dedup: Vec::new(),
            starts_running: false,
            initial: InitialEvents::default(),
            gated: false,
        }
    }

    /// Its end; one in a thousand has none yet, five in a hundred failed, one in a thousand was cancelled.
    fn end(&self) -> Option<Append> {
        let outcome = match self.number % 1000 {
            999 => return None,
            998 => Outcome::Cancelled { reason: "by hand".to_owned() },
            rest if rest % 20 == 3 => {
                let error = model::ActionError::new(model::ErrorKind::Internal, "the peer said no");
                Outcome::Failed { error }
            }
            _ => Outcome::Succeeded { result: Value::Null },
        };
        let status = outcome.status();
        let events = vec![Event::Finished { at: self.at, outcome }];
        Some(Append { events, ..Append::new(self.id(), 1, status) })
    }
}

/// The pages that are read: their names, their filters, and where they begin.
fn pages(count: u64) -> Vec<(&'static str, ExecutionFilter, Option<ExecutionId>)> {
    let all = ExecutionFilter::default;
    let of = |number| ExecutionFilter { automation: AutomationId::parse(&name(number)), ..all() };
    let with = |status| ExecutionFilter { status: vec![status], ..all() };
    let middle = Entry::numbered(count / 2, count);
    let day = Entry::numbered(count / 2 + count / 30, count).at;
    vec![
        ("all", all(), None),
        ("all, from the middle on", all(), Some(middle.id())),
        ("one automation", of(0), None),
        ("one automation with few", of(AUTOMATIONS - 1), None),
        ("one automation with none", of(AUTOMATIONS), None),
        ("those that failed", with(Status::Failed), None),
        (
            "those that failed, of one automation with few",
            ExecutionFilter { status: vec![Status::Failed], ..of(AUTOMATIONS - 1) },
            None,
        ),
        ("those that were cancelled", with(Status::Cancelled), None),
        ("those that run", with(Status::Running), None),
        ("those that wait for their turn", with(Status::Queued), None),
        ("stuck ones, of which there are none", with(Status::Stuck), None),
        ("tests", ExecutionFilter { test: Some(true), ..all() }, None),
        ("a day in the middle", ExecutionFilter { since: Some(middle.at), until: Some(day), ..all() }, None),
        (
            "a day in the middle of one automation, failed",
            ExecutionFilter {
                since: Some(middle.at),
                until: Some(day),
                status: vec![Status::Failed],
                ..of(3)
            },
            None,
        ),
        ("before all of them", ExecutionFilter { until: Some(Entry::numbered(0, count).at), ..all() }, None),
    ]
}

/// Every filter with every other, from the newest end and from the middle on.
fn combinations(count: u64) -> Vec<(ExecutionFilter, Option<ExecutionId>)> {
    let (middle, day) =
        (Entry::numbered(count / 2, count), Entry::numbered(count / 2 + count / 30, count).at);
    let automations = [None, AutomationId::parse(&name(3)), AutomationId::parse(&name(AUTOMATIONS - 1))];
    let mut statuses: Vec<Vec<Status>> = Status::ALL.into_iter().map(|status| vec![status]).collect();
    statuses.extend([vec![], vec![Status::Failed, Status::Stuck]]);
    let times =
        [(None, None), (Some(middle.at), None), (None, Some(middle.at)), (Some(middle.at), Some(day))];
    let mut found = Vec::new();
    for automation in automations {
        for status in &statuses {
            for test in [None, Some(true), Some(false)] {
                for (since, until) in times {
                    for before in [None, Some(middle.id())] {
                        let (automation, status) = (automation.clone(), status.clone());
                        found.push((
                            ExecutionFilter {
                                automation,
                                status,
                                test,
                                since,
                                until,
                                replay_of: None,
                                sender: None,
                            },
                            before,
                        ));
                    }
                }
            }
        }
    }
    found
}

fn name(number: u64) -> String {
    format!("automation-{number}")
}

fn definition(name: &str, text: &str) -> Definition {
    let automation = AutomationId::parse(name).unwrap_or_else(|| unreachable!("the names here are ids"));
    let (hash, path) = (DefinitionHash::compute(&automation, text), format!("automations/{name}.yaml"));
    Definition { hash, automation, path, text: text.to_owned() }
}

fn open(folder: &Path) -> Result<Arc<dyn Store>, Error> {
    // The filling is not measured.
    let options = Options { durability: Durability::Relaxed, ..Options::default() };
    Ok(engine::stores::open(&Location::from(folder), options)?)
}

fn executions(terms: Terms<'_>) -> u64 {
    terms.options.executions.unwrap_or(if terms.options.quick { QUICK } else { EXECUTIONS })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn say(text: &str) {
    use std::io::Write as _;
    // Without a reader there is nothing left to do.
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_order_and_spread_over_the_span() {
        let entries: Vec<Entry> = (0..1000).map(|number| Entry::numbered(number, 1000)).collect();
        assert!(entries.windows(2).all(|pair| pair[0].id() < pair[1].id()));
        let days = entries[0].at.duration_until(entries[999].at).as_hours() / 24;
        assert_eq!(days, 29);
        assert_eq!(entries.iter().filter(|entry| entry.end().is_none()).count(), 1);
    }
}
