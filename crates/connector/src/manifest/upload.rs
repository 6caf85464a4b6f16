//! Resumable uploads: a session at the service takes a file in pieces, and says how far it has come.

use std::time::Duration;

use ::http::Method;
use ::http::header::{CONTENT_RANGE, LOCATION, RANGE};
use model::{ActionError, ErrorKind};
use url::Url;
use value::{Data, File, Map, Value};

use super::{RequestLocation, RestAction};
use crate::action::{Call, Exchanged, SendMode};
use crate::connection::BaseUrl;
use crate::http::{MAX_TIMEOUT, Request, Response, value_at_path};
use crate::stages::{Checkpoint, Progress, Reached};

/// The upload of a file.
#[derive(Debug)]
pub(crate) struct Upload {
    pub protocol: UploadProtocol,
    /// The place of the session's address in the response to the first request.
    pub location: SessionLocation,
    /// The size of a piece in bytes.
    pub chunk: usize,
    /// The hosts, besides the service's own, that may have the session.
    pub hosts: Vec<String>,
}

/// The notation of the position in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UploadProtocol {
    /// 308 with the header `Range`; an empty piece asks for it.
    Google,
    /// 202 with `nextExpectedRanges`; a `GET` asks for it.
    Microsoft,
}

/// The place of a session's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionLocation {
    Header(String),
    Body(String),
}

impl UploadProtocol {
    /// The size of which a piece has to be a multiple, in bytes.
    pub(crate) fn unit(self) -> usize {
        match self {
            Self::Google => 256 << 10,
            Self::Microsoft => 320 << 10,
        }
    }

    /// The usual size of a piece in bytes.
    pub(crate) fn usual_chunk(self) -> usize {
        match self {
            Self::Google => 8 << 20,
            Self::Microsoft => 10 << 20,
        }
    }
}

/// The failures in a row, without a byte taken, after which an attempt gives up.
const MAX_FAILURES: u32 = 5;
/// The pause after the first failure; it doubles with each further one.
const PAUSE: Duration = Duration::from_secs(1);

/// The answer of a session.
enum Reply {
    /// The service has the bytes before this position.
    Next(usize),
    /// The service has the file.
    Done(Box<Response>),
    /// The session is gone.
    Gone(ActionError),
}

/// An upload under way.
struct Session<'a> {
    action: &'a RestAction,
    upload: &'a Upload,
    call: &'a Call<'a>,
    /// True if the session gets the credentials of the connection: it is below its address.
    is_own: bool,
    location: Url,
    content_type: &'a str,
    data: &'a Data,
}

impl RestAction {
    /// Begins a session, or sends the file in an open session.
    pub(super) async fn upload(
        &self,
        upload: &Upload,
        call: &Call<'_>,
        base: &BaseUrl,
        reached: Option<Reached<'_>>,
    ) -> Result<Progress, ActionError> {
        let wire = self.definition.wires.iter().find(|wire| wire.places.contains(&RequestLocation::Upload));
        let file = wire.and_then(|wire| call.inputs.get(&wire.input));
        let Some(Value::File(file)) = file else {
            let message =
                format!("`{}` cannot be called: there is no file to send", self.definition.spec.name);
            return Err(ActionError::new(ErrorKind::Input, message));
        };
        let Some(reached) = reached else { return self.begin_upload(upload, call, base, file).await };
        let location = reached.data.get("location").map(|location| location.to_text()).unwrap_or_default();
        // The connector, or the address of the connection, may have changed since.
        let location = self.session_address(upload, base, &location)?;
        let session = Session {
            action: self,
            upload,
            call,
            is_own: base.contains(&location),
            location,
            content_type: &file.content_type,
            data: &file.data,
        };
        match session.send().await? {
            Reply::Gone(error) => Ok(Progress::Lost(error)),
            Reply::Done(response) => self
                .definition
                .read(&self.head, base, call.inputs, &response)
                .map(|(body, _)| Progress::Ended(body)),
            Reply::Next(_) => Err(ActionError::new(ErrorKind::Internal, "the upload stopped before its end")),
        }
    }

    async fn begin_upload(
        &self,
        upload: &Upload,
        call: &Call<'_>,
        base: &BaseUrl,
        file: &File,
    ) -> Result<Progress, ActionError> {
        let mut request = self.request(call, base, call.inputs)?;
        if upload.protocol == UploadProtocol::Google {
            let size = i64::try_from(file.data.len()).unwrap_or(i64::MAX);
            request.set_header("x-upload-content-type", &Value::from(&*file.content_type))?;
            request.set_header("x-upload-content-length", &Value::from(size))?;
        }
        let response = self.head.answered(call, &request, &self.head.subject, SendMode::Default).await?;
        let location = match &upload.location {
            SessionLocation::Header(name) => response.header(name).map(str::to_owned),
            SessionLocation::Body(path) => {
                let body = self.definition.body(&self.head, &response)?;
                value_at_path(&body, path).and_then(|location| location.as_str().map(str::to_owned))
            }
        };
        let location = location.ok_or_else(|| {
            let message = format!("{} answered without the address of the upload", self.head.subject);
            self.head.errors.response_error(ErrorKind::Response, message, &response)
        })?;
        let location = self.session_address(upload, base, &location)?;
        let data = Value::from(Map::from_iter([("location", Value::from(location.as_str()))]));
        Ok(Progress::Reached(Checkpoint { data, is_secret: true, pause: None }))
    }

