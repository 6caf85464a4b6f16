//! The place of a cursor in a YAML text: read from the lines around it, so that a text that does not parse has one too.

/// Maximum number of lines that are read above and below the cursor.
const MAX_LINES: usize = 5_000;

/// A segment of the path to the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathPart {
    Key(String),
    Item,
}

/// A mapping around the cursor: its keys with the texts of their values on the same line.
pub(super) type Siblings = Vec<(String, String)>;

/// The token at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A key, or the place of one.
    Key,
    /// The value of this key.
    Value(String),
    /// An item of a list that is no mapping.
    Item,
    /// An expression: its text up to the cursor.
    Expression(String),
    /// A comment, or a block of text.
    Text,
}

/// The place of a cursor.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    /// The path of the mapping or value that holds the cursor.
    pub(super) path: Vec<PathPart>,
    /// The mappings on the path, outermost first; the last one holds the cursor.
    pub(super) levels: Vec<Siblings>,
    pub(super) role: Role,
    /// The range of the word at the cursor in bytes, which a completion replaces.
    pub(super) word: std::ops::Range<usize>,
    /// True if a `:` follows the word.
    pub(super) has_colon: bool,
}

/// A line of block YAML.
struct Line<'t> {
    /// The columns of its dashes.
    dashes: Vec<usize>,
    /// The column of its content, after the dashes.
    column: usize,
    /// Its content without indentation, dashes and line break.
    content: &'t str,
}

impl<'t> Line<'t> {
    fn read(text: &'t str) -> Self {
        let mut column = text.len() - text.trim_start_matches(' ').len();
        let mut dashes = Vec::new();
        let mut rest = &text[column..];
        while rest == "-" || rest.starts_with("- ") {
            dashes.push(column);
            let after = rest[1..].trim_start_matches(' ');
            column += rest.len() - after.len();
            rest = after;
        }
        Self { dashes, column, content: rest }
    }

    fn is_blank(&self) -> bool {
        self.dashes.is_empty() && (self.content.trim().is_empty() || self.content.starts_with('#'))
    }

    /// The key and the text behind its colon.
    fn entry(&self) -> Option<(&'t str, &'t str)> {
        entry(self.content)
    }
}

fn entry(content: &str) -> Option<(&str, &str)> {
    let end = content
        .find(':')
        .filter(|end| content[end + 1..].is_empty() || content[end + 1..].starts_with([' ', '\t', '\r']))?;
    let key = content[..end].trim().trim_matches(['"', '\'']);
    let is_key = !key.is_empty() && !key.contains(['{', '[', '#', ' ']) || key.starts_with("x-");
    is_key.then(|| (key, content[end + 1..].trim()))
}

impl Cursor {
    /// Reads the place of a byte offset.
    pub(super) fn at(text: &str, offset: usize) -> Self {
        let offset = text.floor_char_boundary(offset.min(text.len()));
        let lines: Vec<&str> = text.split('\n').map(|line| line.trim_end_matches('\r')).collect();
        let number = text[..offset].matches('\n').count();
        let start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
        let before = &text[start..offset];
        let line = Line::read(lines[number]);
        // On an empty line the cursor's own column decides.
        let column =
            if line.is_blank() && !before.trim_start().starts_with('#') { before.len() } else { line.column };
        let (mut path, mut levels) = ancestors(&lines, number, &line, column);
        let content = before.get(column.min(before.len())..).unwrap_or_default();
        let mut role = role(content);
        if let Some(expression) = expression_before(text, offset) {
            role = Role::Expression(expression.to_owned());
        } else if is_in_block_text(&lines, number, column) {
            role = Role::Text;
        } else if let Some(flow) = flow(content) {
            path.extend(flow.path);
            levels.extend(flow.levels);
            role = flow.role;
        }
        if let Role::Value(key) = &role {
            path.push(PathPart::Key(key.clone()));
        }
        let word = word(text, offset, &role);
        let has_colon = text[word.end..].starts_with(':');
        Self { path, levels, role, word, has_colon }
    }

    /// The value of a key in the innermost mapping that has it.
    pub(super) fn nearest(&self, key: &str) -> Option<&str> {
        let in_level = |level: &Siblings| level.iter().position(|(name, _)| name == key);
        self.levels.iter().rev().find_map(|level| in_level(level).map(|index| level[index].1.as_str()))
    }

    /// The value of a key in the innermost mapping around that of the cursor that has it.
    pub(super) fn outer(&self, key: &str) -> Option<&str> {
        let outer = self.levels.split_last()?.1.iter().rev();
        outer.flatten().find(|(name, _)| name == key).map(|(_, value)| value.trim_matches(['"', '\'']))
    }
}

fn role(content: &str) -> Role {
    if content.trim_start().starts_with('#') || content.contains(" #") {
        return Role::Text;
    }
    match entry(content) {
        Some((key, _)) => Role::Value(key.to_owned()),
        None => Role::Key,
    }
}

