//! Statements as authors write them: text with parameters `:name`, by the lexical rules of each database.

use std::fmt::Write as _;
use std::ops::Range;

/// The database whose rules a statement follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    Mysql,
    /// SQLite.
    Sqlite,
}

/// A statement, cut at its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    dialect: Dialect,
    first_word: String,
    changes_session: bool,
    pieces: Vec<Piece>,
}

/// A part of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text that goes to the database as it is.
    Text(String),
    /// A parameter.
    Parameter {
        /// Its name, without the colon.
        name: String,
        /// True if it stands alone in the parentheses of `in (…)`, where a list becomes several values.
        in_list: bool,
    },
}

/// The reason why a text is not one statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// There is nothing but space and comments.
    #[error("there is no statement")]
    Empty,
    /// Something follows the semicolon.
    #[error("a second statement begins with `{0}`")]
    Second(String),
    /// A quote or a comment has no end.
    #[error("{0} is not closed")]
    Unclosed(&'static str),
    /// A statement that begins or ends a transaction.
    #[error("`{0}` begins or ends a transaction, which the step does by itself")]
    Control(String),
    /// A placeholder of the database itself.
    #[error("`{0}` is a placeholder of the database; a parameter is written `:name`")]
    Placeholder(String),
}

/// The first words of statements that begin or end a transaction.
const CONTROL: [&str; 9] =
    ["abort", "begin", "commit", "end", "release", "rollback", "savepoint", "start", "xa"];

/// The first words of statements that MySQL commits by itself.
const COMMITS: [&str; 13] = [
    "alter", "analyze", "cache", "check", "create", "drop", "flush", "grant", "lock", "optimize", "rename",
    "revoke", "truncate",
];

/// The first words of statements that leave nothing in the session.
const PLAIN: [&str; 13] = [
    "(", "delete", "desc", "describe", "explain", "insert", "merge", "replace", "select", "show", "update",
    "values", "with",
];

/// Words with which also a plain statement leaves something there: functions for settings and locks, and temporary tables.
const LEAVES: [&str; 8] = [
    "get_lock",
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "set_config",
    "temp",
    "temporary",
];

/// The length at which an excerpt is cut, in characters.
const EXCERPT: usize = 30;

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Postgres, Self::Mysql, Self::Sqlite];

    /// The dialect of a connection type, such as `sql.postgres`.
    #[must_use]
    pub fn of(connection_type: &str) -> Option<Self> {
        match connection_type {
            "sql.postgres" => Some(Self::Postgres),
            "sql.mysql" => Some(Self::Mysql),
            "sql.sqlite" => Some(Self::Sqlite),
            _ => None,
        }
    }

    /// A name in quotes, so that every character of it counts.
    #[must_use]
    pub fn quoted(self, name: &str) -> String {
        let quote = if self == Self::Mysql { '`' } else { '"' };
        let doubled = name.replace(quote, &format!("{quote}{quote}"));
        format!("{quote}{doubled}{quote}")
    }

    /// The largest number of values of a statement: of the protocols of PostgreSQL and MySQL, and of SQLite.
    pub(super) fn max_values(self) -> usize {
        match self {
            Self::Postgres | Self::Mysql => 65_535,
            Self::Sqlite => 32_766,
        }
    }

    /// The placeholder of the parameter at `index`, from 0.
    pub(super) fn placeholder(self, index: usize) -> String {
        match self {
            Self::Postgres => format!("${}", index + 1),
            Self::Mysql | Self::Sqlite => "?".to_owned(),
        }
    }
}

impl Statement {
    /// Reads a statement. What follows its semicolon, which can only be space and comments, is left out.
    ///
    /// # Errors
    /// Returns an error unless the text is exactly one statement.
    pub fn parse(text: &str, dialect: Dialect) -> Result<Self, StatementError> {
        let mut lexer = Lexer { text, dialect, at: 0 };
        let (mut pieces, mut start, mut end) = (Vec::new(), 0, None);
        let (mut first_word, mut leaves) = (None, false);
        while let Some(token) = lexer.next_token()? {
            match (token.kind, end) {
                (Kind::Blank, _) | (Kind::Semicolon, Some(_)) => {}
                (_, Some(_)) => return Err(StatementError::Second(excerpt(&text[token.range.start..]))),
                (Kind::Semicolon, None) => end = Some(token.range.start),
                (Kind::Code, None) => {
                    let code = &text[token.range];
                    first_word.get_or_insert(code);
                    // `@` begins a variable of MySQL.
                    leaves |= LEAVES.iter().any(|word| code.eq_ignore_ascii_case(word))
                        || dialect == Dialect::Mysql && code == "@";
                }
                (Kind::Parameter, None) => {
                    first_word.get_or_insert("");
                    pieces.push(Piece::Text(text[start..token.range.start].to_owned()));
                    let name = text[token.range.start + 1..token.range.end].to_owned();
                    pieces.push(Piece::Parameter { name, in_list: false });
                    start = token.range.end;
                }
            }
        }
        let first_word = first_word.ok_or(StatementError::Empty)?;
        if CONTROL.iter().any(|word| first_word.eq_ignore_ascii_case(word)) {
            return Err(StatementError::Control(first_word.to_owned()));
        }
        pieces.push(Piece::Text(text[start..end.unwrap_or(text.len())].to_owned()));
        mark_lists(&mut pieces);
        let first_word = first_word.to_ascii_lowercase();
        let changes_session = leaves || !PLAIN.contains(&first_word.as_str());
        Ok(Self { dialect, first_word, changes_session, pieces })
    }

