//! The projects of the loads.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::dimensions::Load;
use crate::Error;
use crate::project::{self, Project, numbered_id};

/// The id of the automation that takes the load.
pub(super) const MEASURED: &str = "measured";

/// The id of the automation that hears of events of the engine.
pub(super) const HANDLER: &str = "handler";

/// Writes the project of a load. `server` is the address of the server that its automations call.
pub(super) fn project(load: Load, size: usize, server: SocketAddr) -> Result<Project, Error> {
    if let Load::Automations = load {
        return Project::of_size(size);
    }
    let project = Project::new()?;
    let text = match load {
        Load::Requests(_, steps) => steps(size),
        Load::Executions(rest) => format!("{ASYNCHRONOUS}{rest}"),
        Load::WaitingExecutions(_) => format!(
            "{ASYNCHRONOUS}steps:\n  - waitFor: {{event: paid, if: event.data.n == trigger.results.body.data.n}}\n"
        ),
        Load::WaitingForPermit(_) => {
            format!("{ASYNCHRONOUS}concurrency: {{limit: 1}}\nsteps:\n  - wait: 1h\n")
        }
        Load::PausingTurns => {
            format!(
                "{ASYNCHRONOUS}steps:\n  - repeat: {{max: {size}}}\n    steps:\n      - waitFor: {{event: paid}}\n"
            )
        }
        Load::KnownItems(_) => format!(
            "trigger:\n  poll:\n    action: http.request\n    with: {{url: \"http://{server}/\"}}\n    every: 1h\n    items: result.body.items\n    id: item\nsteps:\n  - set: {{a: 1}}\n"
        ),
        Load::StartingEvents => {
            "trigger: {event: paid, data: {n: integer}}\nsteps:\n  - set: {a: 1}\n".to_owned()
        }
        Load::Failures => format!("{ASYNCHRONOUS}steps:\n  - fail: no card\n"),
        Load::Retention => format!("{ASYNCHRONOUS}steps:\n  - set: {{a: 1}}\n"),
        _ => project::synchronous(1),
    };
    project.put(MEASURED, &text)?;
    if let Some(trigger) = heard_event(load) {
        project.put(HANDLER, &format!("trigger: {trigger}\nsteps:\n  - set: {{a: 1}}\n"))?;
    }
    if let Load::Subscriptions = load {
        let hub = format!("type: github.token\nwith: {{token: measured, host: \"http://{server}\"}}\n");
        project.write("connections/hub.yaml", &hub)?;
    }
    for number in 0..size {
        let id = numbered_id(number);
        match load {
            Load::CodeTexts(_) => {
                let code =
                    format!("  - code: |\n      export default () => ({{ data: {{ value: {number} }} }});\n");
                project.put(&id, &format!("{SYNCHRONOUS}steps:\n{code}"))?;
            }
            Load::WaitingDefinitions(_) => {
                let wait =
                    "steps:\n  - waitFor: {event: paid, if: event.data.n == trigger.results.body.data.n}\n";
                project.put(&id, &format!("name: Measured {number}\n{ASYNCHRONOUS}{wait}"))?;
            }
            Load::ProjectConnections | Load::Tokens => {
                project.put(&id, &calling(&id))?;
                let file = format!("connections/{id}.yaml");
                project.write(&file, &connection(load, &id, server))?;
                project.write(&format!("secrets/{}", secret(&id)), &format!("secret-of-{id}"))?;
            }
            Load::Subscriptions => {
                let trigger = "trigger:\n  event: github.push\n  connection: hub\n";
                let event =
                    format!("{trigger}  with: {{owner: acme, repo: {id}}}\nsteps:\n  - set: {{a: 1}}\n");
                project.put(&id, &event)?;
            }
            Load::Changes => project.put(&id, MANUAL)?,
            Load::Silences => project.put(&id, &format!("labels: [watched]\n{MANUAL}"))?,
            Load::Listeners => project.put(&id, &project::synchronous(1))?,
            _ => break,
        }
    }
    Ok(project)
}

/// The trigger of the automation that hears of events of the engine; `None` for a load without such.
fn heard_event(load: Load) -> Option<&'static str> {
    match load {
        Load::Failures => Some("{event: cogwork.failure}"),
        Load::Changes => Some("{event: cogwork.changed}"),
        Load::Silences => Some("{event: cogwork.missing, with: {labels: [watched], within: 1s}}"),
        _ => None,
    }
}

