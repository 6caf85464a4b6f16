//! Descriptions of schedules in plain English.

use super::cron_expression::{CronExpression, ValueSet};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The maximum number of times of day that are listed one by one.
const MAX_TIMES: u32 = 8;

/// Describes a period in milliseconds: `every 5 minutes`, `every hour`, `every 1 hour 30 minutes`.
pub(super) fn period(milliseconds: i128) -> String {
    let units =
        [(86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"), (1, "millisecond")];
    let mut left = milliseconds;
    let mut parts = Vec::new();
    for (length, unit) in units {
        if left >= length {
            parts.push((left / length, unit));
            left %= length;
        }
    }
    match parts.as_slice() {
        [(1, unit)] => format!("every {unit}"),
        parts => {
            let parts = parts.iter().map(|(count, unit)| format!("{count} {unit}{}", plural(*count)));
            format!("every {}", parts.collect::<Vec<_>>().join(" "))
        }
    }
}

/// Describes a cron expression, without its zone.
pub(super) fn expression(expression: &CronExpression) -> String {
    let times = times(expression.minutes, expression.hours);
    let days = days(expression);
    match (times.starts_with("at "), days.as_str()) {
        (true, "") if expression.hours.len() < 24 => format!("every day {times}"),
        (_, "") => times,
        (_, days) if days.starts_with("on ") || days.starts_with("in ") => format!("{times} {days}"),
        (_, days) => format!("{times}, {days}"),
    }
}

/// Describes the times of a day: `every 5 minutes from 8:00 to 16:55`, `at 8:30 and 17:30`.
fn times(minutes: ValueSet, hours: ValueSet) -> String {
    let minute_list: Vec<u8> = minutes.values().collect();
    let hour_list: Vec<u8> = hours.values().collect();
    let (Some(&first), Some(&last)) = (minute_list.first(), minute_list.last()) else { return String::new() };
    let period = match even_step(minutes, 60) {
        Some(1) => Some("every minute".to_owned()),
        Some(step) => Some(format!("every {step} minutes")),
        None => None,
    };
    if hour_list.len() == 24 {
        return match (period, minute_list.as_slice()) {
            (Some(period), _) => period,
            (None, [0]) => "every hour".to_owned(),
            (None, [1]) => "at 1 minute past every hour".to_owned(),
            (None, minutes) => format!("at {} minutes past every hour", join(minutes.iter(), "and")),
        };
    }
    match (period, hours.runs().as_slice()) {
        (Some(period), [(from, to)]) => {
            return format!("{period} from {} to {}", time(*from, first), time(*to, last));
        }
        (Some(period), runs) => {
            let hours =
                runs.iter().map(|(from, to)| format!("{} to {}", time(*from, first), time(*to, last)));
            return format!("{period} from {}", join(hours, "and"));
        }
        (None, [(from, to)]) if minute_list.len() == 1 && to - from >= 2 => {
            return format!("every hour from {} to {}", time(*from, first), time(*to, first));
        }
        _ => {}
    }
    if let (Some(step), [minute]) = (even_step(hours, 24), minute_list.as_slice()) {
        let hours = format!("every {step} hours");
        return if *minute == 0 { hours } else { format!("{hours} from {}", time(0, *minute)) };
    }
    if minutes.len() * hours.len() <= MAX_TIMES {
        let all = hour_list.iter().flat_map(|hour| minute_list.iter().map(|minute| time(*hour, *minute)));
        return format!("at {}", join(all, "and"));
    }
    let hours = hours
        .runs()
        .into_iter()
        .map(|(from, to)| if from == to { from.to_string() } else { format!("{from} to {to}") });
    let minutes = minute_list.iter().map(|minute| format!(":{minute:02}"));
    format!("at {} in the hours {}", join(minutes, "and"), join(hours, "and"))
}

/// The step if the set is exactly the multiples of a step below `end`, two or more of them.
fn even_step(set: ValueSet, end: u8) -> Option<u8> {
    let step = set.values().nth(1)?;
    let even: ValueSet = (0..end).step_by(usize::from(step)).fold(ValueSet::default(), ValueSet::with);
    // A step that does not divide the range has a shorter last period: `*/40` is at :00 and :40, not every 40 minutes.
    (set == even && end.is_multiple_of(step)).then_some(step)
}

/// Describes the days: `Monday to Friday`, `on the 1st and 15th of the month`, `in June`.
fn days(expression: &CronExpression) -> String {
    let all_months = expression.months.len() == 12;
    let months = if all_months { String::new() } else { spans(&months_of(expression.months)) };
    let by_date = expression.days_restricted && expression.days.len() < 31;
    let by_weekday = expression.weekdays_restricted && expression.weekdays.len() < 7;
    let either = expression.days_restricted && expression.weekdays_restricted;
    let of = if all_months { "of the month".to_owned() } else { format!("of {months}") };
    let date = || format!("on {} {of}", dates(expression.days));
    let weekday = || spans(&weekdays_of(expression.weekdays));
    match (by_date, by_weekday) {
        // If either field may match and one has all days, every day matches.
        (false, _) | (_, false) if either && !all_months => format!("in {months}"),
        (false, _) | (_, false) if either => String::new(),
        (true, true) if all_months => format!("{}, or {}", date(), weekday()),
        (true, true) => format!("{}, or {} in {months}", date(), weekday()),
        (true, false) => date(),
        (false, true) if all_months => weekday(),
        (false, true) => format!("{} in {months}", weekday()),
        (false, false) if all_months => String::new(),
        (false, false) => format!("in {months}"),
    }
}

fn dates(days: ValueSet) -> String {
    let values: Vec<u8> = days.values().collect();
    if let [1, second, _, ..] = values.as_slice() {
        let step = second - 1;
        if step > 1 && days == (1..=31).step_by(usize::from(step)).fold(ValueSet::default(), ValueSet::with) {
            return format!("every {} day", ordinal(step));
        }
    }
    let runs = days.runs().into_iter().flat_map(|(from, to)| match to - from {
        0 => vec![ordinal(from)],
        1 => vec![ordinal(from), ordinal(to)],
        _ => vec![format!("{} to {}", ordinal(from), ordinal(to))],
    });
    format!("the {}", join(runs, "and"))
}

fn months_of(months: ValueSet) -> Vec<(u8, &'static str)> {
    months.values().map(|month| (month, MONTHS[usize::from(month) - 1])).collect()
}

/// The weekdays with Monday first.
fn weekdays_of(weekdays: ValueSet) -> Vec<(u8, &'static str)> {
    let order = (1..=6).chain([0]);
    let chosen = order.enumerate().filter(|(_, day)| weekdays.contains(*day));
    chosen.map(|(place, day)| (u8::try_from(place).unwrap_or_default(), WEEKDAYS[usize::from(day)])).collect()
}

/// Joins names by position, three or more consecutive ones as a range.
fn spans(names: &[(u8, &'static str)]) -> String {
    let mut runs: Vec<Vec<(u8, &str)>> = Vec::new();
    for (place, name) in names {
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(|(last, _)| last + 1 == *place) => run.push((*place, name)),
            _ => runs.push(vec![(*place, name)]),
        }
    }
    let parts = runs.iter().flat_map(|run| match run.as_slice() {
        [(_, first), _, .., (_, last)] => vec![format!("{first} to {last}")],
        few => few.iter().map(|(_, name)| (*name).to_owned()).collect(),
    });
    join(parts, "and")
}

fn join<T: ToString>(items: impl Iterator<Item = T>, word: &str) -> String {
    let mut items: Vec<String> = items.map(|item| item.to_string()).collect();
    match (items.pop(), items.is_empty()) {
        (None, _) => String::new(),
        (Some(only), true) => only,
        (Some(last), false) => format!("{} {word} {last}", items.join(", ")),
    }
}

fn time(hour: u8, minute: u8) -> String {
    format!("{hour}:{minute:02}")
}

fn ordinal(number: u8) -> String {
    let ending = match (number % 10, number % 100) {
        (1, teens) if teens != 11 => "st",
        (2, teens) if teens != 12 => "nd",
        (3, teens) if teens != 13 => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

fn plural(count: i128) -> &'static str {
    if count == 1 { "" } else { "s" }
}
