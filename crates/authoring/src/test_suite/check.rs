//! Checks a test file against the tested automation and the available actions.

use std::path::Path;
use std::sync::Arc;

use catalog::{Catalog, ProjectFileError, check_project_target, stem};
use connector::{Registry, convert_input};
use expression::Expression;
use model::AutomationId;
use model::action::{ActionSpec, InputSpec};
use model::automation::{
    Approval, Automation, BlockKind, DeclaredTrigger, OwnEventTrigger, SpannedName, StartForm, Step, Verb,
    WaitOn,
};
use model::execution::split_key;
use model::test_suite::{
    CallsExpect, Case, Matcher, Pattern, Start, StimulusKind, Stub, StubOutcome, Suite, Target, TriggerChoice,
};
use text::Span;
use text::diagnostic::{Diagnostic, nearest};
use value::{Map, Value};

use super::result;

/// Names in scope of a double's expressions.
const OF_A_DOUBLE: [&str; 2] = ["inputs", "index"];
/// Names in scope of a test's conditions.
const OF_A_CONDITION: [&str; 9] =
    ["result", "error", "steps", "response", "calls", "events", "logs", "state", "duration"];

/// Returns all problems of a test file. `dir` is the project folder, if its files may be examined.
pub(super) fn check(suite: &Suite, catalog: &Catalog, dir: Option<&Path>) -> Vec<Diagnostic> {
    let automation = match automation(suite, catalog) {
        Ok(automation) => automation,
        Err(diagnostic) => return vec![*diagnostic],
    };
    let registry = catalog.registry();
    let mut check = Check {
        automation: &automation,
        trigger: None,
        catalog,
        registry,
        suite,
        dir,
        found: Vec::new(),
        doubles: Vec::new(),
    };
    suite.cases.iter().for_each(|case| check.case(case));
    check.found
}

/// Returns the tested automation.
fn automation(suite: &Suite, catalog: &Catalog) -> Result<Arc<Automation>, Box<Diagnostic>> {
    let SpannedName { name, span } = &suite.automation;
    let id = AutomationId::parse(name);
    if let Some(deployment) = id.as_ref().and_then(|id| catalog.get(id)) {
        return Ok(deployment.automation.clone());
    }
    if let Some(broken) = catalog.invalid_files().iter().find(|broken| stem(&broken.path) == name) {
        let message = format!("the automation `{name}` has errors of its own");
        let help = format!("correct the errors reported in {}", broken.path);
        return Err(Box::new(Diagnostic::error("broken-automation", message, *span).help(help)));
    }
    let names: Vec<&str> =
        catalog.automations().map(|deployment| deployment.automation.id.as_str()).collect();
    let near = nearest(name, names.iter().copied()).map(str::to_owned);
    let written = !span.is_empty();
    let diagnostic =
        Diagnostic::error("unknown-automation", format!("there is no automation `{name}`"), *span);
    Err(Box::new(match near {
        // Without `automation` the id comes from the file name, which a quick fix cannot change.
        Some(near) if !written => diagnostic.help(format!("add `automation: {near}`, or rename the file")),
        Some(near) => diagnostic.nearest(Some(near)),
        None => diagnostic.help("write `automation: ID`, the id of the automation that is tested"),
    }))
}

struct Check<'a> {
    automation: &'a Automation,
    /// The trigger that the test starts.
    trigger: Option<&'a DeclaredTrigger>,
    catalog: &'a Catalog,
    registry: &'a Registry,
    suite: &'a Suite,
    dir: Option<&'a Path>,
    found: Vec<Diagnostic>,
    /// Positions of checked doubles; doubles of the whole file are repeated in each test.
    doubles: Vec<Span>,
}

impl<'a> Check<'a> {
    fn case(&mut self, case: &Case) {
        self.trigger = match case.trigger_of(self.automation) {
            Ok(trigger) => Some(trigger),
            Err(choice) => {
                self.found.push(self.no_trigger(case, choice));
                None
            }
        };
        self.start(case);
        for double in &case.doubles {
            if !self.doubles.contains(&double.span) {
                self.doubles.push(double.span);
                self.double(double);
            }
        }
        case.stimuli.iter().for_each(|happening| self.stimulus(&happening.what));
        case.receivers.iter().for_each(|receiver| self.receiver(receiver));
        for (name, expect) in &case.expect.steps {
            if let Some(step) = self.step(&name.name, name.span) {
                self.branch(step, expect.branch.as_ref());
                if let Some((_, span)) = expect.turns
                    && !step
                        .verb
                        .nested_blocks()
                        .iter()
                        .any(|list| matches!(list.kind, BlockKind::Loop { .. }))
                {
                    let message = format!("the step `{}` is not a loop, so it has no iterations", step.id);
                    self.found.push(Diagnostic::error("not-of-step", message, span));
                }
            }
        }
        match &case.expect.calls {
            None => {}
            Some(CallsExpect::Counts(counts)) => counts.iter().for_each(|(name, _)| {
                self.target(&Target::parse(&name.name), name.span);
            }),
            Some(CallsExpect::Whole { calls, .. }) => {
                for call in calls {
                    if let Some(spec) = self.target(&call.target, call.span) {
                        self.inputs_in(call.with.as_ref(), &spec);
                    }
                }
            }
        }
        if let Some(response) = &case.expect.response
            && let Some(trigger) = self.trigger
            && !trigger.on.answers_caller()
        {
            self.not_of_trigger("only a webhook answers a caller", response.span, "remove `response`");
        }
        for condition in &case.expect.that {
            self.names(condition, &OF_A_CONDITION);
        }
        self.cassette(case);
    }

