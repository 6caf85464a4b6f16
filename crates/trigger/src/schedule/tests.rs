use model::automation::{Overlap, SpannedName};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use text::Span;

use super::*;

fn trigger(cadence: Cadence, zone: &str) -> ScheduleTrigger {
    ScheduleTrigger {
        cadence,
        cadence_span: Span::default(),
        timezone: SpannedName { name: zone.into(), span: Span::default() },
        misfire: Misfire::Latest,
        overlap: Overlap::Skip,
    }
}

pub(super) fn cron(text: &str, zone: &str) -> Schedule {
    Schedule::compile(&trigger(Cadence::Cron(text.into()), zone)).expect("the schedule compiles")
}

fn every(seconds: u64) -> Schedule {
    Schedule::compile(&trigger(Cadence::Every(Duration::from_secs(seconds)), "UTC")).expect("it compiles")
}

pub(super) fn instant(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

/// The first instants after `after` in the local time of the schedule's zone, with their offsets.
fn fires(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    let fires = schedule.fires(instant(after)).take(count);
    fires.map(|fire| fire.to_zoned(schedule.zone.clone()).strftime("%m-%d %H:%M%z").to_string()).collect()
}

fn check(text: &str, zone: &str, after: &str, expected: &[&str]) {
    assert_eq!(fires(&cron(text, zone), after, expected.len()), expected, "{text} in {zone}");
}

#[test]
fn a_schedule_can_be_shared_between_tasks() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    shared::<Schedule>();
}

#[test]
fn every_counts_elapsed_time_from_the_epoch() {
    let fires: Vec<String> =
        every(5 * 60).fires(instant("2026-03-29T00:57:31.5Z")).take(2).map(|fire| fire.to_string()).collect();
    assert_eq!(fires, ["2026-03-29T01:00:00Z", "2026-03-29T01:05:00Z"]);
    let half = Schedule::compile(&trigger(Cadence::Every(Duration::from_millis(1_500)), "UTC"))
        .expect("it compiles");
    assert_eq!(half.next_after(instant("1970-01-01T00:00:01.5Z")), Some(instant("1970-01-01T00:00:03Z")));
    assert_eq!(half.next_after(Timestamp::MAX), None);
}

#[test]
fn hourly_daily_and_weekly_equal_their_cron_expressions() {
    let at = LocalTime { hour: 8, minute: 30 };
    let check = |cadence: Cadence, text: &str| {
        let schedule = Schedule::compile(&trigger(cadence, "Europe/Berlin")).expect("it compiles");
        assert_eq!(schedule.fingerprint(), cron(text, "Europe/Berlin").fingerprint());
    };
    check(Cadence::Hourly { minute: 5 }, "5 * * * *");
    check(Cadence::Daily { at }, "30 8 * * *");
    check(Cadence::Weekly { on: vec![Weekday::Mon, Weekday::Fri], at }, "30 8 * * mon,fri");
    check(Cadence::Weekly { on: vec![Weekday::Sun], at }, "30 8 * * 7");
}

#[test]
fn fields_follow_cron() {
    let utc = |text: &str, expected: &[&str]| check(text, "UTC", "2026-01-01T00:00:00Z", expected);
    // 2026-01-01 is a Thursday.
    utc("*/5 8-16 * * 1-5", &["01-01 08:00+0000", "01-01 08:05+0000"]);
    utc("0 12 * * 0", &["01-04 12:00+0000"]);
    utc("0 12 * * 7", &["01-04 12:00+0000"]);
    utc("0 12 * * SUN", &["01-04 12:00+0000"]);
    utc("0 12 * * sat-sun", &["01-03 12:00+0000", "01-04 12:00+0000", "01-10 12:00+0000"]);
    utc("0 12 * * 5-7", &["01-02 12:00+0000", "01-03 12:00+0000", "01-04 12:00+0000", "01-09 12:00+0000"]);
    utc("0 12 * * 1-7/2", &["01-02 12:00+0000", "01-04 12:00+0000", "01-05 12:00+0000"]);
    utc("0 0 1,15 feb-mar *", &["02-01 00:00+0000", "02-15 00:00+0000", "03-01 00:00+0000"]);
    utc(
        "10-30/10,45 3 * * *",
        &["01-01 03:10+0000", "01-01 03:20+0000", "01-01 03:30+0000", "01-01 03:45+0000"],
    );
    utc("0 0 29 2 *", &["02-29 00:00+0000"]);
}

