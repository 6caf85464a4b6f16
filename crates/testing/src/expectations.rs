//! Compares the trace of a test with its expectations.

use connector::UnmatchedRequest;
use expression::Expression;
use model::automation::{Automation, SpannedName};
use model::execution::{Event, Origin, Outcome, split_key};
use model::payload::HttpResponse;
use model::test_suite::{
    CallsExpect, Case, Ending, Expect, Mismatch, Pattern, ResponseExpect, StepEnding, StepExpect, Target,
};
use model::{ActionError, LogLine};
use text::Span;
use text::diagnostic::{Diagnostic, nearest};
use text::units::format_duration;
use value::{JsonLimits, Map, Value};

use crate::observed::{self, ObservedStep, ObservedSteps};
use crate::stubs::{Call, Unanswered};
use crate::test_run::TestTrace;

/// Maximum number of diagnostics per test.
const MAX_DIAGNOSTICS: usize = 20;

/// Returns all unmet expectations, causes before consequences.
pub(super) fn check_expectations(case: &Case, automation: &Automation, trace: &TestTrace) -> Vec<Diagnostic> {
    let mut check = ExpectationCheck { case, expect: &case.expect, automation, trace, found: Vec::new() };
    check.calls_without_answer();
    check.start();
    if let Some(execution) = trace.executions.first() {
        let observed = ObservedSteps::from_events(&execution.events);
        check.end(&execution.events);
        for (name, expect) in &case.expect.steps {
            check.step(name, expect, &observed);
        }
        check.calls();
        check.list("events", case.expect.events.as_ref(), trace.call_log.events.clone());
        check.list("logs", case.expect.logs.as_ref(), execution.logs.iter().map(line).collect());
        check.duration(&execution.events);
        check.conditions(&observed, &execution.events, &execution.logs);
    }
    for (key, pattern) in &case.expect.state {
        let found = trace.state.get(&key.name);
        check.compare(&format!("state.{}", key.name), pattern, found);
    }
    check.response();
    check.receivers();
    check.check_unused_doubles();
    check.unawaited();
    check.cassette();
    check.found.truncate(MAX_DIAGNOSTICS);
    check.found
}

struct ExpectationCheck<'a> {
    case: &'a Case,
    expect: &'a Expect,
    automation: &'a Automation,
    trace: &'a TestTrace,
    found: Vec<Diagnostic>,
}