    /// Reports that a test selects no trigger.
    fn no_trigger(&self, case: &Case, choice: TriggerChoice) -> Diagnostic {
        let ids = self.automation.triggers.iter().map(|trigger| trigger.id.as_str());
        match (choice, &case.trigger) {
            (TriggerChoice::Unknown, Some(named)) => {
                let message = format!("`{}` has no trigger `{}`", self.automation.id, named.name);
                Diagnostic::error("unknown-trigger", message, named.span).expected_names(&named.name, ids)
            }
            _ => {
                let message = "several triggers can start this test".to_owned();
                Diagnostic::error("missing-key", message, case.start_span)
                    .allowed(ids)
                    .help("name one of them: `trigger: ID`")
            }
        }
    }

    fn start(&mut self, case: &Case) {
        let span = case.start_span;
        let Some(trigger) = self.trigger else { return };
        match (&case.start, trigger.on.start_form()) {
            (Start::Inputs(_), StartForm::Request(_)) => {
                self.not_of_trigger(
                    "a request starts this automation, not a manual start",
                    span,
                    "write `payload: {…}`",
                );
            }
            (Start::Inputs(_) | Start::Request(_) | Start::ScheduledAt(_), StartForm::Data { .. }) => {
                self.not_of_trigger("data start this automation", span, "write `found: …` with the data");
            }
            (Start::Polled(data), StartForm::Data { .. }) => {
                trigger.on.own_event().into_iter().for_each(|event| self.event_data(event, data, span));
            }
            (Start::Polled(_), StartForm::Request(_) | StartForm::Instant | StartForm::Inputs) => {
                self.not_of_trigger("this automation does not poll", span, "remove `found`");
            }
            (Start::Inputs(inputs), _) => self.inputs(inputs),
            (Start::Request(_), StartForm::Instant) => {
                self.not_of_trigger(
                    "a schedule starts this automation, not a request",
                    span,
                    "write `scheduledAt: …`",
                );
            }
            (Start::Request(_), StartForm::Inputs) => {
                self.not_of_trigger(
                    "this automation is started manually, not by a request",
                    span,
                    "write `inputs: {…}`",
                );
            }
            (Start::ScheduledAt(_), StartForm::Request(_) | StartForm::Inputs) => {
                self.not_of_trigger("this automation has no schedule", span, "remove `scheduledAt`");
            }
            _ => {}
        }
    }

    fn not_of_trigger(&mut self, message: &str, span: Span, help: &str) {
        let kind = self.trigger.map_or("manual", |trigger| trigger.on.keyword());
        self.found.push(
            Diagnostic::error("not-of-trigger", message, span)
                .label(format!("the trigger of `{}` is `{kind}`", self.automation.id))
                .help(help),
        );
    }

    fn inputs(&mut self, inputs: &[(SpannedName, Value)]) {
        let declared = &self.automation.inputs;
        for (name, value) in inputs {
            match declared.iter().find(|input| input.name == name.name) {
                Some(input) => {
                    if let Err(problem) = convert_input(input, value) {
                        let message = format!("input `{}`: {problem}", name.name);
                        self.found.push(Diagnostic::error("wrong-input", message, name.span));
                    }
                }
                None => {
                    let message = format!("`{}` has no input `{}`", self.automation.id, name.name);
                    let names = declared.iter().map(|input| input.name.as_str());
                    self.found.push(
                        Diagnostic::error("unknown-input", message, name.span)
                            .expected_names(&name.name, names),
                    );
                }
            }
        }
    }

    /// Checks the data of the event that starts a test against the data that the trigger declares.
    fn event_data(&mut self, event: &OwnEventTrigger, data: &Value, span: Span) {
        if event.data_span.is_none() {
            return;
        }
        let name = &event.name.name;
        let mut wrong = |message| self.found.push(Diagnostic::error("wrong-input", message, span));
        let none = Map::new();
        let data = match data {
            Value::Map(data) => data,
            Value::Null => &none,
            other => return wrong(format!("`{name}` expects a map, found {}", other.kind())),
        };
        for input in &event.data {
            match convert_input(input, data.get(&input.name).unwrap_or(&Value::Null)) {
                Err(problem) => wrong(format!("`{}` {problem}", input.name)),
                Ok(None) if input.required && input.default.is_none() => {
                    wrong(format!("`{name}` needs `{}` ({})", input.name, input.kind.describe()));
                }
                Ok(_) => {}
            }
        }
    }

