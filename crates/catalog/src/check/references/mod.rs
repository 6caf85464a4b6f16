//! Checks the names and paths that expressions read.
//!
//! Visits each expression of a file with the names in scope and resolves its paths as far as possible before a run.
//! Codes: `unknown-name`, `name-not-here`, `unknown-member`,
//! `unknown-step`, `later-step`, `other-branch`, `unwaited-step`, `may-be-missing`, `last-iteration`, `own-event`, `unknown-variable`,
//! `later-variable`, `racing-variable`, `moment-not-here`, `undeclared-input`, `undeclared-config-var`, `exposed-secret`,
//! `unknown-trigger`, `trigger-may-differ`, `uncertain-results`.

mod absent;
mod failed;
mod last_iteration;
mod meant;
mod names;
mod own_events;
mod path_read;
mod races;
mod step_order;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use connector::Registry;
use expression::{Expression, Reference, Template};
use language::load::Unreadable;
use model::automation::{Automation, Block, ConfigVar, DeclaredTrigger, Step, Trigger, Verb};
use model::{Connection, InputType};
use text::diagnostic::{Diagnostic, Span};

use self::absent::{after_stop, missing_results, predicate, results_of_begun, uncertain_results};
use self::meant::{Dashed, Elsewhere, dashed};
pub(super) use self::names::{
    ALWAYS as ROOTS, AUTOMATION, ERROR, EVENT, EXECUTION, OUTCOME, STEP, TRIGGER, WAITING_STEP,
};
use self::names::{ErrorName, Names, Scope};
use self::path_read::{NamePosition, PathRead};
use self::races::Reading;
use self::step_order::{Absence, Attachment, Availability, StepOrder, Uncertainty};
use super::environment::own_variable;
use super::started_by::{StartedBy, tests_trigger, unknown_ids};
use crate::plan::Plan;

/// Checks all expressions of the file. Where the order of steps is unknown (`needs` is circular or unreadable),
/// order-dependent checks are skipped.
pub(crate) fn check(
    automation: &Automation,
    unreadable: &Unreadable,
    plan: &Plan,
    registry: &Registry,
) -> Vec<Diagnostic> {
    let mut variables: BTreeMap<&str, Vec<&Step>> = BTreeMap::new();
    automation.walk(&mut |step| {
        if let Verb::Set(values) = &step.verb {
            values.iter().for_each(|(name, _)| variables.entry(name).or_default().push(step));
        }
    });
    let mut checker = Checker {
        automation,
        registry,
        unreadable,
        order: StepOrder::new(automation, unreadable, plan),
        started_by: StartedBy::new(automation, unreadable),
        variables,
        asked: failed::steps_with_checked_outcome(automation),
        reported: HashSet::new(),
        found: Vec::new(),
    };
    checker.automation();
    checker.found
}

/// Checks the expressions of a connection, in which only `env` and `secrets` exist.
pub(super) fn connection(connection: &Connection) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (_, template) in &connection.with {
        template.expressions(&mut |expression| {
            found.extend(nondeterministic(expression, VARIABLE));
            for reference in expression.references() {
                let locate = |at| NamePosition::locate(&connection.source, expression, &reference.path, at);
                found.extend(own_variable(reference, |at| locate(at).span));
                let Some(root) = reference.path.first().filter(|root| !names::OUTSIDE.contains(&root.as_str())) else {
                    continue;
                };
                let message = format!("`{root}` does not exist in a connection");
                let diagnostic = Diagnostic::error("name-not-here", message, locate(0).span);
                found.push(
                    locate(0).nearest(diagnostic, root, &names::OUTSIDE)
                        .help("a connection is read before any execution; write a value, `${{ secrets.x }}` or `${{ env.X }}`"),
                );
            }
        });
    }
    found
}

/// Reason why `now()` is not allowed in configuration variables and connections.
const VARIABLE: &str = "it is evaluated again whenever it is needed";

/// Reports `now()` or `uuid()` outside steps, where nothing records their values.
fn nondeterministic(expression: &Expression, why: &str) -> Option<Diagnostic> {
    let message = "`now()` and `uuid()` are not available here: their values are not recorded";
    expression.is_nondeterministic().then(|| {
        Diagnostic::error("moment-not-here", message, expression.span())
            .help(format!("{why}; call it in a step, such as `set: {{today: ${{{{ now() }}}}}}`"))
    })
}

