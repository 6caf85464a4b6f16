//! Checks action calls against the actions' declarations.

use connector::{EventSource, EventSpec, InputProblem, Registry, StaticInputs};
use expression::Template;
use language::load::Unreadable;
use model::action::InputSpec;
use model::automation::{ActionStep, Automation, EventTrigger, NameSetting, SpannedName, Trigger, Verb};
use model::engine_event::EngineEventName;
use text::diagnostic::{Diagnostic, Source, Span};
use value::Value;

use super::context::{CheckContext, ConnectionLookup};
use super::events::{ambiguous, unknown_event};
use super::own_event::{connector_of, possible_event};
use super::{engine_events, input_value, stream};

/// Checks all action calls in the file.
pub(super) fn check(
    automation: &Automation,
    unreadable: &Unreadable,
    context: &CheckContext<'_>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    automation.triggers.iter().for_each(|one| trigger(&one.on, context, &mut found));
    stream::several_consumers(automation, &mut found);
    stream::shared_messages(automation, context, &mut found);
    let defaults = automation.declared_defaults.iter().filter_map(|declared| declared.connections.as_ref());
    // The error at `defaults` says so.
    let is_default_absent = defaults
        .flat_map(|(names, _)| names)
        .any(|name| !matches!((context.connection)(&name.name), ConnectionLookup::Loaded(_)));
    automation.walk(&mut |step| {
        if let Verb::Action(call) = &step.verb {
            let before = found.len();
            let unread =
                |key: &str| unreadable.has_in_step(&step.id, key) || is_default_absent && key == "connection";
            check_call(call, step.taken.connection, &unread, context, &mut found);
            for diagnostic in &mut found[before..] {
                diagnostic.step.get_or_insert_with(|| step.id.to_string());
            }
        }
    });
    found
}

/// Checks the action or event of a trigger.
fn trigger(trigger: &Trigger, context: &CheckContext<'_>, found: &mut Vec<Diagnostic>) {
    if let Trigger::Event(event) = trigger {
        // Who sends an event of the engine is warned there: it reaches no trigger.
        let possible = possible_event(trigger).filter(|name| {
            EngineEventName::find(&name.name).is_none() && (context.sender)(&name.name).is_some()
        });
        let connector = possible.and_then(|name| connector_of(&name.name, context.registry));
        return match connector {
            Some(connector) => found.push(ambiguous(&event.call.action, connector, context)),
            None => check_event(event, context, found),
        };
    }
    match trigger.call() {
        Some(call) if crate::native::find(&call.action.name).is_some() => {
            let message = format!("`{}` needs an execution, and a poll has none", call.action.name);
            found.push(
                Diagnostic::error("unknown-action", message, call.action.span)
                    .help("poll an action of a connector, and call this one in a step"),
            );
        }
        Some(call) => check_call(call, false, &|_| false, context, found),
        None => {}
    }
}

fn check_event(event: &EventTrigger, context: &CheckContext<'_>, found: &mut Vec<Diagnostic>) {
    let call = &event.call;
    let name = &call.action.name;
    let Some(spec) = context.registry.event(name) else {
        push_once(unknown_event(&call.action, context.registry), found);
        absent_connections(call, context, found);
        return;
    };
    let requirement =
        ConnectionRequirement { name, connections: &spec.connections, required: spec.connection_required };
    check_connection(call, &requirement, &|_| false, context, found);
    let place = if call.with.is_empty() { call.action.span } else { call.with_span };
    let before = found.len();
    GivenInputs {
        source: context.source,
        callee: name,
        inputs: &spec.inputs,
        with: &call.with,
        key: "with",
        place,
        unread: false,
    }
    .check(found);
    static_problems(event_problems(call, spec, context), (call, place), context, before, found);
    if let Some(name) = EngineEventName::find(name) {
        engine_events::check(event, name, context, found);
    }
    stream::check(event, spec, context.source, found);
}

/// Adds a diagnostic, but a broken connector only once per file.
fn push_once(diagnostic: Diagnostic, found: &mut Vec<Diagnostic>) {
    let is_same = |other: &Diagnostic| other.code == diagnostic.code && other.message == diagnostic.message;
    if diagnostic.code != BROKEN_CONNECTOR || !found.iter().any(is_same) {
        found.push(diagnostic);
    }
}

/// Connection requirements of an action or event.
struct ConnectionRequirement<'a> {
    name: &'a str,
    connections: &'a [String],
    required: bool,
}