    /// Checks an automation that events of the test start.
    fn receiver(&mut self, receiver: &SpannedName) {
        let name = &receiver.name;
        let Ok(deployment) = self.catalog.find(name) else {
            let message = format!("there is no automation `{name}`");
            let ids = self.catalog.automations().map(|deployment| deployment.automation.id.as_str());
            self.found.push(
                Diagnostic::error("unknown-automation", message, receiver.span).expected_names(name, ids),
            );
            return;
        };
        if !deployment.automation.triggers.iter().any(|trigger| trigger.on.own_event().is_some()) {
            let message = format!("no event that a step sends starts `{name}`");
            self.found.push(
                Diagnostic::error("not-of-trigger", message, receiver.span)
                    .help("name automations with `trigger: {event: …}` of an own event"),
            );
        }
    }

    fn stimulus(&mut self, what: &StimulusKind) {
        match what {
            StimulusKind::Event { name, .. } => self.event(name),
            StimulusKind::Approval { step: named, option, form } => {
                let Some(step) = self.step(&named.name, named.span) else { return };
                let Some(approval) = approval(step) else {
                    let message = format!(
                        "the step `{}` requests no approval: its verb is `{}`",
                        step.id,
                        step.verb.keyword()
                    );
                    self.found.push(
                        Diagnostic::error("not-of-step", message, named.span)
                            .help("name a step with `waitFor: {approval: …}`"),
                    );
                    return;
                };
                if !approval.options.contains(&option.name) {
                    let message = format!("the step `{}` has no option `{}`", step.id, option.name);
                    let options = approval.options.iter().map(String::as_str);
                    self.found.push(
                        Diagnostic::error("unknown-value", message, option.span)
                            .expected_names(&option.name, options),
                    );
                }
                let known = |key: &str| approval.form.iter().any(|input| input.name == key);
                if let Some(unknown) = form.keys().find(|key| !known(key)) {
                    let message = format!("the form of the step `{}` has no field `{unknown}`", step.id);
                    let names = approval.form.iter().map(|input| input.name.clone());
                    self.found.push(Diagnostic::error("unknown-input", message, named.span).allowed(names));
                }
            }
            StimulusKind::Cancel { .. } => {}
        }
    }

    /// Reports an event that no step can wait for.
    fn event(&mut self, event: &SpannedName) {
        let (mut names, mut certain) = (Vec::new(), true);
        self.automation.walk(&mut |step| match &step.verb {
            Verb::WaitFor(wait) => match &wait.on {
                WaitOn::Event { name, .. } => match name.literal().and_then(Value::as_str) {
                    Some(name) => names.push(name),
                    None => certain = false,
                },
                WaitOn::Approval(_) => {}
            },
            // A called automation may wait for it.
            Verb::Call(_) => certain = false,
            _ => {}
        });
        if certain && !names.contains(&event.name.as_str()) {
            let message = format!("no step waits for the event `{}`", event.name);
            self.found.push(
                Diagnostic::error("unknown-value", message, event.span).expected_names(&event.name, names),
            );
        }
    }

    fn double(&mut self, double: &Stub) {
        let spec = self.target(&double.target, double.span);
        for answer in &double.answers {
            if let Some(spec) = &spec {
                self.inputs_in(answer.when.as_ref(), spec);
            }
            let StubOutcome::Result(template) = &answer.reply else { continue };
            let mut expressions = Vec::new();
            template.expressions(&mut |expression| expressions.push(expression));
            for expression in expressions {
                self.names(expression, &OF_A_DOUBLE);
            }
            if let Some(spec) = &spec {
                for type_mismatch in result::type_mismatches(template, &spec.results) {
                    let message = format!("`{}` never returns this: {type_mismatch}", spec.name);
                    self.found.push(
                        Diagnostic::warning("wrong-double", message, answer.span)
                            .help(format!("`cogwork connectors show {}` shows its result", spec.name)),
                    );
                }
            }
        }
    }

