//! Lints: findings in the tree of a readable file that are probably mistakes. None is an error; the file is
//! used nevertheless.

mod bare_expression;
mod comment_in_text;
pub(super) mod constant;
mod credential;
mod glued_json;
mod no_effect;
mod number_form;
mod unused;
mod yaml11_scalars;

pub(super) use bare_expression::begins_with_root;

use super::trigger::webhook::is_unverified;
use model::automation::{Automation, Step, Verb};
use std::collections::{HashMap, HashSet};
use text::diagnostic::{Diagnostic, Source, Span};
use text::yaml::{Entry, Kind, Node};

/// Keys whose values authors choose freely.
const VALUE_KEYS: [&str; 10] =
    ["with", "set", "configVars", "outputs", "json", "body", "message", "fail", "result", "headers"];

/// The steps of a file by their start.
type StepHeads<'a> = HashMap<Span, &'a Step>;

/// Lints an Automation as far as it was read. `whole` is true if the file has no error so far.
pub(super) fn automation(
    node: &Node,
    source: &Source,
    automation: Option<&Automation>,
    whole: bool,
) -> Vec<Diagnostic> {
    let mut steps = StepHeads::new();
    if let Some(automation) = automation {
        automation.walk(&mut |step| {
            steps.insert(step.span, step);
        });
    }
    let mut found = tree(node, source, &steps, automation, true);
    found.extend(automation.into_iter().flat_map(|automation| unverified(node, automation)));
    found.extend(
        automation.filter(|_| whole).into_iter().flat_map(|automation| unused::check(node, automation)),
    );
    found
}

/// Reports a webhook that anyone who knows its address can start, unless the author declared that.
fn unverified(node: &Node, automation: &Automation) -> Vec<Diagnostic> {
    let list = node.get("triggers").and_then(Node::as_list).unwrap_or_default();
    let nodes: Vec<&Node> = node.get("trigger").into_iter().chain(list).collect();
    // The triggers that were read, which does not include one of two kinds.
    let is_read = |span: Span| automation.triggers.iter().any(|trigger| trigger.span == span);
    let webhooks = nodes.into_iter().filter_map(|node| node.as_map()?.entry("webhook"));
    let unverified = webhooks.filter(|webhook| is_unverified(&webhook.value) && is_read(webhook.key_span));
    let report = |webhook: &Entry| {
        let message = "whoever learns the address of this webhook can start it: nothing verifies the sender";
        Diagnostic::warning("unverified-webhook", message, webhook.key_span).help(
            "add `verify: {preset: hmac, secret: \"${{ secrets.NAME }}\"}`, with the preset of the sender; or `verify: none` if the \
             secret in the address is enough",
        )
    };
    unverified.map(report).collect()
}

/// Lints a connection.
pub(super) fn connection(node: &Node, source: &Source) -> Vec<Diagnostic> {
    tree(node, source, &StepHeads::new(), None, true)
}

/// Lints a file whose values hold no expressions.
pub(super) fn file(node: &Node, source: &Source) -> Vec<Diagnostic> {
    tree(node, source, &StepHeads::new(), None, false)
}

/// Lints the tree of any file. A node repeated by aliases is reported once. `has_templates` is true if its values may
/// contain expressions.
fn tree(
    node: &Node,
    source: &Source,
    steps: &StepHeads<'_>,
    automation: Option<&Automation>,
    has_templates: bool,
) -> Vec<Diagnostic> {
    let mut walk = Walk {
        source,
        steps,
        automation,
        has_templates,
        step: None,
        action: None,
        keys: Vec::new(),
        key: Span::default(),
        items: Vec::new(),
        flow: 0,
        places: Vec::new(),
        found: Vec::new(),
    };
    walk.node(node);
    let mut found: Vec<Diagnostic> = credential::in_text(source).map(|found| walk.placed(found)).collect();
    // A token under a key such as `password` is reported once, by its format.
    let told: Vec<Span> = found.iter().map(|diagnostic| diagnostic.span).collect();
    let apart = |place: Span| told.iter().all(|told| place.end <= told.start || told.end <= place.start);
    let more = walk.found.into_iter().filter(|more| more.code != credential::CODE || apart(more.span));
    found.extend(more);
    let mut seen = HashSet::new();
    found.retain(|diagnostic| seen.insert((diagnostic.span, diagnostic.code)));
    found
}

