//! `cogwork serve`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use catalog::Catalog;
use clap::Args;
use connector::Registry;
use engine::Engine;
use runtime::{Clock, ClusterClock, SystemClock};
use server::{Addresses, Server};
use store::Store;
use telemetry::Telemetry;
use text::diagnostic::{Diagnostic, Report};

use super::Subcommand;
use crate::context::Context;
use crate::exit::{CommandError, Exit};
use crate::output::{self, BAD, GOOD, Messages, QUIET, STRONG, count, paint, plain};
use crate::settings::{Config, Flags, LogFormat, SERVE};
use crate::signals::Signals;
use crate::{daemon, failpoint, project, store_server, time};

const EXAMPLES: &str = "\
Examples:
  cogwork serve
  cogwork serve --dir flows --hooks 0.0.0.0:7070 --public-url https://hooks.example.com
  cogwork serve --hooks 0 --admin 0                free ports, which are printed
  COGWORK_OUTBOUND_ALLOW=127.0.0.1 cogwork serve   allow calls to this machine

Changed files are reloaded at once. Ctrl-C, SIGTERM or SIGHUP stops gracefully: requests are
answered, running steps get a grace period, and the rest continues at the next start.
A second signal stops at once. The daemon exits with 3 if the store cannot be trusted
any more; a supervisor may start it again.";

/// The grace period for running steps when the daemon stops.
const GRACE: Duration = Duration::from_secs(10);
/// The time limit for sending the last traces and logs to a collector.
const FLUSH_GRACE: Duration = Duration::from_secs(5);

/// Run the daemon: webhooks, schedules, the API
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// Print the live addresses of webhooks even if stdout is not a terminal; everyone who has one can start it
    #[arg(long)]
    addresses: bool,

    #[command(flatten)]
    settings: Flags<SERVE>,
}

impl Subcommand for Serve {
    const NAME: &'static str = "serve";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if context.log_format() == LogFormat::Json {
            output::set_messages(Messages::Log);
        }
        let (config, telemetry) = context.daemon_config(self.settings.given())?;
        if !config.store_location().is_shared() {
            // With a shared store, the definitions can come from there.
            project::require(&config.dir)?;
            if config.auto_deploy {
                let message = "`autoDeploy` deploys into a store that daemons share: name one with `--store postgres://…`";
                return Err(CommandError::usage(message));
            }
        }
        let runtime = daemon::runtime()?;
        let exit =
            runtime.block_on(serve(&config, telemetry, self.addresses || output::stdout_is_terminal()));
        // A thread that hangs in a system call must not keep the process from ending.
        runtime.shutdown_timeout(Duration::from_secs(1));
        exit
    }
}

/// With `shows_addresses`, the live addresses are printed.
async fn serve(config: &Config, telemetry: Option<Telemetry>, shows_addresses: bool) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen()?;
    // Binds the sockets first, so that the guard of outgoing calls knows them; connections wait until the engine is ready.
    let bound = Server::bind(config.server()).await?;
    let addresses = bound.addresses();
    let failpoints = failpoint::from_env();
    let options = store::Options { failpoints: failpoints.clone(), ..config.store() };
    let location = config.store_location();
    let store = engine::stores::open(&location, options)
        .with_context(|| format!("cannot open the store `{location}`"))?;
    let mut settings = config.engine();
    settings.failpoints = failpoints;
    settings.own_addresses = vec![addresses.hooks, addresses.admin];
    store_server::close(config, &mut settings);
    settings.public_url = Some(config.base(addresses.hooks));
    settings.admin_url = Some(config.admin_base(addresses.admin));
    settings.observer = telemetry.as_ref().map(Telemetry::observer);
    let telemetry = telemetry.map(|telemetry| telemetry.start(store.clone())).transpose();
    let telemetry = telemetry.map_err(|error| CommandError::usage(error.to_string()))?;
    let clock: Arc<dyn Clock> = match store.server_time() {
        Some(readings) => Arc::new(ClusterClock::start(readings)),
        None => Arc::new(SystemClock),
    };
    let engine = Engine::start(settings, store.clone(), clock).await?;
    let mut generations = engine.generations();
    let server = bound.serve(engine.clone())?;
    warn_of_secrets(config);
    banner(config, addresses, &engine, &*store, shows_addresses).await?;
    let mut reporter = Reporter::new(config.log_format);
    reporter.report(&engine);
    let exit = loop {
        tokio::select! {
            biased;
            reason = engine.context().store_lost() => {
                output::error(format_args!("the store cannot be trusted: {}", plain(&reason)));
                break Exit::StoreLost;
            }
            () = signals.next() => break Exit::Done,
            changed = generations.changed() => match changed {
                Ok(()) => reporter.report(&engine),
                Err(_) => break Exit::Failed,
            },
        }
    };
    if exit == Exit::Done {
        output::say("stopping; once more to stop at once");
    }
    let stop = async {
        // The engine must still run while in-progress responses finish.
        server.shutdown().await;
        engine.shutdown(GRACE).await;
        if let Some(telemetry) = telemetry {
            telemetry.shutdown(FLUSH_GRACE).await;
        }
        store.close().await
    };
    tokio::select! {
        closed = stop => {
            // With a lost store this error is expected.
            if exit != Exit::StoreLost {
                closed?;
            }
            Ok(exit)
        }
        () = signals.next() => Ok(if exit == Exit::StoreLost { exit } else { Exit::Interrupted }),
    }
}

