//! Suggests corrections for unresolved paths: terms of other tools, a missing `.data`, a dash in a name.

use model::ResultType;
use model::automation::{StartForm, Step, Trigger, Verb};
use text::diagnostic::{Diagnostic, Span};

use super::names::Scope;
use super::path_read::{NamePosition, PathRead};
use super::{Checker, ReadSite, names};
use crate::check::started_by::tests_trigger;

impl Checker<'_> {
    /// Suggests a path for one that starts with a name of another tool: `outputs.x.body`, `body.orderId`.
    pub(super) fn elsewhere(&self, read: PathRead<'_>) -> Option<Elsewhere> {
        let root = read.path.first()?.as_str();
        let names: Vec<&str> = read.path.iter().map(|name| name.as_str()).collect();
        if names.len() == 1 && matches!(root, "now" | "uuid") {
            return Some(Elsewhere::Path(format!("{root}()")));
        }
        match names.as_slice() {
            ["github", "event", ..]
                if self.start_forms().any(|form| matches!(form, StartForm::Request(_))) =>
            {
                let rest = names.get(2..).unwrap_or_default();
                return Some(Elsewhere::Path([&["trigger.results.body.data"], rest].concat().join(".")));
            }
            ["event", "name" | "id" | "sentAt" | "by"] if self.has_own_event(None) => {
                return Some(Elsewhere::Path(format!("trigger.results.{}", names.join("."))));
            }
            ["loop", "index0", ..] => return Some(Elsewhere::Path("index".to_owned())),
            ["loop", "index", ..] => return Some(Elsewhere::Path("(index + 1)".to_owned())),
            ["loop", ..] => return Some(Elsewhere::Words("the position of an item is `index`, from 0")),
            _ => {}
        }
        let is_step = |id: &&str| self.order.path_of(id).is_some();
        if !names::STEP_ROOTS.contains(&root) {
            let rest = names.get(1..).filter(|rest| !rest.is_empty())?.join(".");
            return self.start_forms().find_map(|form| match (root, form) {
                (
                    "body" | "payload" | "request" | "data" | "input" | "params" | "args" | "parameters",
                    StartForm::Inputs,
                ) if self
                    .automation
                    .inputs
                    .iter()
                    .any(|input| names.get(1) == Some(&input.name.as_str())) =>
                {
                    Some(Elsewhere::Path(format!("inputs.{rest}")))
                }
                (
                    "body" | "payload" | "request" | "data" | "json" | "event" | "input" | "params",
                    StartForm::Request(_) | StartForm::Data { .. },
                ) => {
                    let rest = names::behind_body(&names[1..]).join(".");
                    let rest = if rest.is_empty() { rest } else { format!(".{rest}") };
                    Some(Elsewhere::Path(format!("trigger.results.body.data{rest}")))
                }
                ("headers" | "query", StartForm::Request(_)) => {
                    let part = if root == "query" { "queryParameters" } else { root };
                    Some(Elsewhere::Path(format!("trigger.results.{part}.{rest}")))
                }
                _ => None,
            });
        }
        let Some(id) = names.get(1).copied().filter(is_step) else {
            return Some(Elsewhere::Words("a step's result is `steps.<id>.results`"));
        };
        Some(Elsewhere::Path(self.result_of(id, &names[2..])))
    }

    /// Explains why a name that exists elsewhere does not exist here; `None` for an unknown name, and for one with a path that is meant.
    pub(super) fn absent_here(&self, name: &str, site: ReadSite<'_, '_>) -> Option<&'static str> {
        let is_start = name == "event" && site.names.scope == Scope::Steps && self.has_own_event(site.step);
        site.names.elsewhere(name).filter(|_| !is_start)
    }

    /// Returns true if an own event can have started the execution of a step.
    fn has_own_event(&self, step: Option<&Step>) -> bool {
        self.started_by.of(step).iter().any(|trigger| trigger.on.own_event().is_some())
    }

    fn start_forms(&self) -> impl Iterator<Item = StartForm<'_>> {
        self.automation.triggers.iter().map(|trigger| trigger.on.start_form())
    }

    /// Builds the path to a step's result from the names that follow the step id.
    fn result_of(&self, id: &str, rest: &[&str]) -> String {
        let rest = match rest {
            [first, rest @ ..] if names::RESULT_WORDS.contains(first) => rest,
            rest => rest,
        };
        let mut path = format!("steps.{id}.results");
        for (at, name) in rest.iter().enumerate() {
            let near = if at == 0 { self.field_of(id, name) } else { None };
            path.push('.');
            path.push_str(near.as_deref().unwrap_or(name));
        }
        path
    }

    /// Returns the field of a step's result that most resembles an unknown name.
    fn field_of(&self, id: &str, name: &str) -> Option<String> {
        let mut action = None;
        self.automation.walk(&mut |step| {
            if let Verb::Action(call) = &step.verb
                && step.id.as_ref() == id
            {
                action = self.registry.action(&call.action.name);
            }
        });
        let ResultType::Object(object) = &action?.spec().results else { return None };
        let fields: Vec<&str> = object.names().collect();
        if fields.contains(&name) {
            return None;
        }
        let begins = || {
            let mut longer = fields.iter().filter(|field| field.starts_with(name));
            longer.next().copied().filter(|_| longer.next().is_none())
        };
        begins().or_else(|| text::diagnostic::nearest(name, fields.iter().copied())).map(str::to_owned)
    }

    /// Checks `steps.<id>.<member>`.
    pub(super) fn step_member(&self, read: PathRead<'_>) -> Option<Diagnostic> {
        let id = read.path.get(1).filter(|id| self.order.path_of(id).is_some())?;
        let mut waits = false;
        self.automation
            .walk(&mut |step| waits |= step.id.as_ref() == id && matches!(step.verb, Verb::WaitFor(_)));
        let members: &[&str] = if waits { &names::WAITING_STEP } else { &names::STEP };
        let member = read.path.get(2).filter(|member| !members.contains(&member.as_str()))?;
        let message = match member.as_str() {
            "timedOut" => format!("`steps.{id}` has no `timedOut`: it is not a `waitFor` step"),
            _ => format!("`steps.{id}` has no `{member}`, only `results`, `error` and `ok`"),
        };
        let position = read.position(2);
        let diagnostic = Diagnostic::error("unknown-member", message, position.span);
        if member == "timedOut" {
            return Some(diagnostic.allowed(members.iter().copied()));
        }
        if text::diagnostic::nearest(member, members.iter().copied()).is_some() {
            return Some(position.nearest(diagnostic, member, members));
        }
        let rest: Vec<&str> =
            read.path.get(2..).unwrap_or_default().iter().map(|name| name.as_str()).collect();
        let diagnostic = diagnostic.allowed(members.iter().copied());
        if names::OUTCOME_WORDS.contains(&member.as_str()) {
            return Some(diagnostic.help(format!(
                "`steps.{id}.ok` is true after a success and else false; with `onError: continue`, `steps.{id}.error` is what failed"
            )));
        }
        let meant = self.result_of(id, &rest);
        Some(read.meant(diagnostic, read.path.len(), &meant))
    }

    /// Reports a read of `trigger.results.body.data` that gives null, since the trigger brings no such data: mostly a step that
    /// was written for another trigger.
    fn null_data(&self, trigger: &Trigger, read: PathRead<'_>) -> Option<Diagnostic> {
        let null = |position: NamePosition, message: &str, help: &str| {
            Some(Diagnostic::warning("unknown-member", message, position.span).help(help))
        };
        match (trigger.start_form(), read.path.get(4)) {
            (StartForm::Instant, None) => {
                let message = "`trigger.results.body.data` is null: a schedule receives no data";
                null(read.position(3), message, "only a person who starts the automation can give it inputs")
            }
            (StartForm::Inputs, Some(name))
                if !self.unreadable.has("inputs")
                    && !self.automation.inputs.iter().any(|input| input.name == name.as_str()) =>
            {
                let name = name.as_str();
                let message =
                    format!("`trigger.results.body.data.{name}` is null: there is no input `{name}`");
                null(
                    read.position(4),
                    &message,
                    "the data of a manual start are its inputs: declare it under `inputs`",
                )
            }
            _ => None,
        }
    }

    /// Checks `trigger.results.body.<name>`; the received data is below `data`.
    fn body(&self, trigger: &Trigger, read: PathRead<'_>, optional: bool) -> Option<Diagnostic> {
        let [_, _, body, member, rest @ ..] = read.path else { return None };
        let has_code = matches!(trigger, Trigger::Webhook(webhook) if webhook.code.is_some());
        if body != "body" || has_code || self.unreadable.has("trigger") {
            return None;
        }
        let members = trigger::body_names(trigger);
        let is_schedule = matches!(trigger.start_form(), StartForm::Instant);
        if is_schedule && (member != "data" || !rest.is_empty()) {
            // A manual start may supply data.
            if optional && member == "data" {
                return None;
            }
            let message = "a schedule has no body: it receives no data";
            return Some(
                Diagnostic::error("unknown-member", message, read.position(3).span)
                    .allowed(["scheduledAt", "startedAt", "timezone"])
                    .help("its results are `trigger.results.scheduledAt`, `startedAt` and `timezone`; put constant values in `configVars`"),
            );
        }
        if members.contains(&member.as_str()) {
            return if optional { None } else { self.null_data(trigger, read) };
        }
        let position = read.position(3);
        let message = format!("`trigger.results.body` has no `{member}`: the received data is below `data`");
        let diagnostic = Diagnostic::error("unknown-member", message, position.span);
        if text::diagnostic::nearest(member, members.iter().copied()).is_some() {
            return Some(position.nearest(diagnostic, member, members));
        }
        let diagnostic = diagnostic.allowed(members.iter().copied());
        let meant = if matches!(trigger.start_form(), StartForm::Inputs) {
            format!("inputs.{}", read.path.get(3..).unwrap_or_default().join("."))
        } else {
            format!("trigger.results.body.data.{}", read.path.get(3..).unwrap_or_default().join("."))
        };
        Some(read.meant(diagnostic, read.path.len(), &meant))
    }

    /// Checks `trigger.<member>` for the triggers that can have started the execution.
    pub(super) fn trigger(
        &self,
        read: PathRead<'_>,
        optional: bool,
        site: ReadSite<'_, '_>,
    ) -> Option<Diagnostic> {
        if read.path.get(1)? == "id" {
            return None;
        }
        let triggers = match site.trigger {
            Some(trigger) => vec![trigger],
            None => self.started_by.of(site.step).to_vec(),
        };
        let (mut absent, mut present) = (None, None);
        for trigger in triggers {
            match self.results_of_trigger(&trigger.on, read, optional) {
                Some(problem) => drop(absent.get_or_insert((problem, trigger))),
                None => drop(present.get_or_insert(trigger)),
            }
        }
        match (absent, present) {
            (Some((problem, _)), None) => Some(problem),
            (Some((_, lacks)), Some(has)) if !optional && !tests_trigger(read.expression) => {
                let at = if read.path.get(2).is_some_and(|name| name == "body") { 3 } else { 2 };
                let names: Vec<&str> =
                    read.path.iter().skip(2).take(at - 1).map(|name| name.as_str()).collect();
                let message =
                    format!("`{}` is missing if `{}` started the execution", names.join("."), lacks.id);
                let help =
                    format!("put it behind `trigger.id == '{}'`, or write `… | default(null)`", has.id);
                Some(Diagnostic::warning("trigger-may-differ", message, read.position(at).span).help(help))
            }
            _ => None,
        }
    }

    /// Checks `trigger.results.<name>` for one trigger.
    fn results_of_trigger(
        &self,
        trigger: &Trigger,
        read: PathRead<'_>,
        optional: bool,
    ) -> Option<Diagnostic> {
        let first = read.path.get(1)?;
        let known = trigger::result_names(trigger);
        if first != "results" {
            let diagnostic = read.member(1, &names::TRIGGER)?;
            let rest: Vec<&str> =
                read.path.get(1..).unwrap_or_default().iter().map(|name| name.as_str()).collect();
            let rest = names::behind_trigger(&rest, known).join(".");
            let meant = format!("trigger.results.{rest}");
            return Some(read.meant(diagnostic.nearest(None::<String>), read.path.len(), &meant));
        }
        if let Some(diagnostic) = self.body(trigger, read, optional) {
            return Some(diagnostic);
        }
        let name = read.path.get(2).filter(|name| !known.contains(&name.as_str()))?;
        // Unknown if the trigger is unreadable or its code builds the results.
        let has_code = matches!(trigger, Trigger::Webhook(webhook) if webhook.code.is_some());
        if self.unreadable.has("trigger") || has_code {
            return None;
        }
        let word = trigger.keyword();
        let position = read.position(2);
        let Some(other) = trigger::kind_with_result(name) else {
            let message = format!("the results of this trigger, `{word}`, have no `{name}`");
            let diagnostic = Diagnostic::error("unknown-member", message, position.span);
            return Some(position.nearest(diagnostic, name, known));
        };
        let message =
            format!("`{name}` is a result of triggers of the kind `{other}`, but this one is `{word}`");
        Some(Diagnostic::error("unknown-member", message, position.span).allowed(known.iter().copied()))
    }
}

