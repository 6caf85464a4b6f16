//! Loads `cogwork.yaml` and reports all problems together, each with its span.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context as _;
use text::diagnostic::{Diagnostic, Diagnostics, Report, Source};
use text::yaml::{Kind, MapReader, Node, parse};

use super::table::{SETTINGS, Setting};
use super::{Config, Environment, FILE, Origin, secret_sources};
use crate::mask;

/// The maximum size of the file in bytes: above the parser's limit, so that the parser reports it.
const MAX_BYTES: u64 = 512 << 10;

/// Applies the settings file of a project folder to `config`, if there is one. Returns its diagnostics.
///
/// # Errors
/// The file exists and cannot be read.
pub(super) fn apply(dir: &Path, config: &mut Config) -> anyhow::Result<Option<Report>> {
    let Some(text) = text_in(dir)? else { return Ok(None) };
    let report = apply_text(&text, dir, config);
    Ok((!report.is_empty()).then_some(report))
}

/// Checks the settings file of the folder `dir`, also for sources of secrets that have settings neither there nor in the environment.
///
/// # Errors
/// The file exists and cannot be read.
pub(super) fn check(dir: &Path, environment: &Environment) -> anyhow::Result<Option<Report>> {
    let mut config = Config::new(dir);
    let Some(text) = text_in(dir)? else { return Ok(None) };
    let report = apply_text(&text, dir, &mut config);
    let mut found = report.diagnostics().to_vec();
    if !report.has_errors()
        && environment.apply(&mut config).is_ok()
        && let Err(message) = secret_sources::check_providers(&config)
    {
        let span = parse(&Diagnostics::new(Source::new(FILE, text.as_str())))
            .and_then(|node| Some(node.get("secrets")?.get("sources")?.head()))
            .unwrap_or_default();
        let help = "a variable of the daemon may have them too; without them it does not start";
        found.push(Diagnostic::warning("bad-setting", message, span).help(help));
    }
    let report = Report::new(Source::new(FILE, mask::blank(&text)), found);
    Ok((!report.is_empty()).then_some(report))
}

/// The text of the settings file; `None` if there is no file.
fn text_in(dir: &Path) -> anyhow::Result<Option<String>> {
    let path = dir.join(FILE);
    match read(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    }
}

/// Applies the text of a settings file to `config`.
pub(super) fn apply_text(text: &str, dir: &Path, config: &mut Config) -> Report {
    let diagnostics = Diagnostics::new(Source::new(FILE, text));
    // A file of comments has no settings.
    if let Some(node) = parse(&diagnostics).filter(|node| !node.is_null()) {
        read_keys(&node, dir, config, &diagnostics);
    }
    let report = diagnostics.into_report();
    // A report shows lines of the file around the error, and users copy its output.
    Report::new(Source::new(FILE, mask::blank(text)), report.diagnostics().to_vec())
}

fn read(path: &Path) -> io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    fs::File::open(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn read_keys(node: &Node, dir: &Path, config: &mut Config, diagnostics: &Diagnostics) {
    let Some(mut reader) = MapReader::new(node, "the settings", diagnostics) else { return };
    let mut groups: Vec<&str> = Vec::new();
    for setting in SETTINGS {
        match setting.key.split_once('.') {
            None => take(setting, reader.take(setting.key).node(), dir, config, diagnostics),
            Some((group, _)) if groups.contains(&group) => {}
            Some((group, _)) => {
                groups.push(group);
                if let Some(inside) = reader.take(group).node().filter(|inside| !inside.is_null()) {
                    read_group(group, inside, dir, config, diagnostics);
                }
            }
        }
    }
    reader.finish();
}

fn read_group(group: &str, node: &Node, dir: &Path, config: &mut Config, diagnostics: &Diagnostics) {
    let what = format!("`{group}`");
    let Some(mut reader) = MapReader::new(node, &what, diagnostics) else { return };
    for setting in SETTINGS {
        let key = setting.key.strip_prefix(group).and_then(|rest| rest.strip_prefix('.'));
        if let Some(key) = key {
            take(setting, reader.take(key).node(), dir, config, diagnostics);
        }
    }
    reader.finish();
}

fn take(setting: &Setting, node: Option<&Node>, dir: &Path, config: &mut Config, diagnostics: &Diagnostics) {
    let Some(node) = node else { return };
    let wrong = |message: String| {
        diagnostics.push(Diagnostic::error(
            "bad-setting",
            format!("`{}`: {message}", setting.key),
            node.head(),
        ));
    };
    if setting.is_structured() {
        if let Err(message) = setting.apply_node(config, (node, diagnostics), dir) {
            wrong(message);
        }
        return;
    }
    let values = match values(setting, node, diagnostics) {
        Ok(values) => values,
        Err(message) => return wrong(message),
    };
    if let Err(message) = setting.apply(config, &values, dir, Origin::File) {
        wrong(message);
    }
}

/// The values as text, in the form of a variable or a flag.
fn values(setting: &Setting, node: &Node, diagnostics: &Diagnostics) -> Result<Vec<String>, String> {
    match &node.kind {
        Kind::List(items) if setting.list => items.iter().map(|item| scalar(item, diagnostics)).collect(),
        Kind::List(_) => Err("it takes one value, found a list".to_owned()),
        _ => scalar(node, diagnostics).map(|text| setting.split(&text)),
    }
}

fn scalar(node: &Node, diagnostics: &Diagnostics) -> Result<String, String> {
    match &node.kind {
        Kind::String(text) => Ok(text.value.clone()),
        Kind::Bool(_) | Kind::Integer(_) | Kind::Unsigned(_) | Kind::Float(_) => {
            Ok(diagnostics.source().slice(node.span).to_owned())
        }
        Kind::Null => Err("it has no value; give one or take the key out".to_owned()),
        Kind::List(_) | Kind::Map(_) => Err(format!("it takes a plain value, found {}", node.kind_name())),
    }
}