impl ExpectationCheck<'_> {
    fn report_unmet(&mut self, message: impl Into<String>, span: Span, label: impl Into<String>) {
        self.found.push(Diagnostic::error("unmet", message, span).label(label));
    }

    fn compare(&mut self, path: &str, pattern: &Pattern, found: Option<&Value>) {
        for mismatch in pattern.compare(path, found) {
            let Mismatch { path, span, expected, found } = mismatch;
            self.report_unmet(format!("`{path}` is not {expected}"), span, format!("found {found}"));
        }
    }

    /// Reports calls without an answer; such a call fails its step.
    fn calls_without_answer(&mut self) {
        let mut reported: Vec<(&str, Option<&str>)> = Vec::new();
        for Unanswered { call, double } in &self.trace.call_log.unanswered {
            // Report a retried call only once.
            let about = (call.name.as_str(), call.step.as_deref());
            if reported.contains(&about) {
                continue;
            }
            reported.push(about);
            let of = call.step.as_ref().map_or_else(String::new, |step| format!(" of the step `{step}`"));
            self.found.push(match double {
                None => Diagnostic::error(
                    "no-double",
                    format!("nothing answers the call of `{}`{of}: a test calls nothing outside", call.name),
                    self.case.name.span,
                )
                .label("in this test")
                .help(format!("add below `doubles:` what it answers: `{}: {{result: …}}`", call.name)),
                Some(span) => Diagnostic::error(
                    "no-double",
                    format!("no answer of this double is for the call of `{}`{of}", call.name),
                    *span,
                )
                .label("all answers are used up, or for other inputs")
                .help(format!("add one for {}", Value::from(call.inputs.clone()).to_json())),
            });
        }
    }

    /// Checks whether an execution started as expected.
    fn start(&mut self) {
        let started = !self.trace.executions.is_empty();
        let (expected, span) = self.expect.started.unwrap_or((true, self.case.name.span));
        if started && !expected {
            self.report_unmet("an execution started", span, "expected none to start");
        }
        if !started && expected {
            let label = match (&self.trace.refused, &self.trace.response) {
                (Some(message), _) => format!("refused: {message}"),
                (None, Some(response)) => format!("the caller got {}: {}", response.status, text(response)),
                (None, None) => "the trigger's condition did not hold".to_owned(),
            };
            self.found.push(
                Diagnostic::error("unmet", "no execution started", span)
                    .label(label)
                    .help("if no execution should start, write `expect: {started: false}`"),
            );
        }
    }

    fn end(&mut self, events: &[Event]) {
        let expect = self.expect;
        let usual = if expect.error.is_some() { Ending::Failed } else { Ending::Succeeded };
        let (expected, span) = expect.outcome.unwrap_or((usual, self.case.name.span));
        let Some(outcome) = observed::outcome(events) else {
            let waits = self.trace.stuck.as_deref().unwrap_or("it was stopped");
            self.report_unmet("the execution does not finish", self.case.name.span, waits);
            return;
        };
        let found = match outcome {
            Outcome::Succeeded { .. } => Ending::Succeeded,
            Outcome::Failed { .. } | Outcome::Stuck { .. } => Ending::Failed,
            Outcome::Cancelled { .. } => Ending::Cancelled,
        };
        if found != expected {
            let label = match outcome {
                Outcome::Succeeded { result } => format!("it succeeded with {}", cut(&result.to_json())),
                Outcome::Failed { error } | Outcome::Stuck { error } => failure(error),
                Outcome::Cancelled { reason } => format!("it was cancelled: {reason}"),
            };
            let double_missing = self.found.iter().any(|diagnostic| diagnostic.code == "no-double");
            // The missing double is already reported as the cause.
            if !(double_missing && found == Ending::Failed) {
                self.report_unmet(format!("the execution has not {}", expected.as_str()), span, label);
            }
            return;
        }
        if let (Some(pattern), Outcome::Succeeded { result }) = (&expect.result, outcome) {
            self.compare("result", pattern, Some(result));
        }
        if let (Some(pattern), Outcome::Failed { error } | Outcome::Stuck { error }) =
            (&expect.error, outcome)
        {
            self.compare("error", pattern, Some(&error.to_value()));
        }
    }

    fn step(&mut self, name: &SpannedName, expect: &StepExpect, observed: &ObservedSteps<'_>) {
        let (id, turns) = split_key(&name.name);
        let Some(step) = self.automation.step(id) else { return };
        let mut key = name.name.as_str();
        let keys = observed.keys_of(id);
        if turns.is_empty() && observed.step(key).is_none() {
            match keys.as_slice() {
                [] => {}
                [one] => key = one,
                several => {
                    let label =
                        format!("it ran in {} iterations: name one, such as `{}`", several.len(), several[0]);
                    self.report_unmet(
                        format!("the iteration of the step `{id}` is not named"),
                        name.span,
                        label,
                    );
                    return;
                }
            }
        }
        let found = observed.step(key);
        let path = format!("steps.{}", name.name);
        self.step_ending(name, expect, found);
        let Some(found) = found else { return };
        if let Some(pattern) = &expect.result {
            self.compare(&format!("{path}.result"), pattern, Some(&found.result()));
        }
        if let Some(pattern) = &expect.error {
            let error = found.error().map(ActionError::to_value);
            self.compare(&format!("{path}.error"), pattern, error.as_ref());
        }
        let turns = split_key(key).1;
        if let (Some(branch), Some(taken)) = (&expect.branch, observed.branch(step, turns))
            && branch.name != taken
        {
            let label = if taken == "none" { "none ran".to_owned() } else { format!("`{taken}` ran") };
            self.report_unmet(
                format!("`{path}` has not taken the branch `{}`", branch.name),
                branch.span,
                label,
            );
        }
        if let (Some((expected, span)), Some(made)) = (expect.turns, observed.turns(step, turns))
            && usize::try_from(expected) != Ok(made)
        {
            self.report_unmet(
                format!("`{path}` has not made {expected} iterations"),
                span,
                format!("found {made}"),
            );
        }
        if let Some((expected, span)) = expect.tries
            && found.retries + 1 != expected
        {
            let label = format!("found {}", found.retries + 1);
            self.report_unmet(format!("`{path}` was not tried {expected} times"), span, label);
        }
    }

    fn step_ending(&mut self, name: &SpannedName, expect: &StepExpect, found: Option<ObservedStep<'_>>) {
        let word = |ending| {
            StepEnding::ALL.into_iter().find(|(_, other)| *other == ending).map_or("", |(word, _)| word)
        };
        let ending = match found {
            None => StepEnding::NotRun,
            Some(step) => step.ending().unwrap_or(StepEnding::NotRun),
        };
        match expect.outcome {
            Some((expected, _)) if expected == ending => {}
            Some((expected, span)) => {
                let label = match found.and_then(ObservedStep::error) {
                    Some(error) => failure(error),
                    None => format!("found {}", word(ending)),
                };
                self.report_unmet(format!("the step `{}` is not {}", name.name, word(expected)), span, label);
            }
            None if found.is_none() => {
                self.report_unmet(
                    format!("the step `{}` has not run", name.name),
                    name.span,
                    "expected to run",
                );
            }
            None => {}
        }
    }

    fn calls(&mut self) {
        let made = &self.trace.call_log.calls;
        match &self.expect.calls {
            None => {}
            Some(CallsExpect::Counts(counts)) => {
                for (name, expected) in counts {
                    let target = Target::parse(&name.name);
                    let count = made.iter().filter(|call| is_of(call, &target)).count();
                    if usize::try_from(*expected) != Ok(count) {
                        let times = |count: usize| {
                            if count == 1 { "once".to_owned() } else { format!("{count} times") }
                        };
                        let expected = usize::try_from(*expected).unwrap_or(usize::MAX);
                        let message = format!("`{}` was not called {}", name.name, times(expected));
                        self.report_unmet(message, name.span, format!("called {}", times(count)));
                    }
                }
            }
            Some(CallsExpect::Whole { span, calls }) => self.all_calls(*span, calls),
        }
    }

    /// Matches expected calls with actual calls and reports the unmatched ones of both.
    fn all_calls(&mut self, span: Span, calls: &[model::test_suite::CallExpect]) {
        let mut left: Vec<&Call> = self.trace.call_log.calls.iter().collect();
        for expected in calls {
            let mut missing = 0_u32;
            for _ in 0..expected.times {
                let fits = |call: &&Call| {
                    let inputs = Value::from(call.inputs.clone());
                    is_of(call, &expected.target)
                        && expected.with.as_ref().is_none_or(|with| with.fits(&inputs))
                        && uses_names(call, expected)
                };
                match left.iter().position(fits) {
                    Some(at) => {
                        left.remove(at);
                    }
                    None => missing += 1,
                }
            }
            if missing > 0 {
                self.missing_call(expected, missing, &mut left);
            }
        }
        for call in left {
            let inputs = cut(&Value::from(call.inputs.clone()).to_json());
            let message = format!("`{}` was called, which is not among the calls expected", call.name);
            self.report_unmet(message, span, format!("called by the step `{}` with {inputs}", call.key));
        }
    }

    fn missing_call(
        &mut self,
        expected: &model::test_suite::CallExpect,
        missing: u32,
        left: &mut Vec<&Call>,
    ) {
        let name = expected.target.name();
        // An unmatched call of the same action is probably the expected one.
        let near = left.iter().position(|call| is_of(call, &expected.target));
        if let Some(call) = near.map(|near| left[near]).filter(|call| !uses_names(call, expected)) {
            left.retain(|other| !std::ptr::eq(*other, call));
            let label = match &call.connection {
                Some(connection) => format!("`{}` was called with the connection `{connection}`", call.name),
                None => format!("`{}` was called", call.name),
            };
            self.report_unmet(format!("`{name}` was not called as expected"), expected.span, label);
            return;
        }
        if let (Some(near), Some(with)) = (near, &expected.with) {
            let call = left.remove(near);
            self.compare(&format!("calls.{name}.with"), with, Some(&Value::from(call.inputs.clone())));
            return;
        }
        let label =
            if missing == 1 { "not called".to_owned() } else { format!("{missing} calls are missing") };
        self.report_unmet(format!("`{name}` was not called as expected"), expected.span, label);
    }

    fn list(&mut self, path: &str, pattern: Option<&Pattern>, found: Vec<Value>) {
        if let Some(pattern) = pattern {
            self.compare(path, pattern, Some(&Value::from(found)));
        }
    }

    fn duration(&mut self, events: &[Event]) {
        let (Some(expected), Some(took)) = (self.expect.duration, duration(events)) else { return };
        if took < expected.at_least || took > expected.at_most {
            let words = match (expected.at_least, expected.at_most) {
                (least, most) if least == most => format_duration(least),
                (least, std::time::Duration::MAX) => format!("at least {}", format_duration(least)),
                (least, most) => format!("from {} to {}", format_duration(least), format_duration(most)),
            };
            let label = format!("it took {}", format_duration(took));
            self.report_unmet(format!("the execution did not take {words}"), expected.span, label);
        }
    }

    fn response(&mut self) {
        let Some(expected) = &self.expect.response else { return };
        let Some(response) = &self.trace.response else {
            self.report_unmet("there was no answer to a caller", expected.span, "expected a response");
            return;
        };
        let ResponseExpect { status, headers, body, .. } = expected;
        if let Some(pattern) = status {
            self.compare("response.status", pattern, Some(&Value::from(response.status)));
        }
        for (name, pattern) in headers {
            let found = response.header(&name.name).map(Value::from);
            self.compare(&format!("response.headers.{}", name.name), pattern, found.as_ref());
        }
        if let Some(pattern) = body {
            self.compare("response.body", pattern, Some(&body_of(response)));
        }
    }

    fn conditions(&mut self, observed: &ObservedSteps<'_>, events: &[Event], logs: &[LogLine]) {
        if self.expect.that.is_empty() {
            return;
        }
        let scope = self.scope(observed, events, logs);
        for condition in &self.expect.that {
            match condition.evaluate(&scope, &value::Budget::default()) {
                Ok(value) if value.is_truthy() => {}
                Ok(value) => {
                    let label = match operands(condition, &scope).as_slice() {
                        [] => format!("found {}", cut(&value.to_json())),
                        some => some.join(", "),
                    };
                    self.report_unmet("this does not hold", condition.span(), label);
                }
                Err(error) => self.report_unmet("this has no value", condition.span(), error.message),
            }
        }
    }

    /// Builds the variables that conditions read.
    fn scope(&self, observed: &ObservedSteps<'_>, events: &[Event], logs: &[LogLine]) -> Value {
        let (mut result, mut error) = (Value::Null, Value::Null);
        match observed::outcome(events) {
            Some(Outcome::Succeeded { result: found }) => result = found.clone(),
            Some(Outcome::Failed { error: found } | Outcome::Stuck { error: found }) => {
                error = found.to_value()
            }
            _ => {}
        }
        let steps: Map = observed.iter().map(|(key, step)| (key, step.to_value())).collect();
        let calls = self.trace.call_log.calls.iter().map(|call| {
            Value::from(Map::from_iter([
                ("action", Value::from(call.name.as_str())),
                ("step", Value::from(call.key.as_str())),
                ("with", Value::from(call.inputs.clone())),
            ]))
        });
        let response = self.trace.response.as_ref().map(|response| {
            let headers: Map =
                response.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), &**value)).collect();
            Map::from_iter([
                ("status", Value::from(response.status)),
                ("headers", Value::from(headers)),
                ("body", body_of(response)),
            ])
        });
        Value::from(Map::from_iter([
            ("result", result),
            ("error", error),
            ("steps", Value::from(steps)),
            ("response", Value::from(response)),
            ("calls", calls.collect()),
            ("events", Value::from(self.trace.call_log.events.clone())),
            ("logs", logs.iter().map(line).collect()),
            ("state", Value::from(self.trace.state.clone())),
            ("duration", Value::from(duration(events).unwrap_or_default().as_secs_f64())),
        ]))
    }

    fn unawaited(&mut self) {
        for span in &self.trace.unawaited {
            let message = "no step waited for this";
            self.found.push(
                Diagnostic::error("unawaited", message, *span)
                    .label("never awaited in this test")
                    .help("remove it, or set `after` so that it happens at a fixed time"),
            );
        }
    }

    /// Reports requests missing from the recording and recorded requests that were not sent; each answers once.
    fn cassette(&mut self) {
        let (Some(cassette), Some(name)) = (&self.trace.cassette, &self.case.cassette) else { return };
        for UnmatchedRequest { line, differences } in cassette.unmatched_requests() {
            let help = match differences.as_slice() {
                [] => "if it is right, record it again with `cogwork test --record`".to_owned(),
                some => format!("the nearest that is recorded differs: {}", some.join("; ")),
            };
            self.found.push(
                Diagnostic::error(
                    "no-exchange",
                    format!("the recording has no answer to `{line}`"),
                    name.span,
                )
                .label("not recorded, or used up")
                .help(help),
            );
        }
        for line in cassette.unused_exchanges() {
            self.found.push(
                Diagnostic::error(
                    "unused-exchange",
                    format!("the recorded `{line}` was not sent"),
                    name.span,
                )
                .label("recorded and not sent")
                .help("if that is right, record it again with `cogwork test --record`"),
            );
        }
    }

    /// Reports executions of receivers that have not succeeded, and receivers that no event has started.
    fn receivers(&mut self) {
        let mut started = Vec::new();
        for execution in self.trace.executions.iter().skip(1) {
            let Some(Event::Started { origin: Origin::Emitted { event, .. }, .. }) = execution.events.first()
            else {
                continue;
            };
            let id = execution.deployment.automation.id.as_str();
            started.push(id);
            let label = match observed::outcome(&execution.events) {
                Some(Outcome::Succeeded { .. }) => continue,
                Some(Outcome::Failed { error } | Outcome::Stuck { error }) => failure(error),
                Some(Outcome::Cancelled { reason }) => format!("it was cancelled: {reason}"),
                None => self.trace.stuck.clone().unwrap_or_else(|| "it was stopped".to_owned()),
            };
            let receiver = self.case.receivers.iter().find(|receiver| receiver.name == id);
            let span = receiver.map_or(self.case.name.span, |receiver| receiver.span);
            let message = format!("`{id}`, which the event `{event}` started, has not succeeded");
            self.report_unmet(message, span, label);
        }
        for receiver in
            self.case.receivers.iter().filter(|receiver| !started.contains(&receiver.name.as_str()))
        {
            let message = format!("no event of this test started `{}`", receiver.name);
            self.report_unmet(message, receiver.span, "never started in this test");
        }
    }

    fn check_unused_doubles(&mut self) {
        for double in &self.trace.unused {
            let name = double.target.name();
            let called = self.trace.call_log.calls.iter().map(|call| call.name.as_str());
            let help = match nearest(name, called) {
                Some(near) => format!("`{near}` was called; is that meant? Else remove it"),
                None => "remove it, or move it to the `doubles` of the whole file".to_owned(),
            };
            self.found.push(
                Diagnostic::error(
                    "unused-double",
                    format!("no call used the double of `{name}`"),
                    double.span,
                )
                .label("never called in this test")
                .help(help),
            );
        }
    }
}

