//! One request on a connection of its own. The task that waits for the response drives the connection, so no other task
//! can outlive it.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::Error;

/// A response in progress.
pub(super) struct Connection {
    address: String,
    body: Incoming,
    /// `None` once the connection has ended.
    driver: Option<BoxFuture<'static, hyper::Result<()>>>,
}

impl Connection {
    /// Sends a request and waits for the response head.
    pub(super) async fn send(
        address: &str,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Self), Error> {
        let unreachable = |source| Error::Unreachable { address: address.to_owned(), source };
        let wrong =
            |error: hyper::Error| Error::Answer { address: address.to_owned(), reason: error.to_string() };
        let stream = TcpStream::connect(address).await.map_err(unreachable)?;
        // Only affects speed.
        let _ = stream.set_nodelay(true);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(wrong)?;
        let mut driver: BoxFuture<'static, hyper::Result<()>> = Box::pin(connection);
        let mut answer = std::pin::pin!(sender.send_request(request));
        let mut ended = false;
        let answer = poll_fn(|context| {
            if !ended && let Poll::Ready(result) = driver.as_mut().poll(context) {
                ended = true;
                result?;
            }
            answer.as_mut().poll(context)
        });
        let (head, body) = answer.await.map_err(wrong)?.into_parts();
        let driver = (!ended).then_some(driver);
        Ok((head.status, Self { address: address.to_owned(), body, driver }))
    }

    /// The next chunk of the body; `None` at its end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        let Self { address, body, driver } = self;
        let wrong =
            |error: hyper::Error| Error::Answer { address: address.clone(), reason: error.to_string() };
        loop {
            let frame = poll_fn(|context| {
                // The end of the connection is not the end of the buffered data.
                if let Some(running) = driver
                    && running.as_mut().poll(context).is_ready()
                {
                    *driver = None;
                }
                Pin::new(&mut *body).poll_frame(context)
            });
            match frame.await.transpose().map_err(wrong)? {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The whole body, of at most `limit` bytes.
    pub(super) async fn whole(&mut self, limit: usize) -> Result<Bytes, Error> {
        let mut whole = BytesMut::new();
        while let Some(piece) = self.piece().await? {
            if whole.len() + piece.len() > limit {
                return Err(self.wrong(io::Error::other(format!("it has more than {limit} bytes"))));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    pub(super) fn wrong(&self, reason: impl ToString) -> Error {
        Error::Answer { address: self.address.clone(), reason: reason.to_string() }
    }
}
