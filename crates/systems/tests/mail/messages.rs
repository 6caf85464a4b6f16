use pretty_assertions::assert_eq;
use serde_json::{Value as Json, json};
use value::Value;

use crate::account::{Account, json_of};

const INVOICE: &str = "\
From: =?utf-8?q?B=C3=BCro?= <billing@example.com>
To: Ada <ada@example.com>, ops@example.com
Cc: Team: x@example.com;
Reply-To: help@example.com
Subject: =?utf-8?B?UmVjaG51bmcgwqcxNw==?=
Date: Mon, 2 Feb 2026 09:00:00 +0100
Message-ID: <invoice-17@example.com>
X-Order: 17
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=m

--m
Content-Type: multipart/alternative; boundary=a

--a
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

Gr=FC=DFe, der Betrag=
 ist 9,50
--a
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: base64

PHA+R3LDvMOfZTwvcD4=
--a--
--m
Content-Type: application/pdf
Content-Disposition: attachment; filename*=utf-8''..%2FGr%C3%B6%C3%9Fe.pdf
Content-Transfer-Encoding: base64

JVBERi0xLjQ=
--m
Content-Type: message/rfc822

From: b@example.com
Subject: inner

text
--m--
";

fn file_of(value: &Value) -> (String, String, Vec<u8>) {
    let Value::File(file) = value else { panic!("no file: {}", value.to_json()) };
    let mut bytes = Vec::new();
    file.data.for_each_chunk(|chunk| bytes.extend_from_slice(chunk)).expect("it is read");
    (file.filename.as_deref().unwrap_or_default().to_owned(), file.content_type.to_string(), bytes)
}

