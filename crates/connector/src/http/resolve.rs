//! Resolution of host names to addresses that the guard has checked.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::guard::Guard;

/// Resolves host names.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// Returns all addresses of `name`.
    ///
    /// # Errors
    /// Returns an error if there are none, or if the resolver cannot be reached.
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// The resolver that `reqwest` connects with. It returns only addresses that the guard has checked.
pub(super) struct Resolver(pub(super) Arc<Guard>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        let name = name.as_str().to_owned();
        Box::pin(async move {
            let addresses = guard.lookup.lookup(&name).await?;
            if addresses.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address").into());
            }
            guard.look_up_servers_of(&name).await;
            // One blocked address refuses the whole name: a mixture suggests an attempt to bypass the guard.
            for address in &addresses {
                guard.check_resolved(&name, *address)?;
            }
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}
