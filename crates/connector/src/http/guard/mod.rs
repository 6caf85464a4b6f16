//! Rules about the addresses that requests may reach (threat model 4.4).
//!
//! By default only public unicast addresses. The allow list lets private ones through; our own listeners and the
//! database stay closed regardless of the list. A name is checked by all of its addresses at the moment of
//! connecting, so that it cannot resolve to another address between check and use.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use url::{Host, Url};

use super::resolve::Lookup;
use crate::error::Error;

/// IPv4 networks that requests may not reach. Source: the IANA registry of special-purpose addresses.
const BLOCKED_V4: [(Network, &str); 18] = [
    (Network::v4([0, 0, 0, 0], 8), "this network"),
    (Network::v4([10, 0, 0, 0], 8), "a private network"),
    (Network::v4([100, 64, 0, 0], 10), "a carrier's shared network"),
    (Network::v4([127, 0, 0, 0], 8), "this machine"),
    (Network::v4([169, 254, 0, 0], 16), "the link, where clouds keep credentials"),
    (Network::v4([172, 16, 0, 0], 12), "a private network"),
    (Network::v4([192, 0, 0, 0], 24), "a network reserved for protocols"),
    (Network::v4([192, 0, 2, 0], 24), "a network for documentation"),
    (Network::v4([192, 31, 196, 0], 24), "a reserved network"),
    (Network::v4([192, 52, 193, 0], 24), "a reserved network"),
    (Network::v4([192, 88, 99, 0], 24), "a 6to4 relay"),
    (Network::v4([192, 168, 0, 0], 16), "a private network"),
    (Network::v4([192, 175, 48, 0], 24), "a reserved network"),
    (Network::v4([198, 18, 0, 0], 15), "a network for benchmarks"),
    (Network::v4([198, 51, 100, 0], 24), "a network for documentation"),
    (Network::v4([203, 0, 113, 0], 24), "a network for documentation"),
    (Network::v4([224, 0, 0, 0], 4), "a multicast group"),
    (Network::v4([240, 0, 0, 0], 4), "a reserved network"),
];

/// IPv6 networks that requests may not reach, including all that embed an IPv4 address.
const BLOCKED_V6: [(Network, &str); 16] = [
    (Network::v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "this machine"),
    (Network::v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), "an IPv4 address in disguise"),
    (Network::v6([0, 0, 0, 0, 0, 0, 0, 0], 96), "an IPv4 address in disguise"),
    (Network::v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), "an IPv4 address behind NAT64"),
    (Network::v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), "an IPv4 address behind NAT64"),
    (Network::v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), "a network that discards"),
    (Network::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), "a Teredo tunnel"),
    (Network::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "a network reserved for protocols"),
    (Network::v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "a network for documentation"),
    (Network::v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), "a 6to4 tunnel"),
    (Network::v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48), "a reserved network"),
    (Network::v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "a network for documentation"),
    (Network::v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "a private network"),
    (Network::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "the link"),
    (Network::v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), "a private network"),
    (Network::v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "a multicast group"),
];

/// The only IPv6 range assigned to public unicast; the guard refuses addresses outside of it without a specific
/// reason.
const PUBLIC_V6: Network = Network::v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// A reason for blocking an address. The HTTP client passes it on as the source of its error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BlockedAddress {
    #[error("only http and https addresses can be called, not `{0}`")]
    Scheme(String),
    #[error("the address names no host")]
    NoHost,
    #[error("an address with a user name or password in it is not called; use a connection")]
    UserInfo,
    #[error(
        "`{host}` may not be called: {address} is {what}; if it is meant, add it to `outbound.allow` in the settings"
    )]
    Private { host: String, address: IpAddr, what: &'static str },
    #[error(
        "`{host}` may not be called: {address} is an address of this daemon or of the server of its store, which only the setting \
         `outbound.storeServer` opens"
    )]
    Own { host: String, address: IpAddr },
}

/// A range of IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    /// The first address, IPv4 in the low 32 bits.
    first: u128,
    /// The number of leading bits that count, of 32 or 128.
    prefix: u8,
    is_v6: bool,
}

impl Network {
    const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Self {
        Self { first: Ipv4Addr::new(a, b, c, d).to_bits() as u128, prefix, is_v6: false }
    }

    const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u8) -> Self {
        Self { first: Ipv6Addr::new(a, b, c, d, e, f, g, h).to_bits(), prefix, is_v6: true }
    }

    fn contains(&self, address: IpAddr) -> bool {
        let (bits, width) = match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        // A prefix of 0 shifts by the whole width, which `>>` does not support.
        let ignored = u32::from(width - self.prefix);
        address.is_ipv6() == self.is_v6
            && (bits.checked_shr(ignored).unwrap_or(0) == self.first.checked_shr(ignored).unwrap_or(0))
    }

    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().ok()?)),
            None => (text, None),
        };
        let address = address.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok()?;
        let (first, width) = match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let prefix = prefix.unwrap_or(width);
        (prefix <= width).then_some(Self { first, prefix, is_v6: width == 128 })
    }
}