/// The keys and mappings around a line, outermost first.
fn ancestors(
    lines: &[&str],
    number: usize,
    line: &Line<'_>,
    column: usize,
) -> (Vec<PathPart>, Vec<Siblings>) {
    let mut path = Vec::new();
    let mut levels = vec![siblings(lines, number, column)];
    let mut current = column;
    let mut in_list = false;
    let mut step = |read: &Line<'_>, number: usize, current: &mut usize, in_list: &mut bool, own: bool| {
        // The key of the line holds what stands below it.
        if !own
            && !read.is_blank()
            && (read.column < *current || (*in_list && read.column == *current && read.dashes.is_empty()))
            && let Some((key, _)) = read.entry()
        {
            path.push(PathPart::Key(key.to_owned()));
            levels.push(siblings(lines, number, read.column));
            *current = read.column;
            *in_list = false;
        }
        if let Some(dash) = read.dashes.iter().rev().find(|dash| **dash < *current && read.column <= *current)
            && !*in_list
        {
            path.push(PathPart::Item);
            *current = *dash;
            *in_list = true;
        }
    };
    step(line, number, &mut current, &mut in_list, true);
    for above in (number.saturating_sub(MAX_LINES)..number).rev() {
        let read = Line::read(lines[above]);
        if !read.is_blank() {
            step(&read, above, &mut current, &mut in_list, false);
        }
        if current == 0 && !in_list {
            break;
        }
    }
    path.reverse();
    levels.reverse();
    (path, levels)
}

/// The keys of the mapping at a column that holds a line.
fn siblings(lines: &[&str], number: usize, column: usize) -> Siblings {
    let mut found = Siblings::new();
    let mut add = |read: &Line<'_>| {
        if read.column == column
            && let Some((key, value)) = read.entry()
        {
            found.push((key.to_owned(), value.to_owned()));
        }
    };
    let own = Line::read(lines[number]);
    if own.dashes.is_empty() || own.column != column {
        for above in (number.saturating_sub(MAX_LINES)..number).rev().map(|above| Line::read(lines[above])) {
            if above.is_blank() {
                continue;
            }
            let begins = above.dashes.last().is_some_and(|dash| *dash < column);
            if above.column < column || (begins && above.column != column && above.dashes[0] < column) {
                break;
            }
            add(&above);
            if begins && above.column == column {
                break;
            }
        }
    }
    for line in lines.iter().skip(number + 1).take(MAX_LINES) {
        let below = Line::read(line);
        if below.is_blank() {
            continue;
        }
        if below.column < column || below.dashes.first().is_some_and(|dash| *dash < column) {
            break;
        }
        add(&below);
    }
    found
}

/// The expression that holds an offset, up to the offset.
fn expression_before(text: &str, offset: usize) -> Option<&str> {
    let start = text.floor_char_boundary(offset.saturating_sub(4_000));
    let before = &text[start..offset];
    let open = before.rfind("${{")?;
    let inside = &before[open + 3..];
    let is_open = !inside.contains("}}") && !inside.contains("\n\n") && !before[..open].ends_with('$');
    is_open.then_some(inside)
}

/// True if a line is in a block scalar.
fn is_in_block_text(lines: &[&str], number: usize, column: usize) -> bool {
    let mut column = column;
    for above in (number.saturating_sub(MAX_LINES)..number).rev().map(|above| Line::read(lines[above])) {
        if above.is_blank() && above.column >= column {
            continue;
        }
        let key_column = above.dashes.first().copied().unwrap_or(above.column);
        if key_column < column && !above.content.is_empty() {
            let value = above.entry().map_or(above.content, |(_, value)| value);
            let header = value.split('#').next().unwrap_or_default().trim();
            let is_header = header.starts_with(['|', '>'])
                && header[1..].chars().all(|c| c.is_ascii_digit() || matches!(c, '+' | '-'));
            if is_header {
                return true;
            }
            column = key_column;
        }
        if column == 0 {
            break;
        }
    }
    false
}

/// The place within the brackets of a line.
struct Flow {
    path: Vec<PathPart>,
    levels: Vec<Siblings>,
    role: Role,
}

/// An open bracket, the key that it stands under, and the entries behind it.
type Bracket = (char, Option<String>, Siblings);

