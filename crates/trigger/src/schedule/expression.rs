//! A cron expression of five fields, read by ourselves: the names, the places of errors and the rules for both day fields
//! are this language's, and only the numbers go to the `cron` crate.
//!
//! Grammar of a field: items with commas between them, each `*`, a value or a range `a-b`, the star and the range with an
//! optional step `/n`. Months and weekdays have names of three letters, in any case. 0 and 7 are Sunday.
//!
//! Both day fields restricted means either: `0 0 13 * fri` fires on each 13th and on each Friday. A field is restricted
//! if it is written other than `*`; so `*/2` is, as in most later crons and unlike Vixie's, which looks at the star.

use std::ops::Range;

use model::diagnostic::nearest;

use super::error::{ScheduleError, shown};

/// A field by its rules.
#[derive(Debug)]
struct Field {
    name: &'static str,
    min: u8,
    max: u8,
    names: &'static [&'static str],
    allowed: &'static str,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field { name: "minute", min: 0, max: 59, names: &[], allowed: "0 to 59" },
    Field { name: "hour", min: 0, max: 23, names: &[], allowed: "0 to 23" },
    Field { name: "day of month", min: 1, max: 31, names: &[], allowed: "1 to 31" },
    Field { name: "month", min: 1, max: 12, names: &MONTHS, allowed: "1 to 12, or jan to dec" },
    Field {
        name: "day of week",
        min: 0,
        max: 7,
        names: &WEEKDAYS,
        allowed: "0 to 7 (0 and 7 are Sunday), or sun to sat",
    },
];

/// The most days of each month, January first.
const DAYS_IN_MONTH: [u8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// The most bytes of an expression.
const MAX_LENGTH: usize = 512;

/// Values as bits: bit `n` for the value `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Set(pub(super) u64);

impl Set {
    /// All values of a range, both ends included.
    pub(super) fn range(from: u8, to: u8) -> Self {
        (from..=to).fold(Self::default(), |set, value| set.with(value))
    }

    pub(super) fn with(self, value: u8) -> Self {
        Self(self.0 | 1 << value)
    }

    pub(super) fn contains(self, value: u8) -> bool {
        self.0 >> value & 1 == 1
    }

    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// The values, in order.
    pub(super) fn values(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |value| self.contains(*value))
    }

    /// How many values are within `range`.
    pub(super) fn count_in(self, range: Range<u8>) -> u32 {
        range.filter(|value| self.contains(*value)).fold(0, |count, _| count + 1)
    }

    /// The values with ranges as `a-b`.
    fn canonical(self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (from, to) in self.runs() {
            parts.push(if from == to { from.to_string() } else { format!("{from}-{to}") });
        }
        parts.join(",")
    }

    /// The runs of values that follow each other, each as its first and last.
    pub(super) fn runs(self) -> Vec<(u8, u8)> {
        let mut runs: Vec<(u8, u8)> = Vec::new();
        for value in self.values() {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == value => *last = value,
                _ => runs.push((value, value)),
            }
        }
        runs
    }
}

/// An expression that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expression {
    pub(super) minutes: Set,
    pub(super) hours: Set,
    /// 1 to 31.
    pub(super) days: Set,
    /// 1 to 12.
    pub(super) months: Set,
    /// 0 to 6, Sunday first.
    pub(super) weekdays: Set,
    /// Whether the day of month is written other than `*`.
    pub(super) days_restricted: bool,
    /// Whether the day of week is written other than `*`.
    pub(super) weekdays_restricted: bool,
    /// Whether the hour is no wildcard; decides what happens where the clocks change.
    pub(super) hour_fixed: bool,
}

impl Expression {
    /// Whether a day may fire: the day of month and the day of week either or both, as they are restricted.
    pub(super) fn matches_day(&self, month: u8, day: u8, weekday: u8) -> bool {
        let (by_date, by_weekday) = (self.days.contains(day), self.weekdays.contains(weekday));
        let day_matches = if self.days_restricted && self.weekdays_restricted {
            by_date || by_weekday
        } else {
            by_date && by_weekday
        };
        self.months.contains(month) && day_matches
    }