struct Checker<'a> {
    automation: &'a Automation,
    registry: &'a Registry,
    unreadable: &'a Unreadable,
    order: StepOrder<'a>,
    started_by: StartedBy<'a>,
    /// Steps that set each variable.
    variables: BTreeMap<&'a str, Vec<&'a Step>>,
    /// Steps whose outcome a condition of the file asks for.
    asked: HashSet<&'a str>,
    /// Diagnostics already reported; an expression may read a path twice.
    reported: HashSet<(Span, &'static str)>,
    found: Vec<Diagnostic>,
}

/// Context in which an expression is evaluated.
#[derive(Clone, Copy)]
struct ReadSite<'a, 's> {
    names: &'s Names<'a>,
    /// Step of the expression; `None` at the top level of the file.
    step: Option<&'a Step>,
    /// True if the expression is the step's own guard.
    in_guard: bool,
    /// Trigger of the expression; `None` in steps.
    trigger: Option<&'a DeclaredTrigger>,
    /// List at whose end the expression is evaluated, for a loop's condition after an iteration.
    after: Option<(&'a Block, Attachment<'a>)>,
}

impl<'a> Checker<'a> {
    fn automation(&mut self) {
        let automation = self.automation;
        for ConfigVar { value, secret, .. } in &automation.config_vars {
            value.expressions(&mut |expression| self.found.extend(nondeterministic(expression, VARIABLE)));
            self.template(value, ReadSite::top(&Names::at(Scope::ConfigVar { secret: *secret })));
        }
        automation.triggers.iter().for_each(|trigger| self.declared_trigger(trigger));
        if let Some(concurrency) = &automation.concurrency {
            let why = "the same start must always get the same key and the same limit";
            concurrency.expressions(&mut |expression| {
                self.found.extend(nondeterministic(expression, why));
                self.expression(expression, ReadSite::top(&Names::at(Scope::ConcurrencyKey)));
            });
        }
        self.block(&automation.steps, &Names::at(Scope::Steps));
        self.own_events();
        if let Some(outputs) = &automation.outputs {
            self.template(outputs, ReadSite::top(&Names::at(Scope::Steps)));
        }
        if let Some(block) = &automation.on_error {
            self.block(block, &Names::at(Scope::Steps).with_error(ErrorName::Yes));
        }
        if let Some(block) = &automation.finally {
            self.block(block, &Names::at(Scope::Steps).with_error(ErrorName::Maybe).with_outcome());
        }
    }

    /// Checks the expressions of a trigger.
    fn declared_trigger(&mut self, trigger: &'a DeclaredTrigger) {
        if let Trigger::Webhook(webhook) = &trigger.on {
            // Secrets are allowed: these values are never shown, as in a variable marked as secret.
            let names = Names::at(Scope::ConfigVar { secret: true });
            let mut look = |expression| self.expression(expression, ReadSite::top(&names));
            webhook.verify.iter().for_each(|verify| verify.expressions(&mut look));
            webhook.challenge.iter().for_each(|challenge| challenge.expressions(&mut look));
        }
        self.trigger_inputs(&trigger.on);
        let names = Names::at_trigger(trigger);
        let site = ReadSite { trigger: Some(trigger), ..ReadSite::top(&names) };
        if let Some(condition) = &trigger.condition {
            self.found
                .extend(nondeterministic(condition, "the same start must always get the same decision"));
            self.expression(condition, site);
        }
        for (_, template) in trigger.input_templates() {
            let why = "the same start must always get the same inputs";
            template.expressions(&mut |expression| self.found.extend(nondeterministic(expression, why)));
            self.template(template, site);
        }
    }

