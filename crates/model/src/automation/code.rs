//! JavaScript of authors, in `code` steps and triggers.

use std::sync::Arc;

use text::diagnostic::{Source, Span};
use text::yaml::Text;

use super::trigger::Trigger;
use super::{Automation, SpannedName, Verb};

/// The file name extensions of code files.
pub const CODE_EXTENSIONS: [&str; 2] = [".js", ".mjs"];

/// A JavaScript module: an ES module with a default export, or one that sets `module.exports`. Never interpolated.
#[derive(Clone, Debug)]
pub enum Code {
    /// Code in the automation's file.
    Inline {
        /// The text and its mapping to the file.
        text: Arc<Text>,
        /// The span of the text.
        span: Span,
    },
    /// A code file, by its path relative to the project folder.
    File(SpannedName),
}

impl Code {
    /// Returns the span of the code or of the file's path in the automation's file.
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Self::Inline { span, .. } => *span,
            Self::File(file) => file.span,
        }
    }

    /// Returns the text; `None` if the file does not exist. `automation` must be the automation that contains the code.
    #[must_use]
    pub fn text<'a>(&'a self, automation: &'a Automation) -> Option<&'a str> {
        match self {
            Self::Inline { text, .. } => Some(&text.value),
            Self::File(file) => automation.code_file(&file.name).map(|source| source.text()),
        }
    }

    /// Converts a line and column of the code to its file and a span there.
    ///
    /// Both count from 1, columns in characters. A position past the end gives the end.
    #[must_use]
    pub fn locate(&self, automation: &Automation, line: usize, column: usize) -> (Arc<Source>, Span) {
        let whole = || (automation.source.clone(), self.span());
        let Some(text) = self.text(automation) else { return whole() };
        let (start, end) = char_range(text, line, column);
        match self {
            Self::Inline { text, .. } => (automation.source.clone(), text.locate_span(start, end)),
            Self::File(file) => match automation.code_file(&file.name) {
                Some(source) => (source.clone(), Span::new(start, end)),
                None => whole(),
            },
        }
    }
}

/// Returns the byte range of the character at a line and column.
fn char_range(text: &str, line: usize, column: usize) -> (usize, usize) {
    let mut start = 0;
    for (at, content) in text.split_inclusive('\n').enumerate() {
        if at + 1 >= line {
            let content = content.trim_end_matches(['\n', '\r']);
            let mut characters = content.char_indices().skip(column.saturating_sub(1));
            let (offset, length) =
                characters.next().map_or((content.len(), 0), |(offset, found)| (offset, found.len_utf8()));
            return (start + offset, start + offset + length);
        }
        start += content.len();
    }
    (text.len(), text.len())
}

impl Automation {
    /// Returns the code of the trigger and the steps, with the id of the step.
    #[must_use]
    pub fn code_modules(&self) -> Vec<(Option<&Arc<str>>, &Code)> {
        let mut found = Vec::new();
        for trigger in &self.triggers {
            if let Trigger::Webhook(webhook) = &trigger.on {
                found.extend(webhook.code.as_ref().map(|code| (None, code)));
            }
        }
        self.walk(&mut |step| {
            if let Verb::Code(code) = &step.verb {
                found.push((Some(&step.id), code));
            }
        });
        found
    }

    /// Returns the code file at a path relative to the project folder; `None` if it does not exist.
    #[must_use]
    pub fn code_file(&self, path: &str) -> Option<&Arc<Source>> {
        self.code_files.iter().find(|source| source.path() == path)
    }

    /// Adds the code files to the automation. They become part of its definition, so a change of their text changes its hash.
    ///
    /// `find` returns the file at a path relative to the project folder.
    #[must_use]
    pub fn with_code_files(&self, find: impl Fn(&str) -> Option<Arc<Source>>) -> Self {
        let mut paths: Vec<&str> = self
            .code_modules()
            .into_iter()
            .filter_map(|(_, code)| match code {
                Code::File(file) => Some(file.name.as_str()),
                Code::Inline { .. } => None,
            })
            .collect();
        paths.sort_unstable();
        paths.dedup();
        let files: Vec<Arc<Source>> = paths.into_iter().filter_map(find).collect();
        let mut next = Self { code_files: files, ..self.clone() };
        next.definition = next.compute_definition();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_past_the_end_of_a_line_is_its_end() {
        let text = "ab\nžluť x\n";
        assert_eq!(char_range(text, 1, 2), (1, 2));
        assert_eq!(char_range(text, 2, 1), (3, 5));
        assert_eq!(char_range(text, 2, 6), (10, 11));
        assert_eq!(char_range(text, 2, 99), (11, 11));
        assert_eq!(char_range(text, 9, 1), (12, 12));
    }
}
