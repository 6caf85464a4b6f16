//! The findings of the checks.

use serde::{Serialize, Serializer};

use crate::mask;

/// The result of one check.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// The part that was checked, one of [`SECTIONS`].
    pub(super) section: &'static str,
    /// The name of the check in its section.
    pub(super) name: &'static str,
    pub(super) state: State,
    /// The finding, as a sentence without a full stop.
    pub(super) detail: String,
    /// The fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) help: Option<String>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum State {
    /// As it should be.
    Ok,
    /// Works, but should be corrected or at least known.
    Warning,
    /// Does not work.
    Error,
    /// Not checked; the detail has the reason.
    Skipped,
}

/// The sections, in the order in which they are shown.
const SECTIONS: [&str; 9] =
    ["project", "store", "machine", "secrets", "listeners", "daemon", "connections", "login", "weakened"];

/// All findings, by section in the order of the checks.
#[derive(Debug, Default)]
pub(super) struct Findings {
    all: Vec<Finding>,
    /// True if the store cannot be trusted.
    pub(super) store_is_lost: bool,
}

impl Findings {
    pub(super) fn ok(&mut self, section: &'static str, name: &'static str, detail: impl Into<String>) {
        self.push(section, name, State::Ok, detail.into(), None);
    }

    pub(super) fn skipped(&mut self, section: &'static str, name: &'static str, detail: impl Into<String>) {
        self.push(section, name, State::Skipped, detail.into(), None);
    }

    pub(super) fn warning(
        &mut self,
        section: &'static str,
        name: &'static str,
        detail: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.push(section, name, State::Warning, detail.into(), Some(help.into()));
    }

    pub(super) fn error(
        &mut self,
        section: &'static str,
        name: &'static str,
        detail: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.push(section, name, State::Error, detail.into(), Some(help.into()));
    }

    fn push(
        &mut self,
        section: &'static str,
        name: &'static str,
        state: State,
        detail: String,
        help: Option<String>,
    ) {
        let rank = |section: &str| SECTIONS.iter().position(|known| *known == section);
        let place = self.all.partition_point(|other| rank(other.section) <= rank(section));
        // Messages of libraries can repeat an address.
        let masked = |text: String| mask::mask(&text).into_owned();
        let (detail, help) = (masked(detail), help.map(masked));
        self.all.insert(place, Finding { section, name, state, detail, help });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.all.iter()
    }

    /// True if a check of this section found an error.
    pub(super) fn has_error(&self, section: &str) -> bool {
        self.iter().any(|finding| finding.section == section && finding.state == State::Error)
    }

    /// True if a check found this.
    pub(super) fn has_detail(&self, detail: &str) -> bool {
        self.iter().any(|finding| finding.detail == detail)
    }

    pub(super) fn errors(&self) -> usize {
        self.count(State::Error)
    }

    pub(super) fn warnings(&self) -> usize {
        self.count(State::Warning)
    }

    fn count(&self, state: State) -> usize {
        self.all.iter().filter(|finding| finding.state == state).count()
    }

    /// The states of the findings of a check.
    #[cfg(test)]
    pub(super) fn states(&self, name: &str) -> Vec<State> {
        self.all.iter().filter(|finding| finding.name == name).map(|finding| finding.state).collect()
    }
}

/// A number of bytes, to two figures or more.
#[expect(clippy::cast_precision_loss, reason = "it is rounded anyway")]
pub(super) fn size(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

impl Serialize for Findings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.all.serialize(serializer)
    }
}
