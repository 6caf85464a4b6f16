//! The HTTP server that the measured executions call.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::Error;

/// The response.
const ANSWER: &[u8] =
    br#"{"id":42,"title":"Cogs and how to oil them","space":"WORKSHOP","version":{"number":7}}"#;
/// Maximum number of arrivals that are recorded; later requests are answered without.
const MAX_ARRIVALS: usize = 100_000;

/// A server in this process. It ends when this is dropped.
pub(super) struct Server {
    address: SocketAddr,
    arrivals: Arc<Mutex<Vec<SystemTime>>>,
    serving: AbortHandle,
}

impl Server {
    /// Starts a server that answers each request after `delay`.
    pub(super) async fn start(delay: Duration) -> Result<Self, Error> {
        Self::start_with(delay, Bytes::from_static(ANSWER)).await
    }

    /// Starts a server that answers with a list of items. Its answer is also that of a token endpoint, and that of a new
    /// webhook of GitHub.
    pub(super) async fn start_with_items(items: &[usize]) -> Result<Self, Error> {
        let answer = serde_json::json!({
            "items": items, "id": 1, "active": true, "events": [], "config": {}, "access_token": "measured", "token_type": "Bearer", "expires_in": 3600,
        });
        Self::start_with(Duration::ZERO, answer.to_string().into()).await
    }

    async fn start_with(delay: Duration, answer: Bytes) -> Result<Self, Error> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Error::io("a listener"))?;
        let address = listener.local_addr().map_err(Error::io("a listener"))?;
        let arrivals = Arc::default();
        let serving = tokio::spawn(serve(listener, delay, answer, Arc::clone(&arrivals))).abort_handle();
        Ok(Self { address, arrivals, serving })
    }

    /// The address that it listens on.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The time at which the request with this number arrived, counted from 0; `None` if it has not.
    pub(super) fn arrival(&self, number: usize) -> Option<SystemTime> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).get(number).copied()
    }

    /// The times at which requests arrived, in the order of their arrival.
    pub(super) fn arrivals(&self) -> Vec<SystemTime> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Accepts connections until it is dropped, and they with it.
async fn serve(listener: TcpListener, delay: Duration, answer: Bytes, arrivals: Arc<Mutex<Vec<SystemTime>>>) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => drop(open.spawn(connection(stream, delay, answer.clone(), arrivals.clone()))),
            Some(_) = open.join_next() => {}
            else => return,
        }
    }
}

async fn connection(
    stream: TcpStream,
    delay: Duration,
    answer: Bytes,
    arrivals: Arc<Mutex<Vec<SystemTime>>>,
) {
    // Without it an answer may wait for another to fill a packet, which costs time only.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |_: Request<Incoming>| {
        let mut arrived = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        if arrived.len() < MAX_ARRIVALS {
            arrived.push(now());
        }
        drop(arrived);
        let answer = answer.clone();
        async move {
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            let mut response = Response::new(Full::new(answer));
            let json = hyper::header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
            Ok::<_, Infallible>(response)
        }
    });
    // A client that closes its connections at the end is not an error.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "arrivals are compared with the instants of the daemon's schedules"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Connection, request};

    #[tokio::test]
    async fn the_server_answers_each_request_with_json_and_records_its_arrival() {
        let server = Server::start(Duration::ZERO).await.expect("a server");
        let mut connection = Connection::open(server.address()).await.expect("a connection");
        for _ in 0..2 {
            let answer = connection.ask(&request("GET", "/", b"")).await.expect("an answer");
            let body: serde_json::Value = serde_json::from_slice(answer.body).expect("JSON");
            assert_eq!((answer.status, &body["id"]), (200, &serde_json::json!(42)));
        }
        assert_eq!(server.arrivals().len(), 2);
    }
}