    /// True if the database commits the transaction with the statement, whatever follows.
    #[must_use]
    pub fn commits_by_itself(&self) -> bool {
        self.dialect == Dialect::Mysql && COMMITS.contains(&self.first_word.as_str())
    }

    /// True if it may leave something in the session that a later statement would find: a setting, a role, a temporary table, a lock, a
    /// variable.
    pub(super) fn changes_session(&self) -> bool {
        self.changes_session
    }

    /// The parts, in order.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The names of the parameters, each once.
    #[must_use]
    pub fn parameters(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for piece in &self.pieces {
            if let Piece::Parameter { name, .. } = piece
                && !names.contains(&name.as_str())
            {
                names.push(name);
            }
        }
        names
    }

    /// The statement with placeholders of the database. `count` returns the number of values of a parameter: more than one becomes
    /// a list of placeholders. A placeholder of PostgreSQL has its own number each time.
    #[must_use]
    pub fn render(&self, mut count: impl FnMut(&str, bool) -> usize) -> String {
        let (mut sql, mut index) = (String::new(), 0);
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => sql.push_str(text),
                Piece::Parameter { name, in_list } => {
                    for item in 0..count(name, *in_list) {
                        let separator = if item == 0 { "" } else { ", " };
                        let _ = write!(sql, "{separator}{}", self.dialect.placeholder(index));
                        index += 1;
                    }
                }
            }
        }
        sql
    }
}

/// Marks each parameter that is alone in the parentheses of `in (…)`.
fn mark_lists(pieces: &mut [Piece]) {
    for index in 1..pieces.len() {
        let [Piece::Text(before), Piece::Parameter { in_list, .. }, Piece::Text(after), ..] =
            &mut pieces[index - 1..]
        else {
            continue;
        };
        let word = before.trim_end().strip_suffix('(').map(str::trim_end);
        let is_in = word.is_some_and(|word| {
            let (rest, last) = word.split_at(word.floor_char_boundary(word.len().saturating_sub(2)));
            last.eq_ignore_ascii_case("in") && !rest.ends_with(is_name)
        });
        *in_list = is_in && after.trim_start().starts_with(')');
    }
}

fn excerpt(text: &str) -> String {
    text::truncate(text.lines().next().unwrap_or_default(), EXCERPT).into_owned()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Space or a comment.
    Blank,
    Semicolon,
    Parameter,
    Code,
}

struct Token {
    kind: Kind,
    range: Range<usize>,
}

struct Lexer<'a> {
    text: &'a str,
    dialect: Dialect,
    at: usize,
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

