use super::*;

#[test]
fn json_is_parsed_with_exact_numbers_and_in_order() {
    check_text(
        r#"{"b": 9007199254740993, "a": [1.5, null]}"#,
        "x | parseJson",
        r#"{"b":9007199254740993,"a":[1.5,null]}"#,
    );
    check_text("\u{feff}[1]", "parseJson(x)[0] + 1", "2");
    check_text(r#"{"$file": {"data": "x"}}"#, "(x | parseJson)['$file'].data", r#""x""#);
    check("file('[1]') | parseJson", "[1]");
}

#[test]
fn invalid_json_is_reported_with_its_location() {
    check_text(
        "{\"a\":\n x}",
        "parseJson(x)",
        "error: `parseJson`: `data` is not JSON: expected value at line 2 column 2",
    );
    check_text(
        "",
        "parseJson(x)",
        "error: `parseJson`: `data` is not JSON: EOF while parsing a value at line 1 column 0",
    );
    check("parseJson(list)", "error: `parseJson`: `data` is a list, not text: it is parsed already");
    check("parseJson(5)", "error: `parseJson`: `data` is a number, not text or a file");
    check(
        "parseJson(latin)",
        "error: `parseJson`: `data` is a file that is not UTF-8 text; `file(data, contentType='text/csv; charset=windows-1252')` sets another charset",
    );
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    check_text(
        &deep,
        "parseJson(x)",
        "error: `parseJson`: `data` is not JSON: lists and maps nest too deep at line 1 column 66",
    );
    let long = format!("[{}1]", "1,".repeat(250_000));
    check_text(
        &long,
        "parseJson(x)",
        "error: `parseJson`: `data` is not JSON: too many keys and items at line 1 column 500003",
    );
}

#[track_caller]
fn check_xml(xml: &str, expected: &str) {
    check_text(xml, "x | parseXml", expected);
}

#[test]
fn xml_becomes_maps_lists_and_texts() {
    check_xml("<a>x</a>", r#"{"a":"x"}"#);
    check_xml("<a/>", r#"{"a":""}"#);
    check_xml("<a>\n  <b>1</b>\n  <c>2</c>\n</a>", r#"{"a":{"b":"1","c":"2"}}"#);
    check_xml("<a><b>1</b><c/><b>2</b><b>3</b></a>", r#"{"a":{"b":["1","2","3"],"c":""}}"#);
    check_xml(r#"<a id="7" n='x &lt; y'>text</a>"#, r##"{"a":{"@id":"7","@n":"x < y","#text":"text"}}"##);
    check_xml(r#"<a id="7"/>"#, r#"{"a":{"@id":"7"}}"#);
    check_xml("<p>one <b>two</b> three</p>", r##"{"p":{"b":"two","#text":"one  three"}}"##);
    check_xml("<a>&lt;&amp;&#65;&#x42;<![CDATA[<raw> & ]]></a>", r#"{"a":"<&AB<raw> &"}"#);
    check_xml(r#"<n:a xmlns:n="urn:x"><n:b/></n:a>"#, r#"{"n:a":{"@xmlns:n":"urn:x","n:b":""}}"#);
    check_xml("\u{feff}<?xml version=\"1.0\"?>\n<!DOCTYPE a>\n<!-- c --><a>é</a>\n", r#"{"a":"é"}"#);
    check("file('<a/>') | parseXml", r#"{"a":""}"#);
}

#[test]
fn elements_can_be_declared_as_lists() {
    check_text("<a><b>1</b></a>", "parseXml(x, lists=['b']).a.b", r#"["1"]"#);
    check_text("<a><b>1</b><b>2</b></a>", "parseXml(x, ['b']).a.b", r#"["1","2"]"#);
    check_text("<a>\n<b> 1 </b>\n</a>", "parseXml(x, trim=false)", r#"{"a":{"b":" 1 "}}"#);
    check_text(
        "<a/>",
        "parseXml(x, 'b')",
        "error: `parseXml`: `lists` is not a list of names such as `['a', 'b']`",
    );
}

#[test]
fn invalid_xml_is_reported_with_its_line() {
    let wrong = |text: &str, expected: &str| {
        check_xml(text, &format!("error: `parseXml`: {expected}"));
    };
    wrong("", "`data` is not XML: it has no element");
    wrong(
        "<a>\n<b></a>",
        "`data` is not XML that can be read: line 2: ill-formed document: expected `</b>`, but `</a>` was found",
    );
    wrong("<a><b>", "`data` is not XML that can be read: `<b>` is not closed");
    wrong("<a/>\n<b/>", "`data` is not XML that can be read: line 2: there is a second root element");
    wrong(
        "hello <a/>",
        "`data` is not XML that can be read: line 1: there is text outside the root element: `hello`",
    );
    wrong(
        "<a>&nbsp;</a>",
        "`data` is not XML that can be read: line 1: the entity `&nbsp;` is not one of XML itself",
    );
    wrong(
        r#"<a b="1" b="2"/>"#,
        "`data` is not XML that can be read: line 1: the attribute `b` occurs twice",
    );
    wrong("<#text>x</#text>", "`data` is not XML that can be read: line 1: `#text` is not a name");
    wrong(
        &"<a>".repeat(65),
        "`data` is not XML that can be read: line 1: elements nest deeper than 64 levels",
    );
    let many = format!("<a>{}</a>", "<b/>".repeat(250_000));
    wrong(
        &many,
        "`data` is not XML that can be read: line 1: there are more than 250000 elements and attributes",
    );
}

#[test]
fn entities_of_a_document_type_are_never_expanded() {
    let bomb = r#"<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c SYSTEM "file:///etc/passwd">]><a>&c;</a>"#;
    check_xml(
        bomb,
        "error: `parseXml`: `data` is not XML that can be read: line 1: the entity `&c;` is not one of XML itself",
    );
    let inside = r#"<!DOCTYPE a [<!ENTITY b "bbbb">]><a x="&b;"/>"#;
    let found = evaluate_over("parseXml(x)", &Value::from(Map::from_iter([("x", inside)])));
    assert!(found.starts_with("error: `parseXml`: `data` is not XML that can be read: line 1: "), "{found}");
}

#[test]
fn csv_becomes_a_list_of_maps() {
    check_text(
        "id,name\n007,Ann\n8,\"B, \"\"Bo\"\"\"\n",
        "parseCsv(x)",
        r#"[{"id":"007","name":"Ann"},{"id":"8","name":"B, \"Bo\""}]"#,
    );
    check_text(
        "id;name\r\n1;\"two\nlines\"",
        "parseCsv(x, delimiter=';')",
        r#"[{"id":"1","name":"two\nlines"}]"#,
    );
    check_text("1,2\n3\n", "parseCsv(x, header=false)", r#"[["1","2"],["3"]]"#);
    check_text("a\tb\n1\t2", "parseCsv(x, delimiter='\\t')[0].b", r#""2""#);
    check_text("\u{feff}a\n1", "parseCsv(x)", r#"[{"a":"1"}]"#);
    check_text("a,b\n", "parseCsv(x)", "[]");
    check_text("", "parseCsv(x)", "[]");
}

#[test]
fn csv_with_unbalanced_quotes_is_an_error() {
    check_text(
        "id,x\n1,\"abc\n2,d\n3,e\n",
        "parseCsv(x)",
        "error: `parseCsv`: the quote that opens a cell in line 2 is never closed",
    );
    check_text(
        "\"",
        "parseCsv(x)",
        "error: `parseCsv`: the quote that opens a cell in line 1 is never closed",
    );
    let goes_on = |opened: u8, closed: u8| {
        format!(
            "error: `parseCsv`: the cell with a quote in line {opened} goes on after its closing quote in line {closed}; a \
             quote inside of a cell is doubled, `\"\"`"
        )
    };
    check_text("id,x\n1,\"a\"b\n", "parseCsv(x)", &goes_on(2, 2));
    check_text("id,x\n1,\"a\n\"b\n", "parseCsv(x)", &goes_on(2, 3));
    check_text("a;b\n\"1\" ;2", "parseCsv(x, delimiter=';')", &goes_on(2, 2));
    check_text("a,b\n5\" pipe,6\"\n", "parseCsv(x)", r#"[{"a":"5\" pipe","b":"6\""}]"#);
    check_text("a,b\r\n\"\",\"x\"\"\"\r\n", "parseCsv(x)", r#"[{"a":"","b":"x\""}]"#);
}

#[test]
fn csv_in_a_file_is_decoded_by_its_bom_or_charset() {
    for (bytes, content_type) in [
        (&b"a\n\xe9"[..], "text/csv; charset=windows-1252"),
        (b"a\n\xe9", "application/octet-stream; charset=latin1"),
        (b"\xff\xfea\0\n\0\xe9\0", "text/csv"),
        (b"\xef\xbb\xbfa\n\xc3\xa9", "text/csv; charset=windows-1252"),
    ] {
        let file = File { content_type: content_type.into(), filename: None, data: bytes.to_vec().into() };
        let scope = Value::from(Map::from_iter([("x", Value::from(file))]));
        assert_eq!(evaluate_over("parseCsv(x)", &scope), r#"[{"a":"é"}]"#, "{content_type}");
    }
    let file = File { content_type: "text/csv".into(), filename: None, data: b"a\n\xe9".to_vec().into() };
    let scope = Value::from(Map::from_iter([("x", Value::from(file))]));
    let found = evaluate_over("parseCsv(x)", &scope);
    assert!(
        found.starts_with("error: `parseCsv`: `data` is a file that is not UTF-8 text; `file(data, content"),
        "{found}"
    );
}

#[test]
fn csv_that_does_not_match_its_header_is_reported_with_its_line() {
    check_text(
        "a,b\n1,2\n3\n",
        "parseCsv(x)",
        "error: `parseCsv`: the row in line 3 has 1 cells, the header 2",
    );
    check_text(
        "a,a\n1,2\n",
        "parseCsv(x)",
        "error: `parseCsv`: two columns are named `a`; `header=false` gives the rows as lists",
    );
    check_text(
        "a",
        "parseCsv(x, delimiter=';;')",
        "error: `parseCsv`: `delimiter` is not one character such as `;` or `\\t`",
    );
    check_text(
        &"1\n".repeat(125_001),
        "parseCsv(x, header=false)",
        "error: `parseCsv`: there are more than 250000 cells and rows",
    );
}

#[test]
fn csv_is_written_from_maps_or_lists() {
    check("toCsv([{'a': 1, 'b': 'x,y'}, {'b': none, 'c': true}])", r#""a,b,c\n1,\"x,y\",\n,,true\n""#);
    check("toCsv([{'a': 1, 'b': 2}], columns=['b', 'z'])", r#""b,z\n2,\n""#);
    check("toCsv([{'a': 1}], header=false)", r#""1\n""#);
    check("toCsv([[1, 2], ['say \"x\"', [3]]])", r#""1,2\n\"say \"\"x\"\"\",[3]\n""#);
    check("[[1, 2]] | toCsv(columns=['a', 'b'], delimiter=';')", r#""a;b\n1;2\n""#);
    check("toCsv([])", r#""""#);
    check("toCsv([], columns=['a'])", r#""a\n""#);
    check("toCsv([{}])", r#""""#);
    check("toCsv([1])", "error: `toCsv`: row 1 is a number, not a map");
    check("toCsv([[1], {'a': 1}])", "error: `toCsv`: row 2 is a map, not a list");
    check("toCsv('a')", "error: `toCsv`: `rows` is text, not a list of maps or lists");
}

#[test]
fn a_generated_csv_is_bounded_in_bytes() {
    let rows = |count: usize| format!("toCsv([[x]] * {count}) | length");
    // A row of 1 MiB: each of its quotes is written twice, and a line break and two quotes are around it.
    let cell = format!("x{}", "\"".repeat((1 << 19) - 2));
    check_text(&cell, &rows(16), "16777216");
    check_text(&cell, &rows(17), "error: `toCsv`: the CSV is larger than 16 MiB");
}

#[test]
fn a_parsed_csv_is_bounded_in_cells_and_rows() {
    check_text(&"1\n".repeat(125_000), "parseCsv(x, header=false) | length", "125000");
}