#[test]
fn both_day_fields_restricted_means_either() {
    let utc = |text: &str, expected: &[&str]| check(text, "UTC", "2026-02-01T00:00:00Z", expected);
    utc(
        "0 0 13 * fri",
        &[
            "02-06 00:00+0000",
            "02-13 00:00+0000",
            "02-20 00:00+0000",
            "02-27 00:00+0000",
            "03-06 00:00+0000",
            "03-13 00:00+0000",
        ],
    );
    utc("0 0 13 * *", &["02-13 00:00+0000", "03-13 00:00+0000"]);
    // A stepped star restricts: odd days, or Mondays.
    utc("0 0 */2 * mon", &["02-02 00:00+0000", "02-03 00:00+0000", "02-05 00:00+0000"]);
    utc("0 0 1-31 * mon", &["02-02 00:00+0000", "02-03 00:00+0000"]);
}

#[test]
fn a_skipped_time_runs_once_right_after_the_gap() {
    // Berlin skips 2:00 to 3:00 on 2026-03-29.
    let berlin =
        |text: &str, expected: &[&str]| check(text, "Europe/Berlin", "2026-03-28T12:00:00Z", expected);
    berlin("30 2 * * *", &["03-29 03:00+0200", "03-30 02:30+0200"]);
    berlin("0 2 * * *", &["03-29 03:00+0200", "03-30 02:00+0200"]);
    berlin("0 3 * * *", &["03-29 03:00+0200", "03-30 03:00+0200"]);
    berlin("*/15 2 * * *", &["03-29 03:00+0200", "03-30 02:00+0200", "03-30 02:15+0200"]);
    berlin(
        "0,30 1-3 * * *",
        &["03-29 01:00+0100", "03-29 01:30+0100", "03-29 03:00+0200", "03-29 03:30+0200", "03-30 01:00+0200"],
    );
    // The only matching day is skipped.
    berlin("30 2 29 3 *", &["03-29 03:00+0200", "03-29 02:30+0200"]);
}

#[test]
fn a_wildcard_hour_skips_a_gap() {
    let berlin =
        |text: &str, expected: &[&str]| check(text, "Europe/Berlin", "2026-03-29T00:00:00Z", expected);
    berlin("30 * * * *", &["03-29 01:30+0100", "03-29 03:30+0200", "03-29 04:30+0200"]);
    berlin("30 */2 * * *", &["03-29 04:30+0200"]);
    berlin("*/30 * * * *", &["03-29 01:30+0100", "03-29 03:00+0200", "03-29 03:30+0200"]);
}

#[test]
fn a_repeated_time_runs_once_if_its_hour_is_fixed() {
    // New York repeats 1:00 to 2:00 on 2026-11-01.
    let york = |text: &str, after: &str, expected: &[&str]| check(text, "America/New_York", after, expected);
    york("30 1 * * *", "2026-11-01T00:00:00Z", &["11-01 01:30-0400", "11-02 01:30-0500"]);
    york("0,30 1 * * *", "2026-11-01T05:15:00Z", &["11-01 01:30-0400", "11-02 01:00-0500"]);
    york("0,30 1 * * *", "2026-11-01T06:15:00Z", &["11-02 01:00-0500"]);
    york("0 1,2 * * *", "2026-11-01T00:00:00Z", &["11-01 01:00-0400", "11-01 02:00-0500"]);
}

