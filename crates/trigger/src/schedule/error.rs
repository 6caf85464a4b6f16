//! Errors of schedules.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use text::units;

/// The invalid key of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleKey {
    /// `every`, `hourly`, `daily`, `weekly` or `cron`, depending on the trigger.
    Cadence,
    /// `timezone`.
    Timezone,
}

/// An error of a schedule: the invalid value, the allowed values, and a correction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ScheduleError {
    /// The invalid key.
    pub key: ScheduleKey,
    /// The invalid range of the cron expression, in bytes; `None` if the error is not in one.
    pub range: Option<Range<usize>>,
    /// The message: lower case, no final stop, the invalid value in backticks.
    pub message: String,
    /// A correction, if one is known.
    pub help: Option<String>,
    /// The text that is wrong and the one to write in its place, if the correction is certain.
    pub replacement: Option<(String, String)>,
    /// The allowed values, if they can be listed.
    pub allowed: Option<String>,
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        for (word, text) in [("allowed", &self.allowed), ("help", &self.help)] {
            if let Some(text) = text {
                write!(formatter, "; {word}: {text}")?;
            }
        }
        Ok(())
    }
}

impl ScheduleError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            key: ScheduleKey::Cadence,
            range: None,
            message: message.into(),
            help: None,
            replacement: None,
            allowed: None,
        }
    }

    pub(super) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// Adds the text to write in place of `wrong`, as the correction.
    pub(super) fn write(self, wrong: &str, meant: impl Into<String>) -> Self {
        let meant = meant.into();
        self.help(format!("write `{meant}`")).replace(wrong, meant)
    }

    /// Adds the text to write in place of `wrong`.
    pub(super) fn replace(self, wrong: &str, meant: impl Into<String>) -> Self {
        Self { replacement: Some((wrong.to_owned(), meant.into())), ..self }
    }

    pub(super) fn allowed(self, allowed: impl Into<String>) -> Self {
        Self { allowed: Some(allowed.into()), ..self }
    }

    pub(super) fn at(self, range: Range<usize>) -> Self {
        Self { range: Some(range), ..self }
    }

    pub(super) fn zone(message: impl Into<String>) -> Self {
        Self { key: ScheduleKey::Timezone, ..Self::new(message) }
    }

    pub(super) fn too_often(period: Duration) -> Self {
        let found = units::format_duration(period);
        Self::new(format!("`{found}` is too often")).allowed("a period of `1s` or longer")
    }

    pub(super) fn no_weekday() -> Self {
        Self::new("`on` names no day").allowed("sun, mon, tue, wed, thu, fri, sat")
    }
}

/// Shortens a value for a message.
pub(super) fn shorten(text: &str) -> String {
    text::truncate(text, 40).into_owned()
}