/// Prints the summary of a daemon's start.
async fn banner(
    config: &Config,
    addresses: Addresses,
    engine: &Engine,
    store: &dyn Store,
    shows_addresses: bool,
) -> anyhow::Result<()> {
    let catalog = engine.catalog();
    let info = store.info().await?;
    if let Some(sentence) = store_server::local_files(config, &catalog) {
        output::warn(plain(&sentence));
    }
    if output::is_log() {
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            hooks = %format_args!("http://{}", addresses.hooks),
            admin = %format_args!("http://{}", addresses.admin),
            store = %format_args!("{} ({})", info.location, info.engine),
            loaded = %anstream::adapter::strip_str(&loaded(&catalog, engine)),
            "the daemon serves"
        );
        warn_of_weakness(addresses, &info.weakened);
        return Ok(());
    }
    // An address is a credential: without a terminal it would end up in a journal.
    let base = shows_addresses.then(|| config.base(addresses.hooks));
    let version = env!("CARGO_PKG_VERSION");
    output::data(format_args!("{} {version}", paint(STRONG, "Cogwork")))?;
    let fact = |name: &str, value: &str| {
        output::data(format_args!("  {}  {value}", paint(QUIET, format_args!("{name:<9}"))))
    };
    fact("hooks", &format!("http://{}", addresses.hooks))?;
    fact("admin", &format!("http://{}", addresses.admin))?;
    match &config.admin_token {
        Some(_) => fact("token", "as given by COGWORK_ADMIN_TOKEN")?,
        None => fact("token", &config.data_dir.join("admin-token").display().to_string())?,
    }
    fact("store", &format!("{} ({})", info.location, info.engine))?;
    fact("loaded", &loaded(&catalog, engine))?;
    warn_of_weakness(addresses, &info.weakened);
    let now = time::now();
    let width =
        catalog.automations().map(|deployed| deployed.automation.id.as_str().len()).max().unwrap_or_default();
    for deployed in catalog.automations() {
        let automation = &deployed.automation;
        let started_by = if automation.enabled {
            let triggers = deployed.mounts().map(|mount| started_by(&mount, base.as_deref(), now));
            triggers.collect::<Vec<_>>().join(" · ")
        } else {
            "disabled".to_owned()
        };
        let mark = if automation.enabled { paint(GOOD, "●") } else { paint(QUIET, "○") };
        output::data(format_args!(
            "  {mark} {}  {}",
            paint(STRONG, format_args!("{:<width$}", automation.id.as_str())),
            plain(&started_by)
        ))?;
    }
    for broken in catalog.invalid_files() {
        output::data(format_args!("  {} {}  does not load", paint(BAD, "✗"), plain(&broken.path)))?;
    }
    Ok(())
}

/// Warns of an API that other machines reach, and of weakened guarantees of the store.
fn warn_of_weakness(addresses: Addresses, weakened: &[String]) {
    if !addresses.admin.ip().is_loopback() {
        output::warn(
            "the API can be reached from other machines, unencrypted; put a proxy with TLS before it",
        );
    }
    for weakness in weakened {
        output::warn(plain(weakness));
    }
}

/// Warns of secret files that other users can read.
fn warn_of_secrets(config: &Config) {
    for path in runtime::exposed_secret_files(&config.secrets_dir) {
        let path = path.display();
        output::warn(format_args!(
            "other users can read the secret `{path}`; mend it with `chmod 600 {path}`"
        ));
    }
}