fn subjects(found: &[Json]) -> Vec<&str> {
    found.iter().map(|mail| mail["subject"].as_str().expect("a subject")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_read_with_its_texts_and_attachments() {
    let Some(account) = Account::start() else { return };
    account.deliver(INVOICE);
    let found = account.client.found(json!({})).await;
    let mail = found.first().expect("a message");
    assert_eq!(mail["from"], json!({"address": "billing@example.com", "name": "Büro"}));
    assert_eq!(mail["to"][1]["address"], "ops@example.com");
    assert_eq!(mail["cc"], json!([{"address": "x@example.com", "name": null}]));
    assert_eq!(mail["replyTo"]["address"], "help@example.com");
    let shown = |name: &str| mail[name].clone();
    assert_eq!(shown("subject"), "Rechnung §17");
    assert_eq!(shown("date"), "2026-02-02T08:00:00Z");
    assert_eq!(shown("messageId"), "invoice-17@example.com");
    assert_eq!(shown("hasAttachments"), true);
    let with = json!({"uid": mail["uid"], "uidValidity": mail["uidValidity"]});
    let result = account.client.call("get", with).await;
    let text = |name: &str| result.get(name).and_then(|value| value.as_str().map(str::to_owned));
    assert_eq!(text("text").as_deref(), Some("Grüße, der Betrag ist 9,50"));
    assert_eq!(text("html").as_deref(), Some("<p>Grüße</p>"));
    let headers = result.get("headers").expect("headers");
    assert_eq!(headers.get("x-order"), Some(Value::from("17")));
    assert_eq!(headers.get("subject"), Some(Value::from("Rechnung §17")));
    let attachments = result.get("attachments").expect("attachments");
    let files: Vec<_> = attachments.as_list().expect("a list").iter().map(file_of).collect();
    let inner = "From: b@example.com\r\nSubject: inner\r\n\r\ntext";
    let file =
        |name: &str, kind: &str, bytes: &str| (name.to_owned(), kind.to_owned(), bytes.as_bytes().to_vec());
    assert_eq!(
        files,
        [file("Größe.pdf", "application/pdf", "%PDF-1.4"), file("part-3.eml", "message/rfc822", inner)]
    );
    let with = json!({"uid": mail["uid"], "uidValidity": mail["uidValidity"], "attachments": false});
    let result = json_of(&account.client.call("get", with).await);
    assert_eq!((&result["attachments"], &result["truncated"]), (&json!([]), &json!(false)));
    // Reading a message leaves it unread.
    assert_eq!(account.client.found(json!({"unseen": true})).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_parts_are_read_in_pieces_and_large_texts_are_cut() {
    use base64::Engine as _;
    let Some(account) = Account::start() else { return };
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| ((number * 7) >> 3) as u8).collect();
    let encoded = base64::engine::general_purpose::STANDARD.encode(&bytes);
    let lines: Vec<&str> =
        (0..encoded.len()).step_by(76).map(|at| &encoded[at..encoded.len().min(at + 76)]).collect();
    let text = "0123456789\n".repeat(120_000);
    account.deliver(&format!(
        "Subject: big\nContent-Type: multipart/mixed; boundary=m\n\n--m\n\n{text}--m\nContent-Type: image/png; name=a.png\n\
         Content-Transfer-Encoding: base64\n\n{}\n--m--\n",
        lines.join("\n")
    ));
    let found = account.client.found(json!({})).await;
    let result = account.client.call("get", json!({"uid": 1, "uidValidity": found[0]["uidValidity"]})).await;
    let attachments = result.get("attachments").expect("attachments");
    let (name, _, read) = file_of(&attachments.as_list().expect("a list")[0]);
    assert_eq!((name.as_str(), read == bytes), ("a.png", true));
    let text = result.get("text").and_then(|text| text.as_str().map(str::len));
    assert_eq!((text, result.get("truncated")), (Some(1 << 20), Some(Value::from(true))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_fits_all_inputs_and_gives_the_newest_first() {
    let Some(account) = Account::start() else { return };
    for subject in ["one", "two", "Größe \"3\" (x)", "four"] {
        account.deliver_plain(subject);
    }
    let client = &account.client;
    assert_eq!(subjects(&client.found(json!({})).await), ["four", "Größe \"3\" (x)", "two", "one"]);
    for (with, expected) in [
        (json!({"subject": "ONE"}), vec!["one"]),
        (json!({"subject": "Größe"}), vec!["Größe \"3\" (x)"]),
        (json!({"subject": "\"3\" (x"}), vec!["Größe \"3\" (x)"]),
        // A text that looks like a key of the protocol stays a text.
        (json!({"subject": "x\" ALL SUBJECT \"one"}), vec![]),
        (json!({"from": "a@example", "text": "hi", "limit": 2}), vec!["four", "Größe \"3\" (x)"]),
        (json!({"from": "nobody"}), vec![]),
        (json!({"before": "2023-11-14"}), vec![]),
        (
            json!({"since": "2023-11-14", "unseen": true, "flagged": false}),
            vec!["four", "Größe \"3\" (x)", "two", "one"],
        ),
        (json!({"unseen": false}), vec![]),
        (json!({"keywords": ["booked"]}), vec![]),
        (json!({"mailbox": "Büro & more"}), vec![]),
    ] {
        assert_eq!(subjects(&client.found(with.clone()).await), expected, "{with}");
    }
    let more = json_of(&client.call("search", json!({"limit": 3})).await);
    let all = json_of(&client.call("search", json!({"limit": 4})).await);
    assert_eq!((&more["more"], &all["more"]), (&json!(true), &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_named_by_its_number_and_the_numbering() {
    let Some(account) = Account::start() else { return };
    account.deliver_plain("one");
    let found = account.client.found(json!({})).await;
    let validity = found[0]["uidValidity"].as_u64().expect("a number");
    for (with, code) in [
        (json!({"uid": 2, "uidValidity": validity}), Some("NOT_FOUND")),
        (json!({"uid": 1, "uidValidity": validity + 1}), Some("UIDVALIDITY")),
        (json!({"uid": 1, "uidValidity": validity, "mailbox": "none"}), Some("NO")),
        (json!({"uid": 0, "uidValidity": validity}), None),
        (json!({"uid": 1, "uidValidity": 5_000_000_000_u64}), None),
        (json!({"uid": 1, "uidValidity": validity, "mailbox": "a\r\nb"}), None),
    ] {
        let error = account.client.fails("get", with.clone()).await;
        let expected = if code.is_some() { "response" } else { "input" };
        assert_eq!(
            (error.kind.to_string().as_str(), error.code.as_deref()),
            (expected, code),
            "{with}: {error:?}"
        );
    }
}
