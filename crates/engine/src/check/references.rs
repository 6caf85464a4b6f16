//! What expressions read against what exists where they stand.
//!
//! Every expression of a file is visited with the names in force at its place; each path that it reads is followed
//! as far as it is known before anything runs. Codes: `unknown-name`, `name-not-here`, `unknown-member`,
//! `unknown-step`, `later-step`, `other-branch`, `unwaited-step`, `may-be-missing`, `unknown-variable`,
//! `later-variable`, `racing-variable`, `moment-not-here`, `undeclared-input`, `undeclared-config-var`, `exposed-secret`.

mod absent;
mod meant;
mod names;
mod places;
mod races;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use connector::Registry;
use model::automation::{Automation, Block, ConfigVar, Step, Trigger, Verb};
use model::diagnostic::{Diagnostic, Span};
use model::expression::{Expression, Reference};
use model::load::Gaps;
use model::value::Key;
use model::{Connection, Source, Template};

use self::absent::{behind_stop, maybe, never, words};
use self::meant::{Dashed, dashed};
use self::names::{ErrorName, Names, Place};
use self::places::{Doubt, Places, Seen, Way};
use self::races::Reading;
use crate::plan::Plan;

/// Checks every expression of the file. Where the order of steps is not settled (their `needs` are circular or could
/// not be read), only what does not depend on it is checked.
pub(crate) fn check(
    automation: &Automation,
    gaps: &Gaps,
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
        gaps,
        places: Places::of(automation, gaps, plan),
        variables,
        said: HashSet::new(),
        found: Vec::new(),
    };
    checker.automation();
    checker.found
}

/// Checks the expressions of a connection: only `env` and `secrets` exist there.
pub(crate) fn connection(connection: &Connection) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (_, template) in &connection.with {
        template.expressions(&mut |expression| {
            found.extend(dated(expression, VARIABLE));
            for reference in expression.references() {
                let Some(root) = reference.path.first().filter(|root| !names::OUTSIDE.contains(&root.as_str())) else {
                    continue;
                };
                let spot = Spot::of(&connection.source, expression, &reference.path, 0);
                let message = format!("`{root}` does not exist in a connection");
                let diagnostic = Diagnostic::error("name-not-here", message, spot.span);
                found.push(
                    spot.nearest(diagnostic, root, &names::OUTSIDE)
                        .help("a connection is read before any execution; write a value, `${{ secrets.x }}` or `${{ env.X }}`"),
                );
            }
        });
    }
    found
}

/// Why a variable of a file or an input of a connection has no moment.
const VARIABLE: &str = "it is worked out anew whenever it is needed";

/// The complaint about `now()` or `uuid()` where no step records what they give.
fn dated(expression: &Expression, why: &str) -> Option<Diagnostic> {
    let message = "`now()` and `uuid()` cannot be asked for here: nothing records what they give";
    expression.is_nondeterministic().then(|| {
        Diagnostic::error("moment-not-here", message, expression.span())
            .help(format!("{why}; ask in a step, such as `set: {{today: ${{{{ now() }}}}}}`"))
    })
}

struct Checker<'a> {
    automation: &'a Automation,
    registry: &'a Registry,
    gaps: &'a Gaps,
    places: Places<'a>,
    /// The steps that set each variable.
    variables: BTreeMap<&'a str, Vec<&'a Step>>,
    /// What was said already: an expression may read a path twice.
    said: HashSet<(Span, &'static str)>,
    found: Vec<Diagnostic>,
}

/// From where an expression reads.
#[derive(Clone, Copy)]
struct Site<'a, 's> {
    names: &'s Names<'a>,
    /// The step it belongs to; none at the top of the file.
    step: Option<&'a Step>,
    /// Whether it is that step's own guard.
    in_guard: bool,
    /// The list at whose end it is read, for what a loop reads after a turn.
    after: Option<(&'a Block, Way<'a>)>,
}