/// A trigger: its live address below `base` if it has one, its schedule or its kind.
fn started_by(mount: &catalog::Mount, base: Option<&str>, now: jiff::Timestamp) -> String {
    if !mount.is_enabled() {
        return format!("{} disabled", mount.declared().id);
    }
    if let Some(url) = base.and_then(|base| mount.live_url(base)) {
        return url;
    }
    match mount.schedule() {
        Some(schedule) => {
            let next = mount.next_fires(now, 1).first().map(|at| time::in_zone(*at, schedule.timezone()));
            format!("{}; next {}", schedule.describe(), next.unwrap_or_else(|| "never".to_owned()))
        }
        None => mount.on().keyword().to_owned(),
    }
}

fn loaded(catalog: &Catalog, engine: &Engine) -> String {
    let automations = count(catalog.automations().len(), "automation");
    let connections = count(catalog.connections().len(), "connection");
    let broken = match catalog.invalid_files().len() {
        0 => String::new(),
        number => format!(", {}", paint(BAD, format_args!("{} with errors", count(number, "file")))),
    };
    let of = match engine.running_definitions().generation {
        Some(generation) => format!(", deployed as generation {}", generation.number),
        None => String::new(),
    };
    format!("{automations}, {connections}{broken}{of}")
}

/// The code of the warning about a name that the program was built without.
const NOT_BUILT: &str = "not-built";

/// Returns the line about names that the program was built without, each with a file that uses it.
fn unbuilt_line(registry: &Registry, unbuilt: &BTreeSet<(String, String)>) -> String {
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, path) in unbuilt {
        files.entry(name).or_default().push(path);
    }
    let features: BTreeSet<&str> = files.keys().filter_map(|name| registry.missing_feature(name)).collect();
    let names: Vec<String> =
        files.iter().map(|(name, files)| format!("{name} ({})", files.join(", "))).collect();
    format!(
        "This program was built without {}. What uses them fails: take a released program, which has all, or build it with `cargo build --release -p cli --features {}`.",
        names.join(", "),
        features.into_iter().collect::<Vec<_>>().join(",")
    )
}

/// Prints problems of files once, when they appear.
struct Reporter {
    /// If the log is for programs, problems are only logged.
    silent: bool,
    /// By path.
    shown: BTreeMap<String, Arc<Report>>,
    /// The messages of missing secrets that one line has told of, by path.
    summarised: BTreeMap<String, Vec<String>>,
    /// The names that the program was built without and one line has told of, each with the file that uses it.
    unbuilt: BTreeSet<(String, String)>,
}

/// The number of missing secrets that are shown with their lines. More of them, as in a new copy of a project, are named in one line.
const MAX_SHOWN_SECRETS: usize = 5;

impl Reporter {
    /// Names missing secrets in one line if they are many. Returns the reports to show with their lines.
    fn summarise(&mut self, missing: Vec<Report>) -> Vec<Report> {
        let messages = |report: &Report| -> Vec<String> {
            report.entries().into_iter().map(|entry| entry.message.to_string()).collect()
        };
        self.summarised.retain(|path, told| {
            let now = missing.iter().find(|report| report.source().path() == path);
            now.is_some_and(|report| messages(report) == *told)
        });
        let is_told = |report: &Report| self.summarised.contains_key(report.source().path());
        let untold: Vec<Report> = missing.into_iter().filter(|report| !is_told(report)).collect();
        if untold.iter().map(|report| report.entries().len()).sum::<usize>() <= MAX_SHOWN_SECRETS {
            return untold;
        }
        let all: BTreeSet<String> = untold.iter().flat_map(messages).collect();
        let names: Vec<&str> = all.iter().filter_map(|message| message.split('`').nth(1)).collect();
        output::say(format_args!(
            "{} secrets are not set: {}. What needs one fails, or does not start; `cogwork secrets set NAME` stores one, and `cogwork validate` shows who needs it.\n",
            names.len(),
            names.join(", ")
        ));
        self.summarised
            .extend(untold.iter().map(|report| (report.source().path().to_owned(), messages(report))));
        Vec::new()
    }

