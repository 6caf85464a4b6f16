//! Tokens of an expression, even if it does not parse: the texts that fixes replace are found by them.

use std::ops::Range;

/// Signs of several characters, longest first. Some belong to other languages only.
const SIGNS: [&str; 18] = [
    "<>", "===", "!==", "&&", "||", "??", "?.", "?:", "=>", "=~", "==", "!=", "<=", ">=", "**", "//", "++",
    "--",
];

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Number,
    /// A text in quotes; in backticks it is JavaScript's.
    Quoted,
    Open,
    Close,
    Sign,
}

/// A token, in bytes of the expression's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: Range<usize>,
}

/// The tokens of a text.
pub(super) struct Tokens<'t> {
    pub(super) text: &'t str,
    pub(super) all: Vec<Token>,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let (mut all, mut at) = (Vec::new(), 0);
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            let (kind, length) = match c {
                _ if c.is_whitespace() => {
                    at += c.len_utf8();
                    continue;
                }
                '\'' | '"' | '`' => (Kind::Quoted, quoted_length(rest, c)),
                '(' | '[' | '{' => (Kind::Open, 1),
                ')' | ']' | '}' => (Kind::Close, 1),
                _ if c.is_ascii_digit() => (Kind::Number, number_length(rest)),
                _ if is_word(c) => (Kind::Word, rest.find(|c| !is_word(c)).unwrap_or(rest.len())),
                _ => {
                    let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
                    (Kind::Sign, sign.map_or(c.len_utf8(), |sign| sign.len()))
                }
            };
            all.push(Token { kind, at: at..at + length });
            at += length;
        }
        Self { text, all }
    }

    /// The text of a token; empty past the end.
    pub(super) fn get(&self, index: usize) -> &'t str {
        self.all.get(index).and_then(|token| self.text.get(token.at.clone())).unwrap_or_default()
    }

    pub(super) fn kind(&self, index: usize) -> Option<Kind> {
        self.all.get(index).map(|token| token.kind)
    }

    /// The text from one token to another one, both included.
    pub(super) fn slice(&self, from: usize, to: usize) -> &'t str {
        self.range(from, to).and_then(|range| self.text.get(range)).unwrap_or_default()
    }

    pub(super) fn range(&self, from: usize, to: usize) -> Option<Range<usize>> {
        Some(self.all.get(from)?.at.start..self.all.get(to)?.at.end)
    }

    /// The token that begins or covers an offset.
    pub(super) fn index_at(&self, offset: usize) -> Option<usize> {
        self.all.iter().position(|token| token.at.contains(&offset))
    }

    /// The closing bracket of an opening one.
    pub(super) fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        (open..self.all.len()).find(|index| {
            match self.kind(*index) {
                Some(Kind::Open) => depth += 1,
                Some(Kind::Close) => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        })
    }

    /// The opening bracket of a closing one.
    fn opening(&self, close: usize) -> Option<usize> {
        let mut depth = 0_usize;
        (0..=close).rev().find(|index| {
            match self.kind(*index) {
                Some(Kind::Close) => depth += 1,
                Some(Kind::Open) => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        })
    }

    /// The first token of the operand that ends with a token: a path with its brackets and calls, a literal, or an expression in
    /// brackets. With `filters`, also the part before its filters.
    pub(super) fn operand_start(&self, end: usize, filters: bool) -> Option<usize> {
        let mut at = end;
        loop {
            match self.kind(at)? {
                Kind::Word | Kind::Number | Kind::Quoted => {}
                Kind::Close => {
                    at = self.opening(at)?;
                    // A call or a subscript belongs to the operand before it.
                    let before = at.checked_sub(1);
                    if let Some(before) =
                        before.filter(|before| self.ends_operand(*before) && self.get(at) != "{")
                    {
                        at = before;
                        continue;
                    }
                }
                Kind::Open | Kind::Sign => return None,
            }
            let Some(before) = at.checked_sub(1) else { return Some(at) };
            match self.get(before) {
                "." | "?." => at = before.checked_sub(1)?,
                "|" if filters => at = before.checked_sub(1)?,
                "|" => return None,
                _ => return Some(at),
            }
        }
    }

    /// The last token of the operand that begins with a token, without filters.
    pub(super) fn operand_end(&self, start: usize) -> Option<usize> {
        let mut at = match self.kind(start)? {
            Kind::Word | Kind::Number | Kind::Quoted => start,
            Kind::Open => self.closing(start)?,
            Kind::Close | Kind::Sign => return None,
        };
        loop {
            match self.get(at + 1) {
                "." | "?." if self.kind(at + 2) == Some(Kind::Word) => at += 2,
                "(" | "[" => at = self.closing(at + 1)?,
                _ => return Some(at),
            }
        }
    }

    /// True if an operand can end with a token.
    fn ends_operand(&self, index: usize) -> bool {
        match self.kind(index) {
            Some(Kind::Word) => !is_operator(self.get(index)),
            Some(Kind::Close | Kind::Quoted) => true,
            _ => false,
        }
    }

    /// The arguments between an opening bracket and its closing one; `None` if one is empty, unpacked or passed by name.
    pub(super) fn arguments(&self, open: usize, close: usize) -> Option<Vec<&'t str>> {
        let mut found = Vec::new();
        let (mut at, mut start) = (open + 1, open + 1);
        while at < close {
            match self.kind(at) {
                Some(Kind::Open) => at = self.closing(at).filter(|inner| *inner < close)?,
                Some(Kind::Sign) if self.get(at) == "," => {
                    found.push(self.slice(start, at.checked_sub(1)?));
                    start = at + 1;
                }
                Some(Kind::Sign) if self.get(at) == "=" => return None,
                _ => {}
            }
            at += 1;
        }
        if start < close {
            found.push(self.slice(start, close - 1));
        }
        found.iter().all(|argument| !argument.is_empty() && !argument.starts_with('*')).then_some(found)
    }
}

/// True if a word is an operator.
fn is_operator(word: &str) -> bool {
    matches!(word, "and" | "or" | "not" | "in" | "is" | "if" | "else")
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => {
                characters.next();
            }
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn number_length(rest: &str) -> usize {
    let digits = |text: &str| text.find(|c: char| !is_word(c)).unwrap_or(text.len());
    let whole = digits(rest);
    let fraction =
        rest[whole..].strip_prefix('.').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    fraction.map_or(whole, |fraction| whole + 1 + digits(fraction))
}
