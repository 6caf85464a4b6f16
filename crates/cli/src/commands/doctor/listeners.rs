//! Checks that the listeners of a daemon can be opened.

use std::net::{SocketAddr, TcpListener};

use super::finding::Findings;
use crate::settings::Config;

const SECTION: &str = "listeners";

/// Opens the ports for a moment, unless a daemon of this project has them open.
pub(super) fn check(config: &Config, has_daemon: bool, findings: &mut Findings) {
    if config.hooks == config.admin && config.hooks.port() != 0 {
        let detail = format!("`hooks` and `admin` are both {}", config.hooks);
        return findings.error(SECTION, "ports", detail, "give them different ports");
    }
    for (name, address) in [("hooks", config.hooks), ("admin", config.admin)] {
        if has_daemon {
            findings.skipped(SECTION, name, format!("{address}: the running daemon has its listeners"));
        } else {
            open(name, address, findings);
        }
    }
}

fn open(name: &'static str, address: SocketAddr, findings: &mut Findings) {
    let Err(error) = TcpListener::bind(address) else {
        return findings.ok(SECTION, name, format!("{address} is free"));
    };
    let help = server::how_to_listen(name, &error);
    findings.error(SECTION, name, format!("{address} cannot be opened: {error}"), help);
}
