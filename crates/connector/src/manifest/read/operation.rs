//! Reads the operations of actions: work that goes on after the request that starts it.

use std::time::Duration;

use ::http::Method;
use text::Span;
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{MapReader, Node};
use value::Reserved;

use super::action::{Line, Wired, request_line};
use super::service;
use crate::input::check_inputs;
use crate::manifest::operation::{ID, OperationState};
use crate::manifest::{Definition, Example, Head, Operation, Piece, example};
use crate::stages::StatusExample;

/// The shortest and the longest pause between two looks that a manifest may set.
const EVERY: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
/// The pause before the first looks, if the manifest does not set it.
const USUAL_EVERY: Duration = Duration::from_secs(2);
/// The longest time limit that a manifest may set.
const MAX_AT_MOST: Duration = Duration::from_secs(30 * 86_400);
/// The time limit, if the manifest does not set it.
const USUAL_AT_MOST: Duration = Duration::from_secs(3600);

/// An operation whose status request is not compared with the inputs of its action yet.
pub(super) struct OperationDraft {
    operation: Operation,
    path: Vec<(Piece, Span)>,
    span: Span,
}

/// Reads `operation`, beside which nothing else can say what the answer is.
pub(super) fn read(action: &mut MapReader<'_, '_>) -> Option<OperationDraft> {
    for other in ["answer", "download", "paging", "graphql"] {
        action.at_most_one_of(&["operation", other]);
    }
    let span = action.key_span("operation");
    let diagnostics = action.diagnostics();
    let mut reader = action.take("operation").map("an operation")?;
    let line = reader.required("status").text().and_then(|text| {
        let line = request_line(text, diagnostics)?;
        let start = text.locate_span(0, text.value.len());
        if line.method != Method::GET {
            let message = format!("a {} looks at nothing", line.method);
            let help = "write `GET` and the path";
            diagnostics.push(Diagnostic::error("wrong-place", message, start).help(help));
        }
        Some(line)
    });
    let id = reader.required("id").name().map(str::to_owned);
    let done = reader.required("done").map("the mark of ended work").and_then(service::mark);
    let failed = reader.take("failed").map("the mark of failed work").and_then(service::mark);
    let result = reader.take("result").name().map(str::to_owned);
    let mut time = |key, usual, allowed: std::ops::RangeInclusive<Duration>| {
        let span = reader.key_span(key);
        let Some(time) = reader.take(key).duration() else { return usual };
        if !allowed.contains(&time) {
            let (least, most) = (allowed.start(), allowed.end());
            let (least, most) = (text::units::format_duration(*least), text::units::format_duration(*most));
            let message = format!("`{key}` is from {least} to {most}");
            diagnostics.push(Diagnostic::error("out-of-range", message, span));
        }
        time
    };
    let every = time("every", USUAL_EVERY, EVERY);
    let at_most = time("atMost", USUAL_AT_MOST.max(every), every..=MAX_AT_MOST);
    reader.finish();
    let Line { path, query, .. } = line?;
    let pieces = Vec::new();
    let operation = Operation { id: id?, path: pieces, query, done: done?, failed, result, every, at_most };
    Some(OperationDraft { operation, path, span })
}

impl OperationDraft {
    /// Returns the operation after comparing its status request with the inputs of its action.
    pub(super) fn checked(self, wired: &[Wired], diagnostics: &Diagnostics) -> Option<Operation> {
        let error = |code, message: String, span, help: &str| {
            diagnostics.push(Diagnostic::error(code, message, span).help(help));
        };
        let is_id = |(piece, _): &(Piece, Span)| matches!(piece, Piece::Input(name) if name == ID);
        if !self.path.iter().any(is_id) {
            let message = "the path of `status` has no `{id}` for the id of the operation".to_owned();
            error("missing-path-input", message, self.span, "write it like `GET /operations/{id}`");
        }
        if let Some(input) = wired.iter().find(|input| input.spec.name == ID) {
            let message = "`{id}` in `status` is the id of the operation, not this input".to_owned();
            error("wrong-place", message, input.span, "give the input another name");
        }
        for (piece, span) in self.path.iter().filter(|part| !is_id(part)) {
            let Piece::Input(name) = piece else { continue };
            match wired.iter().find(|input| input.spec.name == *name) {
                None => {
                    let message = format!("`status` names `{name}`, which is no input of this action");
                    let names = wired.iter().map(|input| input.spec.name.as_str());
                    let diagnostic = Diagnostic::error("missing-path-input", message, *span);
                    diagnostics.push(diagnostic.expected_names(name, names));
                }
                Some(input) if !input.spec.required && input.spec.default.is_none() => {
                    let message = format!("`status` needs `{name}`, which may be left out");
                    error("missing-path-input", message, input.span, "add `required: true`");
                }
                Some(_) => {}
            }
        }
        let path = self.path.into_iter().map(|(piece, _)| piece).collect();
        Some(Operation { path, ..self.operation })
    }
}

/// Checks the example of an action with an operation: the first answer, the request of the last look and its answer.
pub(super) fn check_example(
    definition: &Definition,
    head: &Head,
    example: &Example,
    node: &Node,
    diagnostics: &Diagnostics,
) {
    let error = |code, key: &str, message: String| {
        let span = node.get(key).map_or_else(|| node.head(), Node::head);
        diagnostics.push(Diagnostic::error(code, message, span));
    };
    let (operation, StatusExample { request, answer }) = match (&definition.operation, &example.status) {
        (None, None) => return,
        (None, Some(_)) => {
            let message =
                "there is no operation to look at; remove `status`, or add `operation` to the action";
            return error("wrong-place", "status", message.to_owned());
        }
        (Some(_), None) => {
            let message = "the example of an operation needs `status: {request, answer}`, its last look";
            return error("missing-key", "status", message.to_owned());
        }
        (Some(operation), Some(status)) => (operation, status),
    };
    let Some(first) = &example.answer else {
        let message = "the example of an operation needs `answer`, which has its id";
        return error("missing-key", "answer", message.to_owned());
    };
    // Another error would only be repeated; a missing id is one.
    let Some(id) = operation.id_in(first).filter(|_| diagnostics.error_count() == 0) else { return };
    let inputs = check_inputs(&definition.spec, &example.with, &Reserved::nothing());
    let built = inputs
        .ok()
        .zip(example::base())
        .map(|(inputs, base)| definition.status_request(operation, head, &base, &inputs, &id));
    if let Some(Ok(built)) = built
        && let Some(line) = example::line_mismatch(&built, request)
    {
        error(
            "wrong-example",
            "status",
            format!("the example does not show the look: the request is `{line}`"),
        );
    }
    let state = operation.state(answer);
    let mut problems = match state {
        OperationState::Done => definition.answers.type_mismatches(&operation.result_in(answer.clone())),
        OperationState::Failed => vec!["`failed` takes it for a failure".to_owned()],
        OperationState::Running => vec!["`done` does not take it for an end".to_owned()],
    };
    problems.truncate(3);
    if !problems.is_empty() {
        let message =
            format!("the last answer of the example does not fit the action: {}", problems.join("; "));
        error("wrong-example", "status", message);
    }
}