/// Makes a diagnostic of a problem that the action sees in its inputs. `given` is the input at `span`.
fn static_problem(
    problem: InputProblem,
    call: &ActionStep,
    (given, span): (Option<&(SpannedName, Template)>, Span),
    context: &CheckContext<'_>,
) -> Diagnostic {
    let diagnostic = match given {
        Some(_) => {
            let name = format!("`{}`", problem.input);
            // Errors of the call name the input themselves.
            let message = match problem.message.strip_prefix(&name) {
                Some(rest) => format!("input {name}{rest}"),
                None => format!("input {name}: {}", problem.message),
            };
            let code = problem.code.unwrap_or("wrong-input");
            match problem.is_warning {
                true => Diagnostic::warning(code, message, span),
                false => Diagnostic::error(code, message, span),
            }
        }
        None => {
            let message = format!("`{}` needs the input `{}`", call.action.name, problem.input);
            Diagnostic::error("missing-input", message, span)
        }
    };
    let meant = given.zip(problem.meant);
    let value = |key: Span| language::load::span_at_path(context.source, key, &[]);
    let renamed = problem.renamed.and_then(|(input, meant)| {
        let (name, _) = call.with.iter().find(|(given, _)| given.name == input)?;
        Some((name.span, meant.to_owned()))
    });
    let fix = meant.and_then(|((name, _), meant)| Some((value(name.span)?, meant))).or(renamed);
    diagnostic.help(problem.help).replacement(fix)
}

/// Checks one call. `takes_default` is true if its connection is a default one; `unread` returns true for step keys that could not be parsed.
fn check_call(
    call: &ActionStep,
    takes_default: bool,
    unread: &dyn Fn(&str) -> bool,
    context: &CheckContext<'_>,
    found: &mut Vec<Diagnostic>,
) {
    let Some(action) = context.registry.action(&call.action.name) else {
        let broken = broken_connector(&call.action, context.registry);
        push_once(broken.unwrap_or_else(|| unknown_action(call, context.registry)), found);
        // A missing connection is an error regardless of the action.
        absent_connections(call, context, found);
        return;
    };
    let spec = action.spec();
    if let Some(feature) = context.registry.missing_feature(&spec.name) {
        found.push(super::connections::not_built(&spec.name, feature, call.action.span));
    }
    if call.debug && action.reveals_credentials() {
        let message = format!("with `debug: true`, `{}` writes its credentials into the log", spec.name);
        let help = "take `debug` away once the fault is found; the setting `allowCredentialDebug: false` keeps them out";
        found.push(Diagnostic::warning("credentials-in-log", message, call.action.span).help(help));
    }
    let requirement = ConnectionRequirement {
        name: &spec.name,
        connections: &spec.connections,
        required: spec.connection_required,
    };
    check_connection(call, &requirement, unread, context, found);
    let place = if call.with.is_empty() { call.action.span } else { call.with_span };
    let (inputs, unread) = (&spec.inputs, unread("with"));
    let before = found.len();
    GivenInputs {
        source: context.source,
        callee: &spec.name,
        inputs,
        with: &call.with,
        key: "with",
        place,
        unread,
    }
    .check(found);
    if unread {
        return;
    }
    let problems = static_inputs(call, context, |inputs| action.check_static(inputs));
    static_problems(problems, (call, place), context, before, found);
    for connection in candidates(call) {
        found.extend(other_host(call, connection, takes_default, context));
    }
    found.extend(body_without_method(call, inputs, context.source));
}

/// Adds the problems that an action sees in the inputs of a call at `place`, but none of an input that has an error behind `before`.
fn static_problems(
    problems: Vec<InputProblem>,
    (call, place): (&ActionStep, Span),
    context: &CheckContext<'_>,
    before: usize,
    found: &mut Vec<Diagnostic>,
) {
    for problem in problems {
        let given = call.with.iter().find(|(given, _)| given.name == problem.input);
        let span = given.map_or(place, |(given, _)| given.span);
        let span = given.and_then(|(name, _)| part_of(context.source, name.span, &problem)).unwrap_or(span);
        if given.is_some()
            && found[before..]
                .iter()
                .any(|reported| reported.span.start >= span.start && reported.span.end <= span.end)
        {
            continue;
        }
        found.push(static_problem(problem, call, (given, span), context));
    }
}

