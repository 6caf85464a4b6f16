//! Calls of actions against what the actions declare, and connections against their types.

use std::sync::Arc;

use connector::{ConnectionType, Registry, check_value};
use model::action::{ActionSpec, InputSpec};
use model::automation::{ActionStep, Automation, Step, Verb};
use model::diagnostic::{Diagnostic, Report};
use model::{Connection, InputType, Template, Value};

/// Checks every call of an action in the file.
pub(super) fn check(
    automation: &Automation,
    registry: &Registry,
    connection: &dyn Fn(&str) -> Option<Arc<Connection>>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    automation.walk(&mut |step| {
        if let Verb::Action(call) = &step.verb {
            let before = found.len();
            check_call(call, registry, connection, &mut found);
            for diagnostic in &mut found[before..] {
                diagnostic.step.get_or_insert_with(|| step.id.to_string());
            }
            hint_at_retry(step, call, registry, &mut found);
        }
    });
    found
}

fn check_call(
    call: &ActionStep,
    registry: &Registry,
    connection: &dyn Fn(&str) -> Option<Arc<Connection>>,
    found: &mut Vec<Diagnostic>,
) {
    let Some(action) = registry.action(&call.action.name) else {
        found.push(unknown_action(call, registry));
        return;
    };
    let spec = action.spec();
    check_connection(call, spec, connection, found);
    for (name, template) in &call.with {
        match spec.input(&name.name) {
            Some(input) => {
                check_template(&input.kind, template, name.span, &format!("input `{}`", name.name), found)
            }
            None => {
                let names = spec.inputs.iter().map(|input| input.name.as_str());
                found.push(
                    Diagnostic::error(
                        "unknown-input",
                        format!("`{}` has no input `{}`", spec.name, name.name),
                        name.span,
                    )
                    .expected_names(&name.name, names),
                );
            }
        }
    }
    let given = |input: &InputSpec| call.with.iter().any(|(name, _)| name.name == input.name);
    let missing =
        spec.inputs.iter().filter(|input| input.required && input.default.is_none() && !given(input));
    for input in missing {
        let meaning = input.description.as_deref().unwrap_or("required");
        found.push(
            Diagnostic::error(
                "missing-input",
                format!("`{}` needs the input `{}`", spec.name, input.name),
                if call.with.is_empty() { call.action.span } else { call.with_span },
            )
            .help(format!(
                "add `{}:` below `with` ({}; {meaning})",
                input.name,
                input.kind.words()
            )),
        );
    }
}

fn unknown_action(call: &ActionStep, registry: &Registry) -> Diagnostic {
    let name = &call.action.name;
    let Some((connector, _)) = name.split_once('.') else {
        return Diagnostic::error(
            "unknown-action",
            format!("`{name}` is no action: an action is written `connector.action`"),
            call.action.span,
        )
        .expected_names(name, registry.actions().map(|action| action.spec().name.as_str()));
    };
    let of_it: Vec<&str> = registry
        .actions()
        .map(|action| action.spec().name.as_str())
        .filter(|full| full.split('.').next() == Some(connector))
        .collect();
    if of_it.is_empty() {
        let mut connectors: Vec<&str> =
            registry.actions().filter_map(|action| action.spec().name.split('.').next()).collect();
        connectors.dedup();
        let near = model::diagnostic::nearest(connector, connectors.iter().copied());
        let help = near.map_or_else(
            || "`cogwork connectors list` shows the connectors there are".to_owned(),
            |near| format!("did you mean the connector `{near}`?"),
        );
        return Diagnostic::error(
            "unknown-action",
            format!("there is no connector `{connector}`"),
            call.action.span,
        )
        .allowed(connectors)
        .help(help);
    }
    Diagnostic::error("unknown-action", format!("there is no action `{name}`"), call.action.span)
        .expected_names(name, of_it)
}

fn check_connection(
    call: &ActionStep,
    spec: &ActionSpec,
    connection: &dyn Fn(&str) -> Option<Arc<Connection>>,
    found: &mut Vec<Diagnostic>,
) {
    let kinds = || spec.connections.join("` or `");
    match &call.connection {
        None if spec.connection_required => found.push(
            Diagnostic::error(
                "missing-connection",
                format!("`{}` needs a connection of type `{}`", spec.name, kinds()),
                call.action.span,
            )
            .help("add `connection: NAME`, the name of a file in connections/"),
        ),
        None => {}
        Some(name) if spec.connections.is_empty() => found.push(
            Diagnostic::error(
                "surplus-connection",
                format!("`{}` takes no connection", spec.name),
                name.span,
            )
            .help("remove the line `connection:`"),
        ),
        Some(name) => match connection(&name.name) {
            None => found.push(
                Diagnostic::error(
                    "unknown-connection",
                    format!("there is no connection `{}`", name.name),
                    name.span,
                )
                .help(format!(
                    "make the file connections/{}.yaml with `type: {}`",
                    name.name,
                    kinds()
                )),
            ),
            Some(known) if !spec.connections.contains(&known.kind) => found.push(
                Diagnostic::error(
                    "wrong-connection",
                    format!(
                        "the connection `{}` is of type `{}`, `{}` takes `{}`",
                        name.name,
                        known.kind,
                        spec.name,
                        kinds()
                    ),
                    name.span,
                )
                .allowed(spec.connections.iter().cloned()),
            ),
            Some(_) => {}
        },
    }
}