#[test]
fn a_repeated_time_runs_every_period_if_its_hour_is_a_wildcard() {
    let york = |text: &str, after: &str, expected: &[&str]| check(text, "America/New_York", after, expected);
    york("30 * * * *", "2026-11-01T05:00:00Z", &["11-01 01:30-0400", "11-01 01:30-0500", "11-01 02:30-0500"]);
    york(
        "*/30 * * * *",
        "2026-11-01T05:15:00Z",
        &["11-01 01:30-0400", "11-01 01:00-0500", "11-01 01:30-0500", "11-01 02:00-0500"],
    );
    // For an instant in the second pass, the result is never earlier.
    york("*/30 * * * *", "2026-11-01T06:15:00Z", &["11-01 01:30-0500", "11-01 02:00-0500"]);
}

#[test]
fn unusual_time_zones_follow_the_same_rules() {
    // Lord Howe shifts by half an hour; Samoa skipped 2011-12-30; Sao Paulo's gap was at midnight.
    check(
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T00:00:00Z",
        &["10-04 02:30+1100", "10-05 02:15+1100"],
    );
    check("0 12 * * *", "Pacific/Apia", "2011-12-29T22:30:00Z", &["12-31 00:00+1400", "12-31 12:00+1400"]);
    check(
        "0 0 * * *",
        "America/Sao_Paulo",
        "2018-11-03T12:00:00Z",
        &["11-04 01:00-0200", "11-05 00:00-0200"],
    );
    check("30 0 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", &["01-02 00:30+0530"]);
}

#[test]
fn a_schedule_ends_with_the_last_year() {
    assert_eq!(cron("0 0 29 2 *", "UTC").next_after(instant("2096-03-01T00:00:00Z")), None);
    assert_eq!(cron("* * * * *", "Europe/Berlin").next_after(instant("2200-03-01T00:00:00Z")), None);
    let first = cron("0 0 * * *", "Asia/Tokyo").next_after(Timestamp::MIN);
    assert_eq!(first, Some(instant("1969-12-31T15:00:00Z")));
}

fn refused(cadence: Cadence, zone: &str) -> String {
    Schedule::compile(&trigger(cadence, zone))
        .map(|schedule| schedule.describe())
        .map_err(|error| error.to_string())
        .expect_err("the schedule is refused")
}

fn check_refused(text: &str, expected: &str) {
    assert_eq!(refused(Cadence::Cron(text.into()), "UTC"), expected);
}

#[test]
fn an_invalid_field_is_reported_with_the_allowed_values() {
    let rest = "a range `a-b`, a list `a,b`, a step `*/n` or `a-b/n`";
    let check = check_refused;
    check("61 * * * *", &format!("`61` is not a value of the minute field; allowed: 0 to 59, {rest}"));
    check(
        "60 * * * *",
        &format!("`60` is not a value of the minute field; allowed: 0 to 59, {rest}; help: write `0`"),
    );
    check(
        "0 24 * * *",
        &format!("`24` is not a value of the hour field; allowed: 0 to 23, {rest}; help: write `0`"),
    );
    check("0 0 0 * *", &format!("`0` is not a value of the day of month field; allowed: 1 to 31, {rest}"));
    check("0 0 L * *", &format!("`L` is not a value of the day of month field; allowed: 1 to 31, {rest}"));
    check(
        "0 0 ? * 1",
        &format!("`?` is not a value of the day of month field; allowed: 1 to 31, {rest}; help: write `*`"),
    );
    check(
        "0 0 * 13 *",
        &format!("`13` is not a value of the month field; allowed: 1 to 12, or jan to dec, {rest}"),
    );
    let weekday = format!("allowed: 0 to 7 (0 and 7 are Sunday), or sun to sat, {rest}");
    check("0 0 * * 8", &format!("`8` is not a value of the day of week field; {weekday}"));
    check(
        "0 0 * * monday",
        &format!("`monday` is not a value of the day of week field; {weekday}; help: write `mon`"),
    );
    check(
        "0 0 * fbe *",
        &format!(
            "`fbe` is not a value of the month field; allowed: 1 to 12, or jan to dec, {rest}; help: write `feb`"
        ),
    );
    check("0 0 * * 1#2", &format!("`1#2` is not a value of the day of week field; {weekday}"));
    check(
        "0,,5 * * * *",
        &format!("an empty item is not a value of the minute field; allowed: 0 to 59, {rest}"),
    );
    check("-5 * * * *", &format!("`-5` is not a value of the minute field; allowed: 0 to 59, {rest}"));
}