/// The problems in the inputs of an event: the ones that the action sees which is polled, or that the broker sees.
fn event_problems(call: &ActionStep, spec: &EventSpec, context: &CheckContext<'_>) -> Vec<InputProblem> {
    let mut problems = static_inputs(call, context, |inputs| match &spec.source {
        EventSource::Poll(polled) => {
            let action = context.registry.action(&polled.action);
            action.map(|action| action.check_static(inputs)).unwrap_or_default()
        }
        EventSource::Stream(streamed) => streamed.broker.check_static(&spec.inputs, inputs),
        EventSource::Hook(_) | EventSource::Engine => Vec::new(),
    });
    // The engine gives the others.
    problems.retain(|problem| call.with.iter().any(|(given, _)| given.name == problem.input));
    problems
}

/// Passes the inputs of a call, as far as its file determines them, to `take`.
pub(super) fn static_inputs<T>(
    call: &ActionStep,
    context: &CheckContext<'_>,
    take: impl FnOnce(&StaticInputs<'_>) -> T,
) -> T {
    let written =
        |name: &str| call.with.iter().find(|(given, _)| given.name == name).map(|(_, template)| template);
    take(&StaticInputs {
        template: &written,
        has_connection: call.connection.is_some(),
        connection_types: connection_types(call, context),
    })
}

/// The part of an input that a problem is in; `None` for the whole input.
fn part_of(source: &Source, name: Span, problem: &InputProblem) -> Option<Span> {
    if problem.path.is_empty() {
        return None;
    }
    language::load::span_at_path(source, name, &problem.path)
}

/// The types of the connections that a call may use, without missing and invalid ones.
fn connection_types(call: &ActionStep, context: &CheckContext<'_>) -> Vec<String> {
    let known = candidates(call).iter().filter_map(|name| match (context.connection)(&name.name) {
        ConnectionLookup::Loaded(connection) => Some(connection.kind.clone()),
        _ => None,
    });
    known.collect()
}

/// Warns of a body in a request whose method is the default, GET.
fn body_without_method(call: &ActionStep, inputs: &[InputSpec], source: &Source) -> Option<Diagnostic> {
    const BODIES: [&str; 3] = ["body", "form", "multipart"];
    let method = inputs.iter().find(|input| input.name == "method")?;
    let is_get = method.default.as_ref().and_then(Value::as_str) == Some("GET");
    let given = |name: &str| call.with.iter().find(|(input, _)| input.name == name);
    if !is_get || given("method").is_some() || given("paging").is_some() {
        return None;
    }
    let is_set = |template: &Template| template.literal().is_none_or(|value| !value.is_null());
    let mut bodies = BODIES.iter().filter_map(|name| given(name)).filter(|(_, template)| is_set(template));
    // Several bodies are an error of their own.
    let (body, None) = (bodies.next().map(|(name, _)| name)?, bodies.next()) else { return None };
    let message = format!("this `{}` is sent with GET, the default: most systems ignore it", body.name);
    let start = body.span.range().start;
    let line = source.text().get(..start)?.rsplit('\n').next().unwrap_or_default();
    let key = source.slice(body.span);
    // In a block the method gets its own line.
    let meant = match line.trim().is_empty() {
        true => format!("method: POST\n{line}{key}"),
        false => format!("method: POST, {key}"),
    };
    Some(
        Diagnostic::warning("body-without-method", message, body.span)
            .help("add `method: POST`, or `method: GET` if that is meant")
            .replace(body.span, meant),
    )
}

/// Inputs passed to an action, event or automation.
pub(super) struct GivenInputs<'a> {
    /// File of the call.
    pub(super) source: &'a Source,
    /// Name of the callee.
    pub(super) callee: &'a str,
    /// Declared inputs of the callee.
    pub(super) inputs: &'a [InputSpec],
    pub(super) with: &'a [(SpannedName, Template)],
    /// Key of the file below which they stand.
    pub(super) key: &'a str,
    /// Position for missing inputs.
    pub(super) place: Span,
    /// True if `with` is partly unreadable.
    pub(super) unread: bool,
}