    /// The expression in one spelling, with what its sets do not say.
    pub(super) fn canonical(&self) -> String {
        let sets = [self.minutes, self.hours, self.days, self.months, self.weekdays].map(Set::canonical);
        let either = if self.days_restricted && self.weekdays_restricted { "either" } else { "both" };
        let hour = if self.hour_fixed { "fixed" } else { "wildcard" };
        format!("{} {either} {hour}", sets.join(" "))
    }
}

/// Reads an expression.
pub(super) fn parse(text: &str) -> Result<Expression, ScheduleError> {
    let fields = split(text)?;
    let mut sets = [Set::default(); 5];
    for ((field, (range, written)), set) in FIELDS.iter().zip(&fields).zip(&mut sets) {
        *set = items(field, written, range.start)?;
    }
    let [minutes, hours, days, months, weekdays] = sets;
    // Both 0 and 7 are Sunday.
    let weekdays = if weekdays.contains(7) { Set(weekdays.with(0).0 & 0x7f) } else { weekdays };
    let [_, hour_text, day_text, _, weekday_text] = &fields;
    let expression = Expression {
        minutes,
        hours,
        days,
        months,
        weekdays,
        days_restricted: day_text.1 != "*",
        weekdays_restricted: weekday_text.1 != "*",
        hour_fixed: !hour_text.1.contains('*') && hours.len() < 24,
    };
    let possible = months.values().any(|month| {
        let most = DAYS_IN_MONTH[usize::from(month) - 1];
        days.values().any(|day| day <= most)
    });
    if !possible {
        return Err(impossible(text, days, months, day_text.0.clone()));
    }
    Ok(expression)
}

/// The five fields with their places.
fn split(text: &str) -> Result<[(Range<usize>, &str); 5], ScheduleError> {
    let whole = ScheduleError::new(format!("`{}` is not a cron expression of five fields", shown(text)))
        .allowed("minute, hour, day of month, month, day of week, like `*/5 8-16 * * 1-5`")
        .at(0..text.len());
    if text.len() > MAX_LENGTH {
        return Err(whole.help(format!("an expression is at most {MAX_LENGTH} bytes long")));
    }
    if let Some(macro_name) = text.trim().strip_prefix('@') {
        let plain = match macro_name.to_ascii_lowercase().as_str() {
            "yearly" | "annually" => "0 0 1 1 *",
            "monthly" => "0 0 1 * *",
            "weekly" => "0 0 * * 0",
            "daily" | "midnight" => "0 0 * * *",
            "hourly" => "0 * * * *",
            _ => return Err(whole),
        };
        return Err(whole.help(format!("write `{plain}`")));
    }
    let base = text.as_ptr() as usize;
    let fields: Vec<(Range<usize>, &str)> = text
        .split_ascii_whitespace()
        .map(|field| {
            let start = field.as_ptr() as usize - base;
            (start..start + field.len(), field)
        })
        .collect();
    let count = fields.len();
    <[_; 5]>::try_from(fields).map_err(|fields| match (count, fields.first()) {
        (6 | 7, Some((range, first))) => {
            let rest: Vec<&str> = fields[1..6].iter().map(|(_, field)| *field).collect();
            let message = format!("`{}` has {count} fields; a cron expression here has five", shown(text));
            let help =
                format!("there are no seconds and no years; remove `{first}` and write `{}`", rest.join(" "));
            ScheduleError::new(message).help(help).at(range.clone())
        }
        _ => ScheduleError { message: format!("{}, it has {count}", whole.message), ..whole },
    })
}

/// Reads one field; `offset` is its place in the expression.
fn items(field: &Field, text: &str, offset: usize) -> Result<Set, ScheduleError> {
    let mut set = Set::default();
    let mut start = offset;
    for item in text.split(',') {
        let range = start..start + item.len();
        set.0 |= self::item(field, item).map_err(|error| error.at(range.clone()))?.0;
        start = range.end + 1;
    }
    Ok(set)
}