/// Checks what is literal of a value against its type; what is computed is checked when it runs.
fn check_template(
    kind: &InputType,
    template: &Template,
    span: model::Span,
    what: &str,
    found: &mut Vec<Diagnostic>,
) {
    let problem = match (kind, template) {
        (_, Template::Literal(Value::Null)) => None,
        (_, Template::Literal(value)) => check_value(kind, value).err(),
        (InputType::Object { fields }, Template::Map(entries)) => {
            for (key, value) in entries {
                match fields.iter().find(|field| field.name == key.as_ref()) {
                    Some(field) => {
                        check_template(&field.kind, value, span, &format!("{what}: `{key}`"), found)
                    }
                    None => {
                        let names = fields.iter().map(|field| field.name.as_str());
                        let near = model::diagnostic::nearest(key, names.clone());
                        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                        let allowed: Vec<String> = names.map(str::to_owned).collect();
                        let message = format!("{what} has no entry `{key}`{near}");
                        found.push(Diagnostic::error("unknown-input", message, span).allowed(allowed));
                    }
                }
            }
            None
        }
        (InputType::Map { values }, Template::Map(entries)) => {
            for (key, value) in entries {
                check_template(values, value, span, &format!("{what}: `{key}`"), found);
            }
            None
        }
        (InputType::List { items }, Template::List(values)) => {
            for (index, value) in values.iter().enumerate() {
                check_template(items, value, span, &format!("{what}: item {index}"), found);
            }
            None
        }
        (InputType::Any, _) | (_, Template::Expression(_)) => None,
        (InputType::Text | InputType::Choice { .. } | InputType::File, Template::Text(_)) => None,
        (kind, Template::Text(_)) => Some(format!("expected {}, found text", kind.words())),
        (kind, Template::List(_)) => Some(format!("expected {}, found a list", kind.words())),
        (kind, Template::Map(_)) => Some(format!("expected {}, found a map", kind.words())),
    };
    if let Some(problem) = problem {
        let mut diagnostic = Diagnostic::error("wrong-input", format!("{what}: {problem}"), span);
        if let InputType::Choice { options } = kind {
            diagnostic = diagnostic.allowed(options.iter().cloned());
        }
        found.push(diagnostic);
    }
}

/// A plain HTTP call that neither retries nor handles its error fails the whole execution on the first hiccup.
fn hint_at_retry(step: &Step, call: &ActionStep, registry: &Registry, found: &mut Vec<Diagnostic>) {
    let plain = call.action.name == "http.request" && registry.action("http.request").is_some();
    if plain && step.retry.max == 0 && matches!(step.on_error, model::OnError::Fail) {
        found.push(
            Diagnostic::hint(
                "no-retry",
                "this call has neither `retry` nor `onError`: one failed try fails the execution",
                call.action.span,
            )
            .help("add `retry: 3`, or `onError:` with what should happen instead")
            .step(step.id.as_ref()),
        );
    }
}

/// Checks a connection against the type that it names.
pub(crate) fn connection(connection: &Connection, registry: &Registry) -> Report {
    let mut found = Vec::new();
    match registry.connection_type(&connection.kind) {
        Some(kind) => check_connection_inputs(connection, kind, &mut found),
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
    Report::new(connection.source.clone(), found)
}

fn check_connection_inputs(connection: &Connection, kind: &ConnectionType, found: &mut Vec<Diagnostic>) {
    for (name, template) in &connection.with {
        match kind.input(&name.name) {
            Some(input) => {
                check_template(
                    &input.spec.kind,
                    template,
                    name.span,
                    &format!("input `{}`", name.name),
                    found,
                );
                if input.secret && template.literal().is_some_and(|value| !value.is_null()) {
                    found.push(
                        Diagnostic::warning(
                            "literal-credential",
                            format!("`{}` is a credential written into the file", name.name),
                            name.span,
                        )
                        .help("keep it outside: `${{ secrets.NAME }}`"),
                    );
                }
            }
            None => {
                let names = kind.inputs.iter().map(|input| input.spec.name.as_str());
                found.push(
                    Diagnostic::error(
                        "unknown-input",
                        format!("a connection of type `{}` has no input `{}`", kind.name, name.name),
                        name.span,
                    )
                    .expected_names(&name.name, names),
                );
            }
        }
    }
    let required = kind.inputs.iter().map(|input| &input.spec);
    for input in required.filter(|input| input.required && input.default.is_none()) {
        if !connection.with.iter().any(|(name, _)| name.name == input.name) {
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
    let given = |name: &String| connection.with.iter().any(|(input, _)| input.name == *name);
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
