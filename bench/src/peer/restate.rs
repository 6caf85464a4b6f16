//! Restate: its server, and the service that it calls.

use std::process::Command;

use serde_json::json;

use super::{Parts, Place, Workload};
use crate::Error;
use crate::driver::request;
use crate::process::Process;

/// Starts the service of one workload, and returns it with the command of the server.
pub(super) fn prepare(place: &Place, workload: Workload) -> Result<(Parts, Command), Error> {
    let (kind, count) = workload.arguments();
    let [service, admin, node] = place.inner;
    let mut program = Command::new("node");
    program.current_dir(&place.installed).arg(place.installed.join("measured.mjs"));
    // Without its log lines for each invocation.
    program.env("RESTATE_LOGGING", "WARN").env("NODE_ENV", "production");
    program.args([kind, &count.to_string(), &service.port().to_string()]);
    let program = place.start(&mut program)?;
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let server = format!("node_modules/@restatedev/restate-server-linux-{arch}/bin/restate-server");
    let mut command = Command::new(place.installed.join(server));
    command.current_dir(place.folder.path()).args(["--node-name", "measured"]);
    command.env("RESTATE_BASE_DIR", place.folder.path().join("restate"));
    command.env("RESTATE_INGRESS__BIND_ADDRESS", place.address.to_string());
    command.env("RESTATE_ADMIN__BIND_ADDRESS", admin.to_string());
    command.env("RESTATE_BIND_ADDRESS", node.to_string());
    command.env("RESTATE_DISABLE_TELEMETRY", "true").env("RUST_LOG", "warn");
    Ok((Parts { processes: vec![program], ..Parts::default() }, command))
}

/// Waits for the server, and registers the address of the service.
pub(super) async fn register(place: &Place, server: &mut Process) -> Result<(), Error> {
    let [service, admin, _] = place.inner;
    let body = json!({"uri": format!("http://{service}")}).to_string();
    let registration = request("POST", "/deployments", body.as_bytes());
    place.wait_for(server, admin, "takes its service", &registration).await
}
