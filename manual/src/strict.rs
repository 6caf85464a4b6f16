//! Makes the pages work under a content security policy without `unsafe-inline`: scripts inside of pages become files, and style
//! attributes become classes.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use sha2::{Digest as _, Sha256};

const OPENING: &str = "<script>";
const CLOSING: &str = "</script>";
/// The style attributes that mdBook writes, with the classes of `manual.css` in their place.
const STYLES: [(&str, &str); 1] = [(" style=\"clear: both\"", " class=\"clear\"")];

/// Changes every page of a rendered book.
pub(crate) fn apply(book: &Path) -> anyhow::Result<()> {
    change(book, book, "")
}

fn change(book: &Path, folder: &Path, to_root: &str) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read `{}`", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            change(book, &path, &format!("{to_root}../"))?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            let (page, scripts) = without_inline(&fs::read_to_string(&path)?, to_root)
                .with_context(|| format!("`{}`", path.display()))?;
            for (name, script) in scripts {
                fs::write(book.join(name), script)?;
            }
            fs::write(path, page)?;
        }
    }
    Ok(())
}

/// Returns a page without scripts and styles inside of it, and the scripts with the names of their files.
fn without_inline(page: &str, to_root: &str) -> anyhow::Result<(String, Vec<(String, String)>)> {
    let (mut changed, mut scripts, mut rest) = (String::with_capacity(page.len()), Vec::new(), page);
    while let Some((before, after)) = rest.split_once(OPENING) {
        let (script, after) = after.split_once(CLOSING).context("a script is not closed")?;
        let name = format!("inline-{}.js", hex::encode(&Sha256::digest(script)[..4]));
        changed.push_str(before);
        changed.push_str(&format!("<script src=\"{to_root}{name}\">{CLOSING}"));
        scripts.push((name, script.to_owned()));
        rest = after;
    }
    changed.push_str(rest);
    for (style, class) in STYLES {
        changed = changed.replace(style, class);
    }
    // Text of the manual has `&lt;` and `&quot;` in place of these.
    for forbidden in [" style=\"", " onclick=\"", "javascript:", "<style"] {
        ensure!(!changed.contains(forbidden), "it has `{forbidden}`, which the policy of the daemon forbids");
    }
    Ok((changed, scripts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_and_styles_leave_the_page_and_the_rest_stays() {
        let page = "<p>a</p><script>\nlet x = 1;</script><script src=\"b.js\"></script><div style=\"clear: both\"></div>";
        let (changed, scripts) = without_inline(page, "../").expect("it can be changed");
        let [(name, script)] = scripts.as_slice() else { panic!("one script: {scripts:?}") };
        assert_eq!(script, "\nlet x = 1;");
        let expected = format!(
            "<p>a</p><script src=\"../{name}\"></script><script src=\"b.js\"></script><div class=\"clear\"></div>"
        );
        assert_eq!(changed, expected);
    }

    #[test]
    fn what_cannot_be_changed_is_an_error() {
        for page in
            ["<script>let x", "<p style=\"color: red\">", "<a onclick=\"x()\">", "<style>a {}</style>"]
        {
            without_inline(page, "").expect_err(page);
        }
    }
}
