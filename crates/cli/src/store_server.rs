//! A store that daemons share: its server, which calls of steps must not reach unless a setting opens it, and files that are not shared.

use std::net::SocketAddr;

use anyhow::Context as _;
use catalog::Catalog;
use connector::Lookup as _;
use connector::http::SystemLookup;
use runtime::Settings;

use crate::settings::Config;

/// Adds the addresses of the store's server to the addresses that no call may reach, unless `outbound.storeServer` opens it.
///
/// # Errors
/// The name of the server has no address.
pub(crate) async fn close(config: &Config, settings: &mut Settings) -> anyhow::Result<()> {
    if config.outbound_store_server {
        return Ok(());
    }
    for (host, port) in config.store_location().servers() {
        let addresses = SystemLookup.lookup(&host).await;
        let addresses =
            addresses.with_context(|| format!("the server `{host}` of the store is not found"))?;
        settings.own_addresses.extend(addresses.into_iter().map(|address| SocketAddr::new(address, port)));
    }
    Ok(())
}

/// The connections to files on this machine, as a sentence, if daemons share the store: each of them has files of its own.
pub(crate) fn local_files(config: &Config, catalog: &Catalog) -> Option<String> {
    let local: Vec<String> = catalog
        .connections()
        .filter(|connection| config.store_location().is_shared() && connection.kind == "sql.sqlite")
        .map(|connection| format!("`{}`", connection.name))
        .collect();
    if local.is_empty() {
        return None;
    }
    Some(format!(
        "local-file: daemons share the store, and each has its own file of {}; put such data into a database on a server",
        local.join(", ")
    ))
}
