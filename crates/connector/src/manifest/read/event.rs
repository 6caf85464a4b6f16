//! Reads the events of a manifest: polled lists and webhook subscriptions, defined by its own actions.

use std::sync::Arc;
use std::time::Duration;

use model::{InputSpec, ResultType};
use text::Span;
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Entry, Field, MapReader};
use value::{Map, Value};

use super::check_identifier;
use crate::action::Action;
use crate::connection::ConnectionType;
use crate::event::{
    EventSource, EventSpec, PolledEvent, Since, SubscribedEvent, SubscriptionListing, SubscriptionRenewal,
};
use crate::input::convert_value;
use crate::manifest::Head;

/// The default polling interval.
const USUAL_PERIOD: Duration = Duration::from_secs(5 * 60);
/// The default time before the end of a subscription at which it is renewed.
const USUAL_BEFORE: Duration = Duration::from_secs(60 * 60);
/// The default time by which a record may appear late.
const USUAL_OVERLAP: Duration = Duration::from_secs(2 * 60);

/// Reads the `events` section of a manifest with these actions.
pub(super) fn read(
    field: Field<'_, '_>,
    head: &Head,
    (actions, connections): (&[Arc<dyn Action>], &[ConnectionType]),
    diagnostics: &Diagnostics,
) -> Vec<EventSpec> {
    let entries = field.entries().into_iter().flatten();
    let context = EventContext { head, actions, connections, diagnostics };
    entries.filter_map(|entry| event(entry, &context)).collect()
}

struct EventContext<'a> {
    head: &'a Head,
    actions: &'a [Arc<dyn Action>],
    connections: &'a [ConnectionType],
    diagnostics: &'a Diagnostics,
}

fn event(entry: &Entry, context: &EventContext<'_>) -> Option<EventSpec> {
    check_identifier(&entry.key, entry.key_span, context.diagnostics);
    let mut reader = MapReader::new(&entry.value, "an event", context.diagnostics)?;
    let title = reader.required("title").name().unwrap_or_default().to_owned();
    let description = reader.take("description").name().map(str::to_owned);
    let named = reader.take("inputs").items().unwrap_or_default();
    let named: Vec<(&str, Span)> =
        named.into_iter().filter_map(|item| Some((item.name()?, item.span()?))).collect();
    let kind = reader.exactly_one_of(&["poll", "hook"]);
    let source = match kind {
        Some("poll") => reader.take("poll").map("a poll").and_then(|reader| context.polled(reader, &named)),
        Some(_) => reader.take("hook").map("a hook").and_then(|reader| context.subscribed(reader, &named)),
        None => None,
    };
    reader.finish();
    let (source, inputs) = source?;
    Some(EventSpec {
        name: format!("{}.{}", context.head.name, entry.key),
        title,
        description,
        connections: context.head.connection_types.clone(),
        connection_required: context.head.connection_required,
        inputs,
        results: None,
        source,
    })
}

