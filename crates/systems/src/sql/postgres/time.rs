//! Dates, times and intervals of PostgreSQL as texts of ISO 8601.

/// The days from 1970 to 2000, where PostgreSQL begins to count.
const EPOCH_DAYS: i64 = 10_957;
const DAY: i64 = 86_400_000_000;

/// A date, in days since 2000.
pub(super) fn date(days: i32) -> String {
    match days {
        i32::MAX => "infinity".to_owned(),
        i32::MIN => "-infinity".to_owned(),
        days => civil(i64::from(days)),
    }
}

/// A date and time, in microseconds since 2000, with `zone` behind it.
pub(super) fn timestamp(micros: i64, zone: &str) -> String {
    match micros {
        i64::MAX => "infinity".to_owned(),
        i64::MIN => "-infinity".to_owned(),
        micros => {
            let (days, rest) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
            format!("{}T{}{zone}", civil(days), time(rest))
        }
    }
}

/// A time of day, in microseconds.
pub(super) fn time(micros: i64) -> String {
    let seconds = micros / 1_000_000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}{}", fraction(micros % 1_000_000))
}

/// A time of day with the seconds that its zone is west of UTC.
pub(super) fn time_with_zone(micros: i64, west: i32) -> String {
    let (sign, offset) = (if west > 0 { '-' } else { '+' }, west.unsigned_abs());
    let (hours, minutes, seconds) = (offset / 3600, offset / 60 % 60, offset % 60);
    let seconds = if seconds == 0 { String::new() } else { format!(":{seconds:02}") };
    format!("{}{sign}{hours:02}:{minutes:02}{seconds}", time(micros))
}

/// An interval.
pub(super) fn interval(months: i32, days: i32, micros: i64) -> String {
    let mut text = "P".to_owned();
    let mut add = |number: i64, unit: char| {
        if number != 0 {
            text.push_str(&format!("{number}{unit}"));
        }
    };
    add(i64::from(months / 12), 'Y');
    add(i64::from(months % 12), 'M');
    add(i64::from(days), 'D');
    let (hours, minutes) = (micros / 3_600_000_000, micros / 60_000_000 % 60);
    let (seconds, rest) = (micros / 1_000_000 % 60, micros % 1_000_000);
    if micros != 0 {
        text.push('T');
        let mut add = |number: i64, unit: char| {
            if number != 0 {
                text.push_str(&format!("{number}{unit}"));
            }
        };
        add(hours, 'H');
        add(minutes, 'M');
        if seconds != 0 || rest != 0 {
            let sign = if micros < 0 { "-" } else { "" };
            text.push_str(&format!("{sign}{}{}S", seconds.abs(), fraction(rest.abs())));
        }
    }
    if text == "P" { "PT0S".to_owned() } else { text }
}

fn fraction(micros: i64) -> String {
    match micros {
        0 => String::new(),
        micros => format!(".{micros:06}").trim_end_matches('0').to_owned(),
    }
}

/// A day of the Gregorian calendar, in days since 2000. Source of the computation: Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `civil_from_days`.
fn civil(days: i64) -> String {
    let shifted = days + EPOCH_DAYS + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let part = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * part + 2) / 5 + 1;
    let month = if part < 10 { part + 3 } else { part - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    match year {
        0..=9_999 => format!("{year:04}-{month:02}-{day:02}"),
        // ISO 8601 has a sign before a year of another length.
        year => format!("{year:+05}-{month:02}-{day:02}"),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn dates_of_all_calendars_pages_are_those_of_iso_8601() {
        for (days, expected) in [
            (0, "2000-01-01"),
            (59, "2000-02-29"),
            (-1, "1999-12-31"),
            (-730_119, "0001-01-01"),
            (-730_120, "0000-12-31"),
            (2_921_939, "9999-12-31"),
            (2_921_940, "+10000-01-01"),
            (i32::MAX, "infinity"),
        ] {
            assert_eq!(date(days), expected);
        }
        assert_eq!(timestamp(-1, "Z"), "1999-12-31T23:59:59.999999Z");
        assert_eq!(time_with_zone(3_600_000_000, -7_200), "01:00:00+02:00");
        assert_eq!(time_with_zone(0, i32::MIN), "00:00:00+596523:14:08", "a hostile server ends no process");
    }

    #[test]
    fn intervals_keep_months_days_and_time_apart() {
        assert_eq!(interval(14, 3, 14_706_500_000), "P1Y2M3DT4H5M6.5S");
        assert_eq!(interval(0, -1, -1_500_000), "P-1DT-1.5S");
        assert_eq!(interval(0, 0, -3_600_000_000), "PT-1H");
        assert_eq!(interval(0, 0, 0), "PT0S");
    }
}
