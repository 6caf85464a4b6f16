//! The daemons that share the store.

use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;
use store::{Node, SharedSettings};
use utoipa::ToSchema;

use crate::admin::extract::Answer;
use crate::admin::{Problem, Shared};

/// A daemon that shares the store.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Node)]
struct NodeView {
    /// Its number. Each run of a daemon has its own.
    id: i64,
    /// The name of its machine.
    host: String,
    /// The address of its admin listener; absent while it starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// Its data folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_dir: Option<String>,
    /// The release of Cogwork that it runs.
    release: String,
    /// When it joined.
    joined_at: Timestamp,
    /// True if it is the one that answers.
    answers: bool,
    /// True once it has left or stopped beating. It is listed until others have its executions.
    dead: bool,
    /// Number of its shards, of 128: schedules, polls, subscriptions, and executions that wait for each other.
    shards: usize,
    /// Executions in its memory when it beat last.
    in_flight: u64,
    /// Executions that waited for a slot there.
    queued: u64,
    /// Executions that were suspended there.
    resting: u64,
    /// The generation of deployed definitions that it runs; absent if it runs the files of its own folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    deployment: Option<u64>,
    /// Reason why it does not run the newest generation; absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// Forbidden differences from the other daemons: another key, or other settings for the store. Empty if nothing differs.
    differences: Vec<String>,
}

/// The daemons that share the store.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Nodes {
    /// In the order in which they joined; none if the store is a file, which one daemon has to itself.
    nodes: Vec<NodeView>,
}

fn differences(node: &Node, in_force: &SharedSettings) -> Vec<String> {
    let settings = node.details.settings.map(|settings| settings.differences(in_force));
    node.details.problems.iter().cloned().chain(settings.into_iter().flatten()).collect()
}

/// The daemons that share the store
#[utoipa::path(
    get, path = "/api/v1/nodes", tag = "daemon",
    responses((status = 200, description = "In the order in which they joined", body = Nodes)),
)]
pub(crate) async fn list(State(api): Shared) -> Result<Answer<Nodes>, Problem> {
    let store = api.engine.store();
    let own = store.node();
    let in_force = store.shared_settings().unwrap_or_default();
    let view = |node: Node| NodeView {
        differences: differences(&node, &in_force),
        address: node.details.address,
        data_dir: node.details.data_dir,
        id: node.id.0,
        host: node.host,
        release: node.release,
        joined_at: node.joined_at,
        answers: own == Some(node.id),
        dead: node.dead,
        shards: node.shards.len(),
        in_flight: node.load.in_flight,
        queued: node.load.queued,
        resting: node.load.resting,
        deployment: node.running.number,
        problem: node.running.problem,
    };
    let nodes = store.nodes().await.map_err(runtime::Error::from)?;
    Ok(Answer::ok(Nodes { nodes: nodes.into_iter().map(view).collect() }))
}
