//! `schedule`: started by the clock. The trigger crate compiles and checks cron fields and time zones.

use std::time::Duration;

use model::automation::{
    Cadence, LocalTime, Misfire, Overlap, ScheduleTrigger, SpannedName, Trigger, Weekday,
};
use text::diagnostic::{Diagnostic, Diagnostics, Span};
use text::units::MAX_DURATION;
use text::yaml::{Field, MapReader, Node};

use crate::load::common::{duration_within, inner, named, plain, shorten};
use crate::load::keys::{Choice, Key, Object, Shape};

/// The minimum interval of a schedule.
const LEAST_PERIOD: Duration = Duration::from_secs(1);
const CADENCES: [&str; 5] = ["every", "hourly", "daily", "weekly", "cron"];
const MISFIRES: [(&str, Misfire); 3] =
    [("latest", Misfire::Latest), ("skip", Misfire::Skip), ("all", Misfire::All)];
const OVERLAPS: [(&str, Overlap); 3] =
    [("skip", Overlap::Skip), ("allow", Overlap::Allow), ("queue", Overlap::Queue)];
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const TIME: Shape = Shape::Pattern("^([01]?[0-9]|2[0-3]):[0-5][0-9]$");

pub(super) static SCHEDULE: Object = Object {
    what: "a schedule",
    keys: &[
        Key::new("every", Shape::Duration, "At fixed intervals of elapsed time, at least 1s: `5m`."),
        Key::new("hourly", Shape::Object(&HOURLY), "Each hour at a minute: `{minute: 5}`."),
        Key::new("daily", Shape::Object(&DAILY), "Each day at a time: `{at: \"08:30\"}`."),
        Key::new(
            "weekly",
            Shape::Object(&WEEKLY),
            "On some weekdays at a time: `{on: [mon, fri], at: \"08:30\"}`.",
        ),
        Key::new(
            "cron",
            Shape::NonBlankText,
            "Five cron fields, in quotes: `\"*/5 8-16 * * 1-5\"`; names, lists, ranges and steps; 0 and 7 are Sunday.",
        ),
        Key::new(
            "timezone",
            Shape::NonBlankText,
            "The IANA zone of local times, such as `Europe/Berlin`. Default: UTC.",
        ),
        Key::new(
            "misfire",
            Shape::Enum(&["latest", "skip", "all"]),
            "Of the instants missed while no daemon ran, the latest one runs, none, or all, at most 100. \
             Default: latest.",
        ),
        Key::new(
            "overlap",
            Shape::Enum(&["skip", "allow", "queue"]),
            "If the last execution still runs, the instant is skipped, both run, or it runs afterwards. \
             Default: skip.",
        ),
    ],
    choice: Choice::ExactlyOne(&CADENCES),
};

static HOURLY: Object = Object {
    what: "an hourly schedule",
    keys: &[Key::required("minute", Shape::Integer(0, 59), "The minute of the hour.")],
    choice: Choice::Any,
};

static DAILY: Object = Object {
    what: "a daily schedule",
    keys: &[Key::required("at", TIME, "The local time, such as \"08:30\".")],
    choice: Choice::Any,
};

static WEEKLY: Object = Object {
    what: "a weekly schedule",
    keys: &[
        Key::required("on", Shape::OneOrMore(&Shape::Enum(&DAYS)), "The weekdays."),
        Key::required("at", TIME, "The local time, such as \"08:30\"."),
    ],
    choice: Choice::Any,
};

pub(super) fn lower(node: &Node, diagnostics: &Diagnostics) -> Option<Trigger> {
    let mut reader = SCHEDULE.open(node, diagnostics)?;
    let cadence = cadence(&mut reader, diagnostics);
    let zone = named(reader.take("timezone"), diagnostics);
    let misfire = reader.take("misfire").one_of(&MISFIRES).unwrap_or(Misfire::Latest);
    let overlap = reader.take("overlap").one_of(&OVERLAPS).unwrap_or(Overlap::Skip);
    reader.finish();
    // A placeholder for an unreadable cadence, so that the zone is checked too.
    let (cadence, cadence_span) = cadence.unwrap_or((Cadence::Every(LEAST_PERIOD), node.head()));
    let timezone = zone.unwrap_or(SpannedName { name: "UTC".to_owned(), span: cadence_span });
    Some(Trigger::Schedule(ScheduleTrigger { cadence, cadence_span, timezone, misfire, overlap }))
}

