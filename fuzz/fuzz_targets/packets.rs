//! Packets of an SFTP server, each with its length before it.

#![no_main]

use bytes::{Buf as _, Bytes};
use russh_sftp::protocol::Packet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut rest = Bytes::copy_from_slice(bytes);
    while let Ok(length) = rest.try_get_u32() {
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(rest.len());
        let mut packet = rest.split_to(length);
        if let Ok(packet) = Packet::try_from(&mut packet) {
            let _ = Bytes::try_from(packet);
        }
    }
});
