//! The vocabulary of a service: terms in which it differs from its manifest. One manifest serves several services,
//! and the connection names the terms of its own.

use model::action::{InputSpec, InputType, ObjectType, ResultType};
use value::{Key, List, Map, Value};

/// Manifest terms with the service's terms for them. Terms that are equal on both sides are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Vocabulary(Vec<(String, String)>);

impl Vocabulary {
    pub(crate) fn new(terms: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(
            terms
                .into_iter()
                .filter(|(manifest, service)| !service.is_empty() && manifest != service)
                .collect(),
        )
    }

    /// True if the service uses the manifest's terms.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Translates the options of choices in inputs to the service's terms.
    pub(crate) fn to_service(&self, specs: &[InputSpec], inputs: &Map) -> Map {
        let mut sent = inputs.clone();
        for spec in specs {
            if let Some(value) = sent.get_mut(&spec.name) {
                *value = self.value_to_service(&spec.kind, std::mem::take(value));
            }
        }
        sent
    }

    fn value_to_service(&self, kind: &InputType, value: Value) -> Value {
        match (kind, value) {
            (InputType::Choice { .. }, Value::String(text)) => match self.service_term(&text) {
                Some(term) => Value::from(term),
                None => Value::String(text),
            },
            (InputType::List { items }, Value::List(list)) => {
                map_items(&list, |item| self.value_to_service(items, item))
            }
            (InputType::Object { fields }, Value::Map(map)) => Value::from(self.to_service(fields, &map)),
            (InputType::Map { values }, Value::Map(map)) => {
                let sent = map
                    .iter()
                    .map(|(key, value)| (key.clone(), self.value_to_service(values, value.clone())));
                Value::from(sent.collect::<Map>())
            }
            (_, value) => value,
        }
    }

    /// Translates the options of choices and the keys of maps in a response to the manifest's terms.
    pub(crate) fn value_from_service(&self, kind: &ResultType, value: Value) -> Value {
        match (kind, value) {
            (ResultType::Choice { .. }, Value::String(text)) => match self.manifest_term(&text) {
                Some(term) => Value::from(term),
                None => Value::String(text),
            },
            (ResultType::List { items }, Value::List(list)) => {
                map_items(&list, |item| self.value_from_service(items, item))
            }
            (ResultType::Map { values }, Value::Map(map)) => {
                let entries = map
                    .iter()
                    .map(|(key, value)| (key.clone(), self.value_from_service(values, value.clone())));
                Value::from(entries.collect::<Map>())
            }
            (ResultType::Object(object), Value::Map(map)) => {
                Value::from(self.object_from_service(object, &map))
            }
            (ResultType::OneOf { types }, value) => {
                types.iter().fold(value, |value, kind| self.value_from_service(kind, value))
            }
            (_, value) => value,
        }
    }

    fn object_from_service(&self, object: &ObjectType, map: &Map) -> Map {
        let entries = map.iter().map(|(key, value)| {
            let term =
                self.manifest_term(key).filter(|term| object.fields.iter().any(|field| field.name == *term));
            let name = term.map_or_else(|| key.clone(), Key::from);
            let field = object.fields.iter().find(|field| *field.name == *name);
            let value = value.clone();
            (
                name,
                field.map_or_else(
                    || value.clone(),
                    |field| self.value_from_service(&field.kind, value.clone()),
                ),
            )
        });
        entries.collect()
    }

    fn service_term(&self, term: &str) -> Option<&str> {
        self.0.iter().find(|(manifest, _)| manifest == term).map(|(_, service)| service.as_str())
    }

    fn manifest_term(&self, term: &str) -> Option<&str> {
        self.0.iter().find(|(_, service)| service == term).map(|(manifest, _)| manifest.as_str())
    }
}

fn map_items(list: &List, change: impl Fn(Value) -> Value) -> Value {
    Value::from(list.0.iter().cloned().map(change).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::action::ResultField;
    use pretty_assertions::assert_eq;
    use value::JsonLimits;

    use super::*;

    fn vocabulary() -> Vocabulary {
        Vocabulary::new([("neutral".to_owned(), "acme".to_owned()), ("same".to_owned(), "same".to_owned())])
    }

    fn json(text: &str) -> Value {
        Value::from_json(text.as_bytes(), JsonLimits::default()).expect("JSON")
    }

    fn input(name: &str, kind: InputType) -> InputSpec {
        InputSpec { name: name.to_owned(), kind, required: false, default: None, description: None }
    }

    #[test]
    fn choices_are_sent_in_the_services_vocabulary_and_texts_unchanged() {
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
        let sent = Value::from(vocabulary().to_service(&specs, given.as_map().expect("a map"))).to_json();
        let expected =
            r#"{"format":"acme","formats":["other","acme"],"body":{"format":"acme"},"title":"neutral"}"#;
        assert_eq!(sent, expected);
    }

    #[test]
    fn responses_are_translated_to_the_manifests_vocabulary() {
        let choice = ResultType::Choice { options: ["neutral".to_owned()].into() };
        let object = |fields: Vec<ResultField>| {
            ResultType::Object(Arc::new(ObjectType { fields, ..ObjectType::default() }))
        };
        let body =
            object(vec![ResultField::new("format", choice), ResultField::new("value", ResultType::Text)]);
        let kind = ResultType::List { items: Arc::new(object(vec![ResultField::new("neutral", body)])) };
        let answer = json(r#"[{"acme":{"format":"acme","value":"acme"},"more":1}]"#);
        let expected = r#"[{"neutral":{"format":"neutral","value":"acme"},"more":1}]"#;
        assert_eq!(vocabulary().value_from_service(&kind, answer).to_json(), expected);
        assert!(Vocabulary::new([("same".to_owned(), "same".to_owned())]).is_empty());
    }
}
