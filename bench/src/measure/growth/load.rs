//! The loads on a daemon, and their costs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::AutomationId;
use store::{ExecutionFilter, Page};

use super::Costs;
use super::dimensions::Load;
use super::projects::{self, HANDLER, MEASURED, project};
use crate::Error;
use crate::daemon::Daemon;
use crate::driver::{Connection, authorized, authorized_post, request};
use crate::measure::Terms;
use crate::measure::server::Server;
use crate::project::numbered_id;

/// The body of a request whose content does not matter.
const BODY: &[u8] = br#"{"quantity": 1, "n": 0}"#;
/// Limit for waiting until the daemon has reached an expected state.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time without work after which a daemon is idle.
const IDLE_TIME: Duration = Duration::from_millis(300);
/// Interval at which the state is read meanwhile.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Puts a load of one size on a new daemon, and returns its costs.
pub(super) async fn costs(terms: Terms<'_>, load: Load, size: usize) -> Result<Costs, Error> {
    let items: Vec<usize> = if let Load::KnownItems(_) = load { (0..size).collect() } else { Vec::new() };
    let server = Server::start_with_items(&items).await?;
    let project = project(load, size, server.address())?;
    let arguments =
        ["--outbound-allow", "127.0.0.1", "--public-url", "http://127.0.0.1", "--retention-count", "10"];
    let arguments = if let Load::Retention = load { &arguments[..] } else { &arguments[..4] };
    if let Load::Retention = load {
        // Deleted at the next start.
        let daemon = Daemon::start_with(terms.processors, &project, &arguments[..4]).await?;
        Run::of(&daemon, MEASURED).await?.post_numbers(size).await?;
        daemon.drained().await?;
        daemon.stop().await?;
    }
    let daemon = Daemon::start_with(terms.processors, &project, arguments).await?;
    if let Load::Automations | Load::Retention | Load::Subscriptions = load {
        if let Load::Retention = load {
            Run::of(&daemon, MEASURED).await?.finished_at_most(10).await?;
            // Retention deletes the data of executions after they are gone for readers: half of the work at the smallest size.
            daemon.idle_for(IDLE_TIME).await?;
        }
        if let Load::Subscriptions = load {
            subscribed(&server, size).await?;
        }
        let (time, memory, _) = reading(&daemon).await?;
        daemon.stop().await?;
        return Ok(Costs { time, memory, stored: 0.0 });
    }
    let mut run = match load {
        // Polls and events have no address.
        Load::KnownItems(_) | Load::StartingEvents | Load::Changes | Load::Silences => {
            Run::without_address(&daemon).await?
        }
        _ => Run::of(&daemon, MEASURED).await?,
    };
    run.prepare(load, size).await?;
    run.reconnect().await?;
    let before = reading(&daemon).await?;
    if let Load::Changes = load {
        projects::change(&project, size)?;
    }
    run.take(load, size).await?;
    let ends_with_waiting =
        matches!(load, Load::WaitingExecutions(_) | Load::WaitingDefinitions(_) | Load::WaitingForPermit(_));
    if !ends_with_waiting {
        daemon.drained().await?;
    }
    let after = reading(&daemon).await?;
    daemon.stop().await?;
    Ok(Costs { time: after.0 - before.0, memory: after.1 - before.1, stored: after.2 - before.2 })
}

/// Processor time in seconds, memory and stored bytes of a daemon.
async fn reading(daemon: &Daemon) -> Result<(f64, f64, f64), Error> {
    let process = daemon.process();
    let absent = || Error::Server("the system does not tell what a process uses".to_owned());
    let time = process.processor_time().ok_or_else(absent)?.as_secs_f64();
    let memory = process.resident().ok_or_else(absent)?;
    #[expect(clippy::cast_precision_loss, reason = "bytes are far below 2^52")]
    Ok((time, memory as f64, daemon.stored().await? as f64))
}

/// A daemon under one of these loads.
pub(in crate::measure) struct Run<'daemon> {
    daemon: &'daemon Daemon,
    /// Connections that stay open.
    open: Vec<Connection>,
    connection: Connection,
    admin: Connection,
    token: String,
    path: String,
}

