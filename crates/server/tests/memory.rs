//! The memory that large uploads and responses occupy. The test counts allocated bytes, never time; the allocator
//! belongs to the process, so this is the only test of its file.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "the other tests use more of what is shared")]

/// The other tests compare answers with the description of the API; here that would take memory.
mod described {
    pub(crate) fn assert_described(_method: &str, _path: &str, _status: u16, _body: &str) {}
}
#[path = "http/support.rs"]
mod support;

use std::alloc::System;
use std::net::SocketAddr;

use cap::Cap;
use futures_util::future::join_all;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use support::{daemon, until};

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

const MIB: usize = 1 << 20;
const UPLOADS: u8 = 8;
const SIZE: usize = 12 * MIB;
/// The most that all of them may hold together, without the daemon itself: a chunk or two each.
const HELD: usize = 24 * MIB;

const BACK: &str = "
trigger: {webhook: {mode: sync, verify: none, maxBody: 16MiB}}
steps:
  - respond: {file: \"${{ trigger.results.body.data.upload }}\"}
";

const HEAD: &str = "--x\r\ncontent-disposition: form-data; name=\"upload\"; filename=\"a.bin\"\r\n\
                    content-type: application/pdf\r\n\r\n";
const TAIL: &str = "\r\n--x--\r\n";

/// Sends a form with a file of so many equal bytes, made while it is sent.
async fn send(stream: &mut TcpStream, path: &str, byte: u8) {
    let length = HEAD.len() + SIZE + TAIL.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: multipart/form-data; boundary=x\r\n\
         content-length: {length}\r\n\r\n{HEAD}"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = vec![byte; 64 << 10];
    for _ in 0..SIZE / piece.len() {
        stream.write_all(&piece).await.unwrap();
    }
    stream.write_all(TAIL.as_bytes()).await.unwrap();
}

/// Sends a file, and gives how many bytes came back and their hash.
async fn there_and_back(address: SocketAddr, path: String, byte: u8) -> (usize, [u8; 32]) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    send(&mut stream, &path, byte).await;
    let head = until(&mut stream, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains(&format!("content-length: {SIZE}\r\n")), "{head}");
    let (mut buffer, mut count, mut hash) = (vec![0; 64 << 10], 0, Sha256::new());
    loop {
        match stream.read(&mut buffer).await.unwrap() {
            0 => return (count, hash.finalize().into()),
            read => {
                count += read;
                hash.update(&buffer[..read]);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_does_not_grow_with_uploads_responses_or_slow_readers() {
    let daemon = daemon(&[("a", BACK)]).await;
    let (path, idle) = (daemon.path("a"), MEMORY.allocated());
    let uploads = (0..UPLOADS).map(|byte| tokio::spawn(there_and_back(daemon.hooks, path.clone(), byte)));
    for (byte, upload) in (0..UPLOADS).zip(join_all(uploads).await) {
        let expected: [u8; 32] = Sha256::digest(vec![byte; SIZE]).into();
        assert!(upload.unwrap() == (SIZE, expected), "file {byte} comes back as it was sent");
    }
    let mut slow = Vec::new();
    for byte in 0..UPLOADS {
        let mut stream = TcpStream::connect(daemon.hooks).await.unwrap();
        send(&mut stream, &path, byte).await;
        until(&mut stream, "\r\n\r\n").await;
        slow.push(stream);
    }
    let (held, peak) = (MEMORY.allocated() - idle, MEMORY.max_allocated() - idle);
    assert!(held < HELD / 2, "{UPLOADS} answers that nobody reads hold {} KiB", held >> 10);
    // The test itself holds one file, to compare with.
    assert!(peak < HELD + SIZE, "{UPLOADS} uploads of {SIZE} bytes took {} KiB", peak >> 10);
}