/// The cadence and its span. If there are several, each is read, so that its errors are reported too.
fn cadence(reader: &mut MapReader<'_, '_>, diagnostics: &Diagnostics) -> Option<(Cadence, Span)> {
    let mut found = None;
    for word in CADENCES {
        let field = reader.take(word);
        let Some(node) = field.node() else { continue };
        let lowered = match word {
            "every" => duration_within(field, word, &(LEAST_PERIOD..=MAX_DURATION), diagnostics)
                .map(|period| (Cadence::Every(period), node.span)),
            "cron" => plain(field, diagnostics)
                .map(|text| (Cadence::Cron(text.to_owned()), node.as_text().map_or(node.span, inner))),
            "hourly" => hourly(node, diagnostics).map(|cadence| (cadence, node.head())),
            "daily" => daily(node, diagnostics).map(|cadence| (cadence, node.head())),
            _ => weekly(node, diagnostics).map(|cadence| (cadence, node.head())),
        };
        found = found.or(lowered);
    }
    found
}

fn hourly(node: &Node, diagnostics: &Diagnostics) -> Option<Cadence> {
    let mut reader = HOURLY.open(node, diagnostics)?;
    let minute = reader.take("minute").integer(0..=59);
    reader.finish();
    Some(Cadence::Hourly { minute: u8::try_from(minute?).ok()? })
}

fn daily(node: &Node, diagnostics: &Diagnostics) -> Option<Cadence> {
    let mut reader = DAILY.open(node, diagnostics)?;
    let at = local_time(reader.take("at"), diagnostics);
    reader.finish();
    Some(Cadence::Daily { at: at? })
}

fn weekly(node: &Node, diagnostics: &Diagnostics) -> Option<Cadence> {
    let mut reader = WEEKLY.open(node, diagnostics)?;
    let on = weekdays(reader.take("on"), diagnostics);
    let at = local_time(reader.take("at"), diagnostics);
    reader.finish();
    Some(Cadence::Weekly { on: on?, at: at? })
}

fn weekdays(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Vec<Weekday>> {
    let items = field.one_or_more()?;
    if items.is_empty() {
        field.error("empty-list", "`on` names no weekday, so the schedule would never fire");
    }
    let mut found = Vec::new();
    for item in items {
        if let Some(day) = item.node().and_then(Node::as_str).and_then(long_name) {
            let span = item.span().unwrap_or_default();
            let diagnostic =
                Diagnostic::error("unknown-value", format!("a weekday is written `{day}`"), span);
            diagnostics.push(diagnostic.allowed(DAYS).replace(span, day));
            continue;
        }
        let Some(word) = item.choice(&DAYS) else { continue };
        let day = Weekday::ALL.iter().find(|(name, _)| *name == word).map(|(_, day)| *day);
        match day {
            Some(day) if found.contains(&day) => {
                let span = item.span().unwrap_or_default();
                let message = format!("the weekday `{word}` is named twice");
                diagnostics.push(Diagnostic::warning("duplicate-value", message, span));
            }
            day => found.extend(day),
        }
    }
    // An error is already reported if there is no day.
    Some(found).filter(|found| !found.is_empty())
}

/// The weekday that a name such as `Monday` or `Tues` means.
fn long_name(word: &str) -> Option<&'static str> {
    const NAMES: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let word = word.to_ascii_lowercase();
    let name = NAMES.iter().find(|name| word.len() >= 3 && name.starts_with(&word))?;
    DAYS.into_iter().find(|day| name.starts_with(day) && *day != word)
}

/// `08:30`; the hour may have one digit.
fn local_time(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<LocalTime> {
    if let Some(hour) = field.node().and_then(Node::as_integer).filter(|hour| (0..24).contains(hour)) {
        let span = field.span().unwrap_or_default();
        let meant = format!("\"{hour:02}:00\"");
        diagnostics.push(
            Diagnostic::error(
                "wrong-type",
                format!("expected a time of day, found the number `{hour}`"),
                span,
            )
            .help(format!("write {meant}"))
            .replace(span, meant),
        );
        return None;
    }
    let text = plain(field, diagnostics)?;
    let number = |digits: &str, most: u8| {
        let fine = (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u8>().ok().filter(|number| fine && *number <= most)
    };
    let read = text.split_once(':').and_then(|(hour, minute)| {
        let minute = number(minute, 59).filter(|_| minute.len() == 2);
        Some(LocalTime { hour: number(hour, 23)?, minute: minute? })
    });
    if read.is_none() {
        let message = format!("`{}` is no time of day", shorten(text));
        let span = field.span().unwrap_or_default();
        let help = "write hours and minutes from \"00:00\" to \"23:59\"";
        diagnostics.push(Diagnostic::error("invalid-time", message, span).help(help));
    }
    read
}