    /// Checks the expressions of a polling or event trigger.
    fn trigger_inputs(&mut self, trigger: &'a Trigger) {
        trigger.expressions(&mut |expression| {
            self.found
                .extend(nondeterministic(expression, "the time of a trigger's request is not recorded"));
        });
        let inputs = if matches!(trigger, Trigger::Poll(_)) { Scope::PollInputs } else { Scope::EventInputs };
        for (_, template) in trigger.call().into_iter().flat_map(|call| &call.with) {
            self.template(template, ReadSite::top(&Names::at(inputs)));
        }
        if let Trigger::Poll(poll) = trigger {
            for expression in [&poll.items, &poll.cursor].into_iter().flatten() {
                self.expression(expression, ReadSite::top(&Names::at(Scope::PollResult)));
            }
        }
        if let Some(id) = trigger.identity() {
            self.expression(id, ReadSite::top(&Names::at(Scope::PollItem)));
        }
    }

    fn block(&mut self, block: &'a Block, names: &Names<'a>) {
        for step in &block.steps {
            let site = ReadSite { names, step: Some(step), in_guard: false, trigger: None, after: None };
            if let Some(guard) = &step.guard {
                self.expression(guard, ReadSite { in_guard: true, ..site });
            }
            for expression in step.computed_settings() {
                self.expression(expression, site);
            }
            step.verb.expressions(&mut |expression| self.expression(expression, site));
            self.waits_for(step, names, site);
            for condition in step.retry.iter().flat_map(|retry| retry.conditions()) {
                let names = names.clone().with_error(ErrorName::Yes);
                self.expression(condition, ReadSite { names: &names, ..site });
            }
            for (attachment, inner) in step_order::inner_blocks(step) {
                match attachment {
                    Attachment::Turn { item, .. } => self.block(inner, &names.clone().in_loop(item)),
                    Attachment::OnError | Attachment::Undo => {
                        self.block(inner, &names.clone().with_error(ErrorName::Yes))
                    }
                    Attachment::Finally => self.block(inner, &names.clone().with_outcome()),
                    Attachment::Root(_)
                    | Attachment::Case(..)
                    | Attachment::Branch { .. }
                    | Attachment::Within => self.block(inner, names),
                }
                self.after_turns(step, inner, attachment, site);
            }
        }
    }

    /// Checks the condition of a `waitFor` step, which reads the event.
    fn waits_for(&mut self, step: &'a Step, names: &Names<'a>, site: ReadSite<'a, '_>) {
        if let Verb::WaitFor(wait) = &step.verb
            && let Some(condition) = wait.condition()
        {
            self.expression(condition, ReadSite { names: &names.clone().with_event(), ..site });
        }
    }

    /// Checks the expression that a loop evaluates after each iteration.
    fn after_turns(
        &mut self,
        step: &'a Step,
        block: &'a Block,
        attachment: Attachment<'a>,
        site: ReadSite<'a, '_>,
    ) {
        let lists = step.verb.nested_blocks();
        let after = lists.iter().find(|list| std::ptr::eq(list.block, block)).and_then(|list| list.until);
        if let (Some(expression), Attachment::Turn { item, .. }) = (after, attachment) {
            let names = site.names.clone().in_loop(item);
            self.expression(expression, ReadSite { names: &names, after: Some((block, attachment)), ..site });
        }
    }

    fn template(&mut self, template: &'a Template, site: ReadSite<'a, '_>) {
        template.expressions(&mut |expression| self.expression(expression, site));
    }

    fn expression(&mut self, expression: &'a Expression, site: ReadSite<'a, '_>) {
        if !self.unreadable.has("trigger") && tests_trigger(expression) {
            self.trigger_ids(expression, site);
        }
        for reference in expression.references() {
            self.reference(expression, reference, site);
        }
    }

    /// Reports ids of triggers that do not exist.
    fn trigger_ids(&mut self, expression: &Expression, site: ReadSite<'a, '_>) {
        let source = &self.automation.source;
        let span = |part| expression.place_in(source, part).unwrap_or_else(|| expression.span());
        let mut found = Vec::new();
        unknown_ids(self.automation, expression, span, &mut found);
        found.into_iter().for_each(|diagnostic| self.report(diagnostic, site));
    }

