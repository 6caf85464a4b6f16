//! Frames of a server of AMQP, with the properties of messages.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| systems::fuzzing::read_frames(bytes));