/// True if a call has the connection and calls the automation that are expected.
fn uses_names(call: &Call, expected: &model::test_suite::CallExpect) -> bool {
    let has = |expected: &Option<String>, found: Option<&str>| {
        expected.as_deref().is_none_or(|expected| found == Some(expected))
    };
    has(&expected.connection, call.connection.as_deref()) && has(&expected.automation, Some(&call.name))
}

fn is_of(call: &Call, target: &Target) -> bool {
    match target {
        Target::Action(name) => call.name == *name,
        Target::Step(id) => call.step.as_deref() == Some(id) || call.key == *id,
    }
}

/// Converts a log line to a value.
fn line(line: &LogLine) -> Value {
    let level = serde_json::to_value(line.level).map(Value::from_serde).unwrap_or_default();
    Value::from(Map::from_iter([
        ("message", Value::from(line.message.as_str())),
        ("level", level),
        ("step", Value::from(line.step.as_deref())),
    ]))
}

/// Returns the duration of an execution on the test clock.
fn duration(events: &[Event]) -> Option<std::time::Duration> {
    let (first, last) = (events.first()?, events.last()?);
    std::time::Duration::try_from(first.at().duration_until(last.at())).ok()
}

/// Returns the body of a response as a value: parsed JSON according to its content type, else text.
fn body_of(response: &HttpResponse) -> Value {
    let essence = response.header("content-type").unwrap_or_default();
    let essence = essence.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json = essence == "application/json" || essence.ends_with("+json");
    let json =
        is_json.then(|| Value::from_json(&response.body.for_display(), JsonLimits::default()).ok()).flatten();
    json.unwrap_or_else(|| Value::from(text(response)))
}

fn text(response: &HttpResponse) -> String {
    String::from_utf8_lossy(&response.body.for_display()).into_owned()
}

/// Lists the operands of a condition with their values.
fn operands(condition: &Expression, scope: &Value) -> Vec<String> {
    let mut operands = Vec::new();
    for reference in condition.references().iter().take(4) {
        let path = reference.path.join(".");
        let found = reference.path.iter().try_fold(scope.clone(), |value, key| match key.parse() {
            Ok(index) if value.as_list().is_some() => value.at(index).cloned(),
            _ => value.get(key),
        });
        let found = found.map_or_else(|| "not there".to_owned(), |value| cut(&value.to_json()));
        let words = format!("`{path}` is {found}");
        if !operands.contains(&words) {
            operands.push(words);
        }
    }
    operands
}

fn failure(error: &ActionError) -> String {
    match &error.step {
        Some(step) => format!("step `{step}` failed: {}", error.message),
        None => format!("it failed: {}", error.message),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(160) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
