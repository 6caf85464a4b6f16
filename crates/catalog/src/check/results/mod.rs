//! Checks the types of step results: the fields that expressions read, and the inputs that receive them.
//!
//! Reports only certain errors: undeclared results, computed values and partially parsed files have an unknown type,
//! which matches everything. Codes: `unknown-field`, `no-list`, `wrong-input`, `never-equal`, `unreachable-case`, `whole-step`, `event-data`.

mod compared;
mod event_data;
mod inputs;
mod operands;
mod pauses;
mod place;
mod resolve;
mod saved;
mod settings;
mod statuses;
#[cfg(test)]
mod tests;
mod trigger_data;
mod types;
mod whole_step;
#[cfg(test)]
mod word_tests;
mod words;

use std::collections::HashSet;

use connector::Registry;
use expression::template::Part;
use expression::{DirectPath, Expression, Link, Reference, Template};
use language::load::Unreadable;
use model::automation::setting::CONCURRENCY_LIMIT;
use model::automation::{
    ActionStep, Automation, DeclaredTrigger, Step, SwitchCases, SwitchStep, Trigger, Verb, WaitStep,
};
use model::{InputType, ResultType};
use text::Severity;
use text::diagnostic::{Diagnostic, Span};

use self::resolve::Unresolved;
pub(super) use self::resolve::{field_types, resolve};
pub(crate) use self::saved::body as saved_body;
pub(super) use self::types::Types;
pub(super) use self::words::Words;
use super::{Consumer, NameKind, Spelling};

/// Types from outside of the file.
pub(super) struct Surroundings<'a> {
    /// Returns the type of a webhook's body inferred from saved payloads.
    pub(super) saved: &'a dyn Fn(&DeclaredTrigger) -> Option<ResultType>,
    /// Returns the type of the results of a call whose statements are described; `None` for other calls.
    pub(super) described: &'a dyn Fn(&ActionStep) -> Option<ResultType>,
    /// Returns the type of the result of another automation; `None` if it is unknown.
    pub(super) called: &'a dyn Fn(&str) -> Option<ResultType>,
    /// Returns the triggers that an own event starts.
    pub(super) consumers: &'a dyn Fn(&str) -> Vec<Consumer>,
    /// Returns the project's spellings of a name, by its folded form.
    pub(super) spellings: &'a dyn Fn(NameKind, &str) -> Vec<Spelling>,
}

/// Checks all uses of step results in the file.
pub(super) fn check<'a>(
    automation: &'a Automation,
    unreadable: &'a Unreadable,
    registry: &'a Registry,
    surroundings: Surroundings<'a>,
) -> Vec<Diagnostic> {
    let (consumers, spellings) = (surroundings.consumers, surroundings.spellings);
    let types = Types::new(automation, unreadable, registry, surroundings);
    let mut checker = Checker {
        automation,
        registry,
        types,
        consumers,
        spellings,
        reported: HashSet::new(),
        found: Vec::new(),
    };
    checker.all();
    checker.found
}

struct Checker<'a> {
    automation: &'a Automation,
    registry: &'a Registry,
    types: Types<'a>,
    consumers: &'a dyn Fn(&str) -> Vec<Consumer>,
    spellings: &'a dyn Fn(NameKind, &str) -> Vec<Spelling>,
    /// Diagnostics already reported; an expression may read a path twice.
    reported: HashSet<(Span, &'static str)>,
    found: Vec<Diagnostic>,
}

