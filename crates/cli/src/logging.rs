//! Logging to stderr, as text or as JSON.

use std::borrow::Cow;
use std::io;

use telemetry::Telemetry;
use tracing::{Dispatch, Metadata};
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use value::redact::Redactor;

use crate::exit::CommandError;
use crate::mask;
use crate::settings::LogFormat;

/// Starts the log of this process. With `telemetry` it is also sent to a collector that accepts logs.
///
/// # Errors
/// `level` is not a level, nor a list of `part=level`.
pub(crate) fn start(
    level: &str,
    format: LogFormat,
    redactor: &Redactor,
    telemetry: Option<&Telemetry>,
) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(by_crate(level)).map_err(|error| {
        CommandError::usage(format!(
            "`{level}` is no log level: {error}; use error, warn, info, debug, trace or `part=level`"
        ))
    })?;
    // A second start in one process has no effect, as tests require.
    let _ = subscriber(filter, format, redactor, telemetry).try_init();
    Ok(())
}

/// The subscriber of this process. Each layer has the filter, also an absent one: a layer without a filter enables every span and
/// event of all others.
fn subscriber(
    filter: EnvFilter,
    format: LogFormat,
    redactor: &Redactor,
    telemetry: Option<&Telemetry>,
) -> Dispatch {
    let exported = telemetry.and_then(Telemetry::log_layer).with_filter(filter.clone());
    let registry = tracing_subscriber::registry().with(exported);
    let writer = Hiding(redactor.clone());
    let layer = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
    match format {
        LogFormat::Json => registry.with(layer.json().flatten_event(true).with_filter(filter)).into(),
        LogFormat::Text => {
            let colour = anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never;
            let layer = layer.with_ansi(colour).with_target(false);
            registry.with(layer.with_filter(filter.and(filter_fn(is_no_report)))).into()
        }
    }
}

/// The crates that `engine` in a log level includes.
const ENGINE: [&str; 5] = ["engine", "catalog", "runtime", "ingress", "testing"];

/// The libraries whose messages are suppressed unless the level names them.
const QUIET: [&str; 3] = ["async_nats", "deadpool", "tokio_postgres"];

/// A list of levels in which the part `engine` is replaced by the crates of the engine.
fn by_crate(level: &str) -> String {
    // These libraries report each lost connection without its context; the store and the source report the outage.
    let quiet = QUIET.iter().filter(|name| !level.contains(**name)).map(|name| format!(",{name}=off"));
    let quiet: String = quiet.collect();
    let directives = level.split(',').map(|directive| match directive.trim().strip_prefix("engine=") {
        Some(level) => ENGINE.map(|name| format!("{name}={level}")).join(","),
        None => directive.to_owned(),
    });
    directives.collect::<Vec<_>>().join(",") + &quiet
}

/// Writes to stderr and redacts known secrets. Each line is written in one call.
#[derive(Clone)]
struct Hiding(Redactor);

impl io::Write for Hiding {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A line is UTF-8, and may contain a truncated text.
        let masked = std::str::from_utf8(line).map(mask::mask);
        let hidden = match &masked {
            Ok(text) => match self.0.redact_message(text) {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            },
            Err(_) => self.0.redact_bytes(line).map_or(Cow::Borrowed(line), Cow::Owned),
        };
        io::stderr().lock().write_all(&hidden)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Reports on files are printed as such, so they are omitted from a log on the same terminal.
fn is_no_report(metadata: &Metadata<'_>) -> bool {
    !(metadata.target().starts_with("catalog") && metadata.fields().field("file").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_log_level_applies_to_its_crates() {
        assert_eq!(
            by_crate("info,engine=debug"),
            "info,engine=debug,catalog=debug,runtime=debug,ingress=debug,testing=debug,async_nats=off,deadpool=off,tokio_postgres=off"
        );
        assert_eq!(by_crate("store=trace"), "store=trace,async_nats=off,deadpool=off,tokio_postgres=off");
        assert_eq!(
            by_crate("deadpool=warn"),
            "deadpool=warn,async_nats=off,tokio_postgres=off",
            "one that is asked for"
        );
    }

    #[test]
    fn a_span_below_the_log_level_is_disabled() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let dispatch = subscriber(EnvFilter::new("info"), format, &Redactor::default(), None);
            let is_enabled = tracing::dispatcher::with_default(&dispatch, || {
                (tracing::span_enabled!(tracing::Level::DEBUG), tracing::span_enabled!(tracing::Level::INFO))
            });
            assert_eq!(is_enabled, (false, true), "{format:?}");
        }
    }
}