    /// Returns the address of a session, if its host may have the file.
    fn session_address(&self, upload: &Upload, base: &BaseUrl, text: &str) -> Result<Url, ActionError> {
        let refuse = |words: String| {
            let message = format!("{}: the address of the upload {words}", self.head.subject);
            Err(ActionError::new(ErrorKind::Blocked, message))
        };
        let Ok(url) = Url::parse(text) else { return refuse("is no URL".to_owned()) };
        let host = url.host_str().unwrap_or_default();
        let is_named = |named: &String| match named.strip_prefix('*') {
            Some(end) => host.ends_with(end),
            None => host == named,
        };
        let is_safe = url.scheme() == "https" && upload.hosts.iter().any(is_named);
        if is_safe || base.same_origin(&url) {
            return Ok(url);
        }
        refuse(format!("is at `{host}`, which its connector does not name in `upload.hosts`"))
    }
}

impl Session<'_> {
    /// Sends what the service does not have yet. After a cut connection it asks for the position, and goes on from there.
    async fn send(&self) -> Result<Reply, ActionError> {
        let size = self.data.len();
        let (mut position, mut failures) = (None, 0);
        loop {
            let sent = match position {
                Some(position) => self.exchange(&self.piece(position)?).await,
                // After a crash too: the service knows best what it has.
                None => self.exchange(&self.question()?).await,
            };
            let error = match sent {
                Ok(Reply::Next(next)) if next > size => {
                    let message = format!("{} has more of the file than there is", self.action.head.subject);
                    return Err(ActionError::new(ErrorKind::Response, message));
                }
                Ok(Reply::Next(next)) if position.is_none_or(|before| next > before) => {
                    if position.is_some() {
                        failures = 0;
                    }
                    position = Some(next);
                    continue;
                }
                Ok(Reply::Next(_)) => {
                    let message = format!("{} takes nothing more of the file", self.action.head.subject);
                    ActionError::new(ErrorKind::Network, message)
                }
                Ok(ended) => return Ok(ended),
                Err(error) if super::operation::is_temporary(&error) => error,
                Err(error) => return Err(error),
            };
            failures += 1;
            if failures >= MAX_FAILURES {
                return Err(error);
            }
            let words = format!("a piece of the file was not taken, and is sent again: {}", error.message);
            self.call.log.line(model::LogLevel::Warn, &words);
            let pause = error.retry_after().unwrap_or(PAUSE * 2_u32.pow(failures - 1));
            self.call.http.timer().pause(pause).await;
            position = None;
        }
    }

    /// The request that asks how much the service has.
    fn question(&self) -> Result<Request, ActionError> {
        let method = match self.upload.protocol {
            UploadProtocol::Google => Method::PUT,
            UploadProtocol::Microsoft => Method::GET,
        };
        let mut request = self.request(method);
        if self.upload.protocol == UploadProtocol::Google {
            let range = format!("bytes */{}", self.data.len());
            request.set_header(CONTENT_RANGE.as_str(), &Value::from(range))?;
            request.set_bytes(self.content_type, Vec::new());
        }
        Ok(request)
    }

    /// The request with the piece that begins at a position.
    fn piece(&self, position: usize) -> Result<Request, ActionError> {
        let size = self.data.len();
        let end = position.saturating_add(self.upload.chunk).min(size);
        let mut request = self.request(Method::PUT);
        if size > position {
            let range = format!("bytes {position}-{}/{size}", end - 1);
            request.set_header(CONTENT_RANGE.as_str(), &Value::from(range))?;
        }
        // The digest names whole files only.
        request.set_bytes(self.content_type, self.data.slice(position, end - position, [0; 32]));
        Ok(request)
    }

    fn request(&self, method: Method) -> Request {
        let mut request = Request::new(method, self.location.clone());
        request.rules = self.action.definition.rules.clone();
        request.timeout = Some(self.call.time_left.unwrap_or(MAX_TIMEOUT));
        request
    }

    async fn exchange(&self, request: &Request) -> Result<Reply, ActionError> {
        let head = &self.action.head;
        // Who knows the address of a session can write to it, so that no log shows it.
        let call = Call { debug: false, ..self.call.clone() };
        let connection = call.connection.filter(|_| self.is_own);
        let to = Exchanged { subject: &head.subject, connection, body: None, is_recorded: true };
        let response = call.exchange(request, &to).await?;
        let next = match (self.upload.protocol, response.status.as_u16()) {
            (UploadProtocol::Google, 308) if !response.headers.contains_key(LOCATION) => {
                Some(response.header(RANGE.as_str()).map_or(Some(0), |range| next_position(range, true)))
            }
            (UploadProtocol::Microsoft, 200 | 202) => response.json().ok().and_then(|body| {
                let range = value_at_path(&body, "nextExpectedRanges.0")?;
                Some(next_position(&range.to_text(), false))
            }),
            _ => None,
        };
        match next {
            Some(Some(next)) => Ok(Reply::Next(next)),
            Some(None) => {
                let message = format!("{} answered without the position of the upload", head.subject);
                Err(head.errors.response_error(ErrorKind::Response, message, &response))
            }
            None => match head.checked(&call, request, &head.subject, response) {
                Ok(response) => Ok(Reply::Done(Box::new(response))),
                Err(error) if matches!(error.status, Some(404 | 410)) => Ok(Reply::Gone(error)),
                Err(error) => Err(error),
            },
        }
    }
}

/// Returns the position after the bytes that the service has, `bytes=0-99`, or at which it goes on, `100-`.
fn next_position(range: &str, is_received: bool) -> Option<usize> {
    let range = range.trim().strip_prefix("bytes=").unwrap_or(range.trim());
    let (first, last) = range.split_once('-')?;
    if is_received { last.parse::<usize>().ok()?.checked_add(1) } else { first.parse().ok() }
}
