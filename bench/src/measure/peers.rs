//! Other engines that are installed for comparison: the same work, alternating with the daemon.

use super::Terms;
use super::contest::{Automations, Opponent, What, hold_against};
use crate::Error;
use crate::peer::{Peer, Workload};
use crate::project;
use crate::report::{Report, Row, Target, Unit};

/// The numbers of concurrent requests.
const CONNECTIONS: [usize; 2] = [1, MANY];
const MANY: usize = 64;
/// The number of automations of the rows with many.
const AUTOMATIONS: usize = 1000;

/// Measures each workload beside every selected peer; nothing without one.
pub(super) async fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    for &peer in &terms.options.peers {
        for workload in Workload::ALL {
            for connections in CONNECTIONS.into_iter().filter(|count| terms.options.wants_connections(*count))
            {
                beside(terms, report, peer, workload, connections, 1).await?;
                // Its only flow against as many of ours.
                if connections == MANY && workload.has_no_code() {
                    beside(terms, report, peer, workload, connections, AUTOMATIONS).await?;
                }
            }
        }
    }
    Ok(())
}

/// Measures one workload beside one peer, with this many automations in order.
async fn beside(
    terms: Terms<'_>,
    report: &mut Report,
    peer: Peer,
    workload: Workload,
    connections: usize,
    count: usize,
) -> Result<(), Error> {
    let opponents = [Opponent::Peer(peer, workload)];
    let text = match workload {
        Workload::Asynchronous => project::asynchronous(),
        Workload::Steps(count) => project::synchronous(count),
        Workload::Fibs(count) => project::fibs(count, |_| project::FIB.to_owned()),
        Workload::DifferentFibs(count) => project::fibs(count, project::different_fib),
    };
    let outcome = hold_against(terms, &opponents, Automations { text: &text, count }, connections).await?;
    let (ours, theirs) = (outcome.daemon(), outcome.baseline(0));
    let name = match count {
        1 => format!("{}, {connections} conn.", workload.title()),
        _ => format!("{}, {connections} conn., {count} automations in turn", workload.title()),
    };
    let rates = (ours.rate(What::Answered), theirs.rate(What::Answered));
    let ratio = outcome.ratio(0, What::Answered);
    let row = Row::new("peers", name.clone(), rates.0, Unit::PerSecond);
    report.add(row.beside(peer.name(), rates.1, ratio).target(target(peer, workload)));
    if connections == 1 {
        let times = (ours.percentile_us(0.5), theirs.percentile_us(0.5));
        let row = Row::new("peers", format!("{name}, median time"), times.0, Unit::Microseconds);
        report.add(row.beside(peer.name(), times.1, times.0 / times.1));
    }
    Ok(())
}

/// The least ratio of the rates. n8n is slower in everything and has no target.
fn target(peer: Peer, workload: Workload) -> Option<Target> {
    let least = match (peer, workload) {
        (Peer::N8n, Workload::Asynchronous | Workload::Steps(_)) => return None,
        (_, Workload::Fibs(_) | Workload::DifferentFibs(_)) => 1.0,
        (peer, Workload::Steps(_)) if peer.is_durable() => 10.0,
        (_, Workload::Steps(_)) => 4.0,
        (_, Workload::Asynchronous) => 6.0,
    };
    Some(Target::Ratio(least))
}
