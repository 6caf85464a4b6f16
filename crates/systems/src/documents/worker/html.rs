//! HTML pages.

use std::borrow::Cow;
use std::io::Read as _;

use ego_tree::iter::Edge;
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use html5ever::driver::{ParseOpts, parse_document};
use html5ever::tendril::{StrTendril, TendrilSink as _};
use scraper::{ElementRef, Html, HtmlTreeSink, Node, Selector};
use value::{Map, Value};

use super::super::job::{MAX_CELLS, MAX_NODES, Pick, TableOptions, cell_name};
use super::super::selector;
use super::channel::Daemon;
use super::failure::Failure;
use super::rows::Rows;

/// The largest page, in bytes.
const MAX_PAGE: u64 = 32 << 20;
/// The largest depth of elements. The time that the parser and the selectors take grows with it for each element.
const MAX_DEPTH: usize = 2_000;
/// The bytes that are parsed between two checks of the page's bounds.
const PIECE: usize = 4 << 10;
/// The start of a page that may name its encoding, in bytes, as browsers have it.
const PRESCAN: usize = 1024;
/// The largest span of a cell, as browsers have it.
const MAX_SPAN: u32 = 1_000;

/// `html.select`.
pub(super) fn select(picks: &[(String, Pick)], daemon: &Daemon<'_>) -> Result<Value, Failure> {
    let page = parse(daemon)?;
    let mut result = Map::new();
    for (name, pick) in picks {
        let selector = selector(&pick.css)?;
        let mut found = page.select(&selector).map(|element| part(element, pick));
        let value =
            if pick.all { Value::from(found.collect::<Vec<_>>()) } else { found.next().unwrap_or_default() };
        result.insert(name.as_str(), value);
    }
    Ok(result.into())
}

fn part(element: ElementRef<'_>, pick: &Pick) -> Value {
    match &pick.attr {
        Some(attr) => element.attr(attr).map_or(Value::Null, Value::from),
        None if pick.html => Value::from(element.inner_html()),
        None => Value::from(words(element)),
    }
}

/// `html.text`.
pub(super) fn text(css: &str, daemon: &Daemon<'_>) -> Result<Value, Failure> {
    let page = parse(daemon)?;
    let found = page.select(&selector(css)?).next();
    Ok(found.map_or(Value::Null, |element| Value::from(lines(element))))
}

/// `html.table`.
pub(super) fn table(css: &str, options: &TableOptions, daemon: &Daemon<'_>) -> Result<Value, Failure> {
    let page = parse(daemon)?;
    let missing = || Failure::input(format!("it has no element `{css}`"));
    let table = page.select(&selector(css)?).next().ok_or_else(missing)?;
    if table.value().name() != "table" {
        let name = table.value().name();
        return Err(Failure::input(format!("the first element `{css}` is `<{name}>`, not a `<table>`")));
    }
    let place = |row: u32, column: u32| format!("cell {} of the table", cell_name(row, column));
    let mut rows = Rows::new(daemon, options, &place, None, (0, 0));
    let mut spans = Spans::default();
    let mut number = 0;
    let mut cells = 0_usize;
    for row in table.descendent_elements().filter(|element| element.value().name() == "tr") {
        // A row of a table inside of a cell belongs to that table.
        if row.ancestors().filter_map(ElementRef::wrap).find(|element| element.value().name() == "table")
            != Some(table)
        {
            continue;
        }
        let row = spans.row(row);
        cells = cells.saturating_add(row.len());
        if cells > MAX_CELLS {
            return Err(Failure::limit(format!("the table has more than {MAX_CELLS} cells")));
        }
        rows.row(number, row)?;
        number += 1;
    }
    rows.finish()?;
    Ok(Value::Null)
}

/// Cells that reach into later rows: by column, the rows left and the value.
#[derive(Default)]
struct Spans(Vec<(u32, Value)>);

impl Spans {
    fn row(&mut self, row: ElementRef<'_>) -> Vec<(u32, Value)> {
        let mut cells = Vec::new();
        for cell in row.child_elements().filter(|cell| matches!(cell.value().name(), "td" | "th")) {
            self.spanned(&mut cells);
            let value = Some(words(cell)).filter(|text| !text.is_empty()).map_or(Value::Null, Value::from);
            let span = |name: &str, least: u32| {
                cell.attr(name)
                    .and_then(|text| text.trim().parse::<u32>().ok())
                    .unwrap_or(1)
                    .clamp(least, MAX_SPAN)
            };
            // No rows mean all to the end of the table.
            let down = match span("rowspan", 0) {
                0 => u32::MAX,
                rows => rows - 1,
            };
            for _ in 0..span("colspan", 1) {
                self.put(cells.len(), (down, value.clone()));
                cells.push((column(cells.len()), value.clone()));
            }
        }
        self.spanned(&mut cells);
        cells
    }

    /// Adds the cells of earlier rows that reach into this one, here.
    fn spanned(&mut self, cells: &mut Vec<(u32, Value)>) {
        while let Some((left, value)) = self.0.get_mut(cells.len()).filter(|(left, _)| *left > 0) {
            *left -= 1;
            cells.push((column(cells.len()), value.clone()));
        }
    }

    fn put(&mut self, index: usize, span: (u32, Value)) {
        if let Some(slot) = self.0.get_mut(index) {
            *slot = span;
        } else {
            self.0.resize(index, (0, Value::Null));
            self.0.push(span);
        }
    }
}

