//! CSV (RFC 4180) parsing and writing. All cells are texts: only the author knows whether `007` is a number.

use ::csv::{ReaderBuilder, StringRecord, WriterBuilder};
use indexmap::IndexSet;
use value::{Key, Map, Value};

use super::MAX_NODES;
use super::arguments::{Arguments, article, shorten};

/// The largest output of `toCsv`, in bytes: the limit of a text with expressions.
const MAX_OUTPUT: usize = 16 << 20;

/// `parseCsv(data, header=, delimiter=)`.
pub(super) fn parse_csv(arguments: &Arguments<'_>) -> Result<Value, String> {
    let text = &*arguments.document("data")?;
    let has_header = arguments.flag("header", true)?;
    let delimiter = delimiter(arguments)?;
    // The CSV reader allocates memory for every cell of a row before it returns the row.
    check_cells(text.as_bytes(), delimiter)?;
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        // `row` compares the lengths of rows with the header, since its message names the line.
        .flexible(true)
        .delimiter(delimiter)
        .from_reader(text.as_bytes());
    let mut header: Option<Vec<Key>> = None;
    let mut rows = Vec::new();
    let mut left = MAX_NODES;
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| error.to_string())? {
        left = left.checked_sub(record.len() + 1).ok_or_else(too_many)?;
        match &header {
            None if has_header => header = Some(names(&record)?),
            None => rows.push(record.iter().map(Value::from).collect()),
            Some(names) => rows.push(row(names, &record)?),
        }
    }
    Ok(Value::from(rows))
}

/// Checks that a text has at most [`MAX_NODES`] cells, and that each quote is closed at the end of its cell: a reader that is tolerant
/// takes all rows after an open quote for one cell.
fn check_cells(text: &[u8], delimiter: u8) -> Result<(), String> {
    let is_end = |byte: u8| byte == delimiter || matches!(byte, b'\r' | b'\n');
    let (mut cells, mut line, mut begins) = (0_usize, 1_usize, true);
    // The line of the quote that the present cell is in.
    let mut quoted: Option<usize> = None;
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        line += usize::from(byte == b'\n');
        if let Some(opened) = quoted {
            if byte != b'"' || bytes.next_if_eq(&b'"').is_some() {
                continue;
            }
            quoted = None;
            if bytes.peek().is_some_and(|next| !is_end(*next)) {
                return Err(format!(
                    "the cell with a quote in line {opened} goes on after its closing quote in line {line}; a quote inside \
                     of a cell is doubled, `\"\"`"
                ));
            }
            continue;
        }
        if byte == b'"' && begins {
            quoted = Some(line);
        }
        begins = is_end(byte);
        cells += usize::from(byte == delimiter || byte == b'\n');
        if cells > MAX_NODES {
            return Err(too_many());
        }
    }
    match quoted {
        Some(opened) => Err(format!("the quote that opens a cell in line {opened} is never closed")),
        None => Ok(()),
    }
}

fn too_many() -> String {
    format!("there are more than {MAX_NODES} cells and rows")
}

fn names(record: &StringRecord) -> Result<Vec<Key>, String> {
    let mut names = IndexSet::with_capacity(record.len());
    for name in record {
        if !names.insert(Key::from(name)) {
            return Err(format!(
                "two columns are named `{}`; `header=false` gives the rows as lists",
                shorten(name)
            ));
        }
    }
    Ok(names.into_iter().collect())
}

fn row(names: &[Key], record: &StringRecord) -> Result<Value, String> {
    if names.len() != record.len() {
        let line = record.position().map_or(0, ::csv::Position::line);
        return Err(format!("the row in line {line} has {} cells, the header {}", record.len(), names.len()));
    }
    Ok(Value::from(names.iter().cloned().zip(record).collect::<Map>()))
}

/// `toCsv(rows, columns=, header=, delimiter=)`.
pub(super) fn to_csv(arguments: &Arguments<'_>) -> Result<Value, String> {
    let rows = arguments.value("rows");
    let rows =
        rows.as_list().ok_or_else(|| format!("`rows` is {}, not a list of maps or lists", article(rows)))?;
    let columns = arguments.names("columns")?;
    let has_header = arguments.flag("header", true)?;
    let maps = rows.iter().all(|row| row.as_map().is_some());
    let mut writer =
        WriterBuilder::new().flexible(true).delimiter(delimiter(arguments)?).from_writer(Vec::new());
    let columns: Option<Vec<&str>> = match columns {
        None if maps => {
            let names: IndexSet<&str> = rows.iter().filter_map(Value::as_map).flat_map(Map::keys).collect();
            (!names.is_empty()).then(|| names.into_iter().collect())
        }
        given => given,
    };
    if let Some(columns) = columns.as_ref().filter(|_| has_header) {
        writer.write_record(columns).map_err(|error| error.to_string())?;
    }
    for (at, row) in rows.iter().enumerate() {
        let cells: Vec<String> = match (row, &columns) {
            (Value::Map(map), Some(columns)) if maps => {
                columns.iter().map(|name| map.get(name).map_or_else(String::new, Value::to_text)).collect()
            }
            // Every map is empty: the rows have no cells.
            (Value::Map(_), None) if maps => continue,
            (Value::List(list), _) => list.0.iter().map(Value::to_text).collect(),
            (other, _) => {
                let wanted =
                    if rows.first().is_some_and(|row| row.as_list().is_some()) { "list" } else { "map" };
                return Err(format!("row {} is {}, not a {wanted}", at + 1, article(other)));
            }
        };
        writer.write_record(&cells).map_err(|error| error.to_string())?;
        if writer.get_ref().len() > MAX_OUTPUT {
            return Err(format!("the CSV is larger than {} MiB", MAX_OUTPUT >> 20));
        }
    }
    let bytes = writer.into_inner().map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map(Value::from).map_err(|error| error.to_string())
}

fn delimiter(arguments: &Arguments<'_>) -> Result<u8, String> {
    match arguments.text("delimiter")?.unwrap_or(",").as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => Ok(*byte),
        _ => Err("`delimiter` is not one character such as `;` or `\\t`".to_owned()),
    }
}
