//! How many connections there may be: in all, of one peer, and of strangers, who have shown no credential. Where all places are taken, the
//! owner of the most connections loses its oldest one.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::options::Limits;

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct Slots {
    total: usize,
    per_peer: usize,
    loopback_exempt: bool,
    /// The limit of unauthenticated connections, if they are counted separately.
    strangers: Option<usize>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// Without the strangers that were evicted, whose connections are about to close.
    total: usize,
    by_peer: HashMap<IpAddr, usize>,
    /// By age, the oldest first: what evicts each.
    strangers: BTreeMap<u64, CancellationToken>,
    /// By age, the oldest first: the owner of the credential that each has shown, and what evicts it.
    known: BTreeMap<u64, (Arc<str>, CancellationToken)>,
    next: u64,
}

impl Taken {
    /// Evicts the oldest connection of the owner that has the most, if that is more than one: no owner takes all places.
    fn evict_of_most(&mut self) {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        self.known.values().for_each(|(owner, _)| *counts.entry(owner).or_default() += 1);
        let number = |owner: &str| counts.get(owner).copied().unwrap_or_default();
        let most = self.known.values().map(|(owner, _)| number(owner)).max().filter(|most| *most > 1);
        let oldest =
            self.known.iter().find(|(_, (owner, _))| Some(number(owner)) == most).map(|(key, _)| *key);
        if let Some((_, evicted)) = oldest.and_then(|oldest| self.known.remove(&oldest)) {
            evicted.cancel();
            self.total = self.total.saturating_sub(1);
        }
    }
}

/// A place, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    peer: Option<IpAddr>,
    anonymous: Option<(u64, CancellationToken)>,
}

/// An unauthenticated connection, which can become authenticated.
#[derive(Debug)]
pub(crate) struct AnonymousSlot {
    slots: Arc<Slots>,
    number: u64,
}

impl AnonymousSlot {
    /// Notes that the connection has shown a credential of this owner: from here on it keeps its place, unless the owner has the most of
    /// all and there is no other.
    pub(crate) fn trust(&self, owner: &str) {
        let mut taken = self.slots.lock();
        if let Some(evicted) = taken.strangers.remove(&self.number) {
            taken.known.insert(self.number, (owner.into(), evicted));
        }
    }
}

impl Slot {
    /// The stranger that this is the place of, where strangers are told apart.
    pub(crate) fn anonymous(&self) -> Option<AnonymousSlot> {
        let (number, _) = self.anonymous.as_ref()?;
        Some(AnonymousSlot { slots: Arc::clone(&self.slots), number: *number })
    }

    /// Waits until the place is taken away, which may be never.
    pub(crate) async fn evicted(&self) {
        match &self.anonymous {
            Some((_, evicted)) => evicted.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

impl Slots {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            total: limits.connections,
            per_peer: limits.connections_per_peer,
            loopback_exempt: limits.loopback_exempt,
            strangers: limits.unauthenticated,
            taken: Mutex::default(),
        })
    }

    /// A place for a connection from `address`, if there is one.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Slot> {
        let peer = peer(address);
        let peer = (!(self.loopback_exempt && peer.is_loopback())).then_some(peer);
        let mut taken = self.lock();
        if let Some(peer) = peer
            && taken.by_peer.get(&peer).is_some_and(|count| *count >= self.per_peer.max(1))
        {
            return None;
        }
        let too_many = self.strangers.is_some_and(|most| taken.strangers.len() >= most.max(1));
        if (too_many || taken.total >= self.total)
            && let Some((_, oldest)) = taken.strangers.pop_first()
        {
            oldest.cancel();
            taken.total = taken.total.saturating_sub(1);
        }
        if taken.total >= self.total {
            taken.evict_of_most();
        }
        if taken.total >= self.total {
            return None;
        }
        if let Some(peer) = peer {
            *taken.by_peer.entry(peer).or_insert(0) += 1;
        }
        taken.total += 1;
        let anonymous = self.strangers.map(|_| {
            let (number, evicted) = (taken.next, CancellationToken::new());
            taken.next += 1;
            taken.strangers.insert(number, evicted.clone());
            (number, evicted)
        });
        drop(taken);
        Some(Slot { slots: Arc::clone(self), peer, anonymous })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.lock();
        match &self.anonymous {
            // It is counted no more.
            Some((_, evicted)) if evicted.is_cancelled() => {}
            anonymous => {
                taken.total = taken.total.saturating_sub(1);
                if let Some((number, _)) = anonymous {
                    taken.strangers.remove(number);
                    taken.known.remove(number);
                }
            }
        }
        let Some(peer) = self.peer else { return };
        if let Some(count) = taken.by_peer.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                taken.by_peer.remove(&peer);
            }
        }
    }
}

