//! Messages read as they were sent, and malformed bytes rejected.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use value::{JsonLimits, Value};

use super::{Answer, Inbox, MAX_MESSAGE, Message, Nonce, Request, Sender, Tag, Unreadable, encode, restore};

fn any_tag() -> impl Strategy<Value = Tag> {
    (1_u8..=11).prop_map(|byte| Tag::from_byte(byte).expect("these are all"))
}

fn any_message() -> impl Strategy<Value = Message> {
    let parts = vec(vec(any::<u8>(), 0..40).prop_map(Bytes::from), 0..8);
    (any_tag(), parts).prop_map(|(tag, parts)| Message { tag, parts })
}

fn bytes_of(message: &Message) -> Vec<u8> {
    let parts: Vec<&[u8]> = message.parts.iter().map(AsRef::as_ref).collect();
    encode(message.tag, &parts).expect("it is short")
}

proptest! {
    #[test]
    fn messages_round_trip_across_any_chunk_boundaries(
        messages in vec(any_message(), 1..5),
        cuts in vec(1_usize..50, 1..40),
    ) {
        let sent: Vec<u8> = messages.iter().flat_map(bytes_of).collect();
        let (mut inbox, mut read, mut rest) = (Inbox::default(), Vec::new(), &sent[..]);
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            inbox.push(now);
            while let Some(message) = inbox.next().expect("these are messages") {
                read.push(message);
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert!(inbox.is_empty());
        prop_assert_eq!(read, messages);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in vec(any::<u8>(), 0..300), tag in any_tag()) {
        // Unchanged, and with a length and tag that make it likely to be accepted.
        let mut framed = u32::try_from(bytes.len() + 1).expect("it is short").to_le_bytes().to_vec();
        framed.push(tag as u8);
        framed.extend_from_slice(&bytes);
        for sent in [bytes, framed] {
            let mut inbox = Inbox::default();
            inbox.push(&sent);
            while let Ok(Some(message)) = inbox.next() {
                let length: usize = message.parts.iter().map(Bytes::len).sum();
                prop_assert!(length <= sent.len());
                let _ = Answer::try_from(message.clone());
                let _ = Request::try_from(message);
            }
        }
    }

    #[test]
    fn a_corrupted_message_never_panics(message in any_message(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut sent = bytes_of(&message);
        let at = at.index(sent.len());
        sent[at] = byte;
        let mut inbox = Inbox::default();
        inbox.push(&sent);
        if let Ok(Some(message)) = inbox.next() {
            let _ = Answer::try_from(message);
        }
    }

    #[test]
    fn no_result_text_makes_the_decoder_panic(text in "[\\[\\]{}:,\"0-9a-fn\\\\ ]{0,60}", file in vec(any::<u8>(), 0..5)) {
        let nonce = Nonce([0; 16]);
        let files = [Bytes::from(file)];
        let plain = Value::from_json(text.as_bytes(), JsonLimits::default()).ok();
        let read = restore(text.as_bytes(), Some((nonce, &files))).ok();
        // Without the mark there is only JSON.
        prop_assert_eq!(read, plain);
        let marked = text.replace('f', &format!("{}f", nonce.mark()));
        let _ = restore(marked.as_bytes(), Some((nonce, &files)));
    }
}

#[test]
fn messages_are_bounded_in_bytes_and_parts() {
    assert!(encode(Tag::Echo, &[&vec![0; MAX_MESSAGE - 11]]).is_ok());
    assert!(encode(Tag::Echo, &[&vec![0; MAX_MESSAGE - 10]]).is_err());
    assert!(encode(Tag::Echo, &[b"" as &[u8]; 5000]).is_err());
}

#[test]
fn an_impossible_message_length_is_rejected_immediately() {
    for length in [0_u32, 2, 8 * 1024 * 1024, u32::MAX] {
        let mut inbox = Inbox::default();
        inbox.push(&length.to_le_bytes());
        assert!(inbox.next().is_err(), "{length}");
    }
}

#[test]
fn files_are_extracted_with_their_paths() {
    let text = r#"{"a":[1,{"$file":"x"}],"b":"c"}"#;
    let value = Value::from_json(text.as_bytes(), JsonLimits::default()).expect("it is JSON");
    let mut sender = Sender::default();
    assert_eq!(sender.take(&["argument"], &value), text);
    assert!(sender.files.is_empty());
    let file = value::File { content_type: "a/b".into(), filename: None, data: "xyz".into() };
    let value = Value::from(vec![Value::Null, file.into()]);
    let sent = sender.take(&["argument"], &value);
    assert_eq!(sent, r#"[null,{"contentType":"a/b","filename":null,"size":3,"data":null}]"#);
    assert_eq!(sender.paths, [serde_json::json!(["argument", 1])]);
    assert_eq!(sender.files, [Bytes::from_static(b"xyz")]);
}

#[test]
fn a_result_is_limited_to_64_levels_and_a_million_items() {
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    assert!(restore(deep(64).as_bytes(), None).is_ok());
    assert_eq!(restore(deep(65).as_bytes(), None), Err(Unreadable::Large));
    let wide = |items: usize| format!("[{}1]", "1,".repeat(items - 1));
    assert!(restore(wide(1_000_000).as_bytes(), None).is_ok());
    assert_eq!(restore(wide(1_000_001).as_bytes(), None), Err(Unreadable::Large));
}