impl<'a> Checker<'a> {
    fn all(&mut self) {
        let automation = self.automation;
        let mut steps = Vec::new();
        automation.walk(&mut |step| steps.push(step));
        for step in steps {
            let mut expressions = Vec::new();
            step.expressions(&mut |expression| expressions.push(expression));
            for expression in expressions {
                self.expression(expression, Some(step));
            }
            match &step.verb {
                Verb::Action(call) => self.inputs(call, step),
                Verb::ForEach(each) => self.items(&each.items, step),
                Verb::Switch(switch) => {
                    self.status_cases(switch, step);
                    self.cases(switch, step);
                }
                Verb::Wait(WaitStep::Computed(length)) => self.pause(length, step),
                Verb::Wait(WaitStep::Until(until)) => self.instant(until, step),
                Verb::WaitFor(wait) => wait.until.iter().for_each(|until| self.instant(until, step)),
                _ => {}
            }
            self.event_data(step);
            self.settings(step);
            self.whole_steps(step);
        }
        if let Some(outputs) = &automation.outputs {
            self.whole_step_in(outputs, true, None);
        }
        let mut outside = Vec::new();
        automation.outputs.iter().for_each(|outputs| outputs.expressions(&mut |found| outside.push(found)));
        if let Some(concurrency) = &automation.concurrency {
            concurrency.expressions(&mut |found| outside.push(found));
            let limit = concurrency.limit.expression().into_iter();
            limit.for_each(|limit| self.count(limit, &CONCURRENCY_LIMIT, None));
        }
        outside.into_iter().for_each(|expression| self.expression(expression, None));
        for trigger in &automation.triggers {
            self.types.starts(Some(trigger));
            trigger.condition.iter().for_each(|condition| self.expression(condition, None));
            if let Trigger::Event(event) = &trigger.on {
                event.stream.dedup.iter().for_each(|(by, _)| self.expression(by, None));
            }
            for (_, template) in trigger.input_templates() {
                template.expressions(&mut |expression| self.expression(expression, None));
            }
        }
        self.types.starts(None);
    }

    fn expression(&mut self, expression: &'a Expression, at: Option<&'a Step>) {
        self.operations(expression, self.is_condition(expression, at), at);
        if statuses::is_relevant(self.automation) {
            self.statuses(expression, at);
        }
        for compared in expression.comparisons() {
            if self.misspelt_words(expression, &compared, at) {
                continue;
            }
            let kind = |path: &Reference| self.types.reference(path, at);
            let span = self.part(expression, compared.operands[0].at.start..compared.end);
            if let Some(diagnostic) = compared::never(expression, &compared, &kind, span) {
                let mut paths = compared.operands.iter().filter_map(|operand| operand.path.as_ref());
                let whole = paths.find(|path| self.step_read(path).is_some());
                let help = whole.map(|path| {
                    format!("compare its result, or a field of it: `{}.results`", path.path.join("."))
                });
                self.report(help.into_iter().fold(diagnostic, Diagnostic::help), at);
            }
        }
        for reference in expression.references() {
            self.body_of_get(expression, reference, at);
            let Some((kind, depth)) = self.types.base(&reference.path, at) else { continue };
            let links: Vec<Link> = reference.links().collect();
            match resolve(&kind, &links[depth..]) {
                Ok(_) => self.undeclared_field(expression, &links, depth, &kind, at),
                Err(_) if self.handles_absence(expression, reference, at) => {}
                Err(unresolved) => {
                    let diagnostic =
                        self.unknown_field(expression, &links, depth + unresolved.at, &unresolved);
                    self.report(diagnostic, at);
                }
            }
        }
    }

    /// Returns true if the truth of the expression decides: a guard, a branch, the end of a loop, the filter of an event.
    fn is_condition(&self, expression: &Expression, at: Option<&Step>) -> bool {
        let is_it = |other: &Expression| std::ptr::eq(other, expression);
        let Some(step) = at else {
            return self
                .automation
                .triggers
                .iter()
                .filter_map(|trigger| trigger.condition.as_ref())
                .any(is_it);
        };
        let of_verb = match &step.verb {
            Verb::If(branch) => is_it(&branch.condition),
            Verb::WaitFor(wait) => wait.condition().is_some_and(is_it),
            Verb::Switch(SwitchStep { cases: SwitchCases::Conditions(cases), .. }) => {
                cases.iter().any(|case| is_it(&case.condition))
            }
            verb => verb.nested_blocks().iter().filter_map(|inner| inner.until).any(is_it),
        };
        of_verb || step.guard.as_ref().is_some_and(is_it)
    }