impl<'a> Checker<'a> {
    fn automation(&mut self) {
        let automation = self.automation;
        for ConfigVar { value, secret, .. } in &automation.config_vars {
            value.expressions(&mut |expression| self.found.extend(dated(expression, VARIABLE)));
            self.template(value, Site::top(&Names::at(Place::ConfigVar { secret: *secret })));
        }
        if let Trigger::Webhook(webhook) = &automation.trigger {
            // A secret is never shown there, as in a variable that is marked so.
            let names = Names::at(Place::ConfigVar { secret: true });
            let mut look = |expression| self.expression(expression, Site::top(&names));
            webhook.verify.iter().for_each(|verify| verify.expressions(&mut look));
            webhook.challenge.iter().for_each(|challenge| challenge.expressions(&mut look));
        }
        self.asks();
        if let Some(condition) = &automation.trigger_if {
            self.found.extend(dated(condition, "the same start must be judged the same way each time"));
            self.expression(condition, Site::top(&Names::at(Place::TriggerIf)));
        }
        if let Some(key) = automation.concurrency.as_ref().and_then(|concurrency| concurrency.key.as_ref()) {
            let why = "the same start must be counted under the same key each time";
            key.expressions(&mut |expression| self.found.extend(dated(expression, why)));
            self.template(key, Site::top(&Names::at(Place::ConcurrencyKey)));
        }
        self.block(&automation.steps, &Names::at(Place::Steps));
        if let Some(outputs) = &automation.outputs {
            self.template(outputs, Site::top(&Names::at(Place::Steps)));
        }
        if let Some(block) = &automation.on_error {
            self.block(block, &Names::at(Place::Steps).with_error(ErrorName::Yes));
        }
        if let Some(block) = &automation.finally {
            self.block(block, &Names::at(Place::Steps).with_error(ErrorName::Maybe));
        }
    }

    /// What a trigger reads that asks for something.
    fn asks(&mut self) {
        let trigger = &self.automation.trigger;
        trigger.expressions(&mut |expression| {
            self.found.extend(dated(expression, "nothing records when a trigger asked"));
        });
        let inputs = if matches!(trigger, Trigger::Poll(_)) { Place::PollInputs } else { Place::EventInputs };
        for (_, template) in trigger.asks().into_iter().flat_map(|asks| &asks.with) {
            self.template(template, Site::top(&Names::at(inputs)));
        }
        if let Trigger::Poll(poll) = trigger {
            for expression in [&poll.items, &poll.cursor].into_iter().flatten() {
                self.expression(expression, Site::top(&Names::at(Place::PollResult)));
            }
            if let Some(id) = &poll.id {
                self.expression(id, Site::top(&Names::at(Place::PollItem)));
            }
        }
    }

    fn block(&mut self, block: &'a Block, names: &Names<'a>) {
        for step in &block.steps {
            let site = Site { names, step: Some(step), in_guard: false, after: None };
            if let Some(guard) = &step.guard {
                self.expression(guard, Site { in_guard: true, ..site });
            }
            step.verb.expressions(&mut |expression| self.expression(expression, site));
            self.waits_for(step, names, site);
            for (way, inner) in places::inner_blocks(step) {
                match way {
                    Way::Turn { item, .. } => self.block(inner, &names.clone().in_loop(item)),
                    Way::OnError | Way::Undo => self.block(inner, &names.clone().with_error(ErrorName::Yes)),
                    Way::Root(_) | Way::Case(..) | Way::Branch(_) | Way::Within => self.block(inner, names),
                }
                self.after_turns(step, inner, way, site);
            }
        }
    }

    /// What a step reads of an event that it waits for.
    fn waits_for(&mut self, step: &'a Step, names: &Names<'a>, site: Site<'a, '_>) {
        if let Verb::WaitFor(wait) = &step.verb
            && let Some(condition) = wait.condition()
        {
            self.expression(condition, Site { names: &names.clone().with_event(), ..site });
        }
    }

    /// What a loop reads at the end of each turn.
    fn after_turns(&mut self, step: &'a Step, block: &'a Block, way: Way<'a>, site: Site<'a, '_>) {
        let lists = step.verb.lists();
        let after = lists.iter().find(|list| std::ptr::eq(list.block, block)).and_then(|list| list.after);
        if let (Some(expression), Way::Turn { item, .. }) = (after, way) {
            let names = site.names.clone().in_loop(item);
            self.expression(expression, Site { names: &names, after: Some((block, way)), ..site });
        }
    }

    fn template(&mut self, template: &'a Template, site: Site<'a, '_>) {
        template.expressions(&mut |expression| self.expression(expression, site));
    }

    fn expression(&mut self, expression: &'a Expression, site: Site<'a, '_>) {
        for reference in expression.references() {
            self.reference(expression, reference, site);
        }
    }