fn flow(content: &str) -> Option<Flow> {
    let mut open: Vec<Bracket> = Vec::new();
    let (mut quote, mut start) = (None, 0);
    let mut key: Option<String> = None;
    let mut first = entry(content).map(|(key, _)| key.to_owned());
    for (at, c) in content.char_indices() {
        match (quote, c) {
            (Some(mark), _) if c == mark => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            // Within a plain text, such as a condition, a bracket opens nothing.
            (None, '{' | '[') if open.is_empty() && !begins_value(&content[..at]) => {}
            (None, '{' | '[') if !content[..at].ends_with(['$', '{']) => {
                let under = key.take().or_else(|| first.take());
                open.push((c, under, Siblings::new()));
                start = at + 1;
            }
            (None, '}' | ']') if !open.is_empty() => {
                open.pop();
                key = None;
                start = at + 1;
            }
            (None, ':') if content[at + 1..].starts_with(' ') || at + 1 == content.len() => {
                let name = content[start..at].trim().trim_matches(['"', '\'']).to_owned();
                if let Some((_, _, siblings)) = open.last_mut() {
                    siblings.push((name.clone(), String::new()));
                    key = Some(name);
                    start = at + 1;
                }
            }
            (None, ',') if !open.is_empty() => {
                close_value(&mut open, key.take(), content[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let (bracket, ..) = open.last()?;
    let role = match (bracket, &key) {
        (_, Some(key)) => Role::Value(key.clone()),
        ('{', None) => Role::Key,
        _ => Role::Item,
    };
    let (mut path, mut levels) = (Vec::new(), Vec::new());
    for (bracket, under, siblings) in open {
        path.extend(under.map(PathPart::Key));
        if bracket == '[' {
            path.push(PathPart::Item);
        }
        levels.push(siblings);
    }
    Some(Flow { path, levels, role })
}

/// Returns true if a value begins behind a text.
fn begins_value(before: &str) -> bool {
    let before = before.trim_end();
    before.is_empty() || before.ends_with(':')
}

fn close_value(open: &mut [Bracket], key: Option<String>, value: &str) {
    if let (Some((_, _, siblings)), Some(_)) = (open.last_mut(), key)
        && let Some(last) = siblings.last_mut()
    {
        value.clone_into(&mut last.1);
    }
}

/// The word at the cursor.
fn word(text: &str, offset: usize, role: &Role) -> std::ops::Range<usize> {
    let is_part = |c: char| match role {
        Role::Expression(_) => c.is_ascii_alphanumeric() || c == '_',
        _ => c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/'),
    };
    let before = &text[..offset];
    let start =
        before.len() - before.chars().rev().take_while(|c| is_part(*c)).map(char::len_utf8).sum::<usize>();
    let end = offset + text[offset..].chars().take_while(|c| is_part(*c)).map(char::len_utf8).sum::<usize>();
    // A dash at the beginning is that of an item.
    let start = if text[start..end].starts_with("- ") { start + 2 } else { start };
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path and role at the mark `^` of a text.
    fn at(text: &str) -> (String, Role) {
        let offset = text.find('^').expect("a mark");
        let cursor = Cursor::at(&text.replacen('^', "", 1), offset);
        let part = |part: &PathPart| match part {
            PathPart::Key(key) => key.clone(),
            PathPart::Item => "-".to_owned(),
        };
        (cursor.path.iter().map(part).collect::<Vec<_>>().join("/"), cursor.role)
    }

    fn check(text: &str, path: &str, role: Role) {
        assert_eq!(at(text), (path.to_owned(), role), "{text}");
    }

    #[test]
    fn the_path_of_a_cursor_is_read_from_indentation() {
        check("na^", "", Role::Key);
        check("trigger:\n  web^", "trigger", Role::Key);
        check("trigger:\n  webhook:\n    mode: a^", "trigger/webhook/mode", Role::Value("mode".into()));
        check("steps:\n  - id: a\n    act^", "steps/-", Role::Key);
        check("steps:\n  - id: a\n    with:\n      x: 1\n      ^\n", "steps/-/with", Role::Key);
        check("steps:\n- id: a\n  if^\n", "steps/-", Role::Key);
        check("steps:\n  - ^", "steps/-", Role::Key);
        check("steps:\n  - id: a\n  - id: b\n    action: ^", "steps/-/action", Role::Value("action".into()));
        check("steps:\n  - if: x\n    then:\n      - set: {a: 1}\n      - act^", "steps/-/then/-", Role::Key);
    }

    #[test]
    fn the_path_of_a_cursor_covers_brackets_and_expressions() {
        check("steps:\n  - {id: a, act^", "steps/-", Role::Key);
        check("steps:\n  - id: a\n    with: {url: ^", "steps/-/with/url", Role::Value("url".into()));
        check("steps:\n  - needs: [a, ^", "steps/-/needs/-", Role::Item);
        assert_eq!(at("steps:\n  - set:\n      a: x ${{ steps.pa^").1, Role::Expression(" steps.pa".into()));
        assert_eq!(at("a: ${{ b }} ^").1, Role::Value("a".into()));
        assert_eq!(at("steps:\n  - code: |\n      const x^\n").1, Role::Text);
    }

    #[test]
    fn the_keys_beside_the_cursor_are_those_of_its_mapping() {
        let text =
            "steps:\n  - id: a\n    action: x.y\n    with:\n      a: 1\n      \n    retry: 3\n  - id: b\n";
        let cursor = Cursor::at(text, text.find("      \n").expect("a line") + 6);
        assert_eq!(cursor.levels.last(), Some(&vec![("a".to_owned(), "1".to_owned())]));
        assert_eq!(cursor.nearest("action"), Some("x.y"));
        assert_eq!(cursor.nearest("retry"), Some("3"));
    }
}
