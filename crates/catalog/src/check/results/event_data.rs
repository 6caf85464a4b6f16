//! Warns of data of an event that do not fit an automation which the event starts. Code: `event-data`.

use std::collections::BTreeSet;
use std::sync::Arc;

use connector::convert_input;
use expression::Template;
use language::load::{PathSegment, span_at_path};
use model::action::{InputSpec, InputType};
use model::automation::Step;
use model::{ResultType, action::ObjectType};
use text::diagnostic::{Diagnostic, Span, nearest};
use value::Value;

use super::{Checker, describe, inputs};
use crate::check::{Consumer, sent_event};

/// The data that a step sends.
enum SentData {
    /// Nothing is known before the step runs.
    Unknown,
    /// These fields.
    Fields {
        fields: Vec<(Arc<str>, Given)>,
        /// True if there are no others.
        is_whole: bool,
    },
    /// A value without fields.
    Other(ResultType),
}

/// A field of the data.
enum Given {
    Literal(Value),
    Computed(ResultType),
}

/// An event that a step sends with fields, and the key of the data if there are any.
struct Sent<'a> {
    event: &'a str,
    fields: &'a [(Arc<str>, Given)],
    is_whole: bool,
    /// Position of the data, or of the name if it sends none.
    span: Span,
    key: Option<Span>,
}

impl<'a> Checker<'a> {
    /// Compares the data that a step sends with the data that each automation declares for the event.
    pub(super) fn event_data(&mut self, step: &'a Step) {
        let Some(sent) = sent_event(&step.verb).filter(|sent| sent.is_whole) else { return };
        if self.types.is_unread(step, "with") {
            return;
        }
        let consumers = (self.consumers)(sent.name);
        if consumers.iter().all(|consumer| consumer.data.is_none()) {
            return;
        }
        let key = sent.data.map(|(key, _)| key.span);
        let at = key.unwrap_or(sent.key.span);
        let span = span_at_path(&self.automation.source, at, &[]).unwrap_or(at);
        match self.sent_data(sent.data.map(|(_, data)| data), step) {
            SentData::Unknown => {}
            SentData::Other(kind) => self.without_fields(sent.name, &kind, &consumers, span, step),
            SentData::Fields { fields, is_whole } => {
                let sent = Sent { event: sent.name, fields: &fields, is_whole, span, key };
                self.fields(&sent, &consumers, step);
            }
        }
    }