/// Private addresses and host names that requests may reach.
#[derive(Clone, Debug, Default)]
pub struct AllowList {
    networks: Vec<Network>,
    names: Vec<String>,
}

impl AllowList {
    /// Parses entries: an address (`127.0.0.1`, `::1`), a network (`10.0.0.0/8`), a host name (`wiki.internal`), or
    /// all names below one (`*.internal`). Empty entries are skipped.
    ///
    /// # Errors
    /// Returns the first entry of another form.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, Error> {
        let mut list = Self::default();
        for entry in entries.into_iter().map(str::trim).filter(|entry| !entry.is_empty()) {
            if let Some(network) = Network::parse(entry) {
                list.networks.push(network);
                continue;
            }
            let name = entry.strip_prefix("*.").unwrap_or(entry);
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            let refused = || Error::AllowList { entry: entry.to_owned() };
            if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(plain) {
                return Err(refused());
            }
            // `1.2.3.4.5` or `10.0.0.1e` would be a name that never matches.
            if name.rsplit('.').next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_digit())) {
                return Err(refused());
            }
            list.names.push(normal_name(entry));
        }
        Ok(list)
    }

    fn allows(&self, name: Option<&str>, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
            || name.is_some_and(|name| self.allows_name(name))
    }

    fn allows_name(&self, name: &str) -> bool {
        let name = normal_name(name);
        self.names.iter().any(|allowed| match allowed.strip_prefix('*') {
            Some(suffix) => name.ends_with(suffix) && name.len() > suffix.len(),
            None => *allowed == name,
        })
    }
}

fn normal_name(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Checks every address, for the sender and for the resolver of names.
pub(crate) struct Guard {
    allow: AllowList,
    own: Vec<SocketAddr>,
    /// The servers that are closed like our own listeners, by name and port.
    servers: Vec<(String, u16)>,
    /// The last addresses of the servers, by name.
    server_addresses: Mutex<HashMap<String, Vec<IpAddr>>>,
    pub(super) lookup: Arc<dyn Lookup>,
    /// The ports of requests in flight by host name, because the HTTP client passes only the name to the resolver.
    in_flight: Mutex<HashMap<String, Vec<u16>>>,
}

/// Marks a request to this name and port as in flight until it is dropped.
pub(crate) struct InFlight<'g> {
    guard: &'g Guard,
    target: Option<(String, u16)>,
}

impl Guard {
    pub(super) fn new(allow: AllowList, own: Vec<SocketAddr>, lookup: Arc<dyn Lookup>) -> Self {
        let (servers, server_addresses, in_flight) = Default::default();
        Self { allow, own, servers, server_addresses, lookup, in_flight }
    }

    /// Closes these servers too, by name and port.
    pub(super) fn with_servers(mut self, servers: &[(String, u16)]) -> Self {
        for (name, port) in servers {
            match name.trim_matches(['[', ']']).parse() {
                Ok(address) => self.own.push(SocketAddr::new(address, *port)),
                Err(_) => self.servers.push((normal_name(name), *port)),
            }
        }
        self
    }

    /// Looks up the closed servers on a port, before an address is compared with theirs: they may have moved. A name that cannot be
    /// resolved keeps its last addresses.
    pub(super) async fn look_up_servers(&self, is_port: impl Fn(u16) -> bool) {
        for (name, _) in self.servers.iter().filter(|(_, port)| is_port(*port)) {
            if let Ok(found) = self.lookup.lookup(name).await
                && !found.is_empty()
            {
                self.server_addresses().insert(name.clone(), found);
            }
        }
    }

    fn server_addresses(&self) -> MutexGuard<'_, HashMap<String, Vec<IpAddr>>> {
        self.server_addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a connection ends at one of our own listeners or at a closed server.
    fn is_own(&self, name: Option<&str>, address: IpAddr, is_port: impl Fn(u16) -> bool) -> bool {
        let name = name.map(normal_name);
        let known = self.server_addresses();
        let is_server = |server: &String| {
            name.as_ref() == Some(server)
                || known
                    .get(server)
                    .is_some_and(|known| known.iter().any(|own| is_same_machine(*own, address)))
        };
        self.own.iter().any(|own| is_port(own.port()) && is_same_machine(own.ip(), address))
            || self.servers.iter().any(|(server, port)| is_port(*port) && is_server(server))
    }

    /// Looks up the closed servers that the requests in flight to a name may reach.
    pub(super) async fn look_up_servers_of(&self, name: &str) {
        let ports = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        self.look_up_servers(|port| ports.as_ref().is_none_or(|ports| ports.contains(&port))).await;
    }

