use proptest::prelude::*;

use super::*;

fn over(name: &str, text: &str, expression: &str) -> Result<Value, String> {
    let scope = Value::from(Map::from_iter([(name, Value::from(text))]));
    let compiled = Expression::compile(expression, Span::default()).map_err(|error| error.message)?;
    compiled.evaluate(&scope, &Budget::default()).map_err(|error| error.message)
}

/// Writes the result of `parseXml` for XML without mixed content as XML.
fn write_xml(name: &str, value: &Value, out: &mut String) {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    match value {
        Value::List(list) => list.0.iter().for_each(|item| write_xml(name, item, out)),
        Value::Map(map) => {
            out.push_str(&format!("<{name}"));
            for (key, value) in map.iter().filter(|(key, _)| key.starts_with('@')) {
                out.push_str(&format!(" {}=\"{}\"", &key[1..], escaped(&value.to_text())));
            }
            out.push('>');
            for (key, value) in map.iter().filter(|(key, _)| !key.starts_with(['@', '#'])) {
                write_xml(key, value, out);
            }
            out.push_str(&format!("</{name}>"));
        }
        text => out.push_str(&format!("<{name}>{}</{name}>", escaped(&text.to_text()))),
    }
}

fn element() -> impl Strategy<Value = Value> {
    let text = "[a-z<>&\"' é]{0,8}".prop_map(|text| Value::from(text.trim()));
    text.clone().prop_recursive(4, 24, 4, move |inner| {
        let lists = proptest::collection::vec(inner.clone(), 2..4).prop_map(|items| {
            // A list stands for children of one name, so it cannot contain lists.
            items.into_iter().filter(|item| item.as_list().is_none()).collect::<Vec<_>>()
        });
        let lists = lists
            .prop_filter_map("a list has two items", |items| (items.len() > 1).then(|| Value::from(items)));
        let attribute = ("@[a-z]{1,3}", text.clone());
        let child = ("[a-z]{1,3}", prop_oneof![3 => inner, 1 => lists]);
        (proptest::collection::vec(attribute, 0..3), proptest::collection::vec(child, 1..4)).prop_map(
            |(attributes, children)| Value::from(attributes.into_iter().chain(children).collect::<Map>()),
        )
    })
}

proptest! {
    #[test]
    fn no_text_makes_a_function_panic(text in "(?s).{0,60}") {
        for (name, _) in FUNCTIONS {
            let _ = over("x", &text, &format!("{name}(x)"));
            let _ = over("x", &text, &format!("{name}(x, x)"));
        }
    }

    #[test]
    fn no_near_xml_makes_the_parser_panic(
        text in "(</?[ab@:#]{0,2}( [ab]=\"[a&;]{0,3}\")?/?>|&(lt|amp|#6[0-9]|#x[0-9]{1,9}|z);|<!\\[CDATA\\[|\\]\\]>|<!--|-->|<\\?x|\\?>|<!DOCTYPE|[ab \n]){0,12}"
    ) {
        let _ = over("x", &text, "x | parseXml");
    }

    #[test]
    fn xml_round_trips(value in element()) {
        let mut xml = String::new();
        write_xml("root", &value, &mut xml);
        let found = over("x", &xml, "x | parseXml");
        prop_assert_eq!(found, Ok(Value::from(Map::from_iter([("root", value)]))), "{}", xml);
    }

    #[test]
    fn csv_round_trips(
        names in proptest::collection::hash_set("[a-z,\" ]{1,4}", 1..4),
        cells in proptest::collection::vec("[a-z,;\"' \n\té]{0,5}", 0..12),
    ) {
        let names: Vec<String> = names.into_iter().collect();
        let rows: Value = cells
            .chunks_exact(names.len())
            .map(|cells| {
                let cells = names.iter().cloned().zip(cells.iter().map(|cell| Value::from(cell.as_str())));
                Value::from(cells.collect::<Map>())
            })
            .collect();
        let scope = Value::from(Map::from_iter([("x", rows.clone())]));
        for expression in ["x | toCsv | parseCsv", "x | toCsv(delimiter=';') | parseCsv(delimiter=';')"] {
            let found = Expression::compile(expression, Span::default()).unwrap().evaluate(&scope, &Budget::default()).unwrap();
            prop_assert_eq!(&found, &rows);
        }
    }

    #[test]
    fn json_round_trips(numbers in proptest::collection::vec(any::<i64>(), 0..8), text in "(?s).{0,12}") {
        let value = Value::from(Map::from_iter([
            (text.clone(), Value::from(text)),
            ("numbers".to_owned(), numbers.into_iter().map(Value::from).collect()),
        ]));
        let scope = Value::from(Map::from_iter([("x", value.clone())]));
        let found = Expression::compile("x | tojson | parseJson", Span::default()).unwrap().evaluate(&scope, &Budget::default());
        prop_assert_eq!(found.unwrap(), value);
    }

    #[test]
    fn base64_round_trips(text in "(?s).{0,20}") {
        for expression in ["base64(base64(x), decode=true)", "base64(base64(x, urlSafe=true), decode=true)"] {
            prop_assert_eq!(over("x", &text, expression), Ok(Value::from(text.as_str())));
        }
    }

    #[test]
    fn dates_and_added_durations_round_trip(
        at in -62_167_219_200_000..=253_402_207_200_000_i64, seconds in 0..=315_360_000_u64
    ) {
        let at = jiff::Timestamp::from_millisecond(at).unwrap();
        let text = over("x", &at.to_string(), "parseDate(x)").unwrap();
        prop_assert_eq!(over("x", text.as_str().unwrap(), "parseDate(x)"), Ok(text.clone()));
        prop_assert_eq!(text.as_str().unwrap().parse::<jiff::Timestamp>().unwrap(), at);
        let there = over("x", text.as_str().unwrap(), &format!("addDuration(x, '{seconds}s')"));
        if let Ok(there) = there {
            let back = over("x", there.as_str().unwrap(), &format!("addDuration(x, '-{seconds}s')"));
            prop_assert_eq!(back, Ok(text));
        }
    }
}
