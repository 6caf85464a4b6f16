//! The least that a durable engine could do, as servers of their own: what Cogwork's figures are compared with.
//!
//! They share with the daemon what it is built on (hyper, the runtime, SQLite, the allocator) and do none of its work:
//! no routing, no parsing, no checks, no limits.

mod log;

use std::convert::Infallible;
use std::path::Path;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::Error;
use log::Log;

/// The file in a baseline's folder that holds its address, once it answers.
pub(crate) const ADDRESS: &str = "address";

/// What a baseline does before it answers 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads the request.
    Bare,
    /// Writes its body to disk: one insert into SQLite, synced, in one transaction with whatever else waits.
    OneWrite,
    /// Does so twice, one after the other, as an execution's start and its end are.
    TwoWrites,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Bare, Self::OneWrite, Self::TwoWrites];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::OneWrite => "one-write",
            Self::TwoWrites => "two-writes",
        }
    }

    /// The one of this name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    fn writes(self) -> usize {
        match self {
            Self::Bare => 0,
            Self::OneWrite => 1,
            Self::TwoWrites => 2,
        }
    }
}

/// Is a baseline until it is ended, with its data in `folder`.
pub(crate) fn serve(kind: Kind, folder: &Path) -> Result<(), Error> {
    let log = Log::open(&folder.join("log.db"))?;
    // As the daemon's: a worker for each processor that it may use.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(Error::io("the runtime"))?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Error::io("127.0.0.1:0"))?;
        let address = listener.local_addr().map_err(Error::io("127.0.0.1:0"))?;
        // Beside its place first, so that nobody reads half of it.
        let (file, draft) = (folder.join(ADDRESS), folder.join("address.draft"));
        let written =
            std::fs::write(&draft, address.to_string()).and_then(|()| std::fs::rename(&draft, &file));
        written.map_err(Error::io(file.display()))?;
        loop {
            let (stream, _) = listener.accept().await.map_err(Error::io(address))?;
            tokio::spawn(connection(stream, kind, log.clone()));
        }
    })
}

async fn connection(stream: TcpStream, kind: Kind, log: Log) {
    // Without it an answer may wait for another to fill a packet, which costs time only.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| answer(request, kind, &log));
    // The driver closes its connections when it is done: that is no error.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    kind: Kind,
    log: &Log,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"{}")));
    let Ok(body) = request.into_body().collect().await else {
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(response);
    };
    let body = body.to_bytes();
    for _ in 0..kind.writes() {
        if !log.append(body.clone()).await {
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        }
    }
    Ok(response)
}