    fn reference(&mut self, expression: &Expression, reference: &Reference, site: Site<'a, '_>) {
        let path = &reference.path;
        let Some(root) = path.first() else { return };
        let read = Read { source: &self.automation.source, expression, path };
        let allowed = site.names.allowed();
        if !allowed.contains(&root.as_str()) {
            if site.names.loops && self.gaps.has("as") {
                return;
            }
            if let Some(diagnostic) = self.unknown_name(read, &allowed, site) {
                self.say(diagnostic, site);
            }
            return;
        }
        if root == "error" && site.names.error == ErrorName::Maybe && !reference.optional {
            let message = "there is no `error` here when the execution succeeded";
            let diagnostic = Diagnostic::warning("may-be-missing", message, read.spot(0).span)
                .help("ask first: `if: error is defined`, or write `error.message | default('')`");
            let asked = site
                .step
                .and_then(|step| step.guard.as_ref())
                .is_some_and(|guard| guard.references().iter().any(|asked| asked.path.first() == Some(root)));
            let unread = site.step.is_some_and(|step| self.gaps.has_in_step(&step.id, "if"));
            if (!asked || site.in_guard) && !unread {
                self.say(diagnostic, site);
            }
        }
        // A loop may call its item by any other name, so what is below is known only of names that are not.
        let diagnostic = match root.as_str() {
            root if site.names.items.contains(&root) => None,
            "secrets" if site.names.place == (Place::ConfigVar { secret: false }) => {
                let message = "a secret can be read only by a variable that is marked as secret";
                Some(
                    Diagnostic::error("exposed-secret", message, read.spot(0).span)
                        .help("write `{value: …, secret: true}`: it is then never shown, logged or stored"),
                )
            }
            "steps" => {
                if let Some(diagnostic) = self.step_member(read) {
                    self.say(diagnostic, site);
                }
                self.step(read, reference.optional, site)
            }
            "vars" => self.variable(read, reference.optional, site),
            "trigger" => self.trigger(read, reference.optional),
            "inputs" => self.input(read),
            "configVars" => self.config_var(read),
            "execution" => read.member(1, &names::EXECUTION),
            "automation" => read.member(1, &names::AUTOMATION),
            "error" => read.member(1, &names::ERROR),
            "event" => read.member(1, &names::EVENT),
            "state" => read.state_key(),
            _ => None,
        };
        if let Some(diagnostic) = diagnostic {
            self.say(diagnostic, site);
        }
    }

    fn unknown_name(&self, read: Read<'_>, allowed: &[&str], site: Site<'a, '_>) -> Option<Diagnostic> {
        let root = &read.path[0];
        let spot = read.spot(0);
        if let Some(help) = site.names.elsewhere(root) {
            let message = format!("`{root}` does not exist here");
            return Some(
                Diagnostic::error("name-not-here", message, spot.span)
                    .allowed(allowed.iter().copied())
                    .help(help),
            );
        }
        let message = format!("`{root}` is not defined");
        let diagnostic = Diagnostic::error("unknown-name", message, spot.span);
        match dashed(read, &spot) {
            // Of a name with several dashes the first part is told of.
            Some(Dashed::Later) => return None,
            Some(Dashed::First(help)) => return Some(diagnostic.help(help)),
            None => {}
        }
        if let Some(help) = self.elsewhere(read).filter(|_| site.names.place == Place::Steps) {
            return Some(diagnostic.allowed(allowed.iter().copied()).help(help));
        }
        Some(match names::meant(self.automation, root).filter(|_| site.names.place == Place::Steps) {
            Some(meant) => {
                diagnostic.allowed(allowed.iter().copied()).help(format!("did you mean `{meant}`?"))
            }
            None => spot.nearest(diagnostic, root, allowed),
        })
    }

    fn say(&mut self, diagnostic: Diagnostic, site: Site<'a, '_>) {
        if self.said.insert((diagnostic.span, diagnostic.code)) {
            self.found.push(match site.step {
                Some(step) => diagnostic.step(step.id.as_ref()),
                None => diagnostic,
            });
        }
    }

    /// The place from where something is read; nothing at the top of the file.
    fn reader(&self, site: Site<'a, '_>) -> Option<Cow<'_, places::Chain<'a>>> {
        let step = site.step?;
        match site.after {
            Some((block, way)) => self.places.at_the_end_of(step, block, way).map(Cow::Owned),
            None => self.places.chain(&step.id).map(Cow::Borrowed),
        }
    }

