use super::*;

#[test]
fn a_date_is_parsed_from_many_formats_and_written_in_one() {
    for text in [
        "2026-03-01T10:00:00Z",
        "2026-03-01T11:00:00+01:00",
        "2026-03-01 10:00:00Z",
        "2026-03-01T10:00:00.000000Z",
        "2026-03-01T11:00:00+01:00[Europe/Berlin]",
        "2026-03-01T10:00",
        "Sun, 01 Mar 2026 10:00:00 GMT",
        "Sun, 1 Mar 2026 05:00:00 -0500",
        "  2026-03-01T10:00:00Z ",
    ] {
        check_text(text, "parseDate(x)", r#""2026-03-01T10:00:00.000Z""#);
    }
    check("parseDate('2026-03-01')", r#""2026-03-01T00:00:00.000Z""#);
    check("parseDate('2026-03-01', timezone='Europe/Berlin')", r#""2026-02-28T23:00:00.000Z""#);
    check("parseDate('2026-03-01T10:00:00.123456Z')", r#""2026-03-01T10:00:00.123Z""#);
    check("parseDate('1969-12-31T23:59:59.999999Z')", r#""1969-12-31T23:59:59.999Z""#);
}

#[test]
fn a_time_zone_in_brackets_is_parsed_or_rejected_and_never_ignored() {
    check("parseDate('2024-01-01T10:00:00[Europe/Berlin]')", r#""2024-01-01T09:00:00.000Z""#);
    check("formatDate('2024-07-01T10:00:00[Europe/Berlin]')", r#""2024-07-01T08:00:00+00:00""#);
    check("addDuration('2024-01-01T10:00:00[Europe/Berlin]', '1h')", r#""2024-01-01T10:00:00.000Z""#);
    for wrong in ["2024-01-01T10:00:00[Mars/Olympus]", "2024-01-01T10:00:00+05:00[Europe/Berlin]"] {
        let found = evaluate_over(&format!("parseDate('{wrong}')"), &scope());
        assert!(
            found.starts_with(&format!("error: `parseDate`: `{wrong}` is not a date; write one")),
            "{found}"
        );
    }
}

#[test]
fn the_last_second_of_the_year_9999_is_a_valid_date() {
    let last = r#""9999-12-31T23:59:59.000Z""#;
    check("parseDate('9999-12-31T23:59:59Z')", last);
    check("parseDate(253402300799)", last);
    check("parseDate(253402300799000, unit='ms')", last);
    check("parseDate('31.12.9999 23:59:59', format='%d.%m.%Y %H:%M:%S')", last);
    check("parseDate('9999-12-31 23:59:59 +0000', format='%Y-%m-%d %H:%M:%S %z')", last);
    check("formatDate('9999-12-31T23:59:59Z')", r#""9999-12-31T23:59:59+00:00""#);
    check("formatDate('9999-12-31T23:59:59Z', '%d.%m.%Y', timezone='America/New_York')", r#""31.12.9999""#);
    check("addDuration('9999-12-31T23:59:59Z', '-1s')", r#""9999-12-31T23:59:58.000Z""#);
    check("parseDate('9999-12-31T23:59:59Z') > now()", "true");
    check(
        "addDuration('9999-12-31T23:59:59Z', '1s')",
        "error: `addDuration`: the date is outside the years 0 to 9999",
    );
}

#[test]
fn extra_fractional_digits_of_a_second_are_truncated() {
    check("parseDate('2026-03-01T10:00:00.123456789012Z')", r#""2026-03-01T10:00:00.123Z""#);
    check("parseDate('2026-03-01T10:00:00.1234567890123456')", r#""2026-03-01T10:00:00.123Z""#);
}

#[test]
fn a_number_is_seconds_or_milliseconds_since_1970() {
    check("parseDate(1772359200)", r#""2026-03-01T10:00:00.000Z""#);
    check("parseDate(1772359200.25)", r#""2026-03-01T10:00:00.250Z""#);
    check("parseDate(1772359200123, unit='ms')", r#""2026-03-01T10:00:00.123Z""#);
    check("parseDate(-1)", r#""1969-12-31T23:59:59.000Z""#);
    check("parseDate(1, unit='h')", "error: `parseDate`: `unit` is `h`; it may be `s`, `ms`");
    let outside = "error: `parseDate`: the date is outside the years 0 to 9999";
    for number in ["9223372036854775807", "1772359200123", "-99999999999", "1e300", "-1e300"] {
        check(&format!("parseDate({number})"), outside);
    }
}

#[test]
fn dates_from_functions_compare_like_instants() {
    check("parseDate('2026-03-01T10:00:00Z') < parseDate('2026-03-01T10:00:00.5Z')", "true");
    check("parseDate('2026-03-01T10:00:00Z') == parseDate('2026-03-01T11:00:00+01:00')", "true");
}

#[test]
fn a_format_controls_the_output_of_a_date() {
    check("parseDate('1.3.2026', format='%d.%m.%Y')", r#""2026-03-01T00:00:00.000Z""#);
    check(
        "parseDate('01.03.2026 11:30', '%d.%m.%Y %H:%M', timezone='Europe/Berlin')",
        r#""2026-03-01T10:30:00.000Z""#,
    );
    check("parseDate('2026-03-01 11:30 +0100', '%Y-%m-%d %H:%M %z')", r#""2026-03-01T10:30:00.000Z""#);
    check("parseDate('1772359200', '%s')", r#""2026-03-01T10:00:00.000Z""#);
    let found = evaluate_over("parseDate('x', '%Y')", &scope());
    assert!(found.starts_with("error: `parseDate`: `x` is not a date of the format `%Y`: "), "{found}");
}

#[test]
fn a_date_is_written_in_a_format_and_a_zone() {
    check("formatDate('2026-03-01T23:30:00Z', '%Y-%m-%d')", r#""2026-03-01""#);
    check("formatDate('2026-03-01T23:30:00Z', '%Y-%m-%d', timezone='Europe/Berlin')", r#""2026-03-02""#);
    check("formatDate('2026-07-01T10:00:00Z', timezone='Europe/Berlin')", r#""2026-07-01T12:00:00+02:00""#);
    check("formatDate('2026-07-01', timezone='Europe/Berlin')", r#""2026-07-01T00:00:00+02:00""#);
    check("formatDate('2026-07-01T10:00:00Z')", r#""2026-07-01T10:00:00+00:00""#);
    check("formatDate('2026-07-01T10:00:00Z', '%s') | int", "1782900000");
    check("'2026-07-01' | formatDate('%A, %d %B')", r#""Wednesday, 01 July""#);
    let found = evaluate_over("formatDate('2026-07-01', '%!')", &scope());
    assert!(found.starts_with("error: `formatDate`: `%!` is not a format: "), "{found}");
}

#[test]
fn a_duration_is_added_or_subtracted() {
    check("addDuration('2026-03-01T10:00:00Z', '1h30m')", r#""2026-03-01T11:30:00.000Z""#);
    check("addDuration('2026-03-01T10:00:00Z', '-1d')", r#""2026-02-28T10:00:00.000Z""#);
    check("'2026-03-01T10:00:00Z' | addDuration('250ms')", r#""2026-03-01T10:00:00.250Z""#);
    check(
        "addDuration('2026-03-01', 10)",
        "error: `addDuration`: `10` has no unit; write `10s` for seconds, `10m` for minutes, or `10ms` for milliseconds",
    );
    check("addDuration('9999-12-30', '2d')", "error: `addDuration`: the date is outside the years 0 to 9999");
}

#[test]
fn invalid_dates_and_zones_are_reported() {
    check(
        "parseDate('tomorrow')",
        "error: `parseDate`: `tomorrow` is not a date; write one such as `2026-03-01T10:00:00Z`, or read it first with `parseDate(…, format='%d.%m.%Y')`",
    );
    check("parseDate(list)", "error: `parseDate`: `date` is a list, not a date");
    check(
        "parseDate('2026-03-01', timezone='Europe/Berln')",
        "error: `parseDate`: `Europe/Berln` is not a time zone; did you mean `Europe/Berlin`?",
    );
    check(
        "parseDate('2026-03-01', timezone='')",
        "error: `parseDate`: `` is not a time zone; write an IANA name such as `Europe/Berlin` or `UTC`",
    );
    check("parseDate('2026-03-01' * 100)", "error: `parseDate`: the date is longer than 200 bytes");
    check("formatDate('2026-03-01', '%Y' * 200)", "error: `formatDate`: the format is longer than 200 bytes");
}

#[test]
fn a_format_of_another_tool_is_rejected_with_its_translation() {
    for (format, meant) in [
        ("yyyy-MM-dd", "%Y-%m-%d"),
        ("YYYY-MM-DD", "%Y-%m-%d"),
        ("dd.MM.yyyy HH:mm", "%d.%m.%Y %H:%M"),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "%Y-%m-%dT%H:%M:%S%:z"),
        ("YYYY-MM-DD[T]HH:mm:ss.SSSZ", "%Y-%m-%dT%H:%M:%S.%3f%:z"),
        ("dddd, D MMMM YYYY", "%A, %-d %B %Y"),
    ] {
        assert_eq!(foreign_format(format).and_then(|(_, meant)| meant).as_deref(), Some(meant));
        // The suggestion is a valid format.
        let given = evaluate_over(&format!("formatDate('2026-07-01T08:09:10.5Z', '{meant}')"), &scope());
        assert!(!given.starts_with("error"), "{meant}: {given}");
    }
    let scope = Value::from(Map::from_iter([("pattern", Value::from("yyyy-MM-dd"))]));
    let computed = evaluate_over("formatDate('2026-07-01', pattern)", &scope);
    assert!(computed.contains("`yyyy-MM-dd` has no `%`") && computed.contains("'%Y-%m-%d'"), "{computed}");
    let parsed = evaluate_over("parseDate('1.7.2026', format=pattern)", &scope);
    assert!(parsed.contains("'%Y-%m-%d'"), "{parsed}");
    let none = evaluate_over("formatDate('2026-07-01', 'today' ~ '')", &scope);
    assert!(none.starts_with("error: `formatDate`: `today` has no `%`"), "{none}");
    assert!(foreign_format("%Y").is_none());
}
