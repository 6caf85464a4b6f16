//! The least that a durable engine could do, as servers of their own: what Cogwork's figures are compared with.
//!
//! They share with the daemon its foundations (hyper, the runtime, SQLite, the allocator) and do none of its work:
//! no routing, no parsing, no checks, no limits.

mod gets;
mod log;

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

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

pub(crate) use gets::{GETS, IN_TURN, client};

/// The file in a baseline's folder that holds its address, once it answers.
pub(crate) const ADDRESS: &str = "address";

/// The work that a baseline does before it answers 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads the request.
    Bare,
    /// Writes its body to disk: one insert into SQLite, synced, in one transaction with all waiting ones.
    OneWrite,
    /// Does so twice, one after the other, as an execution's start and its end are.
    TwoWrites,
    /// Sends requests of its own, and answers how long they took.
    Gets,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Bare, Self::OneWrite, Self::TwoWrites, Self::Gets];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::OneWrite => "one-write",
            Self::TwoWrites => "two-writes",
            Self::Gets => "gets",
        }
    }

    /// The one of this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    fn writes(self) -> usize {
        match self {
            Self::Bare | Self::Gets => 0,
            Self::OneWrite => 1,
            Self::TwoWrites => 2,
        }
    }
}

/// The state of a baseline.
struct Means {
    kind: Kind,
    log: Log,
    client: reqwest::Client,
}

/// Is a baseline until it is ended, with its data in `folder`.
pub(crate) fn serve(kind: Kind, folder: &Path) -> Result<(), Error> {
    let log = Log::open(&folder.join("log.db"))?;
    let means = Arc::new(Means { kind, log, client: client()? });
    // As the daemon's: a worker for each processor that it may use.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(Error::io("the runtime"))?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Error::io("127.0.0.1:0"))?;
        let address = listener.local_addr().map_err(Error::io("127.0.0.1:0"))?;
        // Writes a temporary file first, so that no reader sees a part of it.
        let (file, draft) = (folder.join(ADDRESS), folder.join("address.draft"));
        let written =
            std::fs::write(&draft, address.to_string()).and_then(|()| std::fs::rename(&draft, &file));
        written.map_err(Error::io(file.display()))?;
        loop {
            let (stream, _) = listener.accept().await.map_err(Error::io(address))?;
            tokio::spawn(connection(stream, means.clone()));
        }
    })
}

async fn connection(stream: TcpStream, means: Arc<Means>) {
    // Without it an answer may wait for another to fill a packet, which costs time only.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| answer(request, &means));
    // The driver closes its connections when it is done: that is no error.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>, means: &Means) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"{}")));
    let Ok(body) = request.into_body().collect().await else {
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(response);
    };
    let body = body.to_bytes();
    if means.kind == Kind::Gets {
        return Ok(match gets::timed(&means.client, &body).await {
            Ok(took) => Response::new(Full::new(took.into())),
            Err(error) => failed(error.to_string()),
        });
    }
    for _ in 0..means.kind.writes() {
        if !means.log.append(body.clone()).await {
            response = failed("the row was not written".to_owned());
        }
    }
    Ok(response)
}

fn failed(reason: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(reason.into()));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}
