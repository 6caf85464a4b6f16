//! Warns of secrets that files name but that are not set on this machine. Code: `missing-secret`.
//!
//! Separate from the other checks because secrets change independently of files.

use std::collections::{BTreeMap, BTreeSet};

use expression::{Expression, Reference};
use language::load::filter_allowed;
use model::Connection;
use model::automation::{Automation, NameSetting, Trigger, Verb};
use text::diagnostic::{Diagnostic, Report};

use crate::snapshot::Catalog;

/// Reports unset secrets, one report per file.
pub(crate) fn missing_secrets(catalog: &Catalog, is_set: &dyn Fn(&str) -> bool) -> Vec<Report> {
    let mut reports = Vec::new();
    for connection in catalog.connections() {
        let mut found = Missing::new(is_set);
        for (_, template) in &connection.with {
            template.expressions(&mut |expression| found.check(expression));
        }
        reports.push((connection.source.clone(), found.found));
    }
    for deployment in catalog.automations() {
        let automation = &deployment.automation;
        let mut found = Missing::new(is_set);
        expressions(automation, &mut |expression| found.check(expression));
        reports.push((automation.source.clone(), found.found));
    }
    let non_empty = reports.into_iter().filter_map(|(source, found)| {
        let found = filter_allowed(&source, found);
        (!found.is_empty()).then(|| Report::new(source, found))
    });
    non_empty.collect()
}

/// A secret that an automation needs and that is not set.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MissingSecret {
    /// The name of the secret.
    pub name: String,
    /// The connection that reads it; absent if the file of the automation does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// True if the trigger needs it: without it nothing starts the automation.
    pub blocks_start: bool,
}

/// Returns the unset secrets that an automation and its connections require, each once, the trigger's first.
pub(crate) fn missing_secrets_of(
    catalog: &Catalog,
    automation: &Automation,
    is_set: &dyn Fn(&str) -> bool,
) -> Vec<MissingSecret> {
    let mut found: Vec<MissingSecret> = Vec::new();
    let mut add = |names: BTreeSet<String>, connection: Option<&str>, blocks_start: bool| {
        for name in names {
            if found.iter().all(|known| known.name != name) && !is_set(&name) {
                found.push(MissingSecret { name, connection: connection.map(str::to_owned), blocks_start });
            }
        }
    };
    let (mut by_trigger, mut by_variables) = (BTreeSet::new(), BTreeSet::new());
    trigger_expressions(automation, &mut |found| required_names(found.references(), &mut by_trigger));
    for variable in &automation.config_vars {
        required_names(&variable.value.references(), &mut by_variables);
    }
    add(by_trigger, None, true);
    let of_connection = |name: &str| catalog.connection(name).map(|one| secrets_of(one)).unwrap_or_default();
    let calls = automation.triggers.iter().filter_map(|trigger| trigger.on.call());
    let polled = calls.filter_map(|call| call.connection.as_ref());
    for named in polled.flat_map(NameSetting::candidates) {
        add(of_connection(&named.name), Some(&named.name), true);
    }
    add(by_variables, None, false);
    let mut used = BTreeSet::new();
    automation.walk(&mut |step| {
        if let Verb::Action(call) = &step.verb {
            let candidates = call.connection.iter().flat_map(NameSetting::candidates);
            used.extend(candidates.map(|named| named.name.clone()));
        }
    });
    for name in used {
        add(of_connection(&name), Some(&name), false);
    }
    found
}

/// Returns the sorted names of all secrets that the files of the project require.
pub(crate) fn required_secrets(catalog: &Catalog) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    references(catalog, &mut |found| required_names(found, &mut names));
    names
}

/// Returns the fields that the files of the project read of secrets.
pub(crate) fn secret_fields(catalog: &Catalog) -> BTreeMap<String, BTreeSet<String>> {
    let mut fields: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    references(catalog, &mut |found| {
        for reference in found {
            if let [root, name, field, ..] = &*reference.path
                && root == "secrets"
            {
                fields.entry(name.to_string()).or_default().insert(field.to_string());
            }
        }
    });
    fields
}

/// Visits the references of all files that may read secrets.
fn references(catalog: &Catalog, look: &mut dyn FnMut(&[Reference])) {
    for connection in catalog.connections() {
        for (_, template) in &connection.with {
            look(&template.references());
        }
    }
    for deployment in catalog.automations() {
        expressions(&deployment.automation, &mut |expression| look(expression.references()));
    }
}

/// Adds the names of the secrets among references that are not optional.
fn required_names(references: &[Reference], names: &mut BTreeSet<String>) {
    for reference in references.iter().filter(|reference| !reference.optional) {
        if let [root, name, ..] = &*reference.path
            && root == "secrets"
        {
            names.insert(name.to_string());
        }
    }
}

/// Returns the sorted names of the secrets that a connection requires.
pub(crate) fn secrets_of(connection: &Connection) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, template) in &connection.with {
        required_names(&template.references(), &mut names);
    }
    names
}

/// Visits the expressions of a file that may read secrets.
fn expressions<'a>(automation: &'a Automation, look: &mut dyn FnMut(&'a Expression)) {
    automation.config_vars.iter().for_each(|variable| variable.value.expressions(look));
    trigger_expressions(automation, look);
}

/// Visits the expressions of the triggers that may read secrets.
fn trigger_expressions<'a>(automation: &'a Automation, look: &mut dyn FnMut(&'a Expression)) {
    for trigger in &automation.triggers {
        if let Trigger::Webhook(webhook) = &trigger.on {
            webhook.verify.iter().for_each(|verify| verify.expressions(look));
            webhook.challenge.iter().for_each(|challenge| challenge.expressions(look));
        }
    }
}

struct Missing<'f> {
    is_set: &'f dyn Fn(&str) -> bool,
    reported: BTreeSet<String>,
    found: Vec<Diagnostic>,
}

impl<'f> Missing<'f> {
    fn new(is_set: &'f dyn Fn(&str) -> bool) -> Self {
        Self { is_set, reported: BTreeSet::new(), found: Vec::new() }
    }

    fn check(&mut self, expression: &Expression) {
        for reference in expression.references().iter().filter(|reference| !reference.optional) {
            let [root, name, ..] = &*reference.path else { continue };
            if root != "secrets" || (self.is_set)(name) || !self.reported.insert(name.to_string()) {
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

/// Explains how to set a missing secret.
#[must_use]
pub fn how_to_set_secret(name: &str) -> String {
    format!(
        "store it with `cogwork secrets set {name}`, or put it into the file secrets/{name} or the variable {}",
        secret_variable(name)
    )
}

/// The environment variable that may hold a secret: `wikiToken` is `COGWORK_SECRET_WIKI_TOKEN`.
#[must_use]
pub fn secret_variable(name: &str) -> String {
    let mut variable = String::from("COGWORK_SECRET_");
    let mut previous_lower = false;
    for character in name.chars() {
        if character.is_ascii_uppercase() && previous_lower {
            variable.push('_');
        }
        previous_lower = character.is_ascii_lowercase() || character.is_ascii_digit();
        variable.push(if character == '-' { '_' } else { character.to_ascii_uppercase() });
    }
    variable
}
