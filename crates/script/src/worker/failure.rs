//! Failures in the author's terms: names, hints, and only the author's frames.

use crate::module::Position;
use crate::module_info::SyntaxError;
use crate::protocol::{FailureKind, FrameLocation, RunFailure, excerpt};

/// The file name of modules in QuickJS stack traces.
pub(super) const CODE: &str = "code";
/// The maximum number of reported frames.
const MAX_FRAMES: usize = 16;

/// Common globals that do not exist here, with their alternatives.
const HINTS: [(&str, &str); 10] = [
    ("console", "write to the log with `context.logger.info(…)`"),
    ("fetch", "code has no network: call the address in a step before, with `http.request`"),
    ("XMLHttpRequest", "code has no network: call the address in a step before, with `http.request`"),
    ("require", "code has no modules: write what it needs into it"),
    ("process", "code has no process and no environment: take values from `context.configVars`"),
    ("setTimeout", "code has no timers: pause with a `wait` step"),
    ("setInterval", "code has no timers: repeat with a `loop` step or a schedule"),
    ("Intl", "QuickJS has no `Intl`: format by hand, or with a function in an expression"),
    ("eval", "code is not made from text"),
    ("Function", "code is not made from text"),
];

/// A failure raised by the host.
pub(super) fn thrown(message: &str, stack: &str, lines_before: u32) -> RunFailure {
    let mut message = excerpt(message).into_owned();
    if let Some(hint) = hint(&message) {
        message = format!("{message}: {hint}");
    }
    RunFailure { kind: FailureKind::Thrown, message, places: places(stack, lines_before) }
}

/// A failure without a message of its own.
pub(super) fn ended(kind: FailureKind) -> RunFailure {
    RunFailure { kind, message: String::new(), places: Vec::new() }
}

/// A result over the message limit.
pub(super) fn too_large() -> RunFailure {
    ended(FailureKind::TooLarge)
}

/// A text that is not a valid module.
pub(super) fn syntax(error: SyntaxError) -> RunFailure {
    let place = FrameLocation { function: None, at: error.at };
    RunFailure { kind: FailureKind::Thrown, message: error.message, places: vec![place] }
}

/// Advice for names that do not exist: `'console' is not defined` and the like.
fn hint(message: &str) -> Option<&'static str> {
    let name = message.strip_prefix("ReferenceError: ")?.strip_suffix(" is not defined")?.trim_matches('\'');
    HINTS.iter().find(|(known, _)| *known == name).map(|(_, hint)| *hint)
}

/// The author's frames of a stack such as `    at name (code:3:7)`; `lines_before` is the number of lines before the module's first.
pub(super) fn places(stack: &str, lines_before: u32) -> Vec<FrameLocation> {
    stack.lines().filter_map(|line| place(line, lines_before)).take(MAX_FRAMES).collect()
}

fn place(line: &str, lines_before: u32) -> Option<FrameLocation> {
    let rest = line.trim_start().strip_prefix("at ")?;
    let (function, place) = match rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")) {
        Some((function, place)) => (Some(function), place),
        None => (None, rest),
    };
    let (line, column) = place.strip_prefix(CODE)?.strip_prefix(':')?.split_once(':')?;
    let line = line.parse::<u32>().ok()?.checked_sub(lines_before).filter(|line| *line > 0)?;
    let function = function.filter(|name| *name != "<anonymous>").map(|name| excerpt(name).into_owned());
    Some(FrameLocation { function, at: Position { line, column: column.parse().ok()? } })
}