#[test]
fn misleading_steps_and_ranges_are_rejected() {
    let check = check_refused;
    check("30-10 * * * *", "`30-10` runs backwards in the minute field; help: write `30-59,0-10`");
    check("0 0 * * fri-mon", "`fri-mon` runs backwards in the day of week field; help: write `5-6,0-1`");
    check("5/10 * * * *", "`5/10` is a step without a range in the minute field; help: write `5-59/10`");
    check("*/0 * * * *", "`*/0` has no usable step in the minute field; allowed: a step of 1 to 59");
    check(
        "*/90 * * * *",
        "`*/90` has no usable step in the minute field; allowed: a step of 1 to 59; \
         help: a step counts within the hour; use `every: 90m` for each 90 minutes",
    );
    check("0 */24 * * *", "`*/24` has no usable step in the hour field; allowed: a step of 1 to 23");
}

#[test]
fn an_expression_has_five_fields() {
    let check = check_refused;
    check(
        "0 */5 8-16 * * 1-5",
        "`0 */5 8-16 * * 1-5` has 6 fields; a cron expression here has five; \
         help: there are no seconds and no years; remove `0` and write `*/5 8-16 * * 1-5`",
    );
    let allowed = "allowed: minute, hour, day of month, month, day of week, like `*/5 8-16 * * 1-5`";
    check("* * *", &format!("`* * *` is not a cron expression of five fields, it has 3; {allowed}"));
    check("", &format!("`` is not a cron expression of five fields, it has 0; {allowed}"));
    check(
        "@daily",
        &format!("`@daily` is not a cron expression of five fields; {allowed}; help: write `0 0 * * *`"),
    );
}

#[test]
fn a_day_that_never_occurs_is_rejected() {
    check_refused("0 0 30 2 *", "`0 0 30 2 *` never fires: no day 30 in feb; allowed: days 1 to 29");
    check_refused("0 0 31 4,6 *", "`0 0 31 4,6 *` never fires: no day 31 in apr, jun; allowed: days 1 to 30");
    assert!(cron("0 0 30 2,3 *", "UTC").next_after(instant("2026-01-01T00:00:00Z")).is_some());
}

#[test]
fn an_error_has_the_range_of_its_item() {
    let text = "0  8,25-3 * * *";
    let error = Schedule::compile(&trigger(Cadence::Cron(text.into()), "UTC")).expect_err("it is refused");
    assert_eq!((error.key, error.range.map(|range| &text[range])), (ScheduleKey::Cadence, Some("25-3")));
}

#[test]
fn an_unambiguous_fix_includes_the_text_it_replaces() {
    let check = |cron: &str, zone: &str, expected: Option<(&str, &str)>| {
        let error = Schedule::compile(&trigger(Cadence::Cron(cron.into()), zone)).expect_err("it is refused");
        let found = error.replacement.as_ref().map(|(wrong, meant)| (wrong.as_str(), meant.as_str()));
        assert_eq!(found, expected, "{cron}");
    };
    check("0 0 * * monday", "UTC", Some(("monday", "mon")));
    check("0 0 * * fri-mon", "UTC", Some(("fri-mon", "5-6,0-1")));
    check("5/10 * * * *", "UTC", Some(("5/10", "5-59/10")));
    check("@daily", "UTC", Some(("@daily", "0 0 * * *")));
    // A message shortens a long text, and the correction does not.
    let long = "0 */5 8,9,10,11,12,13,14,15,16,17,18,19 * * 1-5";
    check(long, "UTC", Some((long, long.strip_prefix("0 ").expect("seconds"))));
    check("* * * * *", "Europe/Berln", Some(("Europe/Berln", "Europe/Berlin")));
    check("*/90 * * * *", "UTC", None);
    check("61 * * * *", "UTC", None);
}

