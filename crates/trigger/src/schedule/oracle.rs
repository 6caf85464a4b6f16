//! Compares schedules with the `croner` crate, which has zone tables of its own, and with a literal implementation of the rules,
//! minute by minute.

use std::str::FromStr;

use chrono::{DateTime, TimeZone as _, Utc};
use chrono_tz::Tz;
use proptest::prelude::*;
use proptest::sample::select;

use super::cron_expression::{CronExpression, parse};
use super::tests::{cron, instant};
use super::*;

/// Expressions for which `croner` defines a fixed hour the same way: one hour and one minute, or a star.
const PATTERNS: [&str; 46] = [
    "* * * * *",
    "*/5 * * * *",
    "*/7 * * * *",
    "0 * * * *",
    "30 * * * *",
    "59 * * * *",
    "0,30 * * * *",
    "10-20 * * * *",
    "10-50/20 * * * *",
    "15 */2 * * *",
    "*/15 */3 * * *",
    "0 0 * * *",
    "30 0 * * *",
    "0 1 * * *",
    "30 1 * * *",
    "59 1 * * *",
    "0 2 * * *",
    "15 2 * * *",
    "30 2 * * *",
    "45 2 * * *",
    "59 2 * * *",
    "0 3 * * *",
    "30 3 * * *",
    "59 23 * * *",
    "30 2 * * 0",
    "30 2 * * 7",
    "30 1 * * sun",
    "30 2 * * 1-5",
    "30 2 1 * *",
    "30 2 29 3 *",
    "30 1 25 10 *",
    "30 2 * 3 *",
    "0 0 1 1 *",
    "0 0 29 2 *",
    "0 0 31 * *",
    "30 2 13 * fri",
    "*/30 * 1 * mon",
    "30 2 */2 * mon",
    "0 0 * * */2",
    "30 2 1-7 * 1",
    "30 2 * * 6-7",
    "0 12 * jan,jul *",
    "30 * * mar,oct,nov sun",
    "*/10 * 25-31 3,10 *",
    "30 2 8-14 3 0",
    "30 1 1-7 11 0",
];

/// Zones with different clock changes: northern and southern, at midnight, by half an hour, with negative summer time.
const ZONES: [&str; 10] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Africa/Cairo",
    "America/Havana",
    "Europe/Dublin",
    "Asia/Beirut",
    "Pacific/Auckland",
];

/// False for fires after the tables of `chrono-tz`, of early 2025, since laws change.
fn is_comparable(zone: &str, second: &i64) -> bool {
    zone == "UTC" || *second < instant("2025-01-01T00:00:00Z").as_second()
}

fn croner_fires(text: &str, zone: &str, after: Timestamp, count: usize) -> Vec<i64> {
    let pattern = croner::Cron::from_str(text).expect("croner reads it");
    let table: Tz = zone.parse().expect("chrono-tz knows the zone");
    let start: DateTime<Tz> = table.timestamp_opt(after.as_second(), 0).single().expect("an instant");
    let next =
        |last: &DateTime<Tz>| Some(pattern.find_next_occurrence(last, false).expect("croner finds the next"));
    let fires = std::iter::successors(next(&start), next).map(|fire| fire.with_timezone(&Utc).timestamp());
    fires.take_while(|second| is_comparable(zone, second)).take(count).collect()
}

fn ours(text: &str, zone: &str, after: Timestamp, count: usize) -> Vec<i64> {
    let schedule = cron(text, zone);
    let fires = schedule.fires(after).map(Timestamp::as_second);
    fires.take_while(|second| is_comparable(zone, second)).take(count).collect()
}

/// An instant near one of the clock changes from 2000 to 2024.
fn near_a_change(zone: &str, index: usize, seconds: i64) -> Timestamp {
    let zone = jiff::tz::db().get(zone).expect("the zone is known");
    let changes: Vec<Timestamp> = zone
        .following(instant("2000-01-01T00:00:00Z"))
        .map(|change| change.timestamp())
        .take_while(|change| *change < instant("2024-12-01T00:00:00Z"))
        .collect();
    let base =
        if changes.is_empty() { instant("2010-06-01T00:00:00Z") } else { changes[index % changes.len()] };
    Timestamp::from_second(base.as_second() + seconds).expect("an instant")
}

/// A literal implementation of the rules: true if the schedule fires at this instant, which begins a minute.
fn should_fire(expression: &CronExpression, zone: &TimeZone, at: Timestamp) -> bool {
    let local = at.to_zoned(zone.clone()).datetime();
    let matches = |local: jiff::civil::DateTime| {
        let number = |number: i8| u8::try_from(number).expect("it is positive");
        expression.minutes.contains(number(local.minute()))
            && expression.hours.contains(number(local.hour()))
            && local.second() == 0
            && expression.matches_day(
                number(local.month()),
                number(local.day()),
                number(local.weekday().to_sunday_zero_offset()),
            )
    };
    if !expression.hour_fixed {
        return matches(local);
    }
    // A repeated time runs in its first pass, which is jiff's compatible disambiguation.
    let first_pass = zone.to_ambiguous_timestamp(local).compatible().expect("an instant") == at;
    if matches(local) && first_pass {
        return true;
    }
    // Skipped times run right after a gap.
    let before = Timestamp::from_second(at.as_second() - 1).expect("an instant");
    let mut skipped = before.to_zoned(zone.clone()).datetime();
    loop {
        skipped = skipped.checked_add(jiff::Span::new().seconds(1)).expect("a time");
        if skipped >= local {
            return false;
        }
        if matches(skipped) {
            return true;
        }
    }
}