    /// Returns true if the expression handles the absence of a field that the file itself may or may not set.
    fn handles_absence(&self, expression: &Expression, reference: &Reference, at: Option<&'a Step>) -> bool {
        let is_query = expression.text().starts_with('$');
        reference.optional && !is_query && self.types.is_own(&reference.path, at)
    }

    /// Warns of an undeclared field that resembles a declared one. It may exist nevertheless.
    fn undeclared_field(
        &mut self,
        expression: &Expression,
        links: &[Link],
        depth: usize,
        kind: &ResultType,
        at: Option<&'a Step>,
    ) {
        let Some(unresolved) = resolve::first_undeclared(kind, &links[depth..]) else { return };
        let Some(Link::Name(name)) = links.get(depth + unresolved.at) else { return };
        if text::diagnostic::nearest(name, resolve::names(&unresolved.parent)).is_none() {
            return;
        }
        let mut diagnostic = self.unknown_field(expression, links, depth + unresolved.at, &unresolved);
        diagnostic.severity = Severity::Warning;
        diagnostic.message =
            format!("{} declares no field `{name}`", path_text(&links[..depth + unresolved.at]));
        self.report(diagnostic, at);
    }

    fn unknown_field(
        &self,
        expression: &Expression,
        links: &[Link],
        depth: usize,
        unresolved: &Unresolved,
    ) -> Diagnostic {
        let (span, exact) = place::locate(&self.automation.source, expression, links, depth);
        let parent = path_text(&links[..depth]);
        let error = |message: String| Diagnostic::error("unknown-field", message, span);
        let names = resolve::names(&unresolved.parent);
        match &links[depth] {
            Link::Name(name) if names == ["executionId"] => error(format!("{parent} has no field `{name}`"))
                .allowed(names)
                .help("with `async: true` nothing waits for the result: remove it to read the result"),
            Link::Name(name) if !names.is_empty() => {
                let diagnostic = error(format!("{parent} has no field `{name}`"));
                if exact {
                    return diagnostic.expected_names(name, names);
                }
                let near = text::diagnostic::nearest(name, names.iter().copied());
                let diagnostic = diagnostic.allowed(names);
                near.into_iter()
                    .fold(diagnostic, |diagnostic, near| diagnostic.help(format!("did you mean `{near}`?")))
            }
            Link::Name(name) if is_length(name) && has_length(&unresolved.parent) => {
                let value = path_text(&links[..depth]);
                let value = value.trim_matches('`');
                let message =
                    format!("{parent} is {}, which has no field `{name}`", describe(&unresolved.parent));
                let diagnostic = error(message).help(format!("write `{value} | length`"));
                // The correction replaces the dot and the name, which nothing may follow.
                let dot = Span::new((span.start as usize).saturating_sub(1), span.end as usize);
                let source = &self.automation.source;
                let follows = source.text().get(span.end as usize..).unwrap_or_default();
                match exact && source.slice(dot).starts_with('.') && !follows.starts_with(['.', '[', '(']) {
                    true => diagnostic.replace(dot, " | length"),
                    false => diagnostic,
                }
            }
            Link::Name(name) if is_list(&unresolved.parent) => {
                error(format!("{parent} is a list, which has no field `{name}`"))
                    .help(format!("take one item with `[0]`, or this of all with `| map(by=item.{name})`"))
            }
            Link::Name(name) => {
                error(format!("{parent} is {}, which has no field `{name}`", describe(&unresolved.parent)))
            }
            Link::Item | Link::Every => {
                let diagnostic = error(format!("{parent} is {}, not a list", describe(&unresolved.parent)));
                match lists_in(&unresolved.parent).as_slice() {
                    [] => diagnostic,
                    lists => diagnostic.help(format!("did you mean its {}?", ticked(lists))),
                }
            }
        }
    }

