//! `cogwork ui`

use std::net::IpAddr;

use anyhow::Context as _;
use clap::Args;
use serde::{Deserialize, Serialize};
use server::Daemon;

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::daemon;
use crate::exit::Exit;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  cogwork ui
  cogwork ui --json | jq -r .url

It needs the daemon.";

/// Print a link that logs a browser in to the web UI, for one use within 10 minutes
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ui {
    #[command(flatten)]
    shown: DaemonOptions,
}

/// The required part of the daemon's response.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Link {
    path: String,
    expires_at: String,
}

/// The printed link.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    url: String,
    /// For a browser on the machine of the daemon.
    local: String,
    expires_at: String,
}

impl Subcommand for Ui {
    const NAME: &'static str = "ui";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = self.shown.config(context)?;
        let link: Link = daemon::runtime()?.block_on(daemon::post(
            &config,
            "/api/v1/session/link",
            &serde_json::Value::Object(serde_json::Map::new()),
        ))?;
        let found = Daemon::find(&config.data_dir)?.context("the daemon has ended just now")?;
        let mut admin = found.admin;
        if admin.ip().is_unspecified() {
            // It listens on all addresses of the machine; a browser needs a specific one.
            admin.set_ip(match admin {
                std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let local = format!("http://{admin}{}", link.path);
        // The name of a TLS proxy in front of the API; IP addresses are for programs inside the network.
        let name =
            config.admin_hosts.iter().find(|name| name.parse::<IpAddr>().is_err() && !name.starts_with('['));
        let base = config.admin_url.clone().or_else(|| name.map(|name| format!("https://{name}")));
        let url = base.map_or_else(|| local.clone(), |base| format!("{base}{}", link.path));
        let printed = Printed { url, local, expires_at: link.expires_at };
        self.shown.print(&printed, || Ok(output::data(&printed.url)?))?;
        if !self.shown.json && printed.url != printed.local {
            output::say(format_args!("or, in a browser on this machine, {}", printed.local));
        }
        Ok(Exit::Done)
    }
}
