//! Secrets that files name and that are set nowhere on this machine. Code: `missing-secret`.
//!
//! Checked apart from the rest, since a secret comes and goes without a change of a file, and may come after it.

use std::collections::BTreeSet;

use model::automation::{Automation, Trigger};
use model::diagnostic::{Diagnostic, Report};
use model::load::not_allowed;
use model::{Connection, Expression};

use crate::catalog::Catalog;
use crate::secrets::how_to_set_secret;

/// What there is to say of the files of a snapshot: one report for each that names a secret that is not set.
pub(crate) fn missing_secrets(catalog: &Catalog, is_set: &dyn Fn(&str) -> bool) -> Vec<Report> {
    let mut reports = Vec::new();
    for connection in catalog.connections() {
        let mut found = Missing::new(is_set);
        for (_, template) in &connection.with {
            template.expressions(&mut |expression| found.look(expression));
        }
        reports.push((connection.source.clone(), found.found));
    }
    for deployed in catalog.automations() {
        let automation = &deployed.automation;
        let mut found = Missing::new(is_set);
        expressions(automation, &mut |expression| found.look(expression));
        reports.push((automation.source.clone(), found.found));
    }
    let told = reports.into_iter().filter_map(|(source, found)| {
        let found = not_allowed(&source, found);
        (!found.is_empty()).then(|| Report::new(source, found))
    });
    told.collect()
}

/// The names of the secrets that a connection cannot do without, in order.
pub(crate) fn secrets_of(connection: &Connection) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, template) in &connection.with {
        for reference in template.references().iter().filter(|reference| !reference.optional) {
            if let [root, name, ..] = &*reference.path
                && root == "secrets"
            {
                names.insert(name.to_string());
            }
        }
    }
    names
}

/// The expressions of a file in which secrets may stand.
fn expressions<'a>(automation: &'a Automation, look: &mut dyn FnMut(&'a Expression)) {
    automation.config_vars.iter().for_each(|variable| variable.value.expressions(look));
    if let Trigger::Webhook(webhook) = &automation.trigger {
        webhook.verify.iter().for_each(|verify| verify.expressions(look));
        webhook.challenge.iter().for_each(|challenge| challenge.expressions(look));
    }
}

struct Missing<'f> {
    is_set: &'f dyn Fn(&str) -> bool,
    said: BTreeSet<String>,
    found: Vec<Diagnostic>,
}

impl<'f> Missing<'f> {
    fn new(is_set: &'f dyn Fn(&str) -> bool) -> Self {
        Self { is_set, said: BTreeSet::new(), found: Vec::new() }
    }

    fn look(&mut self, expression: &Expression) {
        for reference in expression.references().iter().filter(|reference| !reference.optional) {
            let [root, name, ..] = &*reference.path else { continue };
            if root != "secrets" || (self.is_set)(name) || !self.said.insert(name.to_string()) {
                continue;
            }
            let message = format!("the secret `{name}` is not set");
            self.found.push(
                Diagnostic::warning("missing-secret", message, expression.span())
                    .help(how_to_set_secret(name)),
            );
        }
    }
}
