//! A proxy before a database that mistreats a connection at its commit.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// The faults of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Fault {
    /// Everything passes.
    None,
    /// The commit passes, and the connection is cut before the answer.
    CutAfterCommit,
    /// The connection is cut in place of the commit.
    CutBeforeCommit,
    /// The commit passes, and its answer never comes.
    SilentAfterCommit,
    /// Nothing passes any more.
    Frozen,
    /// Answers pass byte by byte.
    Slow,
}

/// A running proxy.
pub(crate) struct Proxy {
    pub address: SocketAddr,
    fault: Arc<AtomicU8>,
}

impl Proxy {
    /// Begins to pass connections on to `server`.
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let fault = Arc::new(AtomicU8::new(Fault::None as u8));
        let shared = fault.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(server).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                tokio::spawn(pass(from_client, to_server, from_server, to_client, shared.clone()));
            }
        });
        Self { address, fault }
    }

    /// Mistreats connections from now on.
    pub(crate) fn set(&self, fault: Fault) {
        self.fault.store(fault as u8, Ordering::SeqCst);
    }
}

async fn pass(
    mut from_client: OwnedReadHalf,
    mut to_server: OwnedWriteHalf,
    mut from_server: OwnedReadHalf,
    mut to_client: OwnedWriteHalf,
    fault: Arc<AtomicU8>,
) {
    let is = |wanted: Fault| fault.load(Ordering::SeqCst) == wanted as u8;
    let (mut request, mut answer) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut has_committed = false;
    loop {
        tokio::select! {
            read = from_client.read(&mut request) => {
                let Ok(count @ 1..) = read else { return };
                if is(Fault::Frozen) {
                    std::future::pending::<()>().await;
                }
                let sent = &request[..count];
                // A message of PostgreSQL ends with a zero. Others say `read committed`.
                let is_commit = sent.ends_with(b"commit") || sent.windows(7).any(|part| part == b"commit\0");
                if is_commit && is(Fault::CutBeforeCommit) {
                    return;
                }
                has_committed |= is_commit && !is(Fault::None);
                if to_server.write_all(&request[..count]).await.is_err() {
                    return;
                }
            }
            read = from_server.read(&mut answer) => {
                let Ok(count @ 1..) = read else { return };
                if has_committed && is(Fault::CutAfterCommit) {
                    return;
                }
                if has_committed && is(Fault::SilentAfterCommit) {
                    std::future::pending::<()>().await;
                }
                let pieces = if is(Fault::Slow) { 1 } else { count };
                for piece in answer[..count].chunks(pieces) {
                    if to_client.write_all(piece).await.is_err() {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}