    /// Checks the target of a double or an expected call. Returns the action's spec if it is an action.
    fn target(&mut self, target: &Target, span: Span) -> Option<ActionSpec> {
        match target {
            Target::Action(name) => match self.registry.action(name) {
                Some(action) => Some(action.spec().clone()),
                None => {
                    self.unknown_action(name, span);
                    None
                }
            },
            Target::Step(id) => {
                let step = self.step(id, span)?;
                match &step.verb {
                    Verb::Action(call) => Some(self.registry.action(&call.action.name)?.spec().clone()),
                    Verb::Call(_) => None,
                    other => {
                        let message =
                            format!("the step `{id}` calls nothing: its verb is `{}`", other.keyword());
                        self.found.push(Diagnostic::error("not-of-step", message, span).help(
                            "name a step with `action` or `call`, or an action such as `wiki.createPage`",
                        ));
                        None
                    }
                }
            }
        }
    }

    fn unknown_action(&mut self, name: &str, span: Span) {
        let mut names = Vec::new();
        self.automation.walk(&mut |step| {
            if let Verb::Action(call) = &step.verb {
                names.push(call.action.name.as_str());
            }
        });
        names.sort_unstable();
        names.dedup();
        let all = self.registry.actions().map(|action| action.spec().name.as_str());
        let near = nearest(name, names.iter().copied()).or_else(|| nearest(name, all)).map(str::to_owned);
        self.found.push(
            Diagnostic::error("unknown-action", format!("there is no action `{name}`"), span)
                .allowed(names)
                .nearest(near),
        );
    }

    /// Reports inputs in a pattern that the action does not declare.
    fn inputs_in(&mut self, pattern: Option<&Pattern>, spec: &ActionSpec) {
        let Some(Pattern { matcher: Matcher::Map(entries), .. }) = pattern else { return };
        let names = || spec.inputs.iter().map(|input: &InputSpec| input.name.as_str());
        for (name, _) in entries {
            if !names().any(|known| known == name.name) {
                let message = format!("`{}` has no input `{}`", spec.name, name.name);
                self.found.push(
                    Diagnostic::error("unknown-input", message, name.span)
                        .expected_names(&name.name, names()),
                );
            }
        }
    }

    /// Returns the step of a key, which may include iterations; reports an unknown step.
    fn step(&mut self, key: &str, span: Span) -> Option<&'a Step> {
        let id = split_key(key).0;
        let automation = self.automation;
        if let Some(step) = automation.step(id) {
            return Some(step);
        }
        let mut ids = Vec::new();
        automation.walk(&mut |step| ids.push(step.id.as_ref()));
        self.found.push(
            Diagnostic::error(
                "unknown-step",
                format!("there is no step `{id}` in `{}`", automation.id),
                span,
            )
            .expected_names(key, ids),
        );
        None
    }

    fn branch(&mut self, step: &Step, branch: Option<&SpannedName>) {
        let Some(branch) = branch else { return };
        let lists = step.verb.nested_blocks();
        let cases = lists.iter().filter(|list| matches!(list.kind, BlockKind::Case { .. }));
        let mut names: Vec<&str> = cases.filter_map(|list| list.name).collect();
        if names.is_empty() {
            let message = format!(
                "the step `{}` has the verb `{}`, which has no branches",
                step.id,
                step.verb.keyword()
            );
            self.found.push(Diagnostic::error("not-of-step", message, branch.span));
            return;
        }
        if !step.verb.covers_every_case() {
            names.push("none");
        }
        if !names.contains(&branch.name.as_str()) {
            let message = format!("the step `{}` has no branch `{}`", step.id, branch.name);
            self.found.push(
                Diagnostic::error("unknown-value", message, branch.span).expected_names(&branch.name, names),
            );
        }
    }

    fn names(&mut self, expression: &Expression, known: &[&str]) {
        for reference in expression.references() {
            let Some(root) = reference.path.first() else { continue };
            if !known.contains(&root.as_str()) {
                let message = format!("there is no `{root}` here");
                let mut diagnostic = Diagnostic::error("unknown-name", message, expression.span())
                    .allowed(known.iter().copied());
                if let Some(near) = nearest(root, known.iter().copied()) {
                    diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
                }
                self.found.push(diagnostic);
            }
        }
    }

    fn cassette(&mut self, case: &Case) {
        let (Some(name), Some(dir)) = (&case.cassette, self.dir) else { return };
        let path = super::cassette_path(self.suite, &name.name);
        if let Err(error @ (ProjectFileError::LeadsOut(_) | ProjectFileError::NotProject { .. })) =
            check_project_target(dir, &path)
        {
            self.found.push(Diagnostic::error("unreadable-file", error.to_string(), name.span));
        } else if !dir.join(path).is_file() {
            let message = format!("there is no recording `{}` yet", name.name);
            self.found.push(
                Diagnostic::warning("missing-cassette", message, name.span)
                    .help("make it with `cogwork test --record`, which calls the real system"),
            );
        }
    }
}

/// Returns the approval that a step requests; `None` for other steps.
fn approval(step: &Step) -> Option<&Approval> {
    let Verb::WaitFor(wait) = &step.verb else { return None };
    if let WaitOn::Approval(approval) = &wait.on { Some(approval) } else { None }
}
