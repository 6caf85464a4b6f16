//! `defaults`: values that steps take if they have none of their own.

use std::collections::BTreeSet;

use model::automation::{DeclaredDefaults, DefaultRetry};
use text::diagnostic::{Diagnostic, Diagnostics, Span};
use text::yaml::{Field, Kind, Node};

use super::common::named;
use super::keys::{Choice, Key, Object, Shape};
use super::policy::{DEFAULT_RETRY, MAX_RETRIES, retry, timeout};

pub(super) static DEFAULTS: Object = Object {
    what: "the defaults",
    keys: &[
        Key::new(
            "connection",
            Shape::Optional(&Shape::OneOrMore(&Shape::NonBlankText)),
            "The connection of `action` steps that name none, or a list of them: each serves the actions of the connector of its type. \
             `null`: no default connection.",
        ),
        Key::new(
            "retry",
            Shape::AnyOf(&[Shape::Integer(0, MAX_RETRIES), Shape::Object(&DEFAULT_RETRY)]),
            "How often a failed `action` or `call` is tried again: a number, or `{max, delay, backoff, maxDelay, on}`.",
        ),
        Key::new("timeout", Shape::Duration, "The time limit of one try of an `action`."),
    ],
    choice: Choice::Any,
};

/// Reads `defaults`; `None` if it is not a mapping. `span` is that of the key.
pub(super) fn read(node: &Node, span: Span, diagnostics: &Diagnostics) -> Option<DeclaredDefaults> {
    let mut reader = DEFAULTS.open(node, diagnostics)?;
    let spans = ["connection", "retry", "timeout"].map(|key| reader.key_span(key));
    let connection = reader.take("connection");
    let connections = connection.is_present().then(|| (connection_names(connection, diagnostics), spans[0]));
    let written = reader.take("retry");
    let retry = written.node().map(|node| {
        let names_errors = node.get("on").is_some();
        (DefaultRetry { policy: retry(written, &DEFAULT_RETRY, diagnostics), names_errors }, spans[1])
    });
    let timeout = timeout(reader.take("timeout"), diagnostics).map(|timeout| (timeout, spans[2]));
    reader.finish();
    Some(DeclaredDefaults { span, connections, retry, timeout })
}

/// The names of default connections, each once.
fn connection_names(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Vec<model::automation::SpannedName> {
    if is_explicit_null(field, diagnostics) {
        return Vec::new();
    }
    let items = field.one_or_more().unwrap_or_default();
    if items.is_empty() && field.node().is_some_and(|node| matches!(node.kind, Kind::List(_))) {
        field.error("empty-list", "`connection` names no connection; write `null` if steps get none");
    }
    let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
    for name in items.into_iter().filter_map(|item| named(item, diagnostics)) {
        if seen.insert(name.name.clone()) {
            names.push(name);
        } else {
            let message = format!("the connection `{}` is named twice", name.name);
            diagnostics.push(Diagnostic::warning("duplicate-value", message, name.span));
        }
    }
    names
}

/// Returns true if the value is the word `null`. A key without a value is a mistake.
pub(super) fn is_explicit_null(field: Field<'_, '_>, diagnostics: &Diagnostics) -> bool {
    field.node().is_some_and(|node| {
        matches!(node.kind, Kind::Null) && !diagnostics.source().slice(node.span).is_empty()
    })
}
