//! The book as the daemon embeds it: text compressed by gzip, without what only a printed book needs.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::{Compression, GzBuilder};

/// Files that are compressed.
const TEXTS: [&str; 5] = ["html", "css", "js", "svg", "json"];
/// Pages that nobody reads in the daemon: the table of contents without scripts, which is a frame, and the missing page.
const LEFT_OUT: [&str; 2] = ["toc.html", "404.html"];

/// Writes the book into `to`. Unchanged files are not written, so that a build with an unchanged manual is fresh.
pub(crate) fn write(book: &Path, to: &Path) -> anyhow::Result<()> {
    let mut written = BTreeSet::new();
    let mut bytes = 0;
    for name in files(book, Path::new(""))? {
        if LEFT_OUT.iter().any(|left_out| name == Path::new(left_out)) {
            continue;
        }
        let content = fs::read(book.join(&name))?;
        let is_text = name.extension().is_some_and(|kind| TEXTS.iter().any(|text| kind == *text));
        let (name, content) = if is_text { (suffixed(&name), packed(&content)?) } else { (name, content) };
        bytes += content.len();
        write_if_different(&to.join(&name), &content)?;
        written.insert(name);
    }
    if to.is_dir() {
        for name in files(to, Path::new(""))?.into_iter().filter(|name| !written.contains(name)) {
            fs::remove_file(to.join(name))?;
        }
    }
    println!("packed for the daemon: {} files, {} KiB", written.len(), bytes >> 10);
    Ok(())
}

/// The files below a folder, relative to `book`.
fn files(book: &Path, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let place = book.join(folder);
    for entry in fs::read_dir(&place).with_context(|| format!("cannot read `{}`", place.display()))? {
        let entry = entry?;
        let name = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            found.extend(files(book, &name)?);
        } else {
            found.push(name);
        }
    }
    Ok(found)
}

fn suffixed(name: &Path) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    name.push(".gz");
    name.into()
}

/// Compresses a file. Its bytes depend on the content alone.
fn packed(content: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    Ok(encoder.finish()?)
}

fn write_if_different(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|found| found == content) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
    fs::write(path, content).with_context(|| format!("cannot write `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_book_is_packed_and_what_is_gone_leaves() {
        let folder = tempfile::tempdir().expect("a folder");
        let (book, to) = (folder.path().join("book"), folder.path().join("packed"));
        fs::create_dir_all(book.join("a")).expect("made");
        fs::create_dir_all(&to).expect("made");
        fs::write(book.join("a/b.html"), "<p>hello</p>").expect("written");
        fs::write(book.join("c.png"), [1, 2, 3]).expect("written");
        fs::write(book.join("toc.html"), "").expect("written");
        fs::write(to.join("index.html"), "no manual").expect("written");
        write(&book, &to).expect("it is packed");
        let mut found = files(&to, Path::new("")).expect("they are read");
        found.sort();
        assert_eq!(found, [Path::new("a/b.html.gz"), Path::new("c.png")]);
        let before = fs::metadata(to.join("a/b.html.gz")).and_then(|file| file.modified()).expect("a time");
        write(&book, &to).expect("it is packed");
        let after = fs::metadata(to.join("a/b.html.gz")).and_then(|file| file.modified()).expect("a time");
        assert_eq!(before, after, "an unchanged file is not written");
    }
}
