//! A store that daemons share: its server, which calls of steps must not reach unless a setting opens it, and files that are not shared.

use catalog::Catalog;
use runtime::Settings;

use crate::settings::Config;

/// Adds the servers of the store to the addresses that no call may reach, unless `outbound.storeServer` opens them. Their names are looked
/// up before each connection, since a server may move.
pub(crate) fn close(config: &Config, settings: &mut Settings) {
    if !config.outbound_store_server {
        settings.own_servers = config.store_location().servers();
    }
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