fn field(values: std::ops::RangeInclusive<u8>) -> impl Strategy<Value = String> {
    let (from, to) = (*values.start(), *values.end());
    let one = (from..=to).prop_map(|value| value.to_string());
    let range = (from..=to, from..=to).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)));
    let step = (1..=(to - from).min(6)).prop_map(|step| format!("*/{step}"));
    let list = proptest::collection::vec(from..=to, 1..4)
        .prop_map(|values| values.iter().map(u8::to_string).collect::<Vec<_>>().join(","));
    prop_oneof![3 => Just("*".to_owned()), 2 => one, 1 => range, 1 => step, 1 => list]
}

fn any_expression(hours: std::ops::RangeInclusive<u8>) -> impl Strategy<Value = String> {
    (field(0..=59), field(hours), field(1..=28), field(1..=12), field(0..=7))
        .prop_map(|(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"))
}

#[test]
fn every_pattern_agrees_with_croner_around_every_kind_of_change() {
    for zone in ZONES {
        for pattern in PATTERNS {
            for index in [3, 4] {
                let after = near_a_change(zone, index, -90 * 60);
                assert_eq!(
                    ours(pattern, zone, after, 6),
                    croner_fires(pattern, zone, after, 6),
                    "{pattern} in {zone}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn random_expressions_agree_with_croner_in_utc(text in any_expression(0..=23), second in 0_i64..1_900_000_000) {
        let after = Timestamp::from_second(second).expect("an instant");
        prop_assert_eq!(ours(&text, "UTC", after, 3), croner_fires(&text, "UTC", after, 3), "{}", text);
    }

    #[test]
    fn patterns_agree_with_croner_around_changes_of_the_clocks(
        text in select(&PATTERNS[..]), zone in select(&ZONES[..]), index: usize, seconds in -200_000_i64..200_000,
    ) {
        let after = near_a_change(zone, index, seconds);
        prop_assert_eq!(ours(text, zone, after, 3), croner_fires(text, zone, after, 3), "{} in {}", text, zone);
    }

    #[test]
    fn every_expression_matches_a_minute_by_minute_walk(
        text in any_expression(0..=4), zone in select(&ZONES[..]), index: usize, hours in -30_i64..6,
    ) {
        let after = near_a_change(zone, index, hours * 3_600);
        let expression = parse(&text).expect("the expression is right");
        let table = jiff::tz::db().get(zone).expect("the zone is known");
        let minutes = (1..=36 * 60).filter_map(|minute| Timestamp::from_second(after.as_second() + minute * 60).ok());
        let expected: Vec<i64> =
            minutes.filter(|at| should_fire(&expression, &table, *at)).map(Timestamp::as_second).collect();
        let end = after.as_second() + 36 * 3_600;
        let schedule = cron(&text, zone);
        let fires: Vec<i64> = schedule.fires(after).map(Timestamp::as_second).take_while(|at| *at <= end).collect();
        prop_assert_eq!(&fires, &expected, "{} in {} after {}", text, zone, after);
        // Counting gives the same result as listing.
        let now = Timestamp::from_second(end).expect("an instant");
        let missed = schedule.missed(after, now, Misfire::All);
        let latest = &fires[fires.len().saturating_sub(MAX_CAUGHT_UP)..];
        prop_assert_eq!(missed.due.iter().map(|at| at.as_second()).collect::<Vec<_>>(), latest);
        prop_assert_eq!(missed.dropped, (fires.len() - latest.len()) as u64);
    }

    #[test]
    fn missed_fires_are_all_fires_since_the_last_one(
        text in any_expression(0..=23), zone in select(&ZONES[..]), index: usize,
        seconds in -200_000_i64..200_000, span in 0_i64..4_000_000, fraction in 0_i64..1_000_000_000,
    ) {
        let since = near_a_change(zone, index, seconds);
        let now = Timestamp::from_nanosecond(since.as_nanosecond() + i128::from(span * 1_000_000_000 + fraction));
        let now = now.expect("an instant");
        let schedule = cron(&text, zone);
        let fires: Vec<Timestamp> = schedule.fires(since).take_while(|at| *at <= now).collect();
        let missed = schedule.missed(since, now, Misfire::All);
        prop_assert_eq!(missed.dropped + missed.due.len() as u64, fires.len() as u64, "{} in {}", text, zone);
        prop_assert_eq!(&missed.due[..], &fires[fires.len().saturating_sub(MAX_CAUGHT_UP)..]);
    }

    #[test]
    fn the_latest_fires_of_any_period_are_kept(period in 1_000_u64..5_000_000, since in 0_i64..2_000_000_000, span in 0_i64..900_000_000) {
        let schedule = Schedule {
            timeline: Timeline::Every(i128::from(period) * 1_000_000),
            zone: TimeZone::UTC,
        };
        let at = |second: i64| Timestamp::from_second(second).expect("an instant");
        let (since, now) = (at(since), at(since + span));
        let missed = schedule.missed(since, now, Misfire::All);
        let next = missed.due.last().map_or_else(|| schedule.next_after(since), |last| schedule.next_after(*last));
        prop_assert!(next.is_some_and(|next| next > now));
        prop_assert!(missed.due.windows(2).all(|pair| schedule.next_after(pair[0]) == Some(pair[1])));
        prop_assert!(missed.dropped == 0 || missed.due.len() == MAX_CAUGHT_UP);
    }
}