    /// Names in one line what the program was built without, if files use several such names, and takes it out of their reports.
    fn summarise_unbuilt(&mut self, registry: &Registry, grave: &mut BTreeMap<String, Arc<Report>>) {
        let is_unbuilt = |found: &Diagnostic| found.code == NOT_BUILT;
        let mut unbuilt = BTreeSet::new();
        for (path, report) in grave.iter() {
            let found = report.diagnostics().iter().filter(|found| is_unbuilt(found));
            let names = found.filter_map(|found| found.message.split('`').nth(1));
            unbuilt.extend(names.map(|name| (name.to_owned(), path.clone())));
        }
        if unbuilt.len() < 2 {
            self.unbuilt.clear();
            return;
        }
        for report in grave.values_mut().filter(|report| report.diagnostics().iter().any(is_unbuilt)) {
            *report = Arc::new(Report::clone(report).without(NOT_BUILT));
        }
        grave.retain(|_, report| report.has_errors() || report.warning_count() > 0);
        if !unbuilt.is_subset(&self.unbuilt) {
            output::say(format_args!("{}\n", unbuilt_line(registry, &unbuilt)));
        }
        self.unbuilt = unbuilt;
    }

    /// Logs missing secrets, each once while it is missing.
    fn log(&mut self, missing: &[Report]) {
        let now: BTreeMap<String, Arc<Report>> = missing
            .iter()
            .map(|report| (report.source().path().to_owned(), Arc::new(report.clone())))
            .collect();
        for (path, report) in &now {
            let before = self.shown.get(path).map(|shown| shown.entries()).unwrap_or_default();
            for entry in report.entries().into_iter().filter(|entry| !before.contains(entry)) {
                tracing::warn!(file = %path, line = entry.line, help = entry.help, "{}", entry.message);
            }
        }
        self.shown = now;
    }

    fn new(format: LogFormat) -> Self {
        Self {
            silent: format == LogFormat::Json,
            shown: BTreeMap::new(),
            summarised: BTreeMap::new(),
            unbuilt: BTreeSet::new(),
        }
    }

    fn report(&mut self, engine: &Engine) {
        let missing = engine.context().missing_secrets();
        if self.silent {
            self.log(&missing);
            return;
        }
        let catalog = engine.catalog();
        let grave = catalog.reports().filter(|report| report.has_errors() || report.warning_count() > 0);
        let mut grave: BTreeMap<String, Arc<Report>> =
            grave.map(|report| (report.source().path().to_owned(), report.clone())).collect();
        self.summarise_unbuilt(catalog.registry(), &mut grave);
        for report in self.summarise(missing) {
            let path = report.source().path().to_owned();
            let whole = match grave.get(&path) {
                Some(told) => told.with(report.diagnostics().iter().cloned()),
                None => report,
            };
            grave.insert(path, Arc::new(whole));
        }
        for (path, report) in &grave {
            // A file that was checked again has a new report, possibly with the same content.
            let said = self.shown.get(path).is_some_and(|shown| {
                Arc::ptr_eq(shown, report) || shown.render(false) == report.render(false)
            });
            if !said {
                output::say(format_args!("{}\n", report.render(true).trim_end()));
            }
        }
        let had_some = !self.shown.is_empty();
        self.shown = grave;
        if had_some && self.shown.is_empty() {
            output::say(paint(GOOD, "no problem is left in any file"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_names_all_that_the_program_was_built_without_with_its_files() {
        let registry = Registry::builtin().expect("the connectors load");
        let registry = registry.without_feature("mysql", "mysql").without_feature("mail.imap", "mail");
        let report = |path: &str, names: &[&str]| {
            let text = "type: mysql";
            let source = Arc::new(text::diagnostic::Source::new(path, text));
            let found = names.iter().map(|name| {
                let message = format!("this program was built without `{name}`: what uses it fails");
                Diagnostic::warning(NOT_BUILT, message, text::Span::new(6, 11))
            });
            (path.to_owned(), Arc::new(Report::new(source, found)))
        };
        let mut reporter = Reporter::new(LogFormat::Text);
        let mut grave = BTreeMap::from([report("connections/a.yaml", &["mysql"])]);
        reporter.summarise_unbuilt(&registry, &mut grave);
        assert_eq!(grave.len(), 1, "one is shown with its line");
        grave
            .extend([report("connections/b.yaml", &["mysql"]), report("connections/c.yaml", &["mail.imap"])]);
        reporter.summarise_unbuilt(&registry, &mut grave);
        assert!(grave.is_empty());
        assert_eq!(
            unbuilt_line(&registry, &reporter.unbuilt),
            "This program was built without mail.imap (connections/c.yaml), mysql (connections/a.yaml, connections/b.yaml). What uses them fails: take a released program, which has all, or build it with `cargo build --release -p cli --features mail,mysql`."
        );
    }
}