/// An automation that makes one call over the connection of its own name.
fn calling(id: &str) -> String {
    format!(
        "{SYNCHRONOUS}steps:\n  - action: http.request\n    connection: {id}\n    with: {{url: /}}\n    retry: 1\n"
    )
}

/// The secret of a connection: its name without hyphens, which would subtract in an expression.
fn secret(connection: &str) -> String {
    connection.replace('-', "_")
}

/// A connection with its secret.
fn connection(load: Load, id: &str, server: SocketAddr) -> String {
    let secret = secret(id);
    let base = format!("baseUrl: \"http://{server}\"");
    match load {
        Load::Tokens => format!(
            "type: http.clientCredentials\nwith:\n  {base}\n  tokenUrl: \"http://{server}/token\"\n  clientId: measured\n  clientSecret: ${{{{ secrets.{secret} }}}}\n"
        ),
        _ => format!("type: http.bearer\nwith:\n  {base}\n  token: ${{{{ secrets.{secret} }}}}\n"),
    }
}

const SYNCHRONOUS: &str = "trigger:\n  webhook: {mode: sync, verify: none}\n";
const MANUAL: &str = "trigger: {manual: {}}\nsteps:\n  - set: {a: 1}\n";
const ASYNCHRONOUS: &str = "trigger:\n  webhook: {verify: none}\n";

/// Changes as many automations as the size.
pub(super) fn change(project: &Project, size: usize) -> Result<(), Error> {
    (0..size).try_for_each(|number| project.put(&numbered_id(number), &MANUAL.replace("a: 1", "a: 2")))
}

/// Steps without values of their own.
pub(super) fn with_defaults(size: usize) -> String {
    let mut text = format!("{SYNCHRONOUS}defaults: {{retry: 2, timeout: 30s}}\nsteps:\n");
    for number in 0..size {
        let _ = writeln!(text, "  - {{action: log.info, with: {{message: step {number}}}}}");
    }
    text
}

/// Steps whose time limits come with the request.
pub(super) fn computed(size: usize) -> String {
    let mut text = format!("{SYNCHRONOUS}steps:\n");
    for number in 0..size {
        let _ = writeln!(
            text,
            "  - action: log.info\n    with: {{message: step {number}}}\n    timeout: ${{{{ (trigger.results.body.data.quantity + 29) ~ 's' }}}}"
        );
    }
    text
}

/// Steps that are all undone; the answer precedes that.
pub(super) fn undone(size: usize) -> String {
    let mut text = format!("{SYNCHRONOUS}steps:\n");
    for number in 0..size {
        let _ = writeln!(
            text,
            "  - action: log.info\n    with: {{message: step {number}}}\n    undo: [{{action: log.info, with: {{message: undone {number}}}}}]"
        );
    }
    text + "  - fail: {message: no, respond: {status: 200, json: {}}}\n"
}

pub(super) fn turns(size: usize) -> String {
    format!(
        "{SYNCHRONOUS}steps:\n  - forEach: ${{{{ range({size}) | list }}}}\n    steps:\n      - set: {{a: \"${{{{ item }}}}\"}}\n"
    )
}

pub(super) fn nested_turns(size: usize) -> String {
    let inner = size / 16;
    format!(
        "{SYNCHRONOUS}steps:\n  - forEach: ${{{{ range(16) | list }}}}\n    as: outer\n    steps:\n      - forEach: ${{{{ range({inner}) | list }}}}\n        steps:\n          - set: {{a: \"${{{{ item }}}}\"}}\n"
    )
}

pub(super) fn branches(size: usize) -> String {
    let mut text = format!("{SYNCHRONOUS}steps:\n  - parallel:\n");
    for number in 0..size {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "      b{number}:\n        - set: {{v{number}: 1}}");
    }
    text
}

pub(super) fn log_lines(size: usize) -> String {
    let mut text = format!("{SYNCHRONOUS}steps:\n");
    for number in 0..size {
        let _ = writeln!(text, "  - action: log.info\n    with: {{message: line {number}}}");
    }
    text
}

/// Schedules behind the webhook that takes the load.
pub(super) fn triggers(size: usize) -> String {
    let mut text = "triggers:\n  - {id: main, webhook: {mode: sync, verify: none}}\n".to_owned();
    for number in 1..size {
        let _ = writeln!(text, "  - {{id: t{number}, schedule: {{every: 1h}}}}");
    }
    text + "steps:\n  - set: {a: 1}\n"
}