/// The peer that an address belongs to: an IPv4 address, or the first 64 bits of an IPv6 address, since one host
/// usually controls the whole network of that prefix.
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
    fn a_peer_over_its_limit_gets_no_slot_until_it_frees_one() {
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
    fn loopback_counts_only_towards_the_total() {
        let slots = slots(3, 1);
        let held: Vec<_> = (0..3).map(|_| slots.take(ip("127.0.0.1"))).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(slots.take(ip("127.0.0.1")).is_none());
        assert!(slots.take(ip("192.0.2.1")).is_none());
    }

    #[test]
    fn an_unauthenticated_connection_evicts_only_the_oldest_unauthenticated_one() {
        let limits = Limits { connections: 4, unauthenticated: Some(2), ..Limits::default() };
        let slots = Slots::new(&limits);
        let take = || slots.take(ip("127.0.0.1")).expect("a place");
        let is_evicted =
            |slot: &Slot| slot.anonymous.as_ref().is_some_and(|(_, evicted)| evicted.is_cancelled());
        let (first, second) = (take(), take());
        first.anonymous().expect("a stranger").trust("a");
        let third = take();
        assert!(!is_evicted(&first) && !is_evicted(&second));
        let fourth = take();
        assert!(is_evicted(&second) && !is_evicted(&third), "the oldest that is not known");
        drop(second);
        for slot in [&third, &fourth] {
            slot.anonymous().expect("a stranger").trust(if std::ptr::eq(slot, &third) { "b" } else { "c" });
        }
        let fifth = take();
        let sixth = take();
        assert!(is_evicted(&fifth) && !is_evicted(&first), "also where all places are taken");
        sixth.anonymous().expect("a stranger").trust("d");
        assert!(slots.take(ip("127.0.0.1")).is_none(), "all of them are known, each of another owner");
        drop((first, third, fourth, fifth, sixth));
        let taken = slots.lock();
        assert_eq!((taken.total, taken.by_peer.len(), taken.strangers.len()), (0, 0, 0));
    }

    #[test]
    fn a_credential_that_holds_all_slots_loses_its_oldest_to_others() {
        let limits = Limits { connections: 4, unauthenticated: Some(4), ..Limits::default() };
        let slots = Slots::new(&limits);
        let take = |owner: &str| {
            let slot = slots.take(ip("127.0.0.1")).expect("a place");
            slot.anonymous().expect("a stranger").trust(owner);
            slot
        };
        let is_evicted =
            |slot: &Slot| slot.anonymous.as_ref().is_some_and(|(_, evicted)| evicted.is_cancelled());
        let admin = take("admin");
        let held: Vec<Slot> = (0..3).map(|_| take("metrics")).collect();
        let second = take("admin");
        let evicted: Vec<bool> = held.iter().map(is_evicted).collect();
        assert_eq!(
            (evicted, is_evicted(&admin), is_evicted(&second)),
            (vec![true, false, false], false, false)
        );
        drop((admin, held, second));
        let taken = slots.lock();
        assert_eq!((taken.total, taken.known.len(), taken.strangers.len()), (0, 0, 0));
    }

    #[test]
    fn disconnected_peers_leave_no_state() {
        let slots = slots(10, 1);
        drop(slots.take(ip("192.0.2.1")));
        let taken = slots.lock();
        assert_eq!((taken.total, taken.by_peer.len()), (0, 0));
    }
}