    fn reference(&mut self, expression: &Expression, reference: &Reference, site: ReadSite<'a, '_>) {
        let path = &reference.path;
        let Some(root) = path.first() else { return };
        let read = PathRead { source: &self.automation.source, expression, path };
        let allowed = site.names.allowed();
        if !allowed.contains(&root.as_str()) {
            if site.names.loops && self.unreadable.has("as") {
                return;
            }
            if let Some(diagnostic) = self.unknown_name(read, &allowed, site) {
                self.report(diagnostic, site);
            }
            return;
        }
        if root == "error" && site.names.error == ErrorName::Maybe && !reference.optional {
            let message = "there is no `error` here when the execution succeeded";
            let diagnostic = Diagnostic::warning("may-be-missing", message, read.position(0).span)
                .help("ask first: `if: error is defined`, or write `error.message | default('')`");
            let is_guarded = site.step.and_then(|step| step.guard.as_ref()).is_some_and(|guard| {
                guard.references().iter().any(|reference| reference.path.first() == Some(root))
            });
            let unread = site.step.is_some_and(|step| self.unreadable.has_in_step(&step.id, "if"));
            if (!is_guarded || site.in_guard) && !unread {
                self.report(diagnostic, site);
            }
        }
        // A loop may rename its item to any of these names, which then hides it.
        let diagnostic = match root.as_str() {
            root if site.names.items.contains(&root) => None,
            "secrets" if site.names.scope == (Scope::ConfigVar { secret: false }) => {
                let message = "a secret can be read only by a variable that is marked as secret";
                Some(
                    Diagnostic::error("exposed-secret", message, read.position(0).span)
                        .help("write `{value: …, secret: true}`: it is then never shown, logged or stored"),
                )
            }
            "env" => own_variable(reference, |index| read.position(index).span),
            "steps" => {
                if let Some(diagnostic) = self.step_member(read) {
                    self.report(diagnostic, site);
                }
                self.step(read, reference.optional, site)
            }
            "vars" => self.variable(read, reference.optional, site),
            "trigger" => self.trigger(read, reference.optional, site),
            "inputs" => self.input(read),
            "configVars" => self.config_var(read),
            "execution" => read.member(1, &EXECUTION),
            "automation" => read.member(1, &AUTOMATION),
            "error" => read.error_member(),
            "outcome" => read.member(1, &OUTCOME),
            "event" => read.member(1, &EVENT),
            "state" => read.state_key(),
            _ => None,
        };
        if let Some(diagnostic) = diagnostic {
            self.report(diagnostic, site);
        }
    }

    fn unknown_name(
        &self,
        read: PathRead<'_>,
        allowed: &[&str],
        site: ReadSite<'a, '_>,
    ) -> Option<Diagnostic> {
        let root = &read.path[0];
        let position = read.position(0);
        if let Some(help) = self.absent_here(root, site) {
            let message = format!("`{root}` does not exist here");
            return Some(
                Diagnostic::error("name-not-here", message, position.span)
                    .allowed(allowed.iter().copied())
                    .help(help),
            );
        }
        let message = format!("`{root}` is not defined");
        let diagnostic = Diagnostic::error("unknown-name", message, position.span);
        match dashed(read, &position) {
            // Report only the first part of a name with several dashes.
            Some(Dashed::Later) => return None,
            Some(Dashed::First { help, span, meant }) => {
                return Some(read.replace(diagnostic.help(help), span, &meant));
            }
            None => {}
        }
        let is_in_steps = site.names.scope == Scope::Steps;
        if let Some(elsewhere) = self.elsewhere(read).filter(|_| is_in_steps) {
            let diagnostic = diagnostic.allowed(allowed.iter().copied());
            return Some(match elsewhere {
                Elsewhere::Path(meant) => read.meant(diagnostic, read.path.len(), &meant),
                Elsewhere::Words(help) => diagnostic.help(help),
            });
        }
        if read.path.len() == 1 && is_in_steps && self.is_option(root) {
            return Some(read.meant(diagnostic, 1, &format!("'{root}'")));
        }
        Some(match names::meant(self.automation, root).filter(|_| is_in_steps) {
            Some(meant) => read.meant(diagnostic.allowed(allowed.iter().copied()), 1, &meant),
            None => position.nearest(diagnostic, root, allowed),
        })
    }

    /// True if a choice among the inputs has this option.
    fn is_option(&self, name: &str) -> bool {
        self.automation.inputs.iter().any(|input| match &input.kind {
            InputType::Choice { options } => options.iter().any(|option| option == name),
            _ => false,
        })
    }

