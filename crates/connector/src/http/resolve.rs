//! From a name to its addresses, all of which the guard has judged.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::guard::Guard;

/// How a name becomes addresses.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// All addresses of `name`.
    ///
    /// # Errors
    /// There are none, or nobody could be asked.
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the system, as every other program on the machine does.
#[derive(Clone, Copy, Debug)]
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// The resolver that the HTTP client connects with: the addresses it gives are the addresses that were judged.
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
            // One bad address refuses the name: whoever mixes them is trying to slip one through.
            for address in &addresses {
                guard.check_resolved(&name, *address)?;
            }
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}
