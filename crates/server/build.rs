//! Makes the folder of the web UI with one page if `make ui` has not built it, so that a plain `cargo build` needs no Node.js.

use std::path::Path;
use std::{fs, io};

const PAGE: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Cogwork</title>\n<h1>Cogwork</h1>\n\
    <p>This binary was built without the web UI. With Node.js 20 or later, run <code>make ui</code> and build again.</p>\n\
    <p>The API works: <a href=\"/api/openapi.json\">its description</a> needs the admin token.</p>\n</html>\n";

fn main() -> io::Result<()> {
    let dist = Path::new("../../ui/dist");
    println!("cargo:rerun-if-changed={}", dist.display());
    if !dist.join("index.html").exists() {
        fs::create_dir_all(dist)?;
        fs::write(dist.join("index.html"), PAGE)?;
    }
    Ok(())
}