impl EventContext<'_> {
    fn polled(
        &self,
        mut reader: MapReader<'_, '_>,
        named: &[(&str, Span)],
    ) -> Option<(EventSource, Vec<InputSpec>)> {
        let action = self.action(reader.required("action"));
        let with = self.with(reader.take("with"), action);
        let items = reader.required("items").name().unwrap_or_default().to_owned();
        let id = texts(reader.required("id"));
        let time = reader.required("time").name().unwrap_or_default().to_owned();
        let created = reader.take("created").map("how new records are told").map(|mut reader| {
            let path = reader.required("path").name().unwrap_or_default().to_owned();
            let is = reader.required("is").node().map(|node| Value::from_serde(node.to_json()));
            reader.finish();
            (path, is.unwrap_or(Value::Null))
        });
        let record = reader.take("record").name().map(str::to_owned);
        let since = reader.take("since").map("how a list begins").map(|mut since| {
            let input = self.input_of(since.required("input"), action);
            let newest = since.take("newest");
            let newest = newest.name().is_some().then(|| self.input_of(newest, action));
            let overlap = since.take("overlap");
            let overlap = overlap.name().is_some().then(|| self.input_of(overlap, action));
            let trigger = since.take("trigger");
            let trigger = trigger.name().is_some().then(|| self.input_of(trigger, action));
            let position = since.take("position").name().map(str::to_owned);
            since.finish();
            Since { input, newest, overlap, trigger, position }
        });
        let own_cursor = reader.take("cursor");
        let own_cursor = own_cursor.name().is_some().then(|| self.input_of(own_cursor, action));
        let wake = reader.take("wake");
        let wake = wake.name().is_some().then(|| self.input_of(wake, action));
        let every = reader.take("every").duration().unwrap_or(USUAL_PERIOD);
        let overlap = reader.take("overlap").duration().unwrap_or(USUAL_OVERLAP);
        reader.finish();
        let action = action?;
        let inputs = self.inputs(named, &[action]);
        let cursor = own_cursor.or_else(|| self.cursor_of(action));
        let action = action.spec().name.clone();
        let poll = PolledEvent {
            action,
            with,
            cursor,
            items,
            id,
            time,
            created,
            record,
            since,
            wake,
            every,
            overlap,
        };
        Some((EventSource::Poll(poll), inputs))
    }

    fn subscribed(
        &self,
        mut reader: MapReader<'_, '_>,
        named: &[(&str, Span)],
    ) -> Option<(EventSource, Vec<InputSpec>)> {
        let subscribe = self.action(reader.required("subscribe"));
        let with = self.with(reader.take("with"), subscribe);
        let url = self.input_of(reader.required("url"), subscribe);
        let (mut secret, mut verify_secret, mut secret_from) = (None, None, None);
        match reader.exactly_one_of(&["secret", "verifySecret", "secretFrom"]) {
            Some("verifySecret") => {
                verify_secret = Some(self.connection_secret(reader.take("verifySecret")));
            }
            Some("secretFrom") => {
                secret_from = self.result_path(reader.take("secretFrom"), subscribe, true);
            }
            _ => secret = Some(self.input_of(reader.take("secret"), subscribe)),
        }
        let id = self.result_path(reader.required("id"), subscribe, false).unwrap_or_default();
        if let Some((name, span)) = named.iter().find(|(name, _)| *name == url) {
            let message = format!("`{name}` is the input for the address, which an author does not set");
            let diagnostic = Diagnostic::error("wrong-place", message, *span);
            self.diagnostics.push(diagnostic.help("remove it from `inputs`, or name another input in `url`"));
        }
        let unsubscribe = self.action(reader.required("unsubscribe"));
        let id_input = reader.take("idInput");
        let id_input = id_input.is_present().then(|| self.input_of(id_input, unsubscribe));
        let list = reader
            .take("list")
            .map("how subscriptions are listed")
            .and_then(|list| self.listed(list))
            .map(Box::new);
        let renew = reader.take("renew").map("how a subscription is renewed");
        let renew = renew.and_then(|reader| self.renewed(reader, subscribe)).map(Box::new);
        let verify = reader.required("verify").name().unwrap_or_default().to_owned();
        let challenge = reader.take("challenge").name().map(str::to_owned);
        let (delivery, delivery_path) = self.delivery(reader.take("delivery"));
        self.check_presets(&verify, challenge.as_deref(), &reader);
        let only = reader.take("only").map("what a request is about").map(|mut reader| {
            let header = reader.required("header").name().unwrap_or_default().to_ascii_lowercase();
            let is = reader.required("is").name().unwrap_or_default().to_owned();
            reader.finish();
            (header, is)
        });
        reader.finish();
        let (subscribe, unsubscribe) = (subscribe?, unsubscribe?);
        // The call that unsubscribes gets those inputs that it has.
        let inputs = self.inputs(named, &[subscribe]);
        let [subscribe, unsubscribe] = [subscribe, unsubscribe].map(|action| action.spec().name.clone());
        let hook = SubscribedEvent {
            subscribe,
            with,
            url,
            secret,
            verify_secret,
            secret_from,
            id,
            unsubscribe,
            id_input,
            list,
            renew,
            verify,
            challenge,
            delivery,
            delivery_path,
            only,
        };
        Some((EventSource::Hook(hook), inputs))
    }

    /// Reads a path in the result of an action, and reports one at which its type has nothing, or no text.
    fn result_path(
        &self,
        field: Field<'_, '_>,
        action: Option<&dyn Action>,
        is_text: bool,
    ) -> Option<String> {
        let path = field.name()?;
        // A key with a dot in it is looked for as a whole.
        let Some(action) = action.filter(|_| !path.contains('@')) else { return Some(path.to_owned()) };
        let mut kind = action.spec().results.clone();
        for part in path.split('.') {
            kind = match member(&kind, part) {
                Ok(next) => next,
                Err(known) => {
                    let message = format!("the result of `{}` has no `{path}`", action.spec().name);
                    let span = field.span()?;
                    self.diagnostics
                        .push(Diagnostic::error("unknown-field", message, span).expected_names(part, known));
                    return Some(path.to_owned());
                }
            };
        }
        let may_be_text = |kind: &ResultType| {
            matches!(kind, ResultType::Any | ResultType::Text | ResultType::Choice { .. })
        };
        if is_text && !kind.alternatives().iter().any(may_be_text) && kind != ResultType::Null {
            let message = format!(
                "`{path}` of the result of `{}` is {}, and no text",
                action.spec().name,
                kind.describe()
            );
            field.error("wrong-place", message);
        }
        Some(path.to_owned())
    }

    /// Reads the name of an input that all connection types have as a secret.
    fn connection_secret(&self, field: Field<'_, '_>) -> String {
        let name = field.name().unwrap_or_default();
        let lacks = |kind: &&ConnectionType| !kind.input(name).is_some_and(|input| input.secret);
        let lacking = self.connections.iter().find(lacks).map(|kind| kind.name.as_str());
        if let Some(kind) = lacking.or(self.connections.is_empty().then_some("none")) {
            let message =
                format!("`{name}` is not a secret input of each connection type: `{kind}` has none");
            field.error("unknown-input", message);
        }
        name.to_owned()
    }

    /// Reports presets that no event can have.
    fn check_presets(&self, verify: &str, challenge: Option<&str>, reader: &MapReader<'_, '_>) {
        let error = |key, message: String, help| {
            let diagnostic = Diagnostic::error("unknown-value", message, reader.key_span(key));
            self.diagnostics.push(diagnostic.help(help));
        };
        if !verify.is_empty() && language::load::event_webhook(verify, None, "x").is_none() {
            let help = "the presets are those of `webhook.verify` that take one secret";
            error("verify", format!("`{verify}` is no preset by which requests are verified"), help);
        } else if let Some(challenge) = challenge
            && language::load::event_webhook(verify, Some(challenge), "x").is_none()
        {
            let help = "the presets are those of `webhook.challenge` that need nothing else";
            error("challenge", format!("`{challenge}` is no preset by which challenges are answered"), help);
        }
    }

    /// Reads how a subscription is renewed.
    fn renewed(
        &self,
        mut reader: MapReader<'_, '_>,
        subscribe: Option<&dyn Action>,
    ) -> Option<SubscriptionRenewal> {
        let action = self.action(reader.required("action"));
        let with = self.with(reader.take("with"), action);
        let id_input = reader.take("idInput");
        let id_input = id_input.is_present().then(|| self.input_of(id_input, action));
        let until = reader.take("until");
        let until = until.is_present().then(|| {
            self.input_of(until, subscribe);
            self.input_of(until, action)
        });
        let expires = reader.take("expires").name().map(str::to_owned);
        let lasts = reader.required("lasts").duration();
        let before = reader.take("before").duration().unwrap_or(USUAL_BEFORE);
        if lasts.is_some_and(|lasts| lasts <= before) {
            let message =
                "a subscription has to last longer than the time before its end at which it is renewed";
            let diagnostic = Diagnostic::error("wrong-place", message, reader.key_span("lasts"));
            self.diagnostics.push(diagnostic.help("give a longer `lasts`, or a shorter `before`"));
        }
        reader.finish();
        let (action, lasts) = (action?.spec().name.clone(), lasts?);
        Some(SubscriptionRenewal { action, with, id_input, until, lasts, expires, before })
    }

    /// Reads the place of the delivery id: the name of a header, or `{body: path}`.
    fn delivery(&self, field: Field<'_, '_>) -> (Option<String>, Option<String>) {
        let Some(node) = field.node().filter(|node| node.as_map().is_some()) else {
            return (field.name().map(str::to_ascii_lowercase), None);
        };
        let Some(mut reader) = MapReader::new(node, "the place of a delivery's id", self.diagnostics) else {
            return (None, None);
        };
        let path = reader.required("body").name().map(str::to_owned);
        reader.finish();
        (None, path)
    }

    fn listed(&self, mut reader: MapReader<'_, '_>) -> Option<SubscriptionListing> {
        let action = self.action(reader.required("action"));
        let with = self.with(reader.take("with"), action);
        let items = reader.take("items").name().unwrap_or("results").to_owned();
        let url = reader.required("url").name().unwrap_or_default().to_owned();
        reader.finish();
        let action = action?;
        let cursor = self.cursor_of(action);
        Some(SubscriptionListing { action: action.spec().name.clone(), with, cursor, items, url })
    }

    /// Returns the input of an action for the cursor of the next page; `None` if it has none.
    fn cursor_of(&self, action: &dyn Action) -> Option<String> {
        let paging = self.head.paging.as_ref().map(|paging| paging.input.clone());
        paging.filter(|name| input(action, name).is_some())
    }

    fn action(&self, field: Field<'_, '_>) -> Option<&dyn Action> {
        let name = field.name()?;
        let prefix = format!("{}.", self.head.name);
        let names = || self.actions.iter().filter_map(|action| action.spec().name.strip_prefix(&prefix));
        let found = self.actions.iter().find(|action| action.spec().name.strip_prefix(&prefix) == Some(name));
        if found.is_none() {
            let message = format!("`{name}` is not an action of this connector");
            let diagnostic = Diagnostic::error("unknown-action", message, field.span().unwrap_or_default());
            self.diagnostics.push(diagnostic.expected_names(name, names()));
        }
        found.map(AsRef::as_ref)
    }

    /// Reads the name of an input of the action.
    fn input_of(&self, field: Field<'_, '_>, action: Option<&dyn Action>) -> String {
        let name = field.name().unwrap_or_default();
        if let Some(action) = action.filter(|_| !name.is_empty()) {
            self.expect_input(name, field.span().unwrap_or_default(), action);
        }
        name.to_owned()
    }

    fn with(&self, field: Field<'_, '_>, action: Option<&dyn Action>) -> Map {
        let mut with = Map::new();
        for entry in field.entries().into_iter().flatten() {
            let value = Value::from_serde(entry.value.to_json());
            if let Some(spec) =
                action.and_then(|action| self.expect_input(&entry.key, entry.key_span, action))
                && let Err(words) = convert_value(&spec.kind, &value)
            {
                let message = format!("the input `{}` {words}", entry.key);
                self.diagnostics.push(Diagnostic::error("wrong-input", message, entry.value.head()));
            }
            with.insert(entry.key.as_str(), value);
        }
        with
    }

    /// Returns the inputs that authors may set; each must be an input of all of the actions.
    fn inputs(&self, named: &[(&str, Span)], actions: &[&dyn Action]) -> Vec<InputSpec> {
        let of = |(name, span): &(&str, Span)| {
            let specs: Option<Vec<_>> =
                actions.iter().map(|action| self.expect_input(name, *span, *action)).collect();
            specs?.first().map(|spec| (*spec).clone())
        };
        named.iter().filter_map(of).collect()
    }

    fn expect_input<'a>(&self, name: &str, span: Span, action: &'a dyn Action) -> Option<&'a InputSpec> {
        let found = input(action, name);
        if found.is_none() {
            let message = format!("`{name}` is not an input of `{}`", action.spec().name);
            let names = action.spec().inputs.iter().map(|input| input.name.as_str());
            self.diagnostics
                .push(Diagnostic::error("unknown-input", message, span).expected_names(name, names));
        }
        found
    }
}

