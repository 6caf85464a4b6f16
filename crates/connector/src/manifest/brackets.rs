//! Forms with brackets: `items[0][price]=12`, as many services of payments and telephony read them.

use value::{Map, Value};

/// Returns the fields of a form in which the entries of lists and maps have names in brackets. Empty values of nested entries are left
/// out, except for texts.
pub(super) fn fields(body: &Map) -> Vec<(String, Value)> {
    let mut fields = Vec::new();
    for (name, value) in body.iter() {
        add(name.to_string(), value, &mut fields);
    }
    fields
}

fn add(name: String, value: &Value, fields: &mut Vec<(String, Value)>) {
    match value {
        Value::Null => {}
        Value::List(list) => {
            for (index, item) in list.0.iter().enumerate() {
                add(format!("{name}[{index}]"), item, fields);
            }
        }
        Value::Map(map) => {
            for (key, inner) in map.iter() {
                add(format!("{name}[{key}]"), inner, fields);
            }
        }
        plain => fields.push((name, plain.clone())),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use value::JsonLimits;

    use super::*;

    #[test]
    fn nested_entries_have_bracketed_names_in_order() {
        let json = r#"{"a": 1, "items": [{"price": "p", "none": null}, {"tiers": [1, 2]}], "meta": {"k": ""}, "empty": []}"#;
        let body = Value::from_json(json.as_bytes(), JsonLimits::default()).expect("JSON");
        let fields = fields(body.as_map().expect("a map"));
        let shown: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", value.to_text())).collect();
        assert_eq!(
            shown,
            ["a=1", "items[0][price]=p", "items[1][tiers][0]=1", "items[1][tiers][1]=2", "meta[k]="]
        );
    }
}