impl GivenInputs<'_> {
    pub(super) fn check(&self, found: &mut Vec<Diagnostic>) {
        let names: Vec<&str> = self.inputs.iter().map(|input| input.name.as_str()).collect();
        let mut given = Vec::with_capacity(self.with.len());
        for (name, template) in self.with {
            let read_as = read_as(name, self.with, &names, found, || {
                format!("`{}` has no input `{}`", self.callee, name.name)
            });
            let Some(input) = self.inputs.iter().find(|input| read_as == Some(&input.name)) else { continue };
            given.push(input.name.as_str());
            input_value::check(
                self.source,
                &input.kind,
                template,
                name.span,
                &format!("input `{}`", input.name),
                found,
            );
        }
        let missing = |input: &&InputSpec| {
            input.required && input.default.is_none() && !given.contains(&input.name.as_str())
        };
        for input in self.inputs.iter().filter(missing).filter(|_| !self.unread) {
            let meaning = input.description.as_deref().unwrap_or("required");
            let (name, kind) = (&input.name, input.kind.describe());
            let message = format!("`{}` needs the input `{name}`", self.callee);
            found.push(
                Diagnostic::error("missing-input", message, self.place)
                    .help(format!("add `{name}:` below `{}` ({kind}; {meaning})", self.key)),
            );
        }
    }
}

/// Names of inputs in other tools, each with the input that it may mean.
const INPUT_ALIASES: [(&str, &str); 12] = [
    ("data", "body"),
    ("endpoint", "url"),
    ("header", "headers"),
    ("json", "body"),
    ("msg", "message"),
    ("params", "query"),
    ("payload", "body"),
    ("qs", "query"),
    ("queryParameters", "query"),
    ("text", "message"),
    ("uri", "url"),
    ("verb", "method"),
];

/// Returns the declared input that a name refers to. Reports an unknown name and returns the most similar unused
/// input, so that this one is not reported as missing too.
pub(super) fn read_as<'a>(
    name: &'a SpannedName,
    with: &[(SpannedName, Template)],
    names: &[&'a str],
    found: &mut Vec<Diagnostic>,
    message: impl Fn() -> String,
) -> Option<&'a str> {
    if names.contains(&name.name.as_str()) {
        return Some(&name.name);
    }
    let is_free = |free: &&&str| !with.iter().any(|(given, _)| given.name == ***free);
    let free: Vec<&str> = names.iter().filter(is_free).copied().collect();
    let alias = INPUT_ALIASES.iter().find(|(alias, meant)| *alias == name.name && free.contains(meant));
    let alias = alias.and_then(|(_, meant)| free.iter().copied().find(|known| known == meant));
    let near = alias.or_else(|| text::diagnostic::nearest(&name.name, free));
    let diagnostic = Diagnostic::error("unknown-input", message(), name.span);
    found.push(diagnostic.allowed(names.iter().copied()).nearest(near));
    near
}

/// The code of a call or an event of a connector whose manifest has errors.
const BROKEN_CONNECTOR: &str = "broken-connector";

/// Reports that the connector of an action or event has errors in its manifest, so that it has none.
pub(super) fn broken_connector(name: &SpannedName, registry: &Registry) -> Option<Diagnostic> {
    let (connector, _) = name.name.split_once('.')?;
    let path = registry.invalid_file(connector)?;
    let message = format!("the connector `{connector}` has errors of its own");
    Some(
        Diagnostic::error(BROKEN_CONNECTOR, message, name.span)
            .help(format!("correct the errors reported in {path}; then the rest is checked here")),
    )
}

/// Reports a literal URL outside the connection's base address, which the step would refuse at run time.
fn other_host(
    call: &ActionStep,
    connection: &SpannedName,
    takes_default: bool,
    context: &CheckContext<'_>,
) -> Option<Diagnostic> {
    if !connector::is_http_call(&call.action.name) {
        return None;
    }
    let ConnectionLookup::Loaded(known) = (context.connection)(&connection.name) else { return None };
    let (name, url) = call.with.iter().find(|(input, _)| input.name == "url")?;
    let (address, is_whole) = match url {
        Template::Literal(Value::String(text)) => (text.to_string(), true),
        // The host is complete if a path follows it.
        Template::Text(parts) => match parts.first() {
            Some(expression::template::Part::Text(text)) => {
                let host = text.find("://").map(|at| at + 3)?;
                (text[..host + text[host..].find('/')?].to_owned(), false)
            }
            _ => return None,
        },
        _ => return None,
    };
    let kind = context.registry.connection_type(&known.kind)?;
    let given = |input: &str| {
        let (_, template) = known.with.iter().find(|(name, _)| name.name == input)?;
        template.literal().and_then(Value::as_str)
    };
    let base = kind.base_if_outside(&given, &address, is_whole)?;
    let span = language::load::span_at_path(context.source, name.span, &[]).unwrap_or(name.span);
    if takes_default {
        return Some(outside_default(&connection.name, &base, span));
    }
    let message = format!(
        "this address is not below `{base}`, which is all that the connection `{}` may call",
        connection.name
    );
    Some(Diagnostic::error("other-host", message, span).help(
        "write the path alone, such as `/items`, which is appended to the connection's address; or leave `connection` out, and no \
         credentials are sent",
    ))
}