    /// Warns of a member of a body in a webhook that only accepts methods without one.
    fn body_of_get(&mut self, expression: &Expression, reference: &Reference, at: Option<&'a Step>) {
        let has_body = |trigger: &&DeclaredTrigger| match &trigger.on {
            Trigger::Webhook(webhook) => webhook.code.is_some() || webhook.methods != ["GET"],
            _ => true,
        };
        let triggers = self.types.triggers(at);
        // A condition on the id of a trigger that does not exist, or cannot be read, leaves no trigger.
        let has_body = triggers.is_empty() || triggers.iter().any(has_body);
        let [trigger, results, body, data, name, ..] = &*reference.path else { return };
        let is_data = trigger == "trigger" && results == "results" && body == "body" && data == "data";
        if has_body || !is_data || reference.optional {
            return;
        }
        let message = "this webhook accepts GET only, and such a request has no body";
        let help = format!(
            "its parameters are in `trigger.results.queryParameters.{name}`; or accept `methods: POST`"
        );
        let diagnostic = Diagnostic::warning("unknown-field", message, expression.span()).help(help);
        self.report(diagnostic, at);
    }

    /// Reports a `forEach` over a value that is not a list.
    fn items(&mut self, items: &'a Template, step: &'a Step) {
        let Template::Expression(expression) = items else { return };
        let kind = self.types.expression(expression, Some(step));
        let may_be = |kind: &ResultType| matches!(kind, ResultType::Any | ResultType::List { .. });
        if kind.alternatives().iter().any(may_be) || kind == ResultType::Null {
            return;
        }
        let message = format!("`forEach` needs a list, but `{}` is {}", expression.text(), describe(&kind));
        let diagnostic = Diagnostic::error("no-list", message, expression.span());
        let diagnostic = match lists_in(&kind).as_slice() {
            [] => diagnostic,
            [list] => {
                let end = expression.text().len();
                let place = expression.place_in(&self.automation.source, end..end);
                let place = place.filter(|_| expression.direct_path().is_some());
                diagnostic
                    .help(format!("did you mean `{}.{list}`?", expression.text()))
                    .replacement(place.map(|place| (place, format!(".{list}"))))
            }
            lists => diagnostic.help(format!("did you mean its {}?", ticked(lists))),
        };
        self.report(diagnostic, Some(step));
    }

    /// Reports action inputs of the wrong type.
    fn inputs(&mut self, call: &'a ActionStep, step: &'a Step) {
        let Some(action) = self.registry.action(&call.action.name) else { return };
        for (name, template) in &call.with {
            if let Some(input) = action.spec().input(&name.name) {
                self.input(&input.kind, template, &input.name, step);
            }
        }
    }

    fn input(&mut self, wanted: &InputType, given: &'a Template, name: &str, step: &'a Step) {
        match (wanted, given) {
            (InputType::Url, Template::Text(parts)) => self.joined_values(parts, step),
            (_, Template::Expression(expression)) => {
                let kind = self.types.expression(expression, Some(step));
                if inputs::never_fits(wanted, &kind) {
                    let message = format!(
                        "input `{name}` takes {}, but `{}` is {}",
                        wanted.describe(),
                        expression.text(),
                        describe(&kind)
                    );
                    let diagnostic = Diagnostic::error("wrong-input", message, expression.span());
                    let is_step = matches!(expression.direct_path(), Some(DirectPath::One(read)) if self.step_read(read).is_some());
                    let help = is_step.then(|| format!("its result is `{}.results`", expression.text()));
                    let diagnostic = help.into_iter().fold(diagnostic, Diagnostic::help);
                    self.report(diagnostic, Some(step));
                }
            }
            (InputType::Object { fields }, Template::Map(entries)) => {
                for (key, value) in entries {
                    if let Some(field) = fields.iter().find(|field| field.name == **key) {
                        self.input(&field.kind, value, &format!("{name}.{key}"), step);
                    }
                }
            }
            (InputType::Map { values }, Template::Map(entries)) => {
                for (key, value) in entries {
                    self.input(values, value, &format!("{name}.{key}"), step);
                }
            }
            (InputType::List { items }, Template::List(values)) => {
                values.iter().for_each(|value| self.input(items, value, name, step));
            }
            _ => {}
        }
    }

