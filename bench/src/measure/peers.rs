//! Other engines that are installed for it: the same work, in turns with the daemon.

use super::Terms;
use super::contest::{Automations, Opponent, What, hold_against};
use crate::Error;
use crate::peer::Workload;
use crate::project;
use crate::report::{Report, Row, Target, Unit};

/// How many requests are under way at one time.
const CONNECTIONS: [usize; 2] = [1, 16];

/// Measures each workload beside every peer that is asked for; nothing where none is.
pub(super) async fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    for &peer in &terms.options.peers {
        for workload in Workload::ALL {
            for connections in CONNECTIONS.into_iter().filter(|count| terms.options.wants_connections(*count))
            {
                let opponents = [Opponent::Peer(peer, workload)];
                let automation = match workload {
                    Workload::Asynchronous => project::asynchronous(),
                    Workload::Steps(count) => project::synchronous(count),
                    Workload::Fibs(count) => project::fibs(count),
                };
                let outcome =
                    hold_against(terms, &opponents, Automations { text: &automation, count: 1 }, connections)
                        .await?;
                let (ours, theirs) = (outcome.daemon(), outcome.baseline(0));
                let name = format!("{}, {connections} conn.", workload.title());
                let rates = (ours.rate(What::Answered), theirs.rate(What::Answered));
                let ratio = outcome.ratio(0, What::Answered);
                let row = Row::new("peers", name.clone(), rates.0, Unit::PerSecond);
                let target = matches!(workload, Workload::Fibs(_)).then_some(Target::Ratio(1.0));
                report.add(row.beside(peer.name(), rates.1, ratio).target(target));
                if connections == 1 {
                    let times = (ours.percentile_us(0.5), theirs.percentile_us(0.5));
                    let row = Row::new("peers", format!("{name}, median time"), times.0, Unit::Microseconds);
                    report.add(row.beside(peer.name(), times.1, times.0 / times.1));
                }
            }
        }
    }
    Ok(())
}