    /// `steps.<id>`: whether there is such a step, and whether it has run where it is read.
    fn step(&self, read: Read<'_>, optional: bool, site: Site<'a, '_>) -> Option<Diagnostic> {
        let id = read.path.get(1)?;
        let spot = read.spot(1);
        if self.gaps.may_name(id) {
            return None;
        }
        let Some(target) = self.places.chain(id) else {
            if self.gaps.has("steps") {
                return None;
            }
            let reader = self.reader(site);
            let is_read = |id: &&str| match (self.places.chain(id), &reader) {
                (Some(target), Some(reader)) => {
                    !matches!(self.places.seen_by(reader, site.in_guard, target), Seen::Never(_))
                }
                (Some(target), None) => !matches!(self.places.at_the_end(target), Seen::Never(_)),
                (None, _) => false,
            };
            let mut ids: Vec<&str> = self.places.ids().collect();
            // A step that was misspelt and cannot be read here is told of once its name is right.
            if model::diagnostic::nearest(id, ids.iter().copied()).is_none() {
                ids.retain(is_read);
            }
            ids.sort_unstable();
            let diagnostic = Diagnostic::error("unknown-step", format!("there is no step `{id}`"), spot.span);
            return Some(spot.nearest(diagnostic, id, &ids));
        };
        let reader = self.reader(site);
        let seen = match &reader {
            Some(reader) => self.places.seen_by(reader, site.in_guard, target),
            None => self.places.at_the_end(target),
        };
        if let (None, Seen::Always) = (&reader, &seen)
            && !optional
            && let Some(stop) = self.stop_before(target)
        {
            return Some(behind_stop(id, stop, spot.span));
        }
        match seen {
            Seen::Never(why) => {
                // With a default, what the turn before left can be carried over.
                let carried = optional && reader.is_some_and(|reader| Places::share_turns(&reader, target));
                (!carried).then(|| never(id, why, spot.span))
            }
            Seen::Maybe(doubts) if !optional => {
                // A step skipped by its own guard has results: null. Only what is below them is missing.
                let own = matches!(doubts.as_slice(), [Doubt::Condition { own: true, .. }]);
                (!(own && read.path.len() <= 3)).then(|| maybe(id, &doubts, spot.span))
            }
            Seen::Maybe(_) | Seen::Always | Seen::Unsure => None,
        }
    }

    /// A `stop` without a result that may end the execution before a step has run.
    fn stop_before(&self, target: &places::Chain<'a>) -> Option<&'a Step> {
        let mut found = None;
        self.automation.steps.walk(&mut |step| {
            let Verb::Stop { result } = &step.verb else { return };
            // One with a result ends with it, and nothing of the file's `outputs` is read.
            let has_result = result.literal().is_none_or(|result| !result.is_null());
            let Some(stop) = self.places.chain(&step.id).filter(|_| !has_result && found.is_none()) else {
                return;
            };
            if matches!(self.places.seen_by(stop, false, target), Seen::Never(_)) {
                found = Some(step);
            }
        });
        found
    }

    /// `vars.<name>`
    fn variable(&self, read: Read<'_>, optional: bool, site: Site<'a, '_>) -> Option<Diagnostic> {
        let name = read.path.get(1)?;
        let spot = read.spot(1);
        if self.gaps.may_set(name) {
            return None;
        }
        let Some(setters) = self.variables.get(name.as_str()) else {
            let message = format!("no step sets `{name}`");
            let diagnostic = Diagnostic::error("unknown-variable", message, spot.span);
            let names: Vec<&str> = self.variables.keys().copied().collect();
            return Some(
                spot.nearest(diagnostic, name, &names).help(format!("name it: `set: {{{name}: …}}`")),
            );
        };
        let reader = self.reader(site);
        let mut never = None;
        for setter in setters {
            let target = self.places.chain(&setter.id)?;
            let seen = match &reader {
                Some(reader) => self.places.seen_by(reader, site.in_guard, target),
                None => self.places.at_the_end(target),
            };
            match seen {
                Seen::Always | Seen::Maybe(_) => {
                    let reader = reader.as_deref();
                    let reading = Reading { name, span: spot.span, reader, in_guard: site.in_guard };
                    return self.race(&reading, setters);
                }
                Seen::Unsure => return None,
                Seen::Never(_)
                    if optional
                        && reader.as_ref().is_some_and(|reader| Places::share_turns(reader, target)) =>
                {
                    return None;
                }
                Seen::Never(why) => never = never.or(Some((setter, why))),
            }
        }
        let (setter, why) = never?;
        let message = format!("`{name}` is not set yet: step `{}`, which sets it, {}", setter.id, words(why));
        Some(
            Diagnostic::error("later-variable", message, spot.span)
                .related(setter.span, format!("`{name}` is set here"))
                .help("set it before, in a step that has ended when this one begins"),
        )
    }

    fn input(&self, read: Read<'_>) -> Option<Diagnostic> {
        let name = read.path.get(1)?;
        let inputs = &self.automation.inputs;
        let unread = self.gaps.has("inputs") || self.gaps.may_name(name);
        if unread || inputs.iter().any(|input| input.name == *name) {
            return None;
        }
        let spot = read.spot(1);
        let message = format!("the input `{name}` is not declared");
        let diagnostic = Diagnostic::error("undeclared-input", message, spot.span);
        let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        let help = format!("declare it at the top of the file: `inputs: {{{name}: {{type: text}}}}`");
        Some(spot.nearest(diagnostic, name, &names).help(help))
    }

    fn config_var(&self, read: Read<'_>) -> Option<Diagnostic> {
        let name = read.path.get(1)?;
        let variables = &self.automation.config_vars;
        let unread = self.gaps.has("configVars") || self.gaps.may_name(name);
        if unread || variables.iter().any(|variable| variable.name.name == *name) {
            return None;
        }
        let spot = read.spot(1);
        let message = format!("the configuration variable `{name}` is not declared");
        let diagnostic = Diagnostic::error("undeclared-config-var", message, spot.span);
        let names: Vec<&str> = variables.iter().map(|variable| variable.name.name.as_str()).collect();
        let help = format!("declare it at the top of the file: `configVars: {{{name}: …}}`");
        Some(spot.nearest(diagnostic, name, &names).help(help))
    }
}

impl<'a, 's> Site<'a, 's> {
    fn top(names: &'s Names<'a>) -> Self {
        Self { names, step: None, in_guard: false, after: None }
    }
}

/// A path that an expression reads.
#[derive(Clone, Copy)]
struct Read<'r> {
    source: &'r Source,
    expression: &'r Expression,
    path: &'r [Key],
}