#[test]
fn other_cadences_are_checked_too() {
    let every = |milliseconds| refused(Cadence::Every(Duration::from_millis(milliseconds)), "UTC");
    assert_eq!(every(999), "`999ms` is too often; allowed: a period of `1s` or longer");
    assert_eq!(every(0), "`0s` is too often; allowed: a period of `1s` or longer");
    let at = LocalTime { hour: 24, minute: 0 };
    assert!(refused(Cadence::Daily { at }, "UTC").starts_with("`24` is not a value of the hour field"));
    let none = refused(Cadence::Weekly { on: Vec::new(), at: LocalTime { hour: 1, minute: 0 } }, "UTC");
    assert_eq!(none, "`on` names no day; allowed: sun, mon, tue, wed, thu, fri, sat");
}

#[test]
fn an_unknown_time_zone_is_rejected_with_the_nearest_one() {
    let check =
        |zone: &str, expected: &str| assert_eq!(refused(Cadence::Hourly { minute: 0 }, zone), expected);
    check("Europe/Berln", "`Europe/Berln` is not a time zone; help: did you mean `Europe/Berlin`?");
    check("Berlin", "`Berlin` is not a time zone; help: did you mean `Europe/Berlin`?");
    check(
        "America/New York",
        "`America/New York` is not a time zone; help: did you mean `America/New_York`?",
    );
    check("+02:00", "`+02:00` is not a time zone; allowed: an IANA name such as `Europe/Berlin` or `UTC`");
    assert_eq!(cron("0 0 * * *", "europe/berlin").timezone(), "Europe/Berlin");
}

#[test]
fn schedules_describe_themselves() {
    let check = |text: &str, expected: &str| {
        assert_eq!(cron(text, "Europe/Berlin").describe(), format!("{expected} (Europe/Berlin)"), "{text}");
    };
    check("*/5 8-16 * * 1-5", "every 5 minutes from 8:00 to 16:55, Monday to Friday");
    check("* * * * *", "every minute");
    check("*/15 * * * *", "every 15 minutes");
    check("0 * * * *", "every hour");
    check("5 * * * *", "at 5 minutes past every hour");
    check("5,20 * * * 6,0", "at 5 and 20 minutes past every hour, Saturday and Sunday");
    check("0 */2 * * *", "every 2 hours");
    check("5 */6 * * *", "every 6 hours from 0:05");
    check("30 8 * * *", "every day at 8:30");
    check("30 8,17 * * 1,5", "at 8:30 and 17:30, Monday and Friday");
    check("0 9-17 * * 1-5", "every hour from 9:00 to 17:00, Monday to Friday");
    check("*/20 0-5,22-23 * * *", "every 20 minutes from 0:00 to 5:40 and 22:00 to 23:40");
    check("0 0 1 * *", "at 0:00 on the 1st of the month");
    check(
        "0 0 1,15,22,31 1-3,12 *",
        "at 0:00 on the 1st, 15th, 22nd and 31st of January to March and December",
    );
    check("0 0 13 * fri", "at 0:00 on the 13th of the month, or Friday");
    check("0 0 */2 * *", "at 0:00 on every 2nd day of the month");
    check("0 0 1-7 6 *", "at 0:00 on the 1st to 7th of June");
    check("0 0 * 6 *", "at 0:00 in June");
    check("0 12 * 7,8 mon-wed", "at 12:00, Monday to Wednesday in July and August");
    check("7,23,49 1,5,7,9 * * *", "every day at :07, :23 and :49 in the hours 1, 5, 7 and 9");
    check("*/40 * * * *", "at 0 and 40 minutes past every hour");
    let period = |seconds| every(seconds).describe();
    assert_eq!(
        [period(300), period(60), period(5_400)],
        ["every 5 minutes", "every minute", "every 1 hour 30 minutes"]
    );
}

