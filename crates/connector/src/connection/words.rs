//! The vocabulary of a service: terms in which it differs from its manifest. One manifest serves several services,
//! and the connection names the terms of its own.

use model::action::{InputSpec, InputType, ObjectType, ResultType};
use model::value::{Key, List, Map, Value};

/// Manifest terms with the service's terms for them. Terms that are equal on both sides are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Words(Vec<(String, String)>);

impl Words {
    pub(crate) fn new(words: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(words.into_iter().filter(|(ours, own)| !own.is_empty() && ours != own).collect())
    }

    /// True if the service uses the manifest's terms.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Translates the options of choices in inputs to the service's terms.
    pub(crate) fn sent(&self, specs: &[InputSpec], inputs: &Map) -> Map {
        let mut sent = inputs.clone();
        for spec in specs {
            if let Some(value) = sent.get_mut(&spec.name) {
                *value = self.sent_value(&spec.kind, std::mem::take(value));
            }
        }
        sent
    }

    fn sent_value(&self, kind: &InputType, value: Value) -> Value {
        match (kind, value) {
            (InputType::Choice { .. }, Value::String(text)) => match self.own(&text) {
                Some(own) => Value::from(own),
                None => Value::String(text),
            },
            (InputType::List { items }, Value::List(list)) => {
                each(&list, |item| self.sent_value(items, item))
            }
            (InputType::Object { fields }, Value::Map(map)) => Value::from(self.sent(fields, &map)),
            (InputType::Map { values }, Value::Map(map)) => {
                let sent =
                    map.iter().map(|(key, value)| (key.clone(), self.sent_value(values, value.clone())));
                Value::from(sent.collect::<Map>())
            }
            (_, value) => value,
        }
    }

    /// Translates the options of choices and the keys of maps in a response to the manifest's terms.
    pub(crate) fn read(&self, kind: &ResultType, value: Value) -> Value {
        match (kind, value) {
            (ResultType::Choice { .. }, Value::String(text)) => match self.ours(&text) {
                Some(ours) => Value::from(ours),
                None => Value::String(text),
            },
            (ResultType::List { items }, Value::List(list)) => each(&list, |item| self.read(items, item)),
            (ResultType::Map { values }, Value::Map(map)) => {
                let read = map.iter().map(|(key, value)| (key.clone(), self.read(values, value.clone())));
                Value::from(read.collect::<Map>())
            }
            (ResultType::Object(object), Value::Map(map)) => Value::from(self.read_object(object, &map)),
            (ResultType::OneOf { types }, value) => {
                types.iter().fold(value, |value, kind| self.read(kind, value))
            }
            (_, value) => value,
        }
    }

    fn read_object(&self, object: &ObjectType, map: &Map) -> Map {
        let read = map.iter().map(|(key, value)| {
            let ours = self.ours(key).filter(|ours| object.fields.iter().any(|field| field.name == *ours));
            let name = ours.map_or_else(|| key.clone(), Key::from);
            let field = object.fields.iter().find(|field| *field.name == *name);
            let value = value.clone();
            (name, field.map_or_else(|| value.clone(), |field| self.read(&field.kind, value.clone())))
        });
        read.collect()
    }

    fn own(&self, ours: &str) -> Option<&str> {
        self.0.iter().find(|(word, _)| word == ours).map(|(_, own)| own.as_str())
    }

    fn ours(&self, own: &str) -> Option<&str> {
        self.0.iter().find(|(_, word)| word == own).map(|(ours, _)| ours.as_str())
    }
}

fn each(list: &List, change: impl Fn(Value) -> Value) -> Value {
    Value::from(list.0.iter().cloned().map(change).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::action::ResultField;
    use model::value::JsonLimits;
    use pretty_assertions::assert_eq;

    use super::*;

    fn words() -> Words {
        Words::new([("neutral".to_owned(), "acme".to_owned()), ("same".to_owned(), "same".to_owned())])
    }

    fn json(text: &str) -> Value {
        Value::from_json(text.as_bytes(), JsonLimits::default()).expect("JSON")
    }

    fn input(name: &str, kind: InputType) -> InputSpec {
        InputSpec { name: name.to_owned(), kind, required: false, default: None, description: None }
    }

    #[test]
    fn choices_are_sent_in_the_services_own_words_and_texts_as_they_are() {
        let choice = InputType::Choice { options: vec!["neutral".to_owned()] };
        let body = InputType::Object { fields: vec![input("format", choice.clone())] };
        let specs = [
            input("format", choice.clone()),
            input("formats", InputType::List { items: Box::new(choice) }),
            input("body", body),
            input("title", InputType::Text),
        ];
        let given = json(
            r#"{"format":"neutral","formats":["other","neutral"],"body":{"format":"neutral"},"title":"neutral"}"#,
        );
        let sent = Value::from(words().sent(&specs, given.as_map().expect("a map"))).to_json();
        let expected =
            r#"{"format":"acme","formats":["other","acme"],"body":{"format":"acme"},"title":"neutral"}"#;
        assert_eq!(sent, expected);
    }

    #[test]
    fn what_is_answered_is_read_in_the_manifests_words() {
        let choice = ResultType::Choice { options: ["neutral".to_owned()].into() };
        let object = |fields: Vec<ResultField>| {
            ResultType::Object(Arc::new(ObjectType { fields, ..ObjectType::default() }))
        };
        let body =
            object(vec![ResultField::new("format", choice), ResultField::new("value", ResultType::Text)]);
        let kind = ResultType::List { items: Arc::new(object(vec![ResultField::new("neutral", body)])) };
        let answer = json(r#"[{"acme":{"format":"acme","value":"acme"},"more":1}]"#);
        let expected = r#"[{"neutral":{"format":"neutral","value":"acme"},"more":1}]"#;
        assert_eq!(words().read(&kind, answer).to_json(), expected);
        assert!(Words::new([("same".to_owned(), "same".to_owned())]).is_empty());
    }
}
