//! Warns of a secret in the key or the limit of `concurrency`. Code: `secret-in-key`.

use expression::{Expression, Reference};
use model::automation::{Automation, ConfigVar};
use text::diagnostic::Diagnostic;

const CODE: &str = "secret-in-key";

/// Checks the expressions of `concurrency`, which are evaluated before a provider of secrets is asked.
pub(super) fn check(automation: &Automation) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if let Some(concurrency) = &automation.concurrency {
        concurrency.expressions(&mut |expression| found.extend(reads_secret(automation, expression)));
    }
    found
}

fn reads_secret(automation: &Automation, expression: &Expression) -> Option<Diagnostic> {
    let secret = |read: &Reference| {
        let [root, name, ..] = &*read.path else { return None };
        let declared = automation.config_vars.iter().find(|variable| variable.name.name == **name);
        declared.filter(|variable| root == "configVars" && (variable.secret || is_from_secret(variable)))
    };
    let variable = expression.references().iter().find_map(secret)?;
    let name = &variable.name.name;
    let message = match is_from_secret(variable) {
        true => format!(
            "`concurrency` reads the secret in `configVars.{name}`: executions are put in order before a provider of secrets is asked, and fail if one has it"
        ),
        false => format!(
            "`concurrency` reads `configVars.{name}`, which is secret, and lists of executions show the key"
        ),
    };
    Some(Diagnostic::warning(CODE, message, expression.span()).help(format!(
        "read a value of the trigger, or a variable without a secret, such as the name of an account; if only this machine has the secret, say so: `# cogwork: allow({CODE})`"
    )))
}

/// True if the value of a variable comes from a secret.
fn is_from_secret(variable: &ConfigVar) -> bool {
    let references = variable.value.references();
    references.iter().any(|reference| reference.path.first().is_some_and(|root| root == "secrets"))
}