fn column(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn selector(css: &str) -> Result<Selector, Failure> {
    selector::parse(css).map_err(Failure::input)
}

fn parse(daemon: &Daemon<'_>) -> Result<Html, Failure> {
    let info = daemon.info(0)?;
    if info.size > MAX_PAGE {
        return Err(Failure::limit("it has more than 32MiB, the most for a page"));
    }
    let mut bytes = Vec::new();
    daemon.input(0)?.read_to_end(&mut bytes)?;
    let text = decode(&bytes, info.charset.as_deref());
    // Each element and each attribute has at least one of these.
    let tags = memchr::memchr2_iter(b'<', b'=', text.as_bytes()).count();
    if tags > MAX_NODES {
        return Err(too_many());
    }
    tree(&text)
}

fn too_many() -> Failure {
    Failure::limit(format!("it has more than {MAX_NODES} elements and texts"))
}

/// Parses a page piece by piece. What a piece adds is bounded, and checked before the next one.
fn tree(text: &str) -> Result<Html, Failure> {
    let mut parser = parse_document(HtmlTreeSink::new(Html::new_document()), ParseOpts::default());
    let (mut rest, mut known) = (text, 0);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
        parser.process(StrTendril::from(piece));
        known = check(&parser.tokenizer.sink.sink.0.borrow(), known)?;
        rest = after;
    }
    let page = parser.finish();
    check(&page, known)?;
    Ok(page)
}

/// Checks the nodes of a page beside the `known` ones. Returns their number.
fn check(page: &Html, known: usize) -> Result<usize, Failure> {
    let nodes = page.tree.nodes();
    let count = nodes.len();
    if count > MAX_NODES {
        return Err(too_many());
    }
    let mut new = nodes.rev().take(count.saturating_sub(known));
    if new.any(|node| node.ancestors().nth(MAX_DEPTH).is_some()) {
        return Err(Failure::limit(format!("it has more than {MAX_DEPTH} elements one inside of the other")));
    }
    Ok(count)
}

/// The text of a page: in the encoding of its mark, of its media type or of its `<meta>`, else UTF-8, else that of old pages.
fn decode<'b>(bytes: &'b [u8], charset: Option<&str>) -> Cow<'b, str> {
    let marked = Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
    let named = || charset.and_then(|name| Encoding::for_label(name.as_bytes()));
    let usual = || if std::str::from_utf8(bytes).is_ok() { UTF_8 } else { WINDOWS_1252 };
    let encoding = marked.or_else(named).or_else(|| meta_charset(bytes)).unwrap_or_else(usual);
    encoding.decode(bytes).0
}

/// The encoding that a `<meta>` at the start of a page names.
fn meta_charset(bytes: &[u8]) -> Option<&'static Encoding> {
    let begin = bytes.get(..bytes.len().min(PRESCAN)).unwrap_or_default();
    let begin = String::from_utf8_lossy(begin).to_ascii_lowercase();
    let mut rest = &*begin;
    while let Some((_, after)) = rest.split_once("<meta") {
        let tag = after.split('>').next().unwrap_or_default();
        if let Some((_, value)) = tag.split_once("charset") {
            let value =
                value.trim_start().trim_start_matches('=').trim_start().trim_start_matches(['"', '\'']);
            let label = value.split(['"', '\'', ' ', ';', '/']).next().unwrap_or_default();
            // A page whose begin can be read is in no form of UTF-16.
            let found = Encoding::for_label(label.as_bytes());
            return found.map(|encoding| if encoding.is_ascii_compatible() { encoding } else { UTF_8 });
        }
        rest = after;
    }
    None
}

/// True for an element whose content nobody reads.
fn is_hidden(name: &str) -> bool {
    matches!(name, "script" | "style" | "template" | "noscript" | "head")
}

/// True for an element that begins a line.
fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "body"
            | "br"
            | "caption"
            | "dd"
            | "details"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "header"
            | "hr"
            | "li"
            | "main"
            | "nav"
            | "ol"
            | "p"
            | "pre"
            | "section"
            | "summary"
            | "table"
            | "tr"
            | "ul"
    )
}

/// The text in one line: its blanks are joined.
fn words(element: ElementRef<'_>) -> String {
    lines(element).split('\n').collect::<Vec<_>>().join(" ")
}

/// The text, a line for each block: its blanks are joined.
fn lines(element: ElementRef<'_>) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut end = |line: &mut String| {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !words.is_empty() {
            lines.push(words.join(" "));
        }
        line.clear();
    };
    let mut hidden = 0_usize;
    for edge in element.traverse() {
        let (node, is_open) = match edge {
            Edge::Open(node) => (node, true),
            Edge::Close(node) => (node, false),
        };
        match node.value() {
            Node::Text(text) if is_open && hidden == 0 => line.push_str(text),
            Node::Element(found) => {
                let name = found.name();
                if is_hidden(name) {
                    hidden = if is_open { hidden + 1 } else { hidden.saturating_sub(1) };
                }
                if is_block(name) {
                    end(&mut line);
                } else if matches!(name, "td" | "th") {
                    line.push(' ');
                }
            }
            _ => {}
        }
    }
    end(&mut line);
    lines.join("\n")
}