    /// Warns of a URL that begins with two values and nothing between them: the second is no path of several segments.
    fn joined_values(&mut self, parts: &[Part], step: &'a Step) {
        let [Part::Expression(base), Part::Expression(path), ..] = parts else { return };
        let ends_with_slash = match base.direct_path() {
            Some(DirectPath::One(reference)) => match &*reference.path {
                [root, name] if root == "configVars" => self.automation.config_vars.iter().any(|variable| {
                    let text = variable.value.literal().and_then(value::Value::as_str);
                    variable.name.name == name.as_str() && text.is_some_and(|text| text.ends_with('/'))
                }),
                _ => false,
            },
            _ => false,
        };
        if ends_with_slash || expression::url_template::is_raw(path) {
            return;
        }
        let message = format!(
            "`{}` is encoded as one segment of the path, or refused as a part of the host: nothing is between it and `{}`",
            path.text(),
            base.text()
        );
        let help = format!(
            "for a path of several segments write `${{{{ {0} }}}}${{{{ {1} | raw }}}}`, for one segment `${{{{ {0} }}}}/${{{{ {1} }}}}`",
            base.text(),
            path.text()
        );
        self.report(Diagnostic::warning("joined-url", message, path.span()).help(help), Some(step));
    }

    fn report(&mut self, diagnostic: Diagnostic, at: Option<&Step>) {
        if self.reported.insert((diagnostic.span, diagnostic.code)) {
            let step = at.map(|step| step.id.as_ref());
            self.found.push(step.into_iter().fold(diagnostic, Diagnostic::step));
        }
    }

    /// Returns the position of a part of an expression, or of the whole if the file has it in escaped form.
    fn part(&self, expression: &Expression, at: std::ops::Range<usize>) -> Span {
        expression.place_in(&self.automation.source, at).unwrap_or(expression.span())
    }
}

/// Formats a path for messages.
fn path_text(links: &[Link]) -> String {
    let mut text = String::new();
    for link in links {
        match link {
            Link::Name(name) if text.is_empty() => text.push_str(name),
            Link::Name(name) => text.extend([".", name]),
            Link::Item | Link::Every => text.push_str("[…]"),
        }
    }
    format!("`{text}`")
}

/// Formats a type so that it can follow "is".
fn describe(kind: &ResultType) -> String {
    let one = |kind: &ResultType| match kind {
        ResultType::Null => "null".to_owned(),
        ResultType::Text => "text".to_owned(),
        ResultType::Boolean => "true or false".to_owned(),
        ResultType::Choice { .. } => format!("text, {}", kind.describe()),
        ResultType::Object(_) => "a map".to_owned(),
        kind => format!("a {}", kind.describe()),
    };
    kind.alternatives().iter().map(one).collect::<Vec<_>>().join(" or ")
}

/// Returns true for a name that other languages give to the number of items or characters.
fn is_length(name: &str) -> bool {
    matches!(name, "length" | "size" | "count" | "len")
}

fn has_length(kind: &ResultType) -> bool {
    is_list(kind)
        || kind.alternatives().iter().any(|kind| matches!(kind, ResultType::Text | ResultType::Map { .. }))
}

fn is_list(kind: &ResultType) -> bool {
    kind.alternatives().iter().any(|kind| matches!(kind, ResultType::List { .. }))
}

/// Returns the fields of a map that are lists.
fn lists_in(kind: &ResultType) -> Vec<&str> {
    let objects = kind.alternatives().iter().filter_map(|kind| match kind {
        ResultType::Object(object) => Some(object),
        _ => None,
    });
    let lists = objects.flat_map(|object| object.fields.iter().filter(|field| is_list(&field.kind)));
    lists.map(|field| field.name.as_str()).collect()
}

fn ticked(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
}
