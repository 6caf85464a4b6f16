//! Reads of environment variables that belong to Cogwork itself. Code: `own-variable`.

use expression::Reference;
use text::diagnostic::{Diagnostic, Span};

/// Prefixes of the variables that configure the daemon: they hold its token, its key, the address of its store with the password, and the
/// headers for its collector.
const OWN: [&str; 3] = ["COGWORK_", "OTEL_", "CREDENTIALS_DIRECTORY"];

/// Prefix of the variables that hold secrets.
const SECRET: &str = "COGWORK_SECRET_";

/// Returns true if a variable of the environment belongs to Cogwork itself. `env` does not have it.
#[must_use]
pub fn is_own_variable(name: &str) -> bool {
    OWN.iter().any(|prefix| name.starts_with(prefix))
}

/// Reports a reference to a variable that belongs to Cogwork itself. `span` gives the position of a part of the path.
pub(super) fn own_variable(reference: &Reference, span: impl Fn(usize) -> Span) -> Option<Diagnostic> {
    let [root, name, ..] = &*reference.path else { return None };
    if root != "env" || !is_own_variable(name) {
        return None;
    }
    let help = if name.starts_with(SECRET) {
        "read it as a secret: `${{ secrets.NAME }}`, in a connection or in `{value: …, secret: true}` of `configVars`"
    } else {
        "give the value a variable of its own name, such as `SERVICE_URL`, and read that"
    };
    let message = format!("`env` does not have `{name}`: the variable belongs to Cogwork itself");
    Some(Diagnostic::error("own-variable", message, span(1)).help(help))
}