    fn report(&mut self, diagnostic: Diagnostic, site: ReadSite<'a, '_>) {
        if self.reported.insert((diagnostic.span, diagnostic.code)) {
            let step = site.step.map(|step| step.id.as_ref());
            self.found.push(step.into_iter().fold(diagnostic, Diagnostic::step));
        }
    }

    /// Returns the position of the reading step; `None` at the top level.
    fn reader(&self, site: ReadSite<'a, '_>) -> Option<Cow<'_, step_order::StepPath<'a>>> {
        let step = site.step?;
        match site.after {
            Some((block, attachment)) => self.order.end_of_list(step, block, attachment).map(Cow::Owned),
            None => self.order.path_of(&step.id).map(Cow::Borrowed),
        }
    }

    /// Checks `steps.<id>`: the step must exist and have run before it is read.
    fn step(&self, read: PathRead<'_>, optional: bool, site: ReadSite<'a, '_>) -> Option<Diagnostic> {
        let id = read.path.get(1)?;
        let position = read.position(1);
        // `ok` is false where the step has not run.
        let is_success = read.path.get(2).is_some_and(|member| member == "ok");
        let optional = optional || is_success;
        if self.unreadable.may_name(id) {
            return None;
        }
        let Some(target) = self.order.path_of(id) else {
            if self.unreadable.has("steps") {
                return None;
            }
            let reader = self.reader(site);
            let is_read = |id: &&str| match (self.order.path_of(id), &reader) {
                (Some(target), Some(reader)) => !matches!(
                    self.order.availability_to(reader, site.in_guard, target),
                    Availability::Never(_)
                ),
                (Some(target), None) => {
                    !matches!(self.order.availability_at_end(target), Availability::Never(_))
                }
                (None, _) => false,
            };
            let mut ids: Vec<&str> = self.order.ids().collect();
            // Suggest a similar step even if it cannot be read here; once the name is right, that is reported.
            if text::diagnostic::nearest(id, ids.iter().copied()).is_none() {
                ids.retain(is_read);
            }
            ids.sort_unstable();
            let diagnostic =
                Diagnostic::error("unknown-step", format!("there is no step `{id}`"), position.span);
            return Some(position.nearest(diagnostic, id, &ids));
        };
        let reader = self.reader(site);
        let availability = match &reader {
            Some(reader) => self.order.availability_to(reader, site.in_guard, target),
            None => self.order.availability_at_end(target),
        };
        if let (None, Availability::Always) = (&reader, &availability)
            && !optional
            && let Some(stop) = self.stop_before(target)
        {
            return Some(after_stop(id, stop, position.span));
        }
        if let Some(each) = last_iteration::find(target, reader.as_deref(), &availability, optional) {
            return Some(last_iteration::diagnostic(id, each, position.span));
        }
        match availability {
            Availability::Never(Absence::OtherList(_)) if is_success => None,
            Availability::Never(why) => {
                // With a default, a loop can carry over the result of the previous iteration.
                let carried = optional
                    && reader.is_some_and(|reader| StepOrder::share_sequential_loop(&reader, target));
                (!carried).then(|| missing_results(id, why, position.span))
            }
            Availability::Maybe(uncertainties)
                if uncertainties.iter().any(|why| matches!(why, Uncertainty::Begun)) =>
            {
                let is_asked = optional || failed::asks_success(read.expression, id);
                let is_error = read.path.get(2).is_some_and(|member| member == "error");
                (!is_asked).then(|| results_of_begun(id, is_error, position.span))
            }
            Availability::Maybe(uncertainties) if !optional => {
                // A step skipped by its own guard has `null` as result. Only paths below it fail.
                let own = matches!(uncertainties.as_slice(), [Uncertainty::Condition { own: true, .. }]);
                (!(own && read.path.len() <= 3)).then(|| uncertain_results(id, &uncertainties, position.span))
            }
            Availability::Always => self.may_be_null(read, optional),
            Availability::Maybe(_) | Availability::Unsure => None,
        }
    }