/// Reports the literal address of another host under a default connection, which sends the credentials only to its own host.
fn outside_default(name: &str, base: &str, span: Span) -> Diagnostic {
    let message =
        format!("this address is not below `{base}`, and the step takes the default connection `{name}`");
    Diagnostic::error("default-other-host", message, span)
        .help("write `connection: null` at the step, and no credentials are sent; or the path alone, such as `/items`")
}

fn unknown_action(call: &ActionStep, registry: &Registry) -> Diagnostic {
    let name = &call.action.name;
    let Some((connector, _)) = name.split_once('.') else {
        return Diagnostic::error(
            "unknown-action",
            format!("`{name}` is not an action: actions are named `connector.action`"),
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
        let near = text::diagnostic::nearest(connector, connectors.iter().copied());
        let help = near.map_or_else(
            || {
                format!(
                    "call its API with `action: http.request`; or describe it in connectors/{connector}.yaml, by hand or from its \
                     OpenAPI document with `cogwork import openapi`; `cogwork connectors list` shows those there are"
                )
            },
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
    spec: &ConnectionRequirement<'_>,
    unread: &dyn Fn(&str) -> bool,
    context: &CheckContext<'_>,
    found: &mut Vec<Diagnostic>,
) {
    let kinds = || spec.connections.join("` or `");
    let Some(connection) = &call.connection else {
        if spec.required && !unread("connection") {
            found.push(
                Diagnostic::error(
                    "missing-connection",
                    format!("`{}` needs a connection of type `{}`", spec.name, kinds()),
                    call.action.span,
                )
                .help("add `connection: NAME`, the name of a file in connections/"),
            );
        }
        return;
    };
    if spec.connections.is_empty() {
        let message = format!("`{}` takes no connection", spec.name);
        found.push(
            Diagnostic::error("surplus-connection", message, connection.span())
                .help("remove the line `connection:`"),
        );
        return;
    }
    for name in connection.candidates() {
        match (context.connection)(&name.name) {
            ConnectionLookup::Broken | ConnectionLookup::Missing { .. } => {
                found.extend(absent_connection(name, Some(&kinds()), context.connection))
            }
            ConnectionLookup::Loaded(known) if !spec.connections.contains(&known.kind) => found.push(
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
            ConnectionLookup::Loaded(_) => {}
        }
    }
}

/// Returns each connection that a call can have.
fn candidates(call: &ActionStep) -> &[SpannedName] {
    call.connection.as_ref().map_or(&[], NameSetting::candidates)
}

/// Reports each connection of a call that is missing or invalid.
fn absent_connections(call: &ActionStep, context: &CheckContext<'_>, found: &mut Vec<Diagnostic>) {
    let absent = candidates(call).iter().filter_map(|name| absent_connection(name, None, context.connection));
    found.extend(absent);
}

/// Reports a missing or invalid connection. `kinds` are the types its action accepts, if known.
pub(super) fn absent_connection(
    name: &SpannedName,
    kinds: Option<&str>,
    connection: &dyn Fn(&str) -> ConnectionLookup,
) -> Option<Diagnostic> {
    let path = format!("connections/{}.yaml", name.name);
    match connection(&name.name) {
        ConnectionLookup::Loaded(_) => None,
        ConnectionLookup::Broken => {
            let message = format!("the connection `{}` has errors of its own", name.name);
            Some(
                Diagnostic::error("broken-connection", message, name.span)
                    .help(format!("correct the errors reported in {path}")),
            )
        }
        ConnectionLookup::Missing { nearest } => {
            let message = format!("there is no connection `{}`", name.name);
            let diagnostic = Diagnostic::error("unknown-connection", message, name.span);
            Some(match kinds {
                _ if nearest.is_some() => diagnostic.nearest(nearest),
                Some(kinds) => diagnostic.help(format!("create the file {path} with `type: {kinds}`")),
                None => diagnostic.help(format!("create the file {path}")),
            })
        }
    }
}