impl<'daemon> Run<'daemon> {
    async fn of(daemon: &'daemon Daemon, automation: &str) -> Result<Self, Error> {
        let mut run = Self::without_address(daemon).await?;
        run.select(automation).await?;
        Ok(run)
    }

    pub(in crate::measure) async fn without_address(daemon: &'daemon Daemon) -> Result<Self, Error> {
        Ok(Self {
            daemon,
            open: Vec::new(),
            connection: Connection::open(daemon.hooks()).await?,
            admin: Connection::open(daemon.admin()).await?,
            token: daemon.token()?,
            path: String::new(),
        })
    }

    /// Brings the daemon into the state in which the load meets it.
    async fn prepare(&mut self, load: Load, size: usize) -> Result<(), Error> {
        match load {
            Load::WaitingExecutions(_) => {
                self.post_numbers(size).await?;
                self.suspended(size).await
            }
            Load::WaitingForPermit(_) => self.post(size, BODY).await,
            Load::WaitingDefinitions(_) => {
                for number in 0..size {
                    self.select(&numbered_id(number)).await?;
                    self.post(1, format!("{{\"n\": {number}}}").as_bytes()).await?;
                }
                self.suspended(size).await
            }
            Load::KnownItems(_) => self.command(&format!("polls/{MEASURED}/now"), b"{}").await,
            Load::Followers(_) => {
                for _ in 0..size {
                    let mut follower = Connection::open(self.daemon.admin()).await?;
                    follower.send(&authorized("/api/v1/events", &self.token)).await?;
                    self.open.push(follower);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Opens both connections again: the daemon closes idle connections while a large load was prepared.
    pub(in crate::measure) async fn reconnect(&mut self) -> Result<(), Error> {
        self.connection = Connection::open(self.daemon.hooks()).await?;
        self.admin = Connection::open(self.daemon.admin()).await?;
        Ok(())
    }

    /// Puts the load on the daemon.
    async fn take(&mut self, load: Load, size: usize) -> Result<(), Error> {
        match load {
            Load::Automations | Load::Retention | Load::Subscriptions => {}
            Load::Requests(count, _) | Load::Followers(count) | Load::WaitingForPermit(count) => {
                self.post(count, BODY).await?
            }
            Load::Bodies(count) => {
                let body = format!("{{\"quantity\": 1, \"text\": \"{}\"}}", "x".repeat(size << 10));
                self.post(count, body.as_bytes()).await?;
            }
            Load::Executions(_) | Load::Failures => self.post_numbers(size).await?,
            Load::CodeTexts(rounds) => self.call_each(rounds, size).await?,
            Load::ProjectConnections | Load::Tokens => self.call_each(1, size).await?,
            Load::WaitingExecutions(count) | Load::WaitingDefinitions(count) => {
                for number in 0..count {
                    self.emit(number).await?;
                }
                self.suspended(size - count).await?;
            }
            Load::PausingTurns => {
                self.post(1, BODY).await?;
                for number in 0..size {
                    self.suspended(1).await?;
                    self.emit(number).await?;
                }
            }
            Load::Events | Load::StartingEvents => {
                for number in 0..size {
                    self.emit(number).await?;
                }
            }
            Load::Changes => {
                self.command("reload", b"").await?;
                self.handled(size).await?;
            }
            Load::Silences => self.handled(size).await?,
            Load::KnownItems(count) => {
                for _ in 0..count {
                    self.command(&format!("polls/{MEASURED}/now"), b"{}").await?;
                }
            }
            Load::OpenConnections => {
                let bytes = request("POST", &self.path, BODY);
                for _ in 0..size {
                    let mut connection = Connection::open(self.daemon.hooks()).await?;
                    ask(&mut connection, &bytes).await?;
                    self.open.push(connection);
                }
            }
            Load::Listeners => {
                for number in 0..size {
                    let command = format!("automations/{}/listen", numbered_id(number));
                    self.command(&command, b"{\"count\": 1}").await?;
                }
            }
        }
        Ok(())
    }

    /// Calls each of the numbered automations in turn.
    async fn call_each(&mut self, rounds: usize, count: usize) -> Result<(), Error> {
        for _ in 0..rounds {
            for number in 0..count {
                self.select(&numbered_id(number)).await?;
                self.post(1, BODY).await?;
            }
        }
        Ok(())
    }

    /// Sends a POST to the API.
    async fn command(&mut self, path: &str, body: &[u8]) -> Result<(), Error> {
        let bytes = authorized_post(&format!("/api/v1/{path}"), &self.token, body);
        ask(&mut self.admin, &bytes).await
    }

    /// Waits until at most this many executions are in the history.
    async fn finished_at_most(&self, count: u32) -> Result<(), Error> {
        let until = Instant::now() + PATIENCE;
        let page = Page { before: None, limit: count + 1 };
        while self.daemon.executions(&ExecutionFilter::default(), page).await?.len() > count as usize {
            if Instant::now() > until {
                return Err(Error::Server("old executions were not deleted".to_owned()));
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        Ok(())
    }

    /// Waits until an execution has started for this many events of the engine.
    async fn handled(&self, count: usize) -> Result<(), Error> {
        let until = Instant::now() + PATIENCE;
        let automation = AutomationId::parse(HANDLER);
        let filter = ExecutionFilter { automation, ..ExecutionFilter::default() };
        let page = Page { before: None, limit: u32::try_from(count).unwrap_or(u32::MAX) };
        while self.daemon.executions(&filter, page).await?.len() < count {
            if Instant::now() > until {
                return Err(Error::Server(format!("a trigger did not hear of {count} events")));
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        Ok(())
    }

    /// Sends the following requests to this automation.
    pub(in crate::measure) async fn select(&mut self, automation: &str) -> Result<(), Error> {
        self.path = self.daemon.path(automation).await?;
        Ok(())
    }

    /// Sends this many requests, one after another.
    pub(in crate::measure) async fn post(&mut self, count: usize, body: &[u8]) -> Result<(), Error> {
        let bytes = request("POST", &self.path, body);
        for _ in 0..count {
            ask(&mut self.connection, &bytes).await?;
        }
        Ok(())
    }

    /// Sends this many requests with their numbers.
    pub(in crate::measure) async fn post_numbers(&mut self, count: usize) -> Result<(), Error> {
        for number in 0..count {
            self.post(1, format!("{{\"n\": {number}}}").as_bytes()).await?;
        }
        Ok(())
    }

    /// Sends an event with this number.
    pub(in crate::measure) async fn emit(&mut self, number: usize) -> Result<(), Error> {
        let body = format!("{{\"name\": \"paid\", \"data\": {{\"n\": {number}}}}}");
        self.command("events", body.as_bytes()).await
    }

    /// Waits until exactly this many executions are suspended and no other is left.
    pub(in crate::measure) async fn suspended(&self, count: usize) -> Result<(), Error> {
        let until = Instant::now() + PATIENCE;
        while self.daemon.suspended().await? != count {
            if Instant::now() > until {
                return Err(Error::Server(format!("{count} executions did not come to wait")));
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        Ok(())
    }
}

/// Waits until this many subscriptions have arrived at the server.
async fn subscribed(server: &Server, count: usize) -> Result<(), Error> {
    let until = Instant::now() + PATIENCE;
    while server.arrivals().len() < count {
        if Instant::now() > until {
            let arrived = server.arrivals().len();
            return Err(Error::Server(format!("{arrived} of {count} automations subscribed")));
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    Ok(())
}

async fn ask(connection: &mut Connection, bytes: &Arc<[u8]>) -> Result<(), Error> {
    let answer = connection.ask(bytes).await?;
    if answer.status != 200 {
        let body = String::from_utf8_lossy(answer.body).into_owned();
        return Err(Error::Server(format!("a request was answered {}: {body}", answer.status)));
    }
    Ok(())
}
