//! n8n, and the workflows that do the work in it.

use std::process::Command;

use serde_json::{Value, json};

use super::{Place, Workload};
use crate::Error;

/// The workflow's id, and the last part of the address of its webhook.
const ID: &str = "measured";

/// n8n with one workflow and its defaults, except for its own requests to others on the network.
pub(super) async fn prepare(place: &Place, workload: Workload) -> Result<Command, Error> {
    let file = place.write("workflow.json", &json!([workflow(workload)]).to_string())?;
    let (input, id) = (format!("--input={}", file.display()), format!("--id={ID}"));
    for arguments in [["import:workflow", &input], ["publish:workflow", &id]] {
        let ran = place.run(n8n(place).args(arguments)).await;
        ran.map_err(|error| Error::Server(format!("`{}`: {error}", arguments[0])))?;
    }
    let mut command = n8n(place);
    command.arg("start");
    Ok(command)
}

fn n8n(place: &Place) -> Command {
    let mut command = place.node("n8n/bin/n8n");
    command.env("N8N_USER_FOLDER", place.folder.path());
    command.env("N8N_LISTEN_ADDRESS", place.address.ip().to_string());
    command.env("N8N_PORT", place.address.port().to_string());
    // The port on which the broker waits for the process that runs code, which gets this very number: 0 is useless.
    command.env("N8N_RUNNERS_BROKER_PORT", place.inner[0].port().to_string());
    let quiet = ["N8N_DIAGNOSTICS_ENABLED", "N8N_VERSION_NOTIFICATIONS_ENABLED", "N8N_TEMPLATES_ENABLED"];
    command.envs(quiet.map(|name| (name, "false")));
    command
}

/// A webhook, and the nodes behind it.
fn workflow(workload: Workload) -> Value {
    let (count, answer) = match workload {
        Workload::Asynchronous => (1, "onReceived"),
        Workload::Steps(count) => (count, "lastNode"),
        Workload::Fibs(count) | Workload::DifferentFibs(count) => (count, "lastNode"),
    };
    let name = |number: usize| format!("step{number}");
    let mut nodes = vec![json!({
        "id": "in", "name": "in", "type": "n8n-nodes-base.webhook", "typeVersion": 2, "position": [0, 0], "webhookId": ID,
        "parameters": {"httpMethod": "POST", "path": ID, "responseMode": answer, "options": {}},
    })];
    let mut connections = serde_json::Map::new();
    let mut before = "in".to_owned();
    for number in 0..count {
        let (kind, version, parameters) = node(workload, number);
        let id = name(number);
        nodes.push(json!({
            "id": id, "name": id, "type": kind, "typeVersion": version, "position": [200 * (number + 1), 0],
            "parameters": parameters,
        }));
        let to = json!({"main": [[{"node": id, "type": "main", "index": 0}]]});
        connections.insert(std::mem::replace(&mut before, id), to);
    }
    json!({
        "id": ID, "name": ID, "active": false, "nodes": nodes, "connections": connections,
        "settings": {"executionOrder": "v1"}, "pinData": {},
    })
}

/// The kind of a node, its version, and what it does.
fn node(workload: Workload, number: usize) -> (&'static str, f64, Value) {
    let (field, kind, value) = match workload {
        Workload::Asynchronous => ("order", "string", "={{ $json.body.orderId }}"),
        Workload::Steps(_) => ("total", "number", "={{ ($json.total ?? 0) + 1 }}"),
        Workload::Fibs(_) | Workload::DifferentFibs(_) => {
            let code = format!("{}\nreturn [{{ json: {{ value: fib(10) }} }}];", workload.fib(number));
            return ("n8n-nodes-base.code", 2.0, json!({"jsCode": code}));
        }
    };
    let assignment = json!({"id": field, "name": field, "value": value, "type": kind});
    ("n8n-nodes-base.set", 3.4, json!({"assignments": {"assignments": [assignment]}, "options": {}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_of_a_workflow_form_a_chain() {
        for workload in Workload::ALL {
            let workflow = workflow(workload);
            let mut names = workflow["nodes"].as_array().expect("a list").iter().map(|node| &node["name"]);
            let mut before = names.next().expect("a webhook");
            for name in names {
                let key = before.as_str().expect("a name");
                assert_eq!(&workflow["connections"][key]["main"][0][0]["node"], name, "{workload:?}");
                before = name;
            }
        }
    }
}
