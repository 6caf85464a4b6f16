//! Node-RED, and the flows that do the work in it.

use std::process::Command;

use serde_json::{Value, json};

use super::{PATH, Place, Workload};
use crate::Error;

/// Node-RED without its editor, with one flow.
pub(super) fn prepare(place: &Place, workload: Workload) -> Result<Command, Error> {
    let settings = json!({
        "uiPort": place.address.port(),
        "uiHost": place.address.ip().to_string(),
        "httpAdminRoot": false,
        "flowFile": "flows.json",
        "logging": { "console": { "level": "warn" } },
    });
    let settings = place.write("settings.js", &format!("module.exports = {settings};\n"))?;
    place.write("flows.json", &flows(workload).to_string())?;
    let mut command = place.node("node-red/red.js");
    command.arg("--settings").arg(settings).arg("--userDir").arg(place.folder.path());
    Ok(command)
}

/// The nodes of a flow, connected in order.
fn flows(workload: Workload) -> Value {
    let (_, count) = workload.arguments();
    let code = |number: usize| match workload {
        Workload::Asynchronous => "msg.order = msg.payload.orderId;\nreturn msg;".to_owned(),
        Workload::Steps(_) => "msg.total = (msg.total ?? 0) + 1;\nreturn msg;".to_owned(),
        Workload::Fibs(_) | Workload::DifferentFibs(_) => {
            format!("{}\nmsg.payload = {{ value: fib(10) }};\nreturn msg;", workload.fib(number))
        }
    };
    let name = |number: usize| format!("step{number}");
    // An answer that comes at once stands beside the steps, any other behind them.
    let (first, last) = match workload {
        Workload::Asynchronous => (json!([["answer", name(0)]]), json!([[]])),
        _ => (json!([[name(0)]]), json!([["answer"]])),
    };
    let mut nodes = vec![
        json!({"id": "flow", "type": "tab", "label": "measured", "disabled": false}),
        json!({"id": "in", "type": "http in", "z": "flow", "url": PATH, "method": "post", "upload": false, "wires": first}),
        json!({"id": "answer", "type": "http response", "z": "flow", "statusCode": "200", "headers": {}, "wires": []}),
    ];
    nodes.extend((0..count).map(|number| {
        let wires = if number + 1 < count { json!([[name(number + 1)]]) } else { last.clone() };
        json!({
            "id": name(number), "type": "function", "z": "flow", "func": code(number), "outputs": 1, "timeout": 0, "noerr": 0,
            "initialize": "", "finalize": "", "libs": [], "wires": wires,
        })
    }));
    nodes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wire_of_a_flow_leads_to_a_node() {
        for workload in Workload::ALL {
            let nodes = flows(workload);
            let nodes = nodes.as_array().expect("a list");
            let ids: Vec<&Value> = nodes.iter().map(|node| &node["id"]).collect();
            let wires = nodes.iter().filter_map(|node| node["wires"].as_array()).flatten();
            for wire in wires.filter_map(Value::as_array).flatten() {
                assert!(ids.contains(&wire), "{wire} in {workload:?}");
            }
        }
    }
}
