//! Checks that the listeners of a daemon can be opened.

use std::io::ErrorKind;
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
    let help = match error.kind() {
        ErrorKind::AddrInUse => {
            format!("stop the program that listens there, or set `{name}` to another port")
        }
        ErrorKind::PermissionDenied => {
            "ports below 1024 need the capability CAP_NET_BIND_SERVICE; take a higher one behind a proxy"
                .to_owned()
        }
        ErrorKind::AddrNotAvailable => format!("no interface has this address; correct `{name}`"),
        _ => format!("correct `{name}`"),
    };
    findings.error(SECTION, name, format!("{address} cannot be opened: {error}"), help);
}