    /// Checks the address of a request as far as possible without resolving names, and registers its port.
    pub(super) fn enter(&self, url: &Url) -> Result<InFlight<'_>, BlockedAddress> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BlockedAddress::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BlockedAddress::UserInfo);
        }
        let port = url.port_or_known_default().unwrap_or(0);
        let literal = match url.host().ok_or(BlockedAddress::NoHost)? {
            Host::Ipv4(address) => IpAddr::V4(address),
            Host::Ipv6(address) => IpAddr::V6(address),
            Host::Domain(name) => {
                let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
                in_flight.entry(name.to_owned()).or_default().push(port);
                return Ok(InFlight { guard: self, target: Some((name.to_owned(), port)) });
            }
        };
        self.check_address(None, literal, |own| own == port)?;
        Ok(InFlight { guard: self, target: None })
    }

    /// Resolves a host and returns its addresses, at least one, after checking all of them.
    pub(super) async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<IpAddr>> {
        let refused = |reason| io::Error::other::<BlockedAddress>(reason);
        self.look_up_servers(|own| own == port).await;
        let name = match Host::parse(host) {
            Ok(Host::Ipv4(address)) => return self.check_literal(address.into(), port).map_err(refused),
            Ok(Host::Ipv6(address)) => return self.check_literal(address.into(), port).map_err(refused),
            Ok(Host::Domain(name)) => name,
            Err(_) => return Err(refused(BlockedAddress::NoHost)),
        };
        let addresses = self.lookup.lookup(&name).await?;
        for address in &addresses {
            self.check_address(Some(&name), *address, |own| own == port).map_err(refused)?;
        }
        match addresses.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")),
            false => Ok(addresses),
        }
    }

    fn check_literal(&self, address: IpAddr, port: u16) -> Result<Vec<IpAddr>, BlockedAddress> {
        self.check_address(None, address, |own| own == port).map(|()| vec![address])
    }

    /// True if the allow list has the host or its address.
    pub(crate) fn is_named(&self, host: &str, address: IpAddr) -> bool {
        self.allow.allows(Some(host), address)
    }

    /// True if the allow list has the host of an address, as a name or as an address.
    pub(super) fn is_named_host(&self, url: &Url) -> bool {
        match url.host() {
            Some(Host::Domain(name)) => self.allow.allows_name(name),
            Some(Host::Ipv4(address)) => self.allow.allows(None, address.into()),
            Some(Host::Ipv6(address)) => self.allow.allows(None, address.into()),
            None => false,
        }
    }

    /// Checks one address of a name. The port of the connection is not known here, so one of our own ports among the
    /// ports in flight is enough to refuse; with none in flight, any port may be meant.
    pub(super) fn check_resolved(&self, name: &str, address: IpAddr) -> Result<(), BlockedAddress> {
        let in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let ports = in_flight.get(name);
        self.check_address(Some(name), address, |own| ports.is_none_or(|ports| ports.contains(&own)))
    }

    fn check_address(
        &self,
        name: Option<&str>,
        address: IpAddr,
        is_port: impl Fn(u16) -> bool,
    ) -> Result<(), BlockedAddress> {
        let host = || name.map_or_else(|| address.to_string(), str::to_owned);
        if self.is_own(name, address, is_port) {
            return Err(BlockedAddress::Own { host: host(), address });
        }
        match blocked_reason(address) {
            Some(what) if !self.allow.allows(name, address) => {
                Err(BlockedAddress::Private { host: host(), address, what })
            }
            _ => Ok(()),
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let Some((name, port)) = &self.target else { return };
        let mut in_flight = self.guard.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ports) = in_flight.get_mut(name) {
            if let Some(position) = ports.iter().position(|noted| noted == port) {
                ports.swap_remove(position);
            }
            if ports.is_empty() {
                in_flight.remove(name);
            }
        }
    }
}

/// Returns the reason why requests may not reach the address by default; `None` for a public address.
fn blocked_reason(address: IpAddr) -> Option<&'static str> {
    let table: &[(Network, &str)] = if address.is_ipv4() { &BLOCKED_V4 } else { &BLOCKED_V6 };
    let named = table.iter().find(|(network, _)| network.contains(address)).map(|(_, what)| *what);
    named.or_else(|| (address.is_ipv6() && !PUBLIC_V6.contains(address)).then_some("no public address"))
}

/// True if a connection to `target` may end at a listener on `own`.
fn is_same_machine(own: IpAddr, target: IpAddr) -> bool {
    let (own, target) = (own.to_canonical(), target.to_canonical());
    if target.is_unspecified() {
        return true;
    }
    // A listener on 0.0.0.0 accepts on every address of the machine. Binding succeeds only for addresses of the
    // machine.
    own == target || (own.is_unspecified() && (target.is_loopback() || UdpSocket::bind((target, 0)).is_ok()))
}

#[cfg(test)]
mod tests;