/// Reads `*`, a value or a range, with its step.
fn item(field: &Field, item: &str) -> Result<Set, ScheduleError> {
    let (span, step) = item.split_once('/').map_or((item, None), |(span, step)| (span, Some(step)));
    let (from, to) = match span.split_once('-') {
        _ if span == "*" => (field.min, field.max),
        Some((from, to)) => range(field, value(field, from, item)?, value(field, to, item)?, item)?,
        None if step.is_some() => {
            let value = value(field, span, item)?;
            let message = format!("`{item}` is a step without a range in the {} field", field.name);
            return Err(ScheduleError::new(message).help(format!(
                "write `{value}-{}/{}`",
                last(field),
                step.unwrap_or_default()
            )));
        }
        None => {
            let value = value(field, span, item)?;
            (value, value)
        }
    };
    let step = step.map_or(Ok(1), |text| self::step(field, text, item))?;
    Ok((from..=to).step_by(step).fold(Set::default(), Set::with))
}

/// The ends of a range. Sunday may end one, as it may begin one.
fn range(field: &Field, from: u8, to: u8, item: &str) -> Result<(u8, u8), ScheduleError> {
    let to = if field.max == 7 && to == 0 && from > 0 { 7 } else { to };
    if from <= to {
        return Ok((from, to));
    }
    let message = format!("`{}` runs backwards in the {} field", shown(item), field.name);
    Err(ScheduleError::new(message).help(format!("write `{from}-{},{}-{to}`", last(field), field.min)))
}

/// The last value that is written: 6 for weekdays, where 7 is 0 again.
fn last(field: &Field) -> u8 {
    field.max.min(if field.max == 7 { 6 } else { u8::MAX })
}

fn value(field: &Field, text: &str, item: &str) -> Result<u8, ScheduleError> {
    if let Some(index) = field.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        return Ok(u8::try_from(index).unwrap_or_default() + field.min);
    }
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { text.parse::<u8>().ok() } else { None };
    if let Some(number) = number.filter(|number| (field.min..=field.max).contains(number)) {
        return Ok(number);
    }
    let found = if text.is_empty() { item } else { text };
    let found = if found.is_empty() { "an empty item".to_owned() } else { format!("`{}`", shown(found)) };
    let error = ScheduleError::new(format!("{found} is not a value of the {} field", field.name))
        .allowed(format!("{}, a range `a-b`, a list `a,b`, a step `*/n` or `a-b/n`", field.allowed));
    let lower = text.to_ascii_lowercase();
    let long_name = field.names.iter().find(|name| lower.len() > 3 && lower.starts_with(**name)).copied();
    let meant = long_name.or_else(|| nearest(&lower, field.names.iter().copied()));
    Err(match (meant, text) {
        (Some(name), _) => error.help(format!("write `{name}`")),
        (None, "?") => error.help("write `*`"),
        (None, _) if field.name == "minute" && number == Some(60) => error.help("write `0`"),
        (None, _) if field.name == "hour" && number == Some(24) => error.help("write `0`"),
        _ => error,
    })
}

fn step(field: &Field, text: &str, item: &str) -> Result<usize, ScheduleError> {
    let most = last(field) - field.min;
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let step = if digits { text.parse::<u8>().ok() } else { None };
    if let Some(step) = step.filter(|step| (1..=most).contains(step)) {
        return Ok(usize::from(step));
    }
    let message = format!("`{}` has no usable step in the {} field", shown(item), field.name);
    let error = ScheduleError::new(message).allowed(format!("a step of 1 to {most}"));
    // `*/60` fires once an hour and `*/90` does too, which is hardly what was meant.
    Err(if digits && !text.trim_start_matches('0').is_empty() && field.name == "minute" {
        error.help(format!("a step counts within the hour; use `every: {text}m` for each {text} minutes"))
    } else {
        error
    })
}

fn impossible(text: &str, days: Set, months: Set, range: Range<usize>) -> ScheduleError {
    let names: Vec<&str> = months.values().map(|month| MONTHS[usize::from(month) - 1]).collect();
    let message =
        format!("`{}` never fires: no day {} in {}", shown(text), days.canonical(), names.join(", "));
    let most = months.values().map(|month| DAYS_IN_MONTH[usize::from(month) - 1]).max().unwrap_or(31);
    ScheduleError::new(message).allowed(format!("days 1 to {most}")).at(range)
}
