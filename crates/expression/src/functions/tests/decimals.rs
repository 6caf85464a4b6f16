use super::*;

#[test]
fn an_exact_number_leaves_the_expression_as_a_text() {
    check("'36.90' | decimal", r#""36.90""#);
    check("{'a': ['0.1' | decimal], 'b': 1}", r#"{"a":["0.1"],"b":1}"#);
    check("('0.1' | decimal) + ('0.2' | decimal)", r#""0.3""#);
    check("(12.3 | decimal) * 3 | round(2)", r#""36.9""#);
    check("((12.3 | decimal) * 3) | round(2)", r#""36.90""#);
    check("'total: ' ~ ('1.50' | decimal)", r#""total: 1.50""#);
    check("[1, '2.5' | decimal] | join(';')", r#""1;2.5""#);
    check("{'a': '1.0' | decimal} | tojson", r#""{\"a\":\"1.0\"}""#);
    check("-('1.5' | decimal)", r#""-1.5""#);
    check("('2.5' | decimal) | int", "2");
    check("('2.5' | decimal) | float", "2.5");
    check("'2.5' | decimal is number", "true");
}

#[test]
fn integers_beyond_64_bits_are_exact() {
    check("('123456789012345678901234567890' | decimal) + 1", r#""123456789012345678901234567891""#);
    check("(9223372036854775807 | decimal) * 10", r#""92233720368547758070""#);
    check("('10' | decimal) / 4", r#""2.5""#);
    check("('1' | decimal) / 0", "error: 1 / 0 cannot be calculated: division by zero");
    check(
        "('99999999999999999999999999999999999999' | decimal) + 1",
        "error: 99999999999999999999999999999999999999 + 1 cannot be calculated: it has more than 38 digits",
    );
    check(
        "('9' * 39) | decimal",
        "error: `decimal`: the text cannot be a decimal: it has more than 38 digits",
    );
}

#[test]
fn exact_numbers_compare_as_numbers() {
    check("('9.90' | decimal) < ('10' | decimal)", "true");
    check("('1.0' | decimal) == 1 and ('1.10' | decimal) == ('1.1' | decimal)", "true");
    check("('1.0' | decimal) == '1.0'", "false");
    check("['10', '9.5', '9.50'] | map('decimal') | sort", r#"["9.5","9.50","10"]"#);
    check("['10', '9.5', '9.50'] | map(by=item | decimal) | unique | length", "2");
    check("['10', '9.5'] | max(by=item | decimal)", r#""10""#);
    check("('1' | decimal) in [0, 1]", "true");
    check("['1.5', '2'] | sum(by=item | decimal)", r#""3.5""#);
    check("'x' if '0.00' | decimal else 'y'", r#""y""#);
}

#[test]
fn an_exact_number_and_a_float_do_not_mix() {
    let message =
        "error: a decimal and a float do not mix, because a float is not exact; `| decimal` converts it";
    check("('1.5' | decimal) + (1 / 2)", message);
    check("(1 / 2) * ('1.5' | decimal)", message);
    check("('1.5' | decimal) > 0.5", message);
    check("('1.5' | decimal) + (0.5 | decimal)", r#""2.0""#);
    check("[('1.5' | decimal), 0.5] | sum", &message.replace("error: ", "error: `sum`: "));
    check("('1.5' | decimal) ~ 0.5", r#""1.50.5""#);
    check("('1.5' | decimal) + 'x'", "error: `+` does not take a decimal and a text; `~` joins texts");
    check("('1.5' | decimal) % 2", "error: `%` does not take a decimal; `| int` and `| float` convert it");
}

#[test]
fn a_literal_float_beside_an_exact_number_is_an_error_before_evaluation() {
    for (text, expected) in [
        ("(a | decimal) * 1.19", "(a | decimal) * ('1.19' | decimal)"),
        ("0.5 + (a | decimal | round(2))", "('0.5' | decimal) + (a | decimal | round(2))"),
        ("(a | sum(by=item.p | decimal)) / 1.5", "(a | sum(by=item.p | decimal)) / ('1.5' | decimal)"),
    ] {
        let error = Expression::compile(text, Span::default()).expect_err(text);
        let fix = error.fix.unwrap_or_else(|| panic!("{text} has no fix"));
        assert_eq!(format!("{}{}{}", &text[..fix.0.start], fix.1, &text[fix.0.end..]), expected);
    }
    for fine in ["(a | decimal) * 2", "a * 1.19", "(a | decimal) ~ 1.5", "(a | decimal | float) * 1.19"] {
        assert!(Expression::compile(fine, Span::default()).is_ok(), "{fine}");
    }
}

#[test]
fn a_value_that_is_not_a_number_has_a_default_or_is_an_error() {
    check("'x' | decimal(default=0)", r#""0""#);
    check("none | decimal('1.50')", r#""1.50""#);
    check("none | decimal", "error: `decimal`: the null cannot be a decimal: it is not a number");
    check("'1,5' | decimal", "error: `decimal`: the text cannot be a decimal: it is not a number");
    check("('2.345' | decimal) | round(2, 'floor')", r#""2.34""#);
    check("('2.345' | decimal) | round(39)", "error: `round`: `precision` of a decimal is from 0 to 38");
}
