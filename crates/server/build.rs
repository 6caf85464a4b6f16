//! Creates placeholder pages for the web UI and the manual if `make ui` and `make book` have not built them, so that a plain
//! `cargo build` needs no Node.js.

use std::path::Path;
use std::{fs, io};

const UI: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Cogwork</title>\n<h1>Cogwork</h1>\n\
    <p>This binary was built without the web UI. With Node.js 20 or later, run <code>make ui</code> and build again.</p>\n\
    <p>The API works: <a href=\"/api/openapi.json\">its description</a> needs the admin token.</p>\n</html>\n";

const MANUAL: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Manual of Cogwork</title>\n\
    <h1>Manual of Cogwork</h1>\n\
    <p>This binary was built without the manual. Run <code>make book</code> and build again; or read the pages in \
    <code>docs/src</code> of the source code, or <code>docs/book</code> after <code>make book</code>.</p>\n</html>\n";

fn main() -> io::Result<()> {
    embed(Path::new("../../ui/dist"), "index.html", UI)?;
    let manual = Path::new("../../docs/book-packed");
    let is_built = manual.join("index.html.gz").exists();
    embed(manual, if is_built { "index.html.gz" } else { "index.html" }, MANUAL)
}

/// Creates the first page of a folder if it is missing.
fn embed(folder: &Path, first: &str, page: &str) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", folder.display());
    if !folder.join(first).exists() {
        fs::create_dir_all(folder)?;
        fs::write(folder.join(first), page)?;
    }
    Ok(())
}
