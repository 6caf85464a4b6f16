//! Servers that break the protocol.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{PASSWORD, fails};

/// Answers two connections with these bytes, and then reads until they end.
fn server(bytes: Vec<u8>) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let serve = move || {
        for _ in 0..2 {
            let Ok((mut stream, _)) = listener.accept() else { return };
            // Else the end of the connection could overtake the answer.
            let mut greeting = [0; 8];
            if stream.read_exact(&mut greeting).is_ok() {
                drop(stream.write_all(&bytes));
                drop(std::io::copy(&mut stream, &mut std::io::sink()));
            }
        }
    };
    (port, std::thread::spawn(serve))
}

async fn answers(bytes: Vec<u8>, expected: &str) {
    let (port, serving) = server(bytes);
    let with = json!({"host": "127.0.0.1", "port": port, "tls": "none", "user": "ada", "password": PASSWORD});
    let event = ("amqp.message", json!({"queue": "orders"}));
    let error = fails("amqp.server", (with, &["127.0.0.1"]), event, "amqp.serverInfo").await;
    assert_eq!(error.message, expected);
    serving.join().expect("it ends");
}

fn method(class: u16, number: u16, arguments: &[u8]) -> Vec<u8> {
    let content = [&class.to_be_bytes()[..], &number.to_be_bytes(), arguments].concat();
    let size = u32::try_from(content.len()).expect("a size").to_be_bytes();
    [&[1, 0, 0], &size[..], &content, &[0xce]].concat()
}

#[tokio::test]
async fn a_server_of_another_protocol_is_refused() {
    let expected = "the connection to the AMQP server failed: it does not speak AMQP 0-9-1";
    answers(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), expected).await;
    answers(b"AMQP\x00\x01\x00\x00".to_vec(), expected).await;
}

#[tokio::test]
async fn a_frame_of_any_size_is_not_awaited() {
    let expected = "the connection to the AMQP server failed: a frame is larger than was agreed on";
    answers(vec![1, 0, 0, 0xff, 0xff, 0xff, 0xff], expected).await;
}

#[tokio::test]
async fn a_refusal_that_repeats_the_password_hides_it() {
    let words = format!("no account with {PASSWORD}");
    let start = method(10, 10, b"\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US");
    let size = u8::try_from(words.len()).expect("a size");
    let close = method(10, 50, &[&530_u16.to_be_bytes()[..], &[size], words.as_bytes(), &[0; 4]].concat());
    let expected = "the connection `bus` cannot be used: the AMQP server says: no account with ***";
    answers([start, close].concat(), expected).await;
}

#[tokio::test]
async fn a_server_without_logins_by_password_is_refused() {
    let start = method(10, 10, b"\x00\x09\x00\x00\x00\x00\x00\x00\x00\x08EXTERNAL\x00\x00\x00\x05en_US");
    let expected =
        "the connection `bus` cannot be used: the AMQP server takes no login with user and password (PLAIN)";
    answers(start, expected).await;
}
