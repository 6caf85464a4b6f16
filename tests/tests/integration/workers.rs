//! The processes that run an author's code, seen from outside. Where there is no `/proc`, there is nothing to see.
#![cfg(target_os = "linux")]

use serde_json::json;

use crate::site::{PATIENCE, Site};

/// A process, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    id: u32,
    parent: u32,
    /// Processor time that it has taken, in ticks of the system, a hundredth of a second each.
    ticks: u64,
}

/// The process of this number, if it has not ended.
fn process(id: u32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Behind the name, which is in brackets: the state, the parent, …, the time in the program (proc(5)).
    let fields: Vec<&str> = stat.rsplit(") ").next()?.split(' ').collect();
    let [state, parent] = [fields.first()?, fields.get(1)?];
    let ticks = fields.get(11)?.parse().ok()?;
    (!matches!(*state, "Z" | "X")).then_some(Process { id, parent: parent.parse().ok()?, ticks })
}

fn processes() -> impl Iterator<Item = Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?))
}

/// Repeats the check until it finds something.
async fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let looking = async {
        loop {
            match look() {
                Some(found) => return found,
                None => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("{what}, in vain"))
}

#[tokio::test]
async fn a_worker_in_an_endless_loop_dies_with_a_killed_daemon() {
    let endless = "trigger: {webhook: {verify: none}}\nsteps:\n  - timeout: 10m\n    \
                   code: \"export default () => { for (;;) {} }\"\n";
    let mut site = Site::serving(&[("endless", endless)]).await;
    site.post("endless", &json!({})).await.execution();
    let daemon = site.daemon().id().unwrap();
    let is_busy = |process: &Process| process.parent == daemon && process.ticks >= 10;
    let worker = until("a worker is to be busy", || processes().find(is_busy)).await;
    site.kill().await;
    let is_gone = || process(worker.id).is_none().then_some(());
    until("the worker is to end", is_gone).await;
}