#[test]
fn a_fingerprint_is_the_same_for_the_same_timeline_and_no_other() {
    let same =
        [cron("30 8 * * 1-5", "UTC"), cron("30  08 * * mon,tue-fri", "UTC")].map(|one| one.fingerprint());
    assert_eq!(same[0], same[1]);
    assert_eq!(same[0], "cron 30 8 1-31 1-12 1-5 both fixed UTC");
    let others = [
        cron("30 8 * * 1-4", "UTC"),
        cron("30 8 * * 1-5", "Europe/Berlin"),
        cron("30 8 1-31 * 1-5", "UTC"),
        every(300),
    ];
    for other in others {
        assert_ne!(other.fingerprint(), same[0]);
    }
    assert_ne!(cron("0 0-23 * * *", "UTC").fingerprint(), cron("0 0-22 * * *", "UTC").fingerprint());
    assert_eq!(cron("0 0-23 * * *", "UTC").fingerprint(), cron("0 * * * *", "UTC").fingerprint());
}

fn missed(schedule: &Schedule, since: &str, now: &str, misfire: Misfire) -> (Vec<String>, u64) {
    let missed = schedule.missed(instant(since), instant(now), misfire);
    (missed.due.iter().map(ToString::to_string).collect(), missed.dropped)
}

#[test]
fn missed_instants_follow_the_misfire_policy() {
    let hourly = cron("0 * * * *", "UTC");
    let (since, now) = ("2026-01-01T00:00:00Z", "2026-01-01T03:00:00Z");
    let all = ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z", "2026-01-01T03:00:00Z"].map(String::from);
    assert_eq!(missed(&hourly, since, now, Misfire::Skip), (vec![], 3));
    assert_eq!(missed(&hourly, since, now, Misfire::Latest), (vec![all[2].clone()], 2));
    assert_eq!(missed(&hourly, since, now, Misfire::All), (all.to_vec(), 0));
    assert_eq!(missed(&hourly, now, since, Misfire::All), (vec![], 0));
    assert_eq!(missed(&hourly, since, "2026-01-01T00:59:59.9Z", Misfire::All), (vec![], 0));
}

#[test]
fn only_the_latest_hundred_missed_instants_run() {
    let (due, dropped) = missed(&every(1), "2016-01-01T00:00:00Z", "2026-01-01T00:00:00Z", Misfire::All);
    assert_eq!(
        (due.len(), due[0].as_str(), due[99].as_str()),
        (100, "2025-12-31T23:58:21Z", "2026-01-01T00:00:00Z")
    );
    assert_eq!(dropped, 3_653 * 86_400 - 100);
    let minutely = cron("* * * * *", "Europe/Berlin");
    let (due, dropped) = missed(&minutely, "1971-01-01T00:00:00Z", "2071-01-01T00:00:00Z", Misfire::All);
    assert_eq!((due.len(), due[0].as_str()), (100, "2070-12-31T22:21:00Z"));
    assert_eq!(dropped, 36_525 * 1_440 - 100);
    let yearly = cron("0 0 29 2 *", "UTC");
    let (due, dropped) = missed(&yearly, "2000-01-01T00:00:00Z", "2026-01-01T00:00:00Z", Misfire::Latest);
    assert_eq!((due, dropped), (vec!["2024-02-29T00:00:00Z".into()], 6));
}

#[test]
fn no_local_time_fires_after_the_last_year() {
    let yearly = cron("0 0 1 1 *", "UTC");
    assert_eq!(yearly.next_after(instant("2099-06-01T00:00:00Z")), Some(instant("2100-01-01T00:00:00Z")));
    assert_eq!(yearly.next_after(instant("2100-01-01T00:00:00Z")), None);
}

proptest! {
    #[test]
    fn no_cron_expression_makes_the_parser_panic(text in "(?s).{0,30}|[0-9a-z*/,? #@-]{0,40}|([0-9*/,-]{1,6} ){5}") {
        if let Err(error) = Schedule::compile(&trigger(Cadence::Cron(text.clone()), "UTC")) {
            prop_assert!(error.range.is_none_or(|range| text.get(range).is_some()), "{}", text);
        }
    }

    #[test]
    fn no_time_zone_name_makes_the_lookup_panic(name in "(?s).{0,30}") {
        let _ = Schedule::compile(&trigger(Cadence::Hourly { minute: 0 }, &name));
    }
}
