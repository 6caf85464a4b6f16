//! The workers of the tests: real ones and, with the argument `fake` and a kind of misbehaviour, faulty ones.

use std::io::{self, stdin};
use std::os::fd::AsFd;
use std::process::ExitCode;

use script::Task;

const HELLO: u8 = 1;
const REFUSED: u8 = 2;
const DONE: u8 = 6;
const LINE: u8 = 10;

/// Tasks of the tests.
const TASKS: &[Task] = &[
    Task {
        name: "echo",
        run: |channel| {
            let parts = channel.receive()?;
            let parts: Vec<&[u8]> = parts.iter().map(AsRef::as_ref).collect();
            channel.send(&parts)
        },
    },
    Task { name: "hangs", run: |_| wait() },
    Task { name: "panics", run: |_| panic!("a parser gave up") },
    Task {
        name: "allocates",
        run: |channel| {
            let mut pieces = Vec::new();
            loop {
                pieces.push(vec![1_u8; 1 << 20]);
                channel.send(&[&u32::try_from(pieces.len()).unwrap_or(u32::MAX).to_le_bytes()])?;
            }
        },
    },
    Task {
        name: "connects",
        run: |channel| {
            let _ = std::net::UdpSocket::bind("127.0.0.1:0");
            channel.send(&[b"it was not ended"])
        },
    },
    Task {
        name: "opens",
        run: |channel| {
            let is_open = std::fs::File::open("/proc/self/status").is_ok();
            channel.send(&[if is_open { b"opened" } else { b"refused" }])
        },
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [fake, way] if fake == "fake" => misbehave(way).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS),
        _ => script::work(TASKS),
    }
}

fn misbehave(way: &str) -> io::Result<()> {
    read()?;
    match way {
        "dies" => return Ok(()),
        "refuses" => return write(&message(REFUSED, &[b"no such kernel"])),
        "never greets" => return wait(),
        "greets with garbage" => return write(&[0x55; 1000]),
        _ => write(&message(HELLO, &[b""]))?,
    }
    read()?;
    let answer = message(DONE, &[b"1", b"", &[0; 8]]);
    match way {
        "dies when called" => Ok(()),
        "is silent when called" => wait(),
        "answers with garbage" => write(&[0xff; 100_000]),
        "announces too much" => write(&u32::MAX.to_le_bytes()),
        "announces nothing" => write(&0_u32.to_le_bytes()),
        "answers half and dies" => write(&answer[..answer.len() / 2]),
        "answers half and waits" => write(&answer[..answer.len() / 2]).and_then(|()| wait()),
        "answers twice" => write(&[answer.clone(), answer].concat()),
        "answers what was not asked" => write(&message(HELLO, &[b""])),
        "answers no JSON" => write(&message(DONE, &[b"{]", b"", &[0; 8]])),
        "writes no JSON" => write(&message(DONE, &[b"1", b"{]", &[0; 8]])),
        "logs at no level" => write(&message(LINE, &[b"\x09", b"a"])),
        "logs without end" => loop {
            write(&message(LINE, &[b"\x01", b"a"]))?;
        },
        "logs and dies" => write(&message(LINE, &[b"\x01", b"last words"])),
        "answers without parts" => write(&message(DONE, &[])),
        "does not know it" => loop {
            write(&message(8, &[]))?;
            read()?;
        },
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    }
}

fn message(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    let mut content = vec![tag, u8::try_from(parts.len()).unwrap_or(u8::MAX), 0];
    content.extend(parts.iter().flat_map(|part| number(part.len())));
    content.extend(parts.concat());
    [&number(content.len())[..], &content].concat()
}

fn read() -> io::Result<()> {
    let mut bytes = [0; 4096];
    match rustix::io::read(stdin().as_fd(), &mut bytes)? {
        0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        _ => Ok(()),
    }
}

/// Waits until the pool closes the socket or kills the process.
fn wait() -> io::Result<()> {
    while read().is_ok() {}
    Ok(())
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(stdin().as_fd(), rest)?..];
    }
    Ok(())
}
