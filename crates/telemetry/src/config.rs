//! The configuration by variables, as the specification of OpenTelemetry names them.
//!
//! The exporters read the endpoint, headers, timeout and resource themselves; here is what they do not read.

use std::time::Duration;

use opentelemetry_sdk::trace::ShouldSample;

use crate::error::Error;

/// The signals that are exported, and the way of each.
#[derive(Debug)]
pub(crate) struct Config {
    /// The export of traces; `None` if they are not exported.
    pub(crate) traces: Option<SignalConfig>,
    /// The export of logs; `None` if they are not exported.
    pub(crate) logs: Option<SignalConfig>,
    /// Decides which traces are recorded.
    pub(crate) sampler: Box<dyn ShouldSample>,
}

/// The export of one signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignalConfig {
    pub(crate) protocol: Protocol,
    /// Maximum number of entries that wait in the queue; further ones are dropped and counted.
    pub(crate) queue: usize,
    /// Maximum number of spans or records of one request.
    pub(crate) batch: usize,
    /// The time that a span or record waits for others.
    pub(crate) delay: Duration,
}

/// The form of OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// `grpc`.
    Grpc,
    /// `http/protobuf`.
    Http,
}

/// The names that differ between the signals.
struct Names {
    exporter: &'static str,
    signal: &'static str,
    batch: &'static str,
    /// The default delay of a batch.
    delay: Duration,
}

const TRACES: Names = Names {
    exporter: "OTEL_TRACES_EXPORTER",
    signal: "TRACES",
    batch: "OTEL_BSP",
    delay: Duration::from_secs(5),
};
const LOGS: Names = Names {
    exporter: "OTEL_LOGS_EXPORTER",
    signal: "LOGS",
    batch: "OTEL_BLRP",
    delay: Duration::from_secs(1),
};

/// Looks variables up. An empty variable counts as unset, as the specification requires.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Config {
    /// Reads the variables of this process; `None` if nothing is to be exported.
    ///
    /// # Errors
    /// A variable has a value that is not supported.
    pub(crate) fn from_env() -> Result<Option<Self>, Error> {
        let lookup = |name: &str| std::env::var(name).ok();
        let variables = Variables(&lookup);
        if variables.is_disabled() {
            return Ok(None);
        }
        let (traces, logs) = (variables.signal(&TRACES)?, variables.signal(&LOGS)?);
        if traces.is_none() && logs.is_none() {
            return Ok(None);
        }
        // The SDK reads `OTEL_TRACES_SAMPLER` and its argument.
        let sampler = opentelemetry_sdk::trace::Config::default().sampler;
        Ok(Some(Self { traces, logs, sampler }))
    }
}

impl Variables<'_> {
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn is_disabled(&self) -> bool {
        self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// The configuration of a signal; `None` if it has no endpoint, or its exporter is `none`.
    fn signal(&self, names: &Names) -> Result<Option<SignalConfig>, Error> {
        let of_signal = |what: &str| format!("OTEL_EXPORTER_OTLP_{}_{what}", names.signal);
        let endpoint = self.get(&of_signal("ENDPOINT")).or_else(|| self.get("OTEL_EXPORTER_OTLP_ENDPOINT"));
        match self.get(names.exporter).as_deref() {
            Some("none") => return Ok(None),
            // Named by hand, the exporter sends to the default endpoint on this machine.
            Some("otlp") => {}
            None if endpoint.is_some() => {}
            None => return Ok(None),
            Some(other) => return Err(wrong(names.exporter, other, "`otlp` or `none`")),
        }
        let delay = self.number(&format!("{}_SCHEDULE_DELAY", names.batch))?;
        let queue = self.number(&format!("{}_MAX_QUEUE_SIZE", names.batch))?.unwrap_or(2048);
        let batch = self.number(&format!("{}_MAX_EXPORT_BATCH_SIZE", names.batch))?.unwrap_or(512);
        Ok(Some(SignalConfig {
            protocol: self.protocol(&of_signal("PROTOCOL"))?,
            queue: size(queue),
            batch: size(batch),
            delay: delay.map_or(names.delay, Duration::from_millis),
        }))
    }

    fn protocol(&self, of_signal: &str) -> Result<Protocol, Error> {
        let set = [of_signal, "OTEL_EXPORTER_OTLP_PROTOCOL"]
            .into_iter()
            .find_map(|name| Some((name, self.get(name)?)));
        match set.as_ref().map(|(name, value)| (*name, value.as_str())) {
            None | Some((_, "http/protobuf")) => Ok(Protocol::Http),
            Some((_, "grpc")) => Ok(Protocol::Grpc),
            Some((name, other)) => Err(wrong(name, other, "`http/protobuf` or `grpc`")),
        }
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Error> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| wrong(name, &text, "a whole number"))
    }
}

