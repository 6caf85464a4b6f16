//! How many connections there may be, in all and of one peer.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::options::Limits;

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct Slots {
    total: usize,
    per_peer: usize,
    loopback_exempt: bool,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    by_peer: HashMap<IpAddr, usize>,
}

/// A place, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    peer: Option<IpAddr>,
}

impl Slots {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            total: limits.connections,
            per_peer: limits.connections_per_peer,
            loopback_exempt: limits.loopback_exempt,
            taken: Mutex::default(),
        })
    }

    /// A place for a connection from `address`, if there is one.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Slot> {
        let peer = peer(address);
        let peer = (!(self.loopback_exempt && peer.is_loopback())).then_some(peer);
        let mut taken = self.lock();
        if taken.total >= self.total {
            return None;
        }
        if let Some(peer) = peer {
            let count = taken.by_peer.entry(peer).or_insert(0);
            // A peer without a connection is never over its limit, so no empty entry stays behind.
            if *count >= self.per_peer.max(1) {
                return None;
            }
            *count += 1;
        }
        taken.total += 1;
        drop(taken);
        Some(Slot { slots: Arc::clone(self), peer })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.lock();
        taken.total = taken.total.saturating_sub(1);
        let Some(peer) = self.peer else { return };
        if let Some(count) = taken.by_peer.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                taken.by_peer.remove(&peer);
            }
        }
    }
}

/// Whom an address belongs to: an IPv4 address, or the first 64 bits of an IPv6 one, since whoever has one address of
/// such a network has them all.
fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(network.into())
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(connections: usize, connections_per_peer: usize) -> Arc<Slots> {
        Slots::new(&Limits { connections, connections_per_peer, ..Limits::default() })
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_peer_over_its_limit_gets_no_place_until_it_gives_one_back() {
        let slots = slots(10, 2);
        let (a, b) = (slots.take(ip("192.0.2.1")), slots.take(ip("192.0.2.1")));
        assert!(a.is_some() && b.is_some());
        assert!(slots.take(ip("192.0.2.1")).is_none());
        assert!(slots.take(ip("192.0.2.2")).is_some());
        drop(a);
        assert!(slots.take(ip("192.0.2.1")).is_some());
    }

    #[test]
    fn an_ipv6_network_and_a_mapped_address_count_as_one_peer() {
        let slots = slots(10, 1);
        let _a = slots.take(ip("2001:db8::1"));
        assert!(slots.take(ip("2001:db8::ffff:2")).is_none());
        assert!(slots.take(ip("2001:db8:0:1::1")).is_some());
        let _b = slots.take(ip("192.0.2.1"));
        assert!(slots.take(ip("::ffff:192.0.2.1")).is_none());
    }

    #[test]
    fn this_machine_counts_only_towards_the_total() {
        let slots = slots(3, 1);
        let held: Vec<_> = (0..3).map(|_| slots.take(ip("127.0.0.1"))).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(slots.take(ip("127.0.0.1")).is_none());
        assert!(slots.take(ip("192.0.2.1")).is_none());
    }

    #[test]
    fn nothing_is_remembered_of_peers_that_have_gone() {
        let slots = slots(10, 1);
        drop(slots.take(ip("192.0.2.1")));
        let taken = slots.lock();
        assert_eq!((taken.total, taken.by_peer.len()), (0, 0));
    }
}
