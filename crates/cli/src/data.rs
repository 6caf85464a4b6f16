//! JSON arguments of the command line.

use std::fs::File;
use std::io::{self, Read};

use anyhow::Context as _;
use serde_json::Value;

use crate::exit::CommandError;

/// The maximum size in bytes: that of the API.
const MAX_BYTES: u64 = 1 << 20;

/// JSON given literally, in a file after `@`, or on stdin for `-`.
///
/// # Errors
/// It is not JSON, too large, or cannot be read.
pub(crate) fn read(given: &str) -> anyhow::Result<Value> {
    let text = match (given, given.strip_prefix('@')) {
        ("-", _) => whole(io::stdin().lock()).context("cannot read stdin")?,
        (_, Some(path)) => {
            let text = File::open(path).map_err(Into::into).and_then(whole);
            text.with_context(|| format!("cannot read `{path}`"))?
        }
        (given, None) => given.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        CommandError::usage(format!("this is not JSON: {error}; a text needs quotes: '\"text\"'"))
    })
}

fn whole(source: impl Read) -> anyhow::Result<String> {
    let mut text = String::new();
    source.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    let limit = text::units::format_size(MAX_BYTES);
    anyhow::ensure!(text.len() as u64 <= MAX_BYTES, "it is larger than {limit}");
    Ok(text)
}
