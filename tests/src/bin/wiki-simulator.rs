//! The wiki simulator as a program: a small wiki on this machine, for trying connectors without an account anywhere.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use tests::wiki::{
    ARCH_SPACE_ID, CLOUD_ID, Clock, DEMO_ATTACHMENT_ID, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET,
    DEMO_CUSTOM_CONTENT_ID, DEMO_EMAIL, DEMO_PAGE_ID, DEMO_SCOPED_TOKEN, DEMO_SPACE_ID, DEMO_TOKEN, Handle,
    PageSeed, READER_EMAIL, READER_TOKEN, Running, Simulator, Switches, Words,
};

/// The most pages that `--extra-pages` adds.
const MOST_EXTRA_PAGES: i64 = 10_000;

/// Serves a small wiki on this machine: two spaces, a dozen pages, attachments, labels, content properties, custom
/// content and two users. Everything is in memory and the same in every run, ids included; it is gone when you stop it.
#[derive(Debug, Parser)]
#[command(name = "wiki-simulator", version, after_help = examples())]
struct Arguments {
    /// The address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7099")]
    listen: String,

    /// Open the control API under /_sim/ to callers on this machine: scripted faults, the request log, the clock
    #[arg(long)]
    admin: bool,

    /// Start with nothing in it (the users and the OAuth client are there all the same)
    #[arg(long)]
    empty: bool,

    /// Add this many pages to the first space, to try paging
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=MOST_EXTRA_PAGES),
        conflicts_with = "empty")]
    extra_pages: u32,

    /// The words of a product, so that its own clients can be pointed here: product, pathSlug, documentFormat, uploadHeader
    #[arg(long, value_name = "NAME=WORD,…", value_parser = Words::parse, default_value = "", hide_default_value = true)]
    words: Words,

    /// Print the address and nothing else
    #[arg(long, short)]
    quiet: bool,
}

fn examples() -> String {
    format!(
        "What is always the same:
  space DEMO               {DEMO_SPACE_ID}, space ARCH {ARCH_SPACE_ID}
  page Welcome             {DEMO_PAGE_ID}, with attachment att{DEMO_ATTACHMENT_ID} and custom content {DEMO_CUSTOM_CONTENT_ID}
  Basic, on the site       {DEMO_EMAIL} / {DEMO_TOKEN} (may do everything)
                           {READER_EMAIL} / {READER_TOKEN} (may look at DEMO)
  Basic, on the gateway    {DEMO_EMAIL} / {DEMO_SCOPED_TOKEN}
  OAuth client             {DEMO_CLIENT_ID} / {DEMO_CLIENT_SECRET} (consents at once, any redirect address)
  cloud id                 {CLOUD_ID}

Examples:
  wiki-simulator
  curl -u {DEMO_EMAIL}:{DEMO_TOKEN} http://127.0.0.1:7099/wiki/api/v2/spaces
  curl -u {DEMO_EMAIL}:{DEMO_TOKEN} -H 'Content-Type: application/json' \\
       -d '{{\"spaceId\":\"{DEMO_SPACE_ID}\",\"title\":\"Mine\"}}' \\
       http://127.0.0.1:7099/wiki/api/v2/pages
  curl -u {DEMO_EMAIL}:{DEMO_TOKEN} -H 'Content-Type: application/json' \\
       -d '{{\"query\":\"query Spaces {{ spaces {{ id key }} }}\"}}' \\
       http://127.0.0.1:7099/gateway/api/graphql

  wiki-simulator --words product=acme,pathSlug=acme,documentFormat=acme_doc,uploadHeader=X-Acme-Token

  wiki-simulator --admin
  curl -d '{{\"method\":\"POST\",\"path\":\"/wiki/api/v2/pages\",\"status\":500}}' \\
       http://127.0.0.1:7099/_sim/faults
  curl http://127.0.0.1:7099/_sim/help"
    )
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With nowhere left to say it, the exit code still does.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let running = start(arguments).await?;
    greet(arguments, &running)?;
    until_told_to_stop().await?;
    running.stop().await;
    Ok(())
}

async fn start(arguments: &Arguments) -> Result<Running, tests::wiki::Error> {
    let mut simulator =
        Simulator::builder().clock(Clock::system()).listen(&arguments.listen).admin(arguments.admin);
    simulator = simulator.switches(Switches { words: arguments.words.clone(), ..Switches::default() });
    if !arguments.empty {
        simulator = simulator.demo();
    }
    let extra = arguments.extra_pages;
    let seeded = simulator.seed(move |wiki| {
        (1..=extra).try_for_each(|number| {
            wiki.add_page(PageSeed::new(DEMO_SPACE_ID, &format!("Extra page {number:05}"))).map(drop)
        })
    });
    seeded.start().await
}

fn greet(arguments: &Arguments, wiki: &Handle) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let url = wiki.base_url();
    if arguments.quiet {
        writeln!(out, "{url}")?;
        return out.flush();
    }
    writeln!(out, "The wiki simulator listens on {url} (Ctrl-C ends it)\n")?;
    writeln!(out, "  e-mail     {DEMO_EMAIL}\n  API token  {DEMO_TOKEN}")?;
    if !arguments.empty {
        writeln!(out, "  spaces     DEMO {DEMO_SPACE_ID}, ARCH {ARCH_SPACE_ID}")?;
    }
    writeln!(out, "  gateway    {}", wiki.gateway_api())?;
    if arguments.admin {
        writeln!(out, "  control    {url}/_sim/help")?;
    }
    writeln!(out, "\nTry:  curl -u {DEMO_EMAIL}:{DEMO_TOKEN} {url}/wiki/api/v2/spaces")?;
    out.flush()
}

/// Waits for Ctrl-C, or for the signal that a supervisor sends.
async fn until_told_to_stop() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            done = tokio::signal::ctrl_c() => done,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
