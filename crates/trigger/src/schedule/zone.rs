//! Time zones by name, from the system's database or the built-in one if there is none.

use jiff::tz::{self, TimeZone};
use value::instant::suggest_zone;

use super::error::{ScheduleError, shorten};

/// Finds the zone of this IANA name.
pub(super) fn find(name: &str) -> Result<TimeZone, ScheduleError> {
    let found = tz::db().get(name).ok().filter(|zone| !zone.is_unknown() && zone.iana_name().is_some());
    found.ok_or_else(|| {
        let error = ScheduleError::zone(format!("`{}` is not a time zone", shorten(name)));
        match suggest_zone(name) {
            Some(zone) => error.help(format!("did you mean `{zone}`?")).replace(name, zone),
            None => error.allowed("an IANA name such as `Europe/Berlin` or `UTC`"),
        }
    })
}

/// The name of a zone that [`find`] returned.
pub(super) fn name(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("UTC")
}