/// Returns the type of a member. Of a type that does not declare it, the names that it declares, if one of them is probably meant or it
/// has no others.
fn member<'t>(kind: &'t ResultType, name: &str) -> Result<ResultType, Vec<&'t str>> {
    let (mut names, mut is_open) = (Vec::new(), false);
    for kind in kind.alternatives() {
        match kind {
            ResultType::Any => return Ok(ResultType::Any),
            ResultType::Map { values } => return Ok((**values).clone()),
            ResultType::Object(object) => {
                if let Some(field) = object.field(name) {
                    return Ok(field.kind.clone());
                }
                is_open |= object.open;
                names.extend(object.names());
            }
            ResultType::List { items } if name.parse::<usize>().is_ok() => return Ok((**items).clone()),
            _ => {}
        }
    }
    let is_meant = text::diagnostic::nearest(name, names.iter().copied()).is_some();
    if is_open && !is_meant { Ok(ResultType::Any) } else { Err(names) }
}

fn input<'a>(action: &'a dyn Action, name: &str) -> Option<&'a InputSpec> {
    action.spec().inputs.iter().find(|input| input.name == name)
}

fn texts(field: Field<'_, '_>) -> Vec<String> {
    let items = field.one_or_more().unwrap_or_default();
    items.into_iter().filter_map(|item| item.name().map(str::to_owned)).collect()
}
