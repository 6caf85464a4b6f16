//! Renders the manual, `docs/`, into `docs/book`. What mdBook only warns of (an include that leads nowhere, HTML that is not
//! closed) ends it with an error. Without arguments it also packs the book for the daemon, into `docs/book-packed`; with
//! `--reference` it writes the pages of the reference anew in place of both.

#![expect(clippy::print_stdout, reason = "it says where the book is")]

mod connectors;
mod packed;
mod reference;
mod strict;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};
use mdbook_driver::MDBook;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// Sees whether anything is warned of.
struct Warnings(Arc<AtomicBool>);

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= Level::WARN {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

fn main() -> anyhow::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    match std::env::args_os().nth(1) {
        None => {
            let book = render(docs.clone())?;
            packed::write(&book, &docs.join("book-packed"))
        }
        Some(flag) if flag == "--reference" => reference::write(&docs.join("src/reference")),
        Some(folder) => render(PathBuf::from(folder)).map(drop),
    }
}

/// Renders the book of a folder, and returns the folder of its pages.
fn render(folder: PathBuf) -> anyhow::Result<PathBuf> {
    let warnings = Arc::new(AtomicBool::new(false));
    let shown =
        tracing_subscriber::fmt::layer().without_time().with_target(false).with_writer(std::io::stderr);
    let layers = tracing_subscriber::registry().with(LevelFilter::WARN).with(shown);
    layers.with(Warnings(warnings.clone())).init();
    let place = folder.display().to_string();
    let mut book = MDBook::load(folder).with_context(|| format!("cannot load `{place}`"))?;
    // Readers of a page see which version it is about.
    book.config.book.title = Some(format!("Cogwork {}", env!("CARGO_PKG_VERSION")));
    book.build().context("cannot render the manual")?;
    ensure!(!warnings.load(Ordering::Relaxed), "the manual has the problems that are told above");
    let made = book.build_dir_for("html");
    strict::apply(&made)?;
    println!("the manual is in {}", made.display());
    Ok(made)
}
