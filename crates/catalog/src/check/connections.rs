//! Checks connections against their types.

use connector::{ConnectionType, Registry};
use expression::template::Template;
use language::load::{PathSegment, Unreadable, span_at_path};
use model::Connection;
use model::automation::SpannedName;
use text::diagnostic::{Diagnostic, Report, Source, Span};
use value::Value;

use super::actions::read_as;
use super::context::merge;
use super::input_value;

/// The connection type or the action `name` is in a family that is not built.
pub(super) fn not_built(name: &str, feature: &str, span: Span) -> Diagnostic {
    let message = format!("this program was built without `{name}`: what uses it fails");
    let help = format!(
        "take a released program, which has all, or build it with `cargo build --release -p cli --features {feature}`"
    );
    // The project can be checked, tested and edited all the same.
    Diagnostic::warning("not-built", message, span).help(help)
}

/// Checks a possibly partially parsed connection against its type (see [`super::automation`]).
pub fn connection(
    connection: &Connection,
    unreadable: &Unreadable,
    load_report: &Report,
    registry: &Registry,
) -> Report {
    let mut found = Vec::new();
    if let Some(feature) = registry.missing_feature(&connection.kind) {
        found.push(not_built(&connection.kind, feature, connection.kind_span));
    }
    match registry.connection_type(&connection.kind) {
        Some(kind) => check_connection_inputs(connection, unreadable, load_report, kind, &mut found),
        None if unreadable.has("type") => {}
        None if connection
            .kind
            .split_once('.')
            .and_then(|(name, _)| registry.invalid_file(name))
            .is_some() =>
        {
            let name = connection.kind.split('.').next().unwrap_or_default();
            let message = format!("the connector `{name}` has errors of its own");
            let path = registry.invalid_file(name).unwrap_or_default();
            found.push(
                Diagnostic::error("broken-connector", message, connection.kind_span)
                    .help(format!("correct the errors reported in {path}")),
            );
        }
        None => {
            let kinds: Vec<&str> = registry
                .connectors()
                .flat_map(|connector| connector.connections.iter().map(String::as_str))
                .collect();
            found.push(
                Diagnostic::error(
                    "unknown-connection-type",
                    format!("there is no connection type `{}`", connection.kind),
                    connection.kind_span,
                )
                .expected_names(&connection.kind, kinds),
            );
        }
    }
    found.extend(super::references::connection(connection));
    language::load::apply_allow_comments(merge(load_report, found))
}

/// Returns true if the loader already reported a credential there; its message is more specific.
fn has_reported_credential(load_report: &Report, place: std::ops::Range<u32>) -> bool {
    let reported =
        |reported: &Diagnostic| reported.code == "literal-credential" && place.contains(&reported.span.start);
    load_report.diagnostics().iter().any(reported)
}

/// Warns of a secret in the file, at its value if that is found verbatim.
fn written_secret(source: &Source, name: &SpannedName, value: &Value) -> Diagnostic {
    let (text, from) = (value.to_text(), name.span.range().end);
    let at = source.text().get(from..).and_then(|rest| rest.find(&text)).filter(|_| !text.is_empty());
    let span = at.map_or(name.span, |at| Span::new(from + at, from + at + text.len()));
    let message = format!("`{}` is a credential written into the file", name.name);
    let diagnostic = Diagnostic::warning("literal-credential", message, span);
    let diagnostic = if at.is_some() { diagnostic.concealed() } else { diagnostic };
    diagnostic.help("keep it outside: `${{ secrets.NAME }}`")
}

/// Checks the headers that an input gives every request, as far as they are known.
fn check_headers(
    connection: &Connection,
    kind: &ConnectionType,
    name: &SpannedName,
    template: &Template,
    found: &mut Vec<Diagnostic>,
) {
    let entries: Vec<(&str, Option<&Value>)> = match template {
        Template::Literal(Value::Map(map)) => map.iter().map(|(key, value)| (&**key, Some(value))).collect(),
        Template::Map(entries) => entries.iter().map(|(key, value)| (&**key, value.literal())).collect(),
        _ => return,
    };
    for (header, value) in entries {
        let Some(problem) = kind.header_problem(&name.name, header, value) else { continue };
        let at = [PathSegment::Key(header.to_owned())];
        let span = span_at_path(&connection.source, name.span, &at).unwrap_or(name.span);
        let help = "leave it out, or correct its name or value";
        found.push(Diagnostic::error("invalid-header", problem, span).help(help));
    }
}

fn check_connection_inputs(
    connection: &Connection,
    unreadable: &Unreadable,
    load_report: &Report,
    kind: &ConnectionType,
    found: &mut Vec<Diagnostic>,
) {
    let names: Vec<&str> = kind.inputs.iter().map(|input| input.spec.name.as_str()).collect();
    let mut given = Vec::with_capacity(connection.with.len());
    for (index, (name, template)) in connection.with.iter().enumerate() {
        let read_as = read_as(name, &connection.with, &names, found, || {
            format!("a connection of type `{}` has no input `{}`", kind.name, name.name)
        });
        let Some(input) = read_as.and_then(|name| kind.input(name)) else { continue };
        let known = input.spec.name.as_str();
        given.push(known);
        input_value::check(
            &connection.source,
            &input.spec.kind,
            template,
            name.span,
            &format!("input `{known}`"),
            found,
        );
        check_headers(connection, kind, name, template, found);
        let until = connection.with.get(index + 1).map_or(u32::MAX, |(next, _)| next.span.start);
        match template.literal().filter(|value| input.secret && !value.is_null()) {
            Some(value) if !has_reported_credential(load_report, name.span.end..until) => {
                found.push(written_secret(&connection.source, name, value));
            }
            _ => {}
        }
    }
    if unreadable.has("with") {
        return;
    }
    super::server::check(connection, kind, found);
    let required = kind.inputs.iter().map(|input| &input.spec);
    for input in required.filter(|input| input.required && input.default.is_none()) {
        if !given.contains(&input.name.as_str()) {
            found.push(
                Diagnostic::error(
                    "missing-input",
                    format!("a connection of type `{}` needs the input `{}`", kind.name, input.name),
                    connection.kind_span,
                )
                .help(format!("add `{}:` below `with`", input.name)),
            );
        }
    }
    let one_of = kind.needs_one_of();
    let given = |name: &String| given.contains(&name.as_str());
    if !one_of.is_empty() && !one_of.iter().any(given) {
        let names = one_of.join("` or `");
        found.push(
            Diagnostic::error(
                "missing-input",
                format!("a connection of type `{}` needs `{names}`", kind.name),
                connection.kind_span,
            )
            .help("add one of them below `with`"),
        );
    }
}
