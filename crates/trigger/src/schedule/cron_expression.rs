//! A parser for cron expressions of five fields. Names, error locations and the rules for the two day fields are defined here;
//! only numbers go to the `cron` crate.
//!
//! Grammar of a field: items separated by commas, each `*`, a value or a range `a-b`, the star and the range with an
//! optional step `/n`. Months and weekdays have names of three letters, in any case. 0 and 7 are Sunday.
//!
//! If both day fields are restricted, either may match: `0 0 13 * fri` fires on each 13th and on each Friday. A field is
//! restricted if it is not literally `*`; so `*/2` is restricted, as in most modern crons, unlike Vixie's, which checks for the
//! star.

use std::ops::Range;

use text::diagnostic::nearest;

use super::error::{ScheduleError, shorten};

/// The rules of a field.
#[derive(Debug)]
struct FieldRules {
    name: &'static str,
    min: u8,
    max: u8,
    names: &'static [&'static str],
    allowed: &'static str,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [FieldRules; 5] = [
    FieldRules { name: "minute", min: 0, max: 59, names: &[], allowed: "0 to 59" },
    FieldRules { name: "hour", min: 0, max: 23, names: &[], allowed: "0 to 23" },
    FieldRules { name: "day of month", min: 1, max: 31, names: &[], allowed: "1 to 31" },
    FieldRules { name: "month", min: 1, max: 12, names: &MONTHS, allowed: "1 to 12, or jan to dec" },
    FieldRules {
        name: "day of week",
        min: 0,
        max: 7,
        names: &WEEKDAYS,
        allowed: "0 to 7 (0 and 7 are Sunday), or sun to sat",
    },
];

/// The maximum number of days of each month, January first.
const DAYS_IN_MONTH: [u8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// The maximum length of an expression, in bytes.
const MAX_LENGTH: usize = 512;

/// A set of values as bits: bit `n` for the value `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ValueSet(pub(super) u64);

impl ValueSet {
    /// All values of an inclusive range.
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

    /// The values, in ascending order.
    pub(super) fn values(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |value| self.contains(*value))
    }

    /// The number of values within `range`.
    pub(super) fn count_in(self, range: Range<u8>) -> u32 {
        range.filter(|value| self.contains(*value)).fold(0, |count, _| count + 1)
    }

    /// The values as text, with ranges as `a-b`.
    fn canonical(self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (from, to) in self.runs() {
            parts.push(if from == to { from.to_string() } else { format!("{from}-{to}") });
        }
        parts.join(",")
    }

    /// The runs of consecutive values, each as its first and last value.
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

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CronExpression {
    pub(super) minutes: ValueSet,
    pub(super) hours: ValueSet,
    /// 1 to 31.
    pub(super) days: ValueSet,
    /// 1 to 12.
    pub(super) months: ValueSet,
    /// 0 to 6, Sunday first.
    pub(super) weekdays: ValueSet,
    /// True if the day of month is not literally `*`.
    pub(super) days_restricted: bool,
    /// True if the day of week is not literally `*`.
    pub(super) weekdays_restricted: bool,
    /// True if the hour is not a wildcard; decides the behaviour at clock changes.
    pub(super) hour_fixed: bool,
}

impl CronExpression {
    /// True if the day matches: by day of month and day of week, or by either if both are restricted.
    pub(super) fn matches_day(&self, month: u8, day: u8, weekday: u8) -> bool {
        let (by_date, by_weekday) = (self.days.contains(day), self.weekdays.contains(weekday));
        let day_matches = if self.days_restricted && self.weekdays_restricted {
            by_date || by_weekday
        } else {
            by_date && by_weekday
        };
        self.months.contains(month) && day_matches
    }

    /// A canonical text of the expression, including the properties that the sets do not contain.
    pub(super) fn canonical(&self) -> String {
        let sets = [self.minutes, self.hours, self.days, self.months, self.weekdays].map(ValueSet::canonical);
        let either = if self.days_restricted && self.weekdays_restricted { "either" } else { "both" };
        let hour = if self.hour_fixed { "fixed" } else { "wildcard" };
        format!("{} {either} {hour}", sets.join(" "))
    }
}

/// Parses an expression.
pub(super) fn parse(text: &str) -> Result<CronExpression, ScheduleError> {
    let fields = split_fields(text)?;
    let mut sets = [ValueSet::default(); 5];
    for ((field, (range, written)), set) in FIELDS.iter().zip(&fields).zip(&mut sets) {
        *set = parse_field(field, written, range.start)?;
    }
    let [minutes, hours, days, months, weekdays] = sets;
    // 0 and 7 are both Sunday.
    let weekdays = if weekdays.contains(7) { ValueSet(weekdays.with(0).0 & 0x7f) } else { weekdays };
    let [_, hour_text, day_text, _, weekday_text] = &fields;
    let expression = CronExpression {
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
        return Err(never_fires(text, days, months, day_text.0.clone()));
    }
    Ok(expression)
}

/// Splits into the five fields with their byte ranges.
fn split_fields(text: &str) -> Result<[(Range<usize>, &str); 5], ScheduleError> {
    let whole = ScheduleError::new(format!("`{}` is not a cron expression of five fields", shorten(text)))
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
        return Err(whole.write(text, plain));
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
            let rest = rest.join(" ");
            let message = format!("`{}` has {count} fields; a cron expression here has five", shorten(text));
            let help = format!("there are no seconds and no years; remove `{first}` and write `{rest}`");
            ScheduleError::new(message).help(help).replace(text, rest).at(range.clone())
        }
        _ => ScheduleError { message: format!("{}, it has {count}", whole.message), ..whole },
    })
}