    /// Returns the fields of the data as far as they are known.
    fn sent_data(&self, data: Option<&'a Template>, step: &'a Step) -> SentData {
        let fields = |fields| SentData::Fields { fields, is_whole: true };
        match data {
            None => fields(Vec::new()),
            Some(Template::Literal(Value::Null)) => fields(Vec::new()),
            Some(Template::Literal(Value::Map(map))) => {
                let literal = |(name, value): (&value::Key, &Value)| {
                    (name.as_str().into(), Given::Literal(value.clone()))
                };
                fields(map.iter().map(literal).collect())
            }
            Some(Template::Map(entries)) => {
                let given = |template: &'a Template| match template {
                    Template::Literal(value) => Given::Literal(value.clone()),
                    template => Given::Computed(self.types.template(template, Some(step))),
                };
                fields(entries.iter().map(|(name, value)| (name.clone(), given(value))).collect())
            }
            Some(template) => computed_data(self.types.template(template, Some(step))),
        }
    }

    fn without_fields(
        &mut self,
        event: &str,
        kind: &ResultType,
        consumers: &[Consumer],
        span: Span,
        step: &'a Step,
    ) {
        let Some(consumer) = consumers.iter().find(|consumer| consumer.data.is_some()) else { return };
        let message =
            format!("the data of `{event}` are {} here; {} expects a map", describe(kind), consumer.path);
        let help = "write the values as fields: `data: {order: …}`";
        self.report(Diagnostic::warning("event-data", message, span).help(help), Some(step));
    }

    fn fields(&mut self, sent: &Sent<'_>, consumers: &[Consumer], step: &'a Step) {
        let misspelt = self.misspelt(sent, consumers, step);
        for Consumer { path, data, .. } in consumers {
            let mut missing = Vec::new();
            for spec in data.iter().flatten() {
                match sent.fields.iter().find(|(name, _)| **name == *spec.name) {
                    Some((_, given)) => self.field(sent, spec, given, path, step),
                    None if spec.required && sent.is_whole && !misspelt.contains(spec.name.as_str()) => {
                        missing.push(format!("`{}`", spec.name));
                    }
                    None => {}
                }
            }
            if !missing.is_empty() {
                let them = if missing.len() == 1 { "it" } else { "them" };
                let missing = missing.join(" and ");
                let message = format!("`{}` is sent without {missing}; {path} requires {them}", sent.event);
                let help = "add what is missing to `data`, or declare it there without `required`";
                self.report(Diagnostic::warning("event-data", message, sent.span).help(help), Some(step));
            }
        }
    }

    /// Warns of a field with a value that an automation does not take.
    fn field(&mut self, sent: &Sent<'_>, spec: &InputSpec, given: &Given, path: &str, step: &'a Step) {
        let found = match given {
            Given::Literal(value) if convert_input(spec, value).is_err() => match value {
                Value::String(text) if text.len() <= 40 => format!("the text `{text}`"),
                value => describe(&ResultType::infer(value)),
            },
            Given::Computed(kind) if inputs::never_fits(&spec.kind, kind) => describe(kind),
            Given::Literal(_) | Given::Computed(_) => return,
        };
        let name = &spec.name;
        let message = format!(
            "`{name}` of `{}` is {found} here; {path} expects {}",
            sent.event,
            with_article(&spec.kind)
        );
        let way = [PathSegment::Entry(name.clone())];
        let span = sent.key.and_then(|key| span_at_path(&self.automation.source, key, &way));
        let diagnostic = Diagnostic::warning("event-data", message, span.unwrap_or(sent.span));
        let help =
            "send what it expects, or change the type there; as it is, its executions fail with kind `input`";
        self.report(diagnostic.help(help), Some(step));
    }

    /// Warns of fields that no automation reads and that resemble one which is not sent. Returns the fields that are meant.
    fn misspelt<'c>(
        &mut self,
        sent: &Sent<'_>,
        consumers: &'c [Consumer],
        step: &'a Step,
    ) -> BTreeSet<&'c str> {
        let mut meant = BTreeSet::new();
        let Some(key) = sent.key.filter(|_| consumers.iter().all(|consumer| consumer.data.is_some())) else {
            return meant;
        };
        let specs = || {
            consumers.iter().flat_map(|consumer| {
                consumer.data.iter().flatten().map(move |spec| (spec.name.as_str(), &*consumer.path))
            })
        };
        let is_sent = |wanted: &str| sent.fields.iter().any(|(name, _)| **name == *wanted);
        for (name, _) in sent.fields {
            if specs().any(|(declared, _)| declared == &**name) {
                continue;
            }
            let free = specs().map(|(declared, _)| declared).filter(|declared| !is_sent(declared));
            let Some(near) = nearest(name, free) else { continue };
            let path = specs().find(|(declared, _)| *declared == near).map_or("", |(_, path)| path);
            let message = format!("no automation reads `{name}` of `{}`; {path} reads `{near}`", sent.event);
            let way = [PathSegment::Key(name.to_string())];
            let span = span_at_path(&self.automation.source, key, &way);
            let diagnostic = Diagnostic::warning("event-data", message, span.unwrap_or(sent.span));
            let diagnostic = if span.is_some() { diagnostic.nearest(Some(near)) } else { diagnostic };
            self.report(diagnostic, Some(step));
            meant.insert(near);
        }
        meant
    }
}

/// Returns the fields of data that an expression computes.
fn computed_data(kind: ResultType) -> SentData {
    let is_map = |kind: &&ResultType| matches!(kind, ResultType::Object(_));
    let alternatives = kind.alternatives();
    if let [ResultType::Object(object)] = alternatives {
        return fields_of(object);
    }
    let may_have_fields = |kind: &ResultType| {
        is_map(&kind) || matches!(kind, ResultType::Any | ResultType::Map { .. } | ResultType::Null)
    };
    if alternatives.iter().any(may_have_fields) { SentData::Unknown } else { SentData::Other(kind) }
}

fn fields_of(object: &ObjectType) -> SentData {
    let certain = object.fields.iter().filter(|field| !field.optional);
    let fields = certain.map(|field| (field.name.as_str().into(), Given::Computed(field.kind.clone())));
    let is_whole = !object.open && object.fields.iter().all(|field| !field.optional);
    SentData::Fields { fields: fields.collect(), is_whole }
}

/// Formats a declared type so that it can follow "expects".
fn with_article(kind: &InputType) -> String {
    match kind {
        InputType::Integer { .. } | InputType::Number => format!("a {}", kind.describe()),
        InputType::List { .. } => "a list".to_owned(),
        InputType::Map { .. } | InputType::Object { .. } => "a map".to_owned(),
        kind => kind.describe(),
    }
}