    /// Finds a `stop` without a result that may end the execution before a step runs.
    fn stop_before(&self, target: &step_order::StepPath<'a>) -> Option<&'a Step> {
        let mut found = None;
        self.automation.steps.walk(&mut |step| {
            let Verb::Stop { result, .. } = &step.verb else { return };
            // With a result, `stop` bypasses the file's `outputs`.
            let has_result = result.literal().is_none_or(|result| !result.is_null());
            let Some(stop) = self.order.path_of(&step.id).filter(|_| !has_result && found.is_none()) else {
                return;
            };
            if matches!(self.order.availability_to(stop, false, target), Availability::Never(_)) {
                found = Some(step);
            }
        });
        found
    }

    /// Checks `vars.<name>`.
    fn variable(&self, read: PathRead<'_>, optional: bool, site: ReadSite<'a, '_>) -> Option<Diagnostic> {
        let name = read.path.get(1)?;
        let position = read.position(1);
        if self.unreadable.may_set(name) {
            return None;
        }
        let Some(setters) = self.variables.get(name.as_str()) else {
            let message = format!("no step sets `{name}`");
            let diagnostic = Diagnostic::error("unknown-variable", message, position.span);
            let names: Vec<&str> = self.variables.keys().copied().collect();
            return Some(
                position.nearest(diagnostic, name, &names).help(format!("name it: `set: {{{name}: …}}`")),
            );
        };
        let reader = self.reader(site);
        let mut never = None;
        for setter in setters {
            let target = self.order.path_of(&setter.id)?;
            let availability = match &reader {
                Some(reader) => self.order.availability_to(reader, site.in_guard, target),
                None => self.order.availability_at_end(target),
            };
            match availability {
                Availability::Always | Availability::Maybe(_) => {
                    let path = reader.as_deref();
                    let reading =
                        Reading { name, span: position.span, reader: path, in_guard: site.in_guard };
                    let race = self.race(&reading, setters);
                    return race.or_else(|| {
                        let is_only = setters.len() == 1 && !optional;
                        let Availability::Maybe(reasons) = &availability else { return None };
                        is_only.then(|| failed::unset_variable(name, setter, reasons, position.span))?
                    });
                }
                Availability::Unsure => return None,
                Availability::Never(_)
                    if optional
                        && reader
                            .as_ref()
                            .is_some_and(|reader| StepOrder::share_sequential_loop(reader, target)) =>
                {
                    return None;
                }
                Availability::Never(why) => never = never.or(Some((setter, why))),
            }
        }
        let (setter, why) = never?;
        let message =
            format!("`{name}` is not set yet: step `{}`, which sets it, {}", setter.id, predicate(why));
        Some(
            Diagnostic::error("later-variable", message, position.span)
                .related(setter.span, format!("`{name}` is set here"))
                .help("set it before, in a step that has ended when this one begins"),
        )
    }

    fn input(&self, read: PathRead<'_>) -> Option<Diagnostic> {
        let name = read.path.get(1)?;
        let inputs = &self.automation.inputs;
        let unread = self.unreadable.has("inputs") || self.unreadable.may_name(name);
        if unread || inputs.iter().any(|input| input.name == *name) {
            return None;
        }
        let position = read.position(1);
        let message = format!("the input `{name}` is not declared");
        let diagnostic = Diagnostic::error("undeclared-input", message, position.span);
        let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        let help = format!("declare it at the top of the file: `inputs: {{{name}: {{type: text}}}}`");
        Some(position.nearest(diagnostic, name, &names).help(help))
    }

    fn config_var(&self, read: PathRead<'_>) -> Option<Diagnostic> {
        let name = read.path.get(1)?;
        let variables = &self.automation.config_vars;
        let unread = self.unreadable.has("configVars") || self.unreadable.may_name(name);
        if unread || variables.iter().any(|variable| variable.name.name == *name) {
            return None;
        }
        let position = read.position(1);
        let message = format!("the configuration variable `{name}` is not declared");
        let diagnostic = Diagnostic::error("undeclared-config-var", message, position.span);
        let names: Vec<&str> = variables.iter().map(|variable| variable.name.name.as_str()).collect();
        let help = format!("declare it at the top of the file: `configVars: {{{name}: …}}`");
        Some(position.nearest(diagnostic, name, &names).help(help))
    }
}

impl<'a, 's> ReadSite<'a, 's> {
    fn top(names: &'s Names<'a>) -> Self {
        Self { names, step: None, in_guard: false, trigger: None, after: None }
    }
}

#[cfg(test)]
mod tests;
