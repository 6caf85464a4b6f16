//! The wiki simulator as a program, for trying connectors without an account.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use wiki_simulator::{
    ARCH_SPACE_ID, CLOUD_ID, Clock, DEMO_ATTACHMENT_ID, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET,
    DEMO_CUSTOM_CONTENT_ID, DEMO_EMAIL, DEMO_PAGE_ID, DEMO_SCOPED_TOKEN, DEMO_SPACE_ID, DEMO_TOKEN, Running,
    Simulator,
};

/// Serves a small wiki on this machine: two spaces, a dozen pages, attachments, labels, content properties, custom
/// content. Everything is in memory and the same in every run, ids included; it is gone when you stop it.
#[derive(Debug, Parser)]
#[command(name = "wiki-simulator", version, after_help = examples())]
struct Arguments {
    /// The address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7099")]
    listen: String,

    /// Print the address and nothing else
    #[arg(long, short)]
    quiet: bool,
}

fn examples() -> String {
    format!(
        "Always the same:
  space DEMO               {DEMO_SPACE_ID}, space ARCH {ARCH_SPACE_ID}
  page Welcome             {DEMO_PAGE_ID}, with attachment att{DEMO_ATTACHMENT_ID} and custom content {DEMO_CUSTOM_CONTENT_ID}
  Basic, on the site       {DEMO_EMAIL} / {DEMO_TOKEN}
  Basic, on the gateway    {DEMO_EMAIL} / {DEMO_SCOPED_TOKEN}
  OAuth client             {DEMO_CLIENT_ID} / {DEMO_CLIENT_SECRET} (consents at once, any redirect address)
  cloud id                 {CLOUD_ID}

Examples:
  wiki-simulator
  curl -u {DEMO_EMAIL}:{DEMO_TOKEN} http://127.0.0.1:7099/wiki/api/v2/spaces
  curl -u {DEMO_EMAIL}:{DEMO_TOKEN} -H 'Content-Type: application/json' \\
       -d '{{\"spaceId\":\"{DEMO_SPACE_ID}\",\"title\":\"Mine\"}}' http://127.0.0.1:7099/wiki/api/v2/pages
  curl -u {DEMO_EMAIL}:{DEMO_TOKEN} -H 'Content-Type: application/json' \\
       -d '{{\"query\":\"query Spaces {{ spaces {{ id key }} }}\"}}' http://127.0.0.1:7099/gateway/api/graphql"
    )
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let simulator = Simulator::builder().clock(Clock::system()).listen(&arguments.listen);
    let running = simulator.demo().start().await?;
    greet(&running, arguments.quiet)?;
    wait_for_stop().await?;
    running.stop().await;
    Ok(())
}

fn greet(wiki: &Running, quiet: bool) -> io::Result<()> {
    let (mut out, url) = (io::stdout().lock(), wiki.base_url());
    if quiet {
        writeln!(out, "{url}")?;
    } else {
        writeln!(out, "The wiki simulator listens on {url} (Ctrl-C ends it)\n")?;
        writeln!(out, "  e-mail     {DEMO_EMAIL}\n  API token  {DEMO_TOKEN}")?;
        writeln!(out, "  spaces     DEMO {DEMO_SPACE_ID}, ARCH {ARCH_SPACE_ID}")?;
        writeln!(out, "  gateway    {url}/ex/wiki/{CLOUD_ID}/wiki/api/v2")?;
        writeln!(out, "\nTry:  curl -u {DEMO_EMAIL}:{DEMO_TOKEN} {url}/wiki/api/v2/spaces")?;
    }
    out.flush()
}

/// Waits for Ctrl-C, or for the signal that a supervisor sends.
async fn wait_for_stop() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = tokio::signal::ctrl_c() => done,
        _ = terminate.recv() => Ok(()),
    }
}
