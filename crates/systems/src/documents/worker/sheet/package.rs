//! The parts of a workbook of the format xlsx beside its sheets (ECMA-376, parts 1 and 2), and the escapes of its texts.

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";
const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const DOCUMENT: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006";
const TYPE: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml";
/// The first number of a format that a workbook defines.
const FIRST_FORMAT: usize = 164;
/// The styles before the formats: plain, and bold for a header.
pub(super) const FIRST_STYLE: usize = 2;

/// The parts by their paths.
pub(super) fn parts(sheets: &[&str], formats: &[String]) -> [(&'static str, String); 5] {
    [
        ("[Content_Types].xml", content_types(sheets.len())),
        ("_rels/.rels", relationships(&[("officeDocument", "xl/workbook.xml".to_owned())])),
        ("xl/workbook.xml", workbook(sheets)),
        ("xl/_rels/workbook.xml.rels", workbook_relationships(sheets.len())),
        ("xl/styles.xml", styles(formats)),
    ]
}

/// The path of a sheet, from 0.
pub(super) fn sheet_path(index: usize) -> String {
    format!("xl/worksheets/sheet{}.xml", index + 1)
}

/// The start of a sheet.
pub(super) fn sheet_head() -> String {
    format!("{HEAD}<worksheet xmlns=\"{MAIN}\">")
}

fn content_types(sheets: usize) -> String {
    let part = |path: &str, kind: &str| {
        format!("<Override PartName=\"/{path}\" ContentType=\"{TYPE}.{kind}+xml\"/>")
    };
    let sheets: String = (0..sheets).map(|index| part(&sheet_path(index), "worksheet")).collect();
    let (workbook, styles) = (part("xl/workbook.xml", "sheet.main"), part("xl/styles.xml", "styles"));
    let relationships = "<Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>";
    let xml = "<Default Extension=\"xml\" ContentType=\"application/xml\"/>";
    format!(
        "{HEAD}<Types xmlns=\"{PACKAGE}/content-types\">{relationships}{xml}{workbook}{styles}{sheets}</Types>"
    )
}

fn relationships(targets: &[(&str, String)]) -> String {
    let one = |(index, (kind, target)): (usize, &(&str, String))| {
        format!("<Relationship Id=\"rId{}\" Type=\"{DOCUMENT}/{kind}\" Target=\"{target}\"/>", index + 1)
    };
    let all: String = targets.iter().enumerate().map(one).collect();
    format!("{HEAD}<Relationships xmlns=\"{PACKAGE}/relationships\">{all}</Relationships>")
}

fn workbook_relationships(sheets: usize) -> String {
    let sheet = |index| ("worksheet", format!("worksheets/sheet{}.xml", index + 1));
    let targets: Vec<_> = (0..sheets).map(sheet).chain([("styles", "styles.xml".to_owned())]).collect();
    relationships(&targets)
}

fn workbook(sheets: &[&str]) -> String {
    let one = |(index, name): (usize, &&str)| {
        let id = index + 1;
        format!("<sheet name=\"{}\" sheetId=\"{id}\" r:id=\"rId{id}\"/>", escaped(name))
    };
    let all: String = sheets.iter().enumerate().map(one).collect();
    format!("{HEAD}<workbook xmlns=\"{MAIN}\" xmlns:r=\"{DOCUMENT}\"><sheets>{all}</sheets></workbook>")
}

fn styles(formats: &[String]) -> String {
    let number = |index| FIRST_FORMAT + index;
    let code = |(index, code): (usize, &String)| {
        format!("<numFmt numFmtId=\"{}\" formatCode=\"{}\"/>", number(index), escaped(code))
    };
    let codes: String = formats.iter().enumerate().map(code).collect();
    let codes = match formats.len() {
        0 => String::new(),
        count => format!("<numFmts count=\"{count}\">{codes}</numFmts>"),
    };
    let style = |format: usize, font: u8| {
        format!(
            "<xf numFmtId=\"{format}\" fontId=\"{font}\" fillId=\"0\" borderId=\"0\" xfId=\"0\" applyNumberFormat=\"1\" applyFont=\"1\"/>"
        )
    };
    let styles: String = (0..formats.len()).map(|index| style(number(index), 0)).collect();
    let font = "<sz val=\"11\"/><name val=\"Calibri\"/>";
    format!(
        "{HEAD}<styleSheet xmlns=\"{MAIN}\">{codes}<fonts count=\"2\"><font>{font}</font><font><b/>{font}</font></fonts>\
         <fills count=\"2\"><fill><patternFill patternType=\"none\"/></fill><fill><patternFill patternType=\"gray125\"/></fill></fills>\
         <borders count=\"1\"><border/></borders>\
         <cellStyleXfs count=\"1\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\"/></cellStyleXfs>\
         <cellXfs count=\"{}\">{}{}{styles}</cellXfs>\
         <cellStyles count=\"1\"><cellStyle name=\"Normal\" xfId=\"0\" builtinId=\"0\"/></cellStyles></styleSheet>",
        formats.len() + FIRST_STYLE,
        style(0, 0),
        style(0, 1),
    )
}

/// A text for XML. A character that XML has not, and what looks like its escape, is escaped as spreadsheets do, `_x0007_`.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for (at, letter) in text.char_indices() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' => escaped.push(letter),
            '_' if is_escape(text.get(at..).unwrap_or_default()) => escaped.push_str("_x005F_"),
            '\0'..'\u{20}' | '\u{fffe}' | '\u{ffff}' => {
                escaped.push_str(&format!("_x{:04X}_", u32::from(letter)))
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// True for a text that begins as `_x0007_`.
fn is_escape(text: &str) -> bool {
    let hex = text.strip_prefix("_x").and_then(|rest| rest.get(..5));
    hex.is_some_and(|hex| hex.ends_with('_') && hex.bytes().take(4).all(|digit| digit.is_ascii_hexdigit()))
}