/// Parses a field; `offset` is its position in the expression.
fn parse_field(field: &FieldRules, text: &str, offset: usize) -> Result<ValueSet, ScheduleError> {
    let mut set = ValueSet::default();
    let mut start = offset;
    for item in text.split(',') {
        let range = start..start + item.len();
        set.0 |= parse_item(field, item).map_err(|error| error.at(range.clone()))?.0;
        start = range.end + 1;
    }
    Ok(set)
}

/// Parses `*`, a value or a range, with an optional step.
fn parse_item(field: &FieldRules, item: &str) -> Result<ValueSet, ScheduleError> {
    let (span, step) = item.split_once('/').map_or((item, None), |(span, step)| (span, Some(step)));
    let (from, to) = match span.split_once('-') {
        _ if span == "*" => (field.min, field.max),
        Some((from, to)) => {
            check_range(field, parse_value(field, from, item)?, parse_value(field, to, item)?, item)?
        }
        None if step.is_some() => {
            let value = parse_value(field, span, item)?;
            let message = format!("`{item}` is a step without a range in the {} field", field.name);
            let meant = format!("{value}-{}/{}", last_value(field), step.unwrap_or_default());
            return Err(ScheduleError::new(message).write(item, meant));
        }
        None => {
            let value = parse_value(field, span, item)?;
            (value, value)
        }
    };
    let step = step.map_or(Ok(1), |text| parse_step(field, text, item))?;
    Ok((from..=to).step_by(step).fold(ValueSet::default(), ValueSet::with))
}

/// Checks the bounds of a range. Sunday may be either bound.
fn check_range(field: &FieldRules, from: u8, to: u8, item: &str) -> Result<(u8, u8), ScheduleError> {
    let to = if field.max == 7 && to == 0 && from > 0 { 7 } else { to };
    if from <= to {
        return Ok((from, to));
    }
    let message = format!("`{}` runs backwards in the {} field", shorten(item), field.name);
    let meant = format!("{from}-{},{}-{to}", last_value(field), field.min);
    Err(ScheduleError::new(message).write(item, meant))
}

/// The last distinct value of a field: 6 for weekdays, where 7 equals 0.
fn last_value(field: &FieldRules) -> u8 {
    field.max.min(if field.max == 7 { 6 } else { u8::MAX })
}

fn parse_value(field: &FieldRules, text: &str, item: &str) -> Result<u8, ScheduleError> {
    if let Some(index) = field.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        return Ok(u8::try_from(index).unwrap_or_default() + field.min);
    }
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { text.parse::<u8>().ok() } else { None };
    if let Some(number) = number.filter(|number| (field.min..=field.max).contains(number)) {
        return Ok(number);
    }
    let found = if text.is_empty() { item } else { text };
    let found = if found.is_empty() { "an empty item".to_owned() } else { format!("`{}`", shorten(found)) };
    let error = ScheduleError::new(format!("{found} is not a value of the {} field", field.name))
        .allowed(format!("{}, a range `a-b`, a list `a,b`, a step `*/n` or `a-b/n`", field.allowed));
    let lower = text.to_ascii_lowercase();
    let long_name = field.names.iter().find(|name| lower.len() > 3 && lower.starts_with(**name)).copied();
    let suggestion = long_name.or_else(|| nearest(&lower, field.names.iter().copied()));
    Err(match (suggestion, text) {
        (Some(name), _) => error.write(text, name),
        (None, "?") => error.write(text, "*"),
        (None, _) if field.name == "minute" && number == Some(60) => error.write(text, "0"),
        (None, _) if field.name == "hour" && number == Some(24) => error.write(text, "0"),
        _ => error,
    })
}

fn parse_step(field: &FieldRules, text: &str, item: &str) -> Result<usize, ScheduleError> {
    let most = last_value(field) - field.min;
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let step = if digits { text.parse::<u8>().ok() } else { None };
    if let Some(step) = step.filter(|step| (1..=most).contains(step)) {
        return Ok(usize::from(step));
    }
    let message = format!("`{}` has no usable step in the {} field", shorten(item), field.name);
    let error = ScheduleError::new(message).allowed(format!("a step of 1 to {most}"));
    // `*/60` and `*/90` fire once an hour, which is hardly the intention.
    Err(if digits && !text.trim_start_matches('0').is_empty() && field.name == "minute" {
        error.help(format!("a step counts within the hour; use `every: {text}m` for each {text} minutes"))
    } else {
        error
    })
}

fn never_fires(text: &str, days: ValueSet, months: ValueSet, range: Range<usize>) -> ScheduleError {
    let names: Vec<&str> = months.values().map(|month| MONTHS[usize::from(month) - 1]).collect();
    let message =
        format!("`{}` never fires: no day {} in {}", shorten(text), days.canonical(), names.join(", "));
    let most = months.values().map(|month| DAYS_IN_MONTH[usize::from(month) - 1]).max().unwrap_or(31);
    ScheduleError::new(message).allowed(format!("days 1 to {most}")).at(range)
}
