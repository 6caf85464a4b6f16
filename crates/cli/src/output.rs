//! The only module that prints. Data goes to stdout, messages to stderr; colours only on a terminal.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicU8, Ordering};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use text::diagnostic::{Report, Severity};
use tracing::Level;

use crate::mask;

/// Colours by meaning.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
pub(crate) const QUIET: Style = Style::new().dimmed();
pub(crate) const STRONG: Style = Style::new().bold();

/// The styled text. Outputs without support strip the style (anstream).
pub(crate) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints data and ends the line.
pub(crate) fn data(text: impl Display) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Prints data unchanged.
pub(crate) fn raw(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Prints data that is written incrementally, on a thread that may block.
pub(crate) async fn written(
    write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> anyhow::Result<()> {
    let writing = tokio::task::spawn_blocking(move || {
        let mut out = io::BufWriter::new(io::stdout().lock());
        write(&mut out)?;
        writeln!(out)?;
        out.flush()
    });
    Ok(writing.await??)
}

/// Prints data as JSON, for programs.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(data(serde_json::to_string_pretty(value)?)?)
}

/// True if standard output is a terminal.
pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Prints a message, with credentials in URLs masked. Errors of a closed stderr are ignored.
pub(crate) fn say(text: impl Display) {
    let text = text.to_string();
    let text = mask::mask(&text);
    if messages() == Messages::Log {
        return log(Level::INFO, &text);
    }
    let mut out = anstream::stderr().lock();
    let _ = writeln!(out, "{text}");
}

/// Prints an error.
pub(crate) fn error(text: impl Display) {
    match messages() {
        Messages::Text => say(format_args!("{}: {text}", paint(BAD.bold(), "error"))),
        Messages::Json => say(serde_json::json!({"error": {"message": text.to_string()}})),
        Messages::Log => log(Level::ERROR, &mask::mask(&text.to_string())),
    }
}

/// Prints a warning.
pub(crate) fn warn(text: impl Display) {
    match messages() {
        Messages::Log => log(Level::WARN, &mask::mask(&text.to_string())),
        _ => say(format_args!("{}: {text}", paint(WARN.bold(), "warning"))),
    }
}

/// Prints diagnostics of files, in the style of rustc.
pub(crate) fn reports<'a>(reports: impl IntoIterator<Item = &'a Report>) {
    for report in reports {
        if messages() != Messages::Log {
            say(format_args!("{}\n", report.render(true).trim_end()));
            continue;
        }
        for entry in report.entries() {
            let text = format!("{}:{}: {}", entry.file, entry.line, entry.message);
            match entry.severity {
                Severity::Error => error(text),
                Severity::Warning => warn(text),
                Severity::Hint => say(text),
            }
        }
    }
}

/// The format of the messages on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Messages {
    /// For people.
    Text,
    /// Errors are JSON, for a program that parses the JSON on stdout.
    Json,
    /// All messages are JSON lines, as in the log of a daemon with `log.format: json`.
    Log,
}

static MESSAGES: AtomicU8 = AtomicU8::new(Messages::Text as u8);

fn messages() -> Messages {
    let form = MESSAGES.load(Ordering::Relaxed);
    [Messages::Json, Messages::Log].into_iter().find(|known| *known as u8 == form).unwrap_or(Messages::Text)
}

/// Sets the format of all further messages.
pub(crate) fn set_messages(form: Messages) {
    MESSAGES.store(form as u8, Ordering::Relaxed);
    if form == Messages::Log {
        std::panic::set_hook(Box::new(|panic| error(panic)));
    }
}

/// True if messages are JSON lines of the log.
pub(crate) fn is_log() -> bool {
    messages() == Messages::Log
}

/// Writes a message to the log; directly, if the log has not started.
fn log(level: Level, text: &str) {
    let text = anstream::adapter::strip_str(text).to_string();
    let text = text.trim();
    if !tracing::dispatcher::has_been_set() {
        let line = serde_json::json!({
            "timestamp": crate::time::now(), "level": level.as_str(), "message": text, "target": "cogwork",
        });
        let _ = writeln!(io::stderr().lock(), "{line}");
        return;
    }
    match level {
        Level::ERROR => tracing::error!("{text}"),
        Level::WARN => tracing::warn!("{text}"),
        _ => tracing::info!("{text}"),
    }
}

/// True if standard error is a terminal.
pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// True if a person can answer a prompt.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question; `None` if the input has ended.
pub(crate) fn ask(question: &str) -> io::Result<Option<String>> {
    let mut err = anstream::stderr().lock();
    write!(err, "{question} ")?;
    err.flush()?;
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer)?;
    Ok((read > 0).then(|| answer.trim().to_owned()))
}

/// Prints a prompt without a line end.
pub(crate) fn prompt(question: &str) {
    let mut err = anstream::stderr().lock();
    let _ = write!(err, "{question} ");
    let _ = err.flush();
}

/// External text on one line, in which no character can control a terminal or disguise other text
/// (threat model 4.7).
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.chars().any(hidden) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| match c {
        '\n' | '\t' => Cow::Borrowed(" "),
        c if hidden(c) => Cow::Owned(c.escape_default().to_string()),
        c => Cow::Owned(c.to_string()),
    };
    Cow::Owned(text.chars().map(shown).collect())
}

/// Multi-line text with all other control characters made visible. Continuation lines begin with `margin`, so that none of
/// them looks like a separate message.
pub(crate) fn plain_lines(text: &str, margin: &str) -> String {
    let lines = text.trim_end().split('\n').map(|line| plain(line.trim_end_matches('\r')));
    lines.collect::<Vec<_>>().join(&format!("\n{margin}"))
}

/// At most `most` characters of a text, with a mark if it was truncated.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(text.chars().take(most.saturating_sub(1)).chain(['…']).collect()),
    }
}

/// A count with its noun: `1 error`, `2 errors`.
pub(crate) fn count(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

/// A table without borders, its columns as wide as necessary.
pub(crate) struct Table(comfy_table::Table);

impl Table {
    /// An empty table with these columns.
    pub(crate) fn new(columns: &[&str]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
        table.set_header(columns);
        table.column_iter_mut().for_each(|column| {
            column.set_padding((0, 2));
        });
        Self(table)
    }

    /// Adds a row; control characters of external text are escaped.
    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells: Vec<String> = cells.into_iter().map(|cell| plain(cell.as_ref()).into_owned()).collect();
        self.0.add_row(cells);
    }

    /// Prints it as data, with a bold header.
    pub(crate) fn print(&self) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        for (index, line) in self.0.lines().enumerate() {
            let line = line.trim_end();
            match index {
                0 => writeln!(out, "{}", paint(STRONG, line))?,
                _ => writeln!(out, "{line}")?,
            }
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_text_cannot_send_terminal_control_sequences() {
        assert_eq!(plain("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb c");
        assert_eq!(plain("left\u{202e}thgir"), "left\\u{202e}thgir");
        assert_eq!(plain("größe 5"), "größe 5");
    }

    #[test]
    fn further_lines_of_a_message_are_indented() {
        assert_eq!(plain_lines("a: 1\r\nb:\u{1b} 2\n", "  "), "a: 1\n  b:\\u{1b} 2");
    }

    #[test]
    fn a_truncated_text_ends_with_an_ellipsis() {
        assert_eq!(cut("größer", 6), "größer");
        assert_eq!(cut("größer!", 6), "größe…");
    }

    #[test]
    fn counts_use_singular_and_plural() {
        assert_eq!(
            [count(0, "error"), count(1, "error"), count(2, "error")],
            ["0 errors", "1 error", "2 errors"]
        );
    }
}