struct Walk<'a> {
    source: &'a Source,
    steps: &'a StepHeads<'a>,
    automation: Option<&'a Automation>,
    /// The innermost enclosing step.
    step: Option<&'a str>,
    /// The action of the innermost enclosing step.
    action: Option<&'a str>,
    /// True if values may contain expressions.
    has_templates: bool,
    /// The enclosing keys, outermost first.
    keys: Vec<&'a str>,
    /// The span of the innermost key.
    key: Span,
    /// The item names of the enclosing loops.
    items: Vec<&'a str>,
    /// The number of enclosing `{ }` and `[ ]`.
    flow: usize,
    /// The spans of the steps visited so far, outer ones after those inside them.
    places: Vec<(Span, &'a str)>,
    found: Vec<Diagnostic>,
}

impl<'a> Walk<'a> {
    /// Follows a value down; its depth is bounded by the parser.
    fn node(&mut self, node: &'a Node) {
        let is_flow = self.source.slice(node.span).starts_with(['{', '[']);
        self.flow += usize::from(is_flow);
        match &node.kind {
            Kind::Map(map) => {
                let step = self.steps.get(&node.head()).copied();
                let own = step.map(|step| step.id.as_ref());
                let outer = (self.step, self.action);
                self.step = own.or(outer.0);
                if let Some(step) = step {
                    self.action = match &step.verb {
                        Verb::Action(call) => Some(call.action.name.as_str()),
                        _ => None,
                    };
                }
                if let Some(step) = step {
                    no_effect::check(map, step, self.closing())
                        .into_iter()
                        .for_each(|found| self.say(Some(found)));
                }
                let items = self.items.len();
                if let Some(Verb::ForEach(each)) = step.map(|step| &step.verb) {
                    self.items.push(&each.item);
                }
                map.iter().for_each(|entry| self.entry(entry));
                self.items.truncate(items);
                (self.step, self.action) = outer;
                self.places.extend(own.map(|id| (node.span, id)));
            }
            Kind::List(items) => items.iter().for_each(|item| self.node(item)),
            _ => self.scalar(node),
        }
        self.flow -= usize::from(is_flow);
    }

    fn scalar(&mut self, node: &'a Node) {
        self.say(yaml11_scalars::value(node, self.source));
        if !self.has_templates {
            return;
        }
        let key = self.keys.last().copied().unwrap_or_default();
        self.say(number_form::check(node, key, self.source));
        let is_value = self.keys.iter().any(|key| VALUE_KEYS.contains(key));
        if is_value && self.flow == 0 {
            self.say(comment_in_text::check(node, self.key, self.source));
        }
        let Some(text) = node.as_text() else { return };
        let place = bare_expression::TextPlace {
            keys: &self.keys,
            in_flow: self.flow > 0,
            in_step: self.step.is_some(),
            items: &self.items,
            automation: self.automation,
        };
        let found = [
            bare_expression::check(text, node.span, &place),
            bare_expression::check_none(text, node.span, &place),
            glued_json::check(text, node.span, &place, self.action),
            no_effect::concurrency_key(text, node.span, &self.keys),
        ];
        // A bare name of a value is constant too.
        let is_bare = found[0].is_some();
        let found = found.into_iter().flatten().filter(|found| !is_bare || found.code != no_effect::CODE);
        found.map(Some).for_each(|found| self.say(found));
    }

    fn entry(&mut self, entry: &'a Entry) {
        let context = self.keys.last().copied().unwrap_or_default();
        self.say(yaml11_scalars::key(entry, context, self.source));
        let in_step = self.step.is_some();
        let written = credential::under_key(entry);
        let is_header = in_step && context.eq_ignore_ascii_case("headers");
        self.say(written.or_else(|| credential::in_header(entry).filter(|_| is_header)));
        self.keys.push(&entry.key);
        self.key = entry.key_span;
        self.node(&entry.value);
        self.keys.pop();
    }

    /// The key of the enclosing list in which nothing is ever undone.
    fn closing(&self) -> Option<&'static str> {
        let list = |name: &str| self.keys.first() == Some(&name);
        match () {
            () if list("onError") => Some("onError"),
            () if list("finally") => Some("finally"),
            () if self.keys.contains(&"undo") => Some("undo"),
            () if self.keys.contains(&"finally") => Some("finally"),
            () => None,
        }
    }

    fn say(&mut self, diagnostic: Option<Diagnostic>) {
        self.found
            .extend(diagnostic.map(|diagnostic| self.step.into_iter().fold(diagnostic, Diagnostic::step)));
    }

    /// Assigns a finding that was made without the tree to the step that contains it.
    fn placed(&self, found: Diagnostic) -> Diagnostic {
        let context = |place: &Span| place.start <= found.span.start && found.span.end <= place.end;
        let step = self.places.iter().find(|(place, _)| context(place)).map(|(_, step)| *step);
        step.into_iter().fold(found, Diagnostic::step)
    }
}
