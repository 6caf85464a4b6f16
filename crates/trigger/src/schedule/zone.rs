//! Time zones by name, from the system's database or the built-in one if there is none.

use jiff::tz::{self, TimeZone};
use model::diagnostic::nearest;

use super::error::{ScheduleError, shorten};

/// Finds the zone of this IANA name.
pub(super) fn find(name: &str) -> Result<TimeZone, ScheduleError> {
    let found = tz::db().get(name).ok().filter(|zone| !zone.is_unknown() && zone.iana_name().is_some());
    found.ok_or_else(|| {
        let error = ScheduleError::zone(format!("`{}` is not a time zone", shorten(name)));
        match suggestion(name) {
            Some(zone) => error.help(format!("did you mean `{zone}`?")).replace(name, zone),
            None => error.allowed("an IANA name such as `Europe/Berlin` or `UTC`"),
        }
    })
}

/// The name of a zone that [`find`] returned.
pub(super) fn name(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("UTC")
}

/// The most similar zone: by its whole name, else by its city alone.
fn suggestion(name: &str) -> Option<String> {
    let names: Vec<String> = tz::db().available().map(|name| name.to_string()).collect();
    if let Some(near) = nearest(name, names.iter().map(String::as_str)) {
        return Some(near.to_owned());
    }
    let city = name.rsplit('/').next()?;
    let city_of = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let cities: Vec<String> =
        names.iter().filter(|name| name.contains('/')).map(|name| city_of(name)).collect();
    let near = nearest(city, cities.iter().map(String::as_str))?;
    names.iter().find(|name| name.contains('/') && city_of(name) == near).cloned()
}