impl Read<'_> {
    fn spot(&self, depth: usize) -> Spot {
        Spot::of(self.source, self.expression, self.path, depth)
    }

    /// The complaint about a key of the state that is not known before the step runs, and so cannot be read ahead of it.
    fn state_key(&self) -> Option<Diagnostic> {
        if self.path.len() > 1 {
            return None;
        }
        let message = "only keys that are written out can be read of `state`";
        Some(
            Diagnostic::error("computed-state-key", message, self.spot(0).span)
                .help("write `state.someKey`, or read it with a step: `action: state.get`"),
        )
    }

    /// The complaint about a member that is not one of these.
    fn member(&self, depth: usize, known: &[&str]) -> Option<Diagnostic> {
        let name = self.path.get(depth).filter(|name| !known.contains(&name.as_str()))?;
        let parent = self.path.get(..depth).unwrap_or_default().join(".");
        let spot = self.spot(depth);
        let diagnostic =
            Diagnostic::error("unknown-member", format!("`{parent}` has no `{name}`"), spot.span);
        Some(spot.nearest(diagnostic, name, known))
    }
}

/// Where a name of a path stands.
struct Spot {
    span: Span,
    /// Whether the span covers exactly the name; else it covers the expression.
    exact: bool,
}

impl Spot {
    /// Where the name at `depth` of a path stands, if the path is written out with dots.
    fn of(source: &Source, expression: &Expression, path: &[Key], depth: usize) -> Self {
        let whole = Self { span: expression.span(), exact: false };
        let text = source.slice(expression.span());
        let (Some(until), Some(name)) = (path.get(..=depth), path.get(depth)) else { return whole };
        // A text with escapes or line breaks does not stand in the file as it is.
        if text != expression.text() {
            return whole;
        }
        let wanted = until.join(".");
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let found = text.match_indices(&wanted).find(|(at, _)| {
            let before = &text[..*at];
            let begins = !before.ends_with(part) && (!before.ends_with('.') || before.ends_with("$."));
            begins && !text[at + wanted.len()..].starts_with(part)
        });
        let Some((at, _)) = found else { return whole };
        let end = expression.span().start as usize + at + wanted.len();
        Self { span: Span::new(end - name.len(), end), exact: true }
    }

    /// The names that are right, and the closest: as a correction where the place is exact, else in words.
    fn nearest(&self, diagnostic: Diagnostic, found: &str, names: &[&str]) -> Diagnostic {
        if self.exact {
            return diagnostic.expected_names(found, names.iter().copied());
        }
        let near = model::diagnostic::nearest(found, names.iter().copied());
        let diagnostic = diagnostic.allowed(names.iter().copied());
        match near {
            Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
            None => diagnostic,
        }
    }
}

#[cfg(test)]
mod tests;
