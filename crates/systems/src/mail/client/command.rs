//! Commands. A text of an author or of a message is sent quoted or as a literal, so it never becomes a part of the protocol.

use std::fmt::Write as _;

/// A command. It may have a password, so it has no `Debug`.
pub(super) struct Command {
    name: &'static str,
    /// The server asks for each piece but the first.
    pieces: Vec<String>,
}

impl Command {
    /// Begins a command, whose name may be followed by fixed words.
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, pieces: vec![name.to_owned()] }
    }

    /// Adds fixed words.
    pub(super) fn word(mut self, word: &'static str) -> Self {
        self.push(word);
        self
    }

    /// Adds what consists of digits and the signs of sets, dates and sections.
    pub(super) fn plain(mut self, text: std::fmt::Arguments<'_>) -> Self {
        let start = self.pieces.last().map_or(0, String::len);
        if let Some(last) = self.pieces.last_mut() {
            // Writing to a text does not fail.
            let _ = write!(last, " {text}");
            debug_assert!(last.get(start..).is_some_and(|added| !added.contains(['\r', '\n', '{'])));
        }
        self
    }

    /// Adds the list of flags.
    pub(super) fn flags<'a>(self, flags: impl IntoIterator<Item = &'a str>) -> Self {
        let flags: Vec<&str> = flags.into_iter().collect();
        self.plain(format_args!("({})", flags.join(" ")))
    }

    /// Adds a text: quoted if all of it is printable ASCII, else as a literal.
    pub(super) fn text(mut self, text: &str) -> Self {
        if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            self.push(&format!("\"{quoted}\""));
            return self;
        }
        self.push(&format!("{{{}}}", text.len()));
        self.pieces.push(text.to_owned());
        self
    }

    /// Adds the name of a mailbox.
    pub(super) fn mailbox(self, name: &str) -> Self {
        let name = mailbox_name(name);
        self.text(&name)
    }

    /// Announces a literal of which the caller sends the bytes.
    pub(super) fn literal(mut self, length: u64) -> Self {
        self.push(&format!("{{{length}}}"));
        self
    }

    /// The name, for messages.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// True if the command selects a mailbox, whatever the state of the one before.
    pub(super) fn selects(&self) -> bool {
        matches!(self.name, "EXAMINE" | "SELECT")
    }

    /// True if the command changes no message and no mailbox.
    pub(super) fn only_reads(&self) -> bool {
        self.selects() || matches!(self.name, "CAPABILITY" | "UID FETCH" | "UID SEARCH")
    }

    /// The pieces. The server asks for each but the first.
    pub(super) fn pieces(&self) -> &[String] {
        &self.pieces
    }

    fn push(&mut self, word: &str) {
        if let Some(last) = self.pieces.last_mut() {
            last.push(' ');
            last.push_str(word);
        }
    }
}

/// The name of a mailbox in the protocol: modified UTF-7 (RFC 3501, 5.1.3).
fn mailbox_name(name: &str) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD;
    let (mut encoded, mut other) = (String::with_capacity(name.len()), Vec::new());
    let flush = |encoded: &mut String, other: &mut Vec<u8>| {
        if !other.is_empty() {
            let text = STANDARD_NO_PAD.encode(&other).replace('/', ",");
            let _ = write!(encoded, "&{text}-");
            other.clear();
        }
    };
    for c in name.chars() {
        if (' '..='~').contains(&c) {
            flush(&mut encoded, &mut other);
            encoded.push(c);
            if c == '&' {
                encoded.push('-');
            }
        } else {
            let mut units = [0; 2];
            other.extend(c.encode_utf16(&mut units).iter().flat_map(|unit| unit.to_be_bytes()));
        }
    }
    flush(&mut encoded, &mut other);
    encoded
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_mailboxes_are_encoded_as_in_the_rfc() {
        for (name, expected) in [
            ("INBOX", "INBOX"),
            ("~peter/mail/台北/日本語", "~peter/mail/&U,BTFw-/&ZeVnLIqe-"),
            ("Büro & more", "B&APw-ro &- more"),
            ("😀", "&2D3eAA-"),
        ] {
            assert_eq!(mailbox_name(name), expected);
        }
    }

    #[test]
    fn a_text_that_is_no_printable_ascii_is_a_literal() {
        let command = Command::new("UID SEARCH").word("SUBJECT").text("Größe").word("FROM").text(r#"a"\b"#);
        assert_eq!(command.pieces(), ["UID SEARCH SUBJECT {7}", r#"Größe FROM "a\"\\b""#]);
        assert_eq!(Command::new("X").text("a\r\nb").pieces(), ["X {4}", "a\r\nb"]);
    }

    proptest! {
        #[test]
        fn no_text_adds_a_line_or_ends_its_quotes(text in any::<String>()) {
            let command = Command::new("X").text(&text);
            let pieces = command.pieces();
            let first = pieces.first().expect("a piece");
            prop_assert!(!first.contains(['\r', '\n']));
            if let [_, literal] = pieces {
                prop_assert_eq!(first, &format!("X {{{}}}", text.len()));
                prop_assert_eq!(literal, &text);
            } else {
                let inner = first.strip_prefix("X \"").and_then(|rest| rest.strip_suffix('"')).expect("quotes");
                let bare = inner.replace("\\\\", "").replace("\\\"", "");
                prop_assert!(!bare.contains(['"', '\\']));
            }
        }

        #[test]
        fn a_mailbox_is_always_printable_ascii(name in any::<String>()) {
            prop_assert!(mailbox_name(&name).bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
    }
}