/// A size of a queue or batch within sane bounds.
fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX).clamp(1, 1 << 20)
}

fn wrong(variable: &str, value: &str, allowed: &'static str) -> Error {
    Error::Value { variable: variable.to_owned(), value: value.to_owned(), allowed }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Reads the signals of these variables.
    fn read(
        set: &[(&str, &str)],
    ) -> (Result<Option<SignalConfig>, String>, Result<Option<SignalConfig>, String>) {
        let lookup =
            |name: &str| set.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
        let variables = Variables(&lookup);
        let words = |error: Error| error.to_string();
        (variables.signal(&TRACES).map_err(words), variables.signal(&LOGS).map_err(words))
    }

    const BY_HTTP: SignalConfig =
        SignalConfig { protocol: Protocol::Http, queue: 2048, batch: 512, delay: Duration::from_secs(5) };

    #[test]
    fn without_an_endpoint_nothing_is_exported() {
        assert_eq!(read(&[]), (Ok(None), Ok(None)));
        assert_eq!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), (Ok(None), Ok(None)));
        assert_eq!(read(&[("OTEL_SERVICE_NAME", "x")]), (Ok(None), Ok(None)));
    }

    #[test]
    fn an_endpoint_enables_signals_and_none_disables_one() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        let logs = SignalConfig { delay: Duration::from_secs(1), ..BY_HTTP };
        assert_eq!(read(&[endpoint]), (Ok(Some(BY_HTTP)), Ok(Some(logs))));
        assert_eq!(read(&[endpoint, ("OTEL_LOGS_EXPORTER", "none")]), (Ok(Some(BY_HTTP)), Ok(None)));
        assert_eq!(
            read(&[("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://x/v1/logs")]),
            (Ok(None), Ok(Some(logs)))
        );
        assert_eq!(read(&[("OTEL_TRACES_EXPORTER", "otlp")]), (Ok(Some(BY_HTTP)), Ok(None)));
    }

    #[test]
    fn the_variable_of_a_signal_overrides_the_general_one() {
        let set = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/protobuf"),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
            ("OTEL_BLRP_MAX_QUEUE_SIZE", "7"),
        ];
        let traces = SignalConfig { protocol: Protocol::Grpc, delay: Duration::from_millis(50), ..BY_HTTP };
        let logs = SignalConfig { queue: 7, delay: Duration::from_secs(1), ..BY_HTTP };
        assert_eq!(read(&set), (Ok(Some(traces)), Ok(Some(logs))));
    }

    #[test]
    fn an_unsupported_value_is_an_error_with_the_supported_ones() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        let words = "`OTEL_EXPORTER_OTLP_PROTOCOL` is `http/json`; use `http/protobuf` or `grpc`".to_owned();
        let protocol = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
        assert_eq!(read(&[endpoint, protocol]), (Err(words.clone()), Err(words)));
        let words = "`OTEL_TRACES_EXPORTER` is `zipkin`; use `otlp` or `none`".to_owned();
        assert_eq!(read(&[("OTEL_TRACES_EXPORTER", "zipkin")]).0, Err(words));
        let words = "`OTEL_BSP_MAX_QUEUE_SIZE` is `many`; use a whole number".to_owned();
        assert_eq!(read(&[endpoint, ("OTEL_BSP_MAX_QUEUE_SIZE", "many")]).0, Err(words));
    }
}