fn begins_name(character: char) -> bool {
    character.is_ascii_alphabetic() || character == '_'
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn next_token(&mut self) -> Result<Option<Token>, StatementError> {
        let start = self.at;
        let Some(first) = self.rest().chars().next() else { return Ok(None) };
        let kind = match first {
            c if c.is_whitespace() => self.take(Kind::Blank, |c| c.is_whitespace()),
            _ if self.is_line_comment() => self.take(Kind::Blank, |c| c != '\n'),
            '/' if self.rest().starts_with("/*") => self.block_comment()?,
            ';' => self.skip(1, Kind::Semicolon),
            '\'' => self.quoted('\'', "a text", self.has_backslashes(start))?,
            '"' => self.quoted('"', "a quoted name", self.dialect == Dialect::Mysql)?,
            '`' if self.dialect != Dialect::Postgres => self.quoted('`', "a quoted name", false)?,
            '[' if self.dialect == Dialect::Sqlite => self.until("]", "a quoted name")?,
            '$' => self.dollar()?,
            ':' => self.colon(),
            '?' if self.dialect != Dialect::Postgres => return Err(self.placeholder(1)),
            '@' if self.dialect == Dialect::Sqlite => return Err(self.placeholder(1)),
            c if is_name(c) => self.take(Kind::Code, is_name),
            c => self.skip(c.len_utf8(), Kind::Code),
        };
        Ok(Some(Token { kind, range: start..self.at }))
    }

    fn skip(&mut self, bytes: usize, kind: Kind) -> Kind {
        self.at += bytes;
        kind
    }

    fn take(&mut self, kind: Kind, belongs: impl Fn(char) -> bool) -> Kind {
        let rest = self.rest();
        let length = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.skip(length, kind)
    }

    fn placeholder(&self, sign: usize) -> StatementError {
        let rest = self.rest();
        let length = rest[sign..].find(|c| !is_name(c)).map_or(rest.len(), |length| sign + length);
        StatementError::Placeholder(excerpt(&rest[..length]))
    }

    /// MySQL takes `--` for a comment only before a space, and knows `#`.
    fn is_line_comment(&self) -> bool {
        let rest = self.rest();
        match self.dialect {
            Dialect::Mysql => {
                let after = rest.strip_prefix("--").map(|after| after.chars().next());
                rest.starts_with('#')
                    || after.is_some_and(|next| next.is_none_or(|c| c.is_whitespace() || c.is_control()))
            }
            Dialect::Postgres | Dialect::Sqlite => rest.starts_with("--"),
        }
    }

    /// A comment; in PostgreSQL comments nest. SQLite takes the end of the text for the end of a comment.
    fn block_comment(&mut self) -> Result<Kind, StatementError> {
        let mut depth = 0_usize;
        loop {
            let rest = self.rest();
            if rest.starts_with("/*") && (depth == 0 || self.dialect == Dialect::Postgres) {
                depth += 1;
                self.at += 2;
            } else if rest.starts_with("*/") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    return Ok(Kind::Blank);
                }
            } else {
                let Some(next) = rest.chars().next() else {
                    return Err(StatementError::Unclosed("a comment"));
                };
                self.at += next.len_utf8();
            }
        }
    }

    /// True if a backslash escapes in the text that begins here: always in MySQL, in PostgreSQL after `E`.
    fn has_backslashes(&self, start: usize) -> bool {
        let before = &self.text[..start];
        let is_escape_text = before.strip_suffix(['e', 'E']).is_some_and(|before| !before.ends_with(is_name));
        self.dialect == Dialect::Mysql || self.dialect == Dialect::Postgres && is_escape_text
    }

    fn quoted(
        &mut self,
        quote: char,
        what: &'static str,
        has_backslashes: bool,
    ) -> Result<Kind, StatementError> {
        self.at += quote.len_utf8();
        while let Some(next) = self.rest().chars().next() {
            self.at += next.len_utf8();
            if next == '\\' && has_backslashes {
                self.at += self.rest().chars().next().map_or(0, char::len_utf8);
            } else if next == quote {
                if !self.rest().starts_with(quote) {
                    return Ok(Kind::Code);
                }
                // A doubled quote stands for one.
                self.at += quote.len_utf8();
            }
        }
        Err(StatementError::Unclosed(what))
    }

    fn until(&mut self, end: &str, what: &'static str) -> Result<Kind, StatementError> {
        let Some(length) = self.rest().find(end) else { return Err(StatementError::Unclosed(what)) };
        Ok(self.skip(length + end.len(), Kind::Code))
    }

    /// A dollar quote of PostgreSQL, `$tag$ … $tag$`; a placeholder elsewhere. In MySQL a name may begin with it.
    fn dollar(&mut self) -> Result<Kind, StatementError> {
        match self.dialect {
            Dialect::Mysql => return Ok(self.take(Kind::Code, is_name)),
            Dialect::Sqlite => return Err(self.placeholder(1)),
            Dialect::Postgres => {}
        }
        let rest = self.rest();
        let tag =
            &rest[1..rest[1..].find(|c: char| !is_name(c) || c == '$').map_or(rest.len(), |end| 1 + end)];
        if tag.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(self.placeholder(1));
        }
        if !rest[1 + tag.len()..].starts_with('$') {
            return Ok(self.skip(1, Kind::Code));
        }
        let delimiter = rest[..tag.len() + 2].to_owned();
        self.at += delimiter.len();
        self.until(&delimiter, "a dollar quote")
    }

    /// A parameter, a cast `::`, or a plain colon.
    fn colon(&mut self) -> Kind {
        let after = &self.rest()[1..];
        if after.starts_with(':') {
            return self.skip(2, Kind::Code);
        }
        if !after.starts_with(begins_name) {
            return self.skip(1, Kind::Code);
        }
        self.at += 1;
        self.take(Kind::Parameter, |c| c.is_ascii_alphanumeric() || c == '_')
    }
}

#[cfg(test)]
mod tests;