/// Suggestion for a path that begins with a name of another tool.
pub(super) enum Elsewhere {
    /// The path that is meant.
    Path(String),
    /// Help without a path.
    Words(&'static str),
}

/// Part of a name with dashes, which an expression parses as a subtraction.
pub(super) enum Dashed {
    /// Part after the first dash, with a suggestion: the help, and the path to write in place of a span.
    First {
        /// The help text.
        help: String,
        /// The path with the dashes.
        span: Span,
        /// The path in brackets.
        meant: String,
    },
    /// Part after a later dash.
    Later,
}

/// Suggests bracket notation for a name with dashes, which an expression parses as a subtraction:
/// `headers.X-Request-Id`.
pub(super) fn dashed(read: PathRead<'_>, position: &NamePosition) -> Option<Dashed> {
    let text = read.source.slice(read.expression.span());
    let at = (position.span.start as usize)
        .checked_sub(read.expression.span().start as usize)
        .filter(|_| position.exact)?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let before = text.get(..at)?;
    let start = before.rfind(|c| !is_part(c)).map_or(0, |dot| dot + 1);
    let end = text.get(at..)?.find(|c| !is_part(c)).map_or(text.len(), |length| at + length);
    let parent = before.get(..start)?.strip_suffix('.')?;
    let name = text.get(start..end)?;
    if !before.ends_with('-') || name.starts_with('-') || parent.is_empty() {
        return None;
    }
    let path_start = parent.rfind(|c: char| !is_part(c) && c != '.').map_or(0, |at| at + 1);
    let parent = &parent[path_start..];
    // Header names are stored in lower case.
    let name = if parent.ends_with("headers") { name.to_ascii_lowercase() } else { name.to_owned() };
    if before.get(start..).is_some_and(|before| before.matches('-').count() > 1) {
        return Some(Dashed::Later);
    }
    let meant = format!("{parent}['{name}']");
    let help = format!("a `-` is a minus here: write the name in brackets, `{meant}`");
    let from = read.expression.span().start as usize;
    Some(Dashed::First { help, span: Span::new(from + path_start, from + end), meant })
}
