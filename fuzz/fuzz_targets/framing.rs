//! The bytes of a connection, read by the scan of framing and by hyper's parser. Where the scan finds no fault, hyper hands
//! out no more requests than the scan saw to their end: nothing is smuggled past it.

#![no_main]

#[allow(dead_code, missing_docs)]
#[path = "../../crates/server/src/net/scan.rs"]
mod scan;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use scan::Scan;

/// A connection that has sent all its bytes, and takes every answer.
struct Sent(Vec<u8>, usize);

impl hyper::rt::Read for Sent {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        let from = self.1;
        let count = buffer.remaining().min(self.0.len() - from);
        buffer.put_slice(&self.0[from..from + count]);
        self.1 += count;
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Sent {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The requests that the scan saw to their end, and the fault it found.
fn scanned(bytes: &[u8]) -> (usize, Option<scan::FramingError>) {
    let (mut scan, mut ended, mut was_mid) = (Scan::new(), 0, false);
    for byte in bytes {
        if let Some(fault) = scan.feed(&[*byte]) {
            return (ended, Some(fault));
        }
        let is_mid = scan.is_mid_request();
        ended += usize::from(was_mid && !is_mid && *byte != b'\r');
        was_mid = is_mid;
    }
    (ended, None)
}

/// The requests that hyper handed out whole.
fn parsed(bytes: Vec<u8>) -> usize {
    let seen = Arc::new(Mutex::new(0));
    let count = seen.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let count = count.clone();
        async move {
            if request.into_body().collect().await.is_ok() {
                *count.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
            }
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(Sent(bytes, 0), service);
    // An error is a request that hyper refuses.
    let _ = runtime.block_on(connection);
    let seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    *seen
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let (ended, fault) = scanned(input);
    if fault.is_none() {
        assert!(parsed(input.to_vec()) <= ended, "hyper hands out a request that the scan has not seen");
    }
});
