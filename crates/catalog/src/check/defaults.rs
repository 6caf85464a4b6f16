//! `defaults`: checks of their connections, and the values that the steps of an automation take.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use connector::Registry;
use model::automation::{
    Automation, DeclaredDefaults, DefaultValue, Defaults, Origin, SpannedName, Step, Verb,
};
use model::project::Project;
use model::{Connection, automation::ActionStep};
use text::diagnostic::{Diagnostic, Report, Source, Span};

use super::actions::absent_connection;
use super::context::{ConnectionLookup, merge};

/// Checks the connections of `defaults`.
pub(super) fn check(
    declared: &DeclaredDefaults,
    connection: &dyn Fn(&str) -> ConnectionLookup,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut served: BTreeMap<String, &SpannedName> = BTreeMap::new();
    for name in declared.connections.iter().flat_map(|(names, _)| names) {
        let ConnectionLookup::Loaded(known) = connection(&name.name) else {
            found.extend(absent_connection(name, None, connection));
            continue;
        };
        let connector = connector_of(&known.kind);
        if let Some(other) = served.get(connector) {
            let message =
                format!("`{}` and `{}` both serve the actions of `{connector}`", other.name, name.name);
            found.push(
                Diagnostic::error("conflicting-keys", message, name.span)
                    .related(other.span, "the other one")
                    .help("keep one of them as the default, and name the other one at the steps that use it"),
            );
            continue;
        }
        served.insert(connector.to_owned(), name);
    }
    found
}

/// Checks `project.yaml`. `taken` are the defaults that the automations take; `None` if an automation does not load.
pub(crate) fn project(
    project: &Project,
    load_report: &Report,
    connection: &dyn Fn(&str) -> ConnectionLookup,
    taken: Option<&[Arc<Defaults>]>,
) -> Report {
    let mut found = check(&project.defaults, connection);
    if let Some(taken) = taken {
        let taken = taken.iter().map(AsRef::as_ref);
        found.extend(unused(&project.defaults, project.source.path(), "the project", taken));
    }
    language::load::apply_allow_comments(merge(load_report, found))
}

/// Hints at the entries of `defaults` of a file that no step takes. `taken` are the defaults that steps take, of this and other files.
pub(super) fn unused<'d>(
    declared: &DeclaredDefaults,
    path: &str,
    place: &str,
    taken: impl IntoIterator<Item = &'d Defaults>,
) -> Vec<Diagnostic> {
    let (mut has_retry, mut has_timeout, mut names) = (false, false, BTreeSet::new());
    for taken in taken {
        has_retry |= taken.retry.as_ref().is_some_and(|value| value.origin.path == path);
        has_timeout |= taken.timeout.as_ref().is_some_and(|value| value.origin.path == path);
        let own = taken.connections.values().filter(|name| name.origin.path == path);
        names.extend(own.map(|name| name.value.as_str()));
    }
    let hint = |what: String, span: Span| {
        let message = format!("no step of {place} takes the default {what}");
        Diagnostic::hint("unused-value", message, span)
            .help("remove it; defaults are for `action` steps that have no value of their own, and `retry` for `call` too")
    };
    let retry =
        declared.retry.as_ref().filter(|_| !has_retry).map(|(_, span)| hint("`retry`".to_owned(), *span));
    let timeout = declared
        .timeout
        .as_ref()
        .filter(|_| !has_timeout)
        .map(|(_, span)| hint("`timeout`".to_owned(), *span));
    let connections = declared.connections.iter().flat_map(|(names, _)| names);
    let connections = connections
        .filter(|name| !names.contains(name.name.as_str()))
        .map(|name| hint(format!("connection `{}`", name.name), name.span));
    connections.chain(retry).chain(timeout).collect()
}

/// Returns the defaults of an automation: each key of its own file before that of `project.yaml`.
pub(crate) fn resolve(
    automation: &Automation,
    project: Option<&Project>,
    registry: &Registry,
    connection: &dyn Fn(&str) -> Option<Arc<Connection>>,
) -> Defaults {
    let own = automation.declared_defaults.as_deref().map(|defaults| (defaults, &*automation.source));
    let shared = project.map(|project| (&project.defaults, &*project.source));
    let declared: Vec<(&DeclaredDefaults, &Source)> = own.into_iter().chain(shared).collect();
    let mut defaults = Defaults {
        retry: first(&declared, |defaults| defaults.retry.clone()),
        timeout: first(&declared, |defaults| defaults.timeout),
        connections: BTreeMap::new(),
    };
    let Some((names, source)) =
        declared.iter().find_map(|(defaults, source)| Some((&defaults.connections.as_ref()?.0, source)))
    else {
        return defaults;
    };
    let known: Vec<(&SpannedName, Arc<Connection>)> =
        names.iter().filter_map(|name| Some((name, connection(&name.name)?))).collect();
    automation.walk(&mut |step| {
        let Some(call) = action_without_connection(step) else { return };
        let Some(action) = registry.action(&call.action.name) else { return };
        let takes = &action.spec().connections;
        let serves = |(_, connection): &&(&SpannedName, Arc<Connection>)| {
            connector_of(&connection.kind) == connector_of(&call.action.name)
                && takes.contains(&connection.kind)
        };
        if let Some((name, _)) = known.iter().find(serves) {
            let value = DefaultValue { value: name.name.clone(), origin: origin(source, name.span) };
            defaults.connections.insert(call.action.name.clone(), value);
        }
    });
    defaults
}

fn action_without_connection(step: &Step) -> Option<&ActionStep> {
    match &step.verb {
        Verb::Action(call) if call.connection.is_none() && !call.refuses_default => Some(call),
        _ => None,
    }
}

/// Returns the first of these values, with its place.
fn first<T>(
    declared: &[(&DeclaredDefaults, &Source)],
    key: impl Fn(&DeclaredDefaults) -> Option<(T, Span)>,
) -> Option<DefaultValue<T>> {
    let (value, span, source) = declared
        .iter()
        .find_map(|(defaults, source)| key(defaults).map(|(value, span)| (value, span, source)))?;
    Some(DefaultValue { value, origin: origin(source, span) })
}

fn origin(source: &Source, span: Span) -> Origin {
    Origin { path: source.path().to_owned(), line: source.position(span.start as usize).line }
}

/// Returns the connector of an action or a connection type.
fn connector_of(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}
