//! Tests that an external body is parsed like one in memory, for any chunk boundaries.

use std::convert::Infallible;

use futures_util::{FutureExt as _, stream};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use value::{CHUNK_SIZE, Reserved};

use super::test_support::{external, trigger};
use super::*;

const BOUNDARY: &str = "BOUND";

/// A part to serialize.
#[derive(Clone, Debug)]
struct Part {
    name: String,
    filename: Option<String>,
    content_type: Option<&'static str>,
    content: Vec<u8>,
}

fn serialize(parts: &[Part], epilogue: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for part in parts {
        let filename =
            part.filename.as_ref().map(|name| format!("; filename=\"{name}\"")).unwrap_or_default();
        let kind = part.content_type.map(|kind| format!("\r\nContent-Type: {kind}")).unwrap_or_default();
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{}\"{filename}{kind}\r\n\r\n",
            part.name
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(&part.content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--{epilogue}").as_bytes());
    body
}

fn read(data: Data, content_type: &str) -> Result<Value, String> {
    let large = WebhookTrigger { max_body: 4 * CHUNK_SIZE, ..trigger() };
    let headers = vec![("content-type".to_owned(), content_type.as_bytes().to_vec())];
    let request = Request { method: "POST".into(), headers, body: data, ..Request::default() };
    receive(&large, request).map(|received| received.results).map_err(|rejection| rejection.message)
}

fn multipart(data: Data) -> Result<Value, String> {
    read(data, &format!("multipart/form-data; boundary={BOUNDARY}"))
}

/// A part as another implementation parses it: its name, its file name and its bytes.
type ParsedPart = (String, Option<String>, Vec<u8>);

/// Parses a body with another implementation.
fn peer(body: Vec<u8>) -> Option<Vec<ParsedPart>> {
    let pieces = stream::iter([Ok::<_, Infallible>(bytes::Bytes::from(body))]);
    let reading = async {
        let mut reader = multer::Multipart::new(pieces, BOUNDARY);
        let mut found = Vec::new();
        while let Some(field) = reader.next_field().await.ok()? {
            let (name, filename) = (field.name()?.to_owned(), field.file_name().map(str::to_owned));
            found.push((name, filename, field.bytes().await.ok()?.to_vec()));
        }
        Some(found)
    };
    reading.now_or_never().flatten()
}

/// Generates content that resembles a boundary, and random bytes.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let bit = prop_oneof![
        Just(b"\r\n--BOUN".to_vec()),
        Just(b"\r\n--".to_vec()),
        Just(b"--BOUND".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r\n\r\n".to_vec()),
        prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(bit, 0..8)
        .prop_map(|bits| bits.concat())
        // This would end the part.
        .prop_filter("the boundary", |content| !content.windows(9).any(|window| window == b"\r\n--BOUND"))
}

fn part() -> impl Strategy<Value = Part> {
    let kinds = prop::sample::select(vec![
        None,
        Some("text/plain"),
        Some("image/png"),
        Some("application/octet-stream"),
        Some("multipart/mixed; boundary=x"),
    ]);
    ("[a-c]{1,2}", prop::option::of("[a-z ;=.]{0,8}"), kinds, content())
        .prop_map(|(name, filename, content_type, content)| Part { name, filename, content_type, content })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The first part is almost one chunk long, so that the next boundary is at the end of the first chunk.
    #[test]
    fn multipart_parsing_is_independent_of_chunk_boundaries(
        parts in prop::collection::vec(part(), 0..6),
        short in prop_oneof![0_usize..14, 0_usize..500],
        at_once in prop::sample::select(vec![7, 1000, CHUNK_SIZE]),
        epilogue in "(|\r\n|\r\nmore)",
    ) {
        let filler = Part { name: "z".into(), filename: Some("z".into()), content_type: None, content: vec![b'-'; CHUNK_SIZE - short] };
        let parts: Vec<Part> = std::iter::once(filler).chain(parts).collect();
        let body = serialize(&parts, &epilogue);
        let here = multipart(body.clone().into());
        prop_assert!(here.is_ok(), "{:?}", here);
        prop_assert_eq!(multipart(external(&body, at_once)), here);
    }

    #[test]
    fn multipart_parsing_agrees_with_another_implementation(parts in prop::collection::vec(part(), 0..6)) {
        let body = serialize(&parts, "");
        let found = peer(body.clone()).expect("it reads them");
        let sent: Vec<_> = parts.iter().map(|part| (part.name.clone(), part.filename.clone(), part.content.clone())).collect();
        prop_assert_eq!(&found, &sent);
        let mut expected: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for (name, _, content) in found {
            expected.entry(name).or_default().push(content);
        }
        let data = multipart(body.into()).expect("it is taken").path("body.data").expect("it is there");
        let mut read: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for (name, value) in data.as_map().expect("a map").iter() {
            for value in value.as_list().unwrap_or(std::slice::from_ref(value)) {
                let bytes = match value.as_file() {
                    Some(file) => file.data.for_display().to_vec(),
                    // Text is decoded, so invalid bytes differ from those sent.
                    None => value.get("data").expect("it has data").to_text().into_bytes(),
                };
                read.entry(name.to_string()).or_default().push(bytes);
            }
        }
        let lossy = |map: BTreeMap<String, Vec<Vec<u8>>>| -> Vec<(String, Vec<String>)> {
            map.into_iter()
                .map(|(name, values)| (name, values.iter().map(|bytes| encoding_rs::UTF_8.decode(bytes).0.replace('\u{feff}', "")).collect()))
                .collect()
        };
        prop_assert_eq!(lossy(read), lossy(expected));
    }

    #[test]
    fn external_and_in_memory_bodies_of_any_bytes_parse_alike(body in "(--BOUND|--|\r\n|B|\r|Content-Disposition: form-data; name=\"a\"|x| ){0,40}") {
        let bytes = body.as_bytes();
        prop_assert_eq!(multipart(external(bytes, 3)), multipart(bytes.to_vec().into()));
    }
}

#[test]
fn a_file_part_is_a_range_of_the_body_with_its_hash() {
    let part = |name: &str, content_type, content: &[u8]| Part {
        name: name.into(),
        filename: Some(format!("{name}.bin")),
        content_type: Some(content_type),
        content: content.to_vec(),
    };
    let picture: Vec<u8> = (0..2 * CHUNK_SIZE).map(|at| u8::try_from(at % 251).unwrap_or_default()).collect();
    let body = serialize(
        &[part("picture", "image/png", &picture), part("order", "application/json", b"{\"id\":7}")],
        "",
    );
    let results = multipart(external(&body, CHUNK_SIZE)).expect("it is taken");
    let file = results.path("body.data.picture").expect("it is there");
    let file = file.as_file().expect("a file");
    assert!(file.data.is_external());
    assert_eq!((file.data.len(), file.data.digest()), (picture.len(), Data::from(picture.clone()).digest()));
    assert_eq!(
        file.data.load(picture.len(), &Reserved::uncounted(picture.len())).expect("it is read"),
        picture
    );
    assert_eq!(results.path("body.data.order.data.id"), Some(Value::from(7)));
    assert_eq!(
        results.path("rawBody").and_then(|raw| raw.as_file().map(|raw| raw.data.len())),
        Some(body.len())
    );
}

#[test]
fn the_text_parts_of_an_external_form_are_bounded() {
    let part = |content: Vec<u8>| Part { name: "a".into(), filename: None, content_type: None, content };
    let body =
        serialize(&[part(vec![b'x'; MAX_PARSED_BYTES / 2]), part(vec![b'y'; MAX_PARSED_BYTES / 2 + 1])], "");
    let large = WebhookTrigger { max_body: 2 * MAX_PARSED_BYTES, ..trigger() };
    let headers =
        vec![("content-type".to_owned(), format!("multipart/form-data; boundary={BOUNDARY}").into_bytes())];
    let request =
        Request { method: "POST".into(), headers, body: external(&body, CHUNK_SIZE), ..Request::default() };
    assert_eq!(receive(&large, request).expect_err("it is too much").status, 413);
}

#[test]
fn a_body_that_is_not_a_document_is_a_file() {
    for content_type in ["image/png", "application/octet-stream", "application/zip"] {
        let results = read(external(b"\x00\x01", 1), content_type).expect("it is taken");
        let data = results.path("body.data").expect("it is there");
        assert!(data.as_file().is_some_and(|file| file.data.is_external()), "{content_type}");
        assert_eq!(Some(data), results.path("rawBody"));
    }
}

#[test]
fn content_type_or_first_bytes_decide_whether_a_body_is_loaded() {
    let whole = |content_type: &str, start: &[u8]| {
        let header =
            (!content_type.is_empty()).then(|| ("Content-Type".to_owned(), content_type.as_bytes().to_vec()));
        must_load(&header.into_iter().collect::<Vec<_>>(), start)
    };
    for content_type in
        ["application/json", "text/csv", "application/xml", "application/x-www-form-urlencoded"]
    {
        assert!(whole(content_type, b"\x00"), "{content_type}");
    }
    for content_type in ["image/png", "multipart/form-data; boundary=b", "application/octet-stream"] {
        assert!(!whole(content_type, b"{}"), "{content_type}");
    }
    assert!(
        whole("", b"\xef\xbb\xbf \n {") && whole("", b"[1]") && !whole("", b"1") && !whole("", b"\x89PNG")
    );
}
