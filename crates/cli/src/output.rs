//! The only module that prints. Data goes to stdout, messages to stderr; colour only on a terminal.

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

/// The text in this style. What does not support it strips it (anstream).
pub(crate) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints data and ends the line.
pub(crate) fn data(text: impl Display) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Prints data as it is.
pub(crate) fn raw(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Prints data that are written bit by bit, on a thread that may block.
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
pub(crate) fn is_seen() -> bool {
    io::stdout().is_terminal()
}

/// Prints a message about the work, without credentials in its URLs. Errors of a closed stderr are ignored.
pub(crate) fn say(text: impl Display) {
    let text = text.to_string();
    let text = mask::mask(&text);
    if messages() == Messages::Log {
        return log(Level::INFO, &text);
    }
    let mut out = anstream::stderr().lock();
    let _ = writeln!(out, "{text}");
}

/// Says that something failed.
pub(crate) fn error(text: impl Display) {
    match messages() {
        Messages::Text => say(format_args!("{}: {text}", paint(BAD.bold(), "error"))),
        Messages::Json => say(serde_json::json!({"error": {"message": text.to_string()}})),
        Messages::Log => log(Level::ERROR, &mask::mask(&text.to_string())),
    }
}

/// Says that something is not as it should be.
pub(crate) fn warn(text: impl Display) {
    match messages() {
        Messages::Log => log(Level::WARN, &mask::mask(&text.to_string())),
        _ => say(format_args!("{}: {text}", paint(WARN.bold(), "warning"))),
    }
}

/// Says what there is to say of files, as the compiler of Rust does.
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

/// The form of the messages on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Messages {
    /// For people.
    Text,
    /// Errors are JSON, for a program that reads the JSON on stdout.
    Json,
    /// All of them are JSON lines, as in the log of a daemon with `log.format: json`.
    Log,
}

static MESSAGES: AtomicU8 = AtomicU8::new(Messages::Text as u8);

fn messages() -> Messages {
    let form = MESSAGES.load(Ordering::Relaxed);
    [Messages::Json, Messages::Log].into_iter().find(|known| *known as u8 == form).unwrap_or(Messages::Text)
}

/// Sets the form of all messages from now on.
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

/// Writes a message to the log; by hand as long as that has not started.
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
pub(crate) fn talks_to_a_person() -> bool {
    io::stderr().is_terminal()
}

/// True if a person can answer a prompt.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a person one question; `None` where the input has ended.
pub(crate) fn ask(question: &str) -> io::Result<Option<String>> {
    let mut err = anstream::stderr().lock();
    write!(err, "{question} ")?;
    err.flush()?;
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer)?;
    Ok((read > 0).then(|| answer.trim().to_owned()))
}

/// Says what a person is to type next, and leaves the line open for it.
pub(crate) fn prompt(question: &str) {
    let mut err = anstream::stderr().lock();
    let _ = write!(err, "{question} ");
    let _ = err.flush();
}

/// A text from outside on one line, in which nothing can drive a terminal or show other text than there is
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

/// A text of several lines with everything else in it that would move the cursor made visible. The lines after the first begin
/// with `margin`, so that none of them can be taken for a line of its own.
pub(crate) fn plain_lines(text: &str, margin: &str) -> String {
    let lines = text.trim_end().split('\n').map(|line| plain(line.trim_end_matches('\r')));
    lines.collect::<Vec<_>>().join(&format!("\n{margin}"))
}

/// At most `most` characters of a text, with a mark where it was cut.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(text.chars().take(most.saturating_sub(1)).chain(['…']).collect()),
    }
}

/// A count with its word: `1 error`, `2 errors`.
pub(crate) fn count(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

/// A table without lines, its columns as wide as they need to be.
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

    /// Adds a row; texts from outside are made harmless.
    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells: Vec<String> = cells.into_iter().map(|cell| plain(cell.as_ref()).into_owned()).collect();
        self.0.add_row(cells);
    }

    /// Prints it as data, its head in bold.
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
