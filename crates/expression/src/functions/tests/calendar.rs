use super::*;

#[test]
fn days_and_months_are_those_of_the_zone() {
    for (expression, expected) in [
        // The clocks of Berlin change on 29 March and 25 October 2026.
        ("addDuration('2026-03-28T12:00:00', '1d', timezone='Europe/Berlin')", "2026-03-29T10:00:00.000Z"),
        ("addDuration('2026-03-28T12:00:00', '24h', timezone='Europe/Berlin')", "2026-03-29T11:00:00.000Z"),
        ("addDuration('2026-03-28T12:00:00Z', '1d')", "2026-03-29T12:00:00.000Z"),
        ("addDuration('2026-03-28T02:30:00', '1d', timezone='Europe/Berlin')", "2026-03-29T01:30:00.000Z"),
        ("addDuration('2026-10-24T02:30:00', '1d', timezone='Europe/Berlin')", "2026-10-25T00:30:00.000Z"),
        ("addDuration('2026-01-31T10:00:00Z', '1mo')", "2026-02-28T10:00:00.000Z"),
        ("addDuration('2024-02-29', '1y')", "2025-02-28T00:00:00.000Z"),
        ("addDuration('2026-03-31', '-1mo')", "2026-02-28T00:00:00.000Z"),
        ("addDuration('2026-01-31', 'P1M1DT30M')", "2026-03-01T00:30:00.000Z"),
        ("addDuration('2026-01-31', '1y2mo3d4h')", "2027-04-03T04:00:00.000Z"),
        ("addDuration('2026-01-01', '-PT15M')", "2025-12-31T23:45:00.000Z"),
    ] {
        check(expression, &format!("\"{expected}\""));
    }
    check(
        "addDuration('9999-12-31', '1mo')",
        "error: `addDuration`: the date is outside the years 0 to 9999",
    );
    check(
        "addDuration('2026-01-01', '99999y')",
        "error: `99999y` is no duration: `99999y` is too much; the longest duration is 3650d",
    );
}

#[test]
fn a_difference_counts_whole_units() {
    for (expression, expected) in [
        ("dateDiff('2026-01-01', '2026-01-02')", "86400"),
        ("dateDiff('2026-01-01T00:00:00.5Z', '2026-01-01', 'millisecond')", "-500"),
        ("dateDiff('2026-01-01T00:00:00Z', '2026-01-01T01:59:59Z', 'hour')", "1"),
        ("dateDiff('2026-01-01T01:59:59Z', '2026-01-01T00:00:00Z', 'hour')", "-1"),
        ("dateDiff('2026-03-28T12:00:00', '2026-03-29T12:00:00', 'day', timezone='Europe/Berlin')", "1"),
        ("dateDiff('2026-03-28T12:00:00', '2026-03-29T12:00:00', 'hour', timezone='Europe/Berlin')", "23"),
        ("dateDiff('2026-01-01', '2026-01-15', unit='week')", "2"),
        ("dateDiff('2026-01-15', '2026-03-14', 'month')", "1"),
        ("dateDiff('2026-01-15', '2026-03-15', 'month')", "2"),
        ("dateDiff('2026-01-15', '2026-12-15', 'quarter')", "3"),
        ("dateDiff('2000-02-29', '2026-02-28', 'year')", "25"),
        ("dateDiff('2026-02-28', '2000-02-29', 'year')", "-25"),
        // One month in Berlin, not in UTC.
        ("dateDiff('2026-02-28T23:30:00Z', '2026-03-31T22:30:00Z', 'month', 'Europe/Berlin')", "1"),
    ] {
        check(expression, expected);
    }
}

#[test]
fn a_unit_begins_in_the_zone() {
    for (unit, zone, expected) in [
        ("second", "UTC", "2026-08-12T22:47:13.000Z"),
        ("minute", "UTC", "2026-08-12T22:47:00.000Z"),
        ("hour", "Asia/Kolkata", "2026-08-12T22:30:00.000Z"),
        ("day", "UTC", "2026-08-12T00:00:00.000Z"),
        ("day", "Europe/Berlin", "2026-08-12T22:00:00.000Z"),
        ("week", "UTC", "2026-08-10T00:00:00.000Z"),
        ("week", "America/New_York", "2026-08-10T04:00:00.000Z"),
        ("month", "Europe/Berlin", "2026-07-31T22:00:00.000Z"),
        ("quarter", "UTC", "2026-07-01T00:00:00.000Z"),
        ("year", "Europe/Berlin", "2025-12-31T23:00:00.000Z"),
    ] {
        check(
            &format!("startOf('2026-08-12T22:47:13.456Z', '{unit}', timezone='{zone}')"),
            &format!("\"{expected}\""),
        );
    }
    // The hour that the change of the clock repeats is the second one.
    check("startOf('2026-10-25T01:30:00Z', 'hour', 'Europe/Berlin')", r#""2026-10-25T01:00:00.000Z""#);
    // The day whose midnight does not exist.
    check("startOf('2018-11-04T12:00:00Z', 'day', 'America/Sao_Paulo')", r#""2018-11-04T03:00:00.000Z""#);
}

#[test]
fn a_wrong_unit_is_told_before_evaluation() {
    for (text, near) in [
        ("dateDiff(a, b, 'days')", "dateDiff(a, b, 'day')"),
        ("dateDiff(a, b, unit='h')", "dateDiff(a, b, unit='hour')"),
        ("startOf(a, 'Month')", "startOf(a, 'month')"),
        ("a | startOf('wek')", "a | startOf('week')"),
    ] {
        let error = Expression::compile(text, Span::default()).expect_err(text);
        let fix = error.fix.unwrap_or_else(|| panic!("{text} has no fix"));
        assert_eq!(format!("{}{}{}", &text[..fix.0.start], fix.1, &text[fix.0.end..]), near);
    }
    let error = Expression::compile("startOf(a, 'decade')", Span::default()).expect_err("no unit");
    assert!(error.message.contains("it may be `millisecond`"), "{error}");
}

#[test]
fn a_duration_has_its_seconds() {
    check("duration('1h30m')", "5400");
    check("duration('P1DT1H')", "90000");
    check("duration('-250ms')", "-0.25");
    check("duration('PT0.5S')", "0.5");
    check(
        "duration('1' ~ 'mo')",
        "error: `duration`: `1mo` has no fixed length, because months and years differ; write days, like `30d`",
    );
    check(
        "duration('1mo')",
        "error: `1mo` is no duration: `1mo` has no fixed length, because months and years differ; write days, like `30d`",
    );
}

#[test]
fn a_url_has_its_parts() {
    check(
        "parseUrl('https://ada:x@example.org:8443/orders/a%20b/?q=pens%26ink&q=2&page=3#top')",
        r##"{"scheme":"https","host":"example.org","port":8443,"path":"/orders/a%20b/","segments":["orders","a b"],"query":{"q":["pens&ink","2"],"page":"3"},"fragment":"top"}"##,
    );
    check(
        "parseUrl('mailto:ada@example.org')",
        r#"{"scheme":"mailto","host":null,"port":null,"path":"ada@example.org","segments":[],"query":{},"fragment":null}"#,
    );
    check("parseUrl('http://example.org').port", "80");
    check(
        "parseUrl('example.org/x')",
        "error: `parseUrl`: `example.org/x` is not a URL: relative URL without a base; a URL begins with a scheme, such as `https://`",
    );
}

#[test]
fn a_file_is_recognised() {
    check("png is file", "true");
    check("text is not file", "true");
    check("[png, text] | select('file') | length", "1");
}
