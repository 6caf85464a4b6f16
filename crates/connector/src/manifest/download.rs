//! Downloads: the body of the answer becomes a file while it arrives.

use ::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use model::{ActionError, ErrorKind};
use value::{Map, Value};

use super::RestAction;
use crate::action::{Call, Exchanged};
use crate::connection::BaseUrl;
use crate::http::{FileBody, MAX_TIMEOUT};

impl RestAction {
    /// Requests a file, and writes it as it arrives.
    pub(super) async fn download(
        &self,
        call: &Call<'_>,
        base: &BaseUrl,
        inputs: &Map,
    ) -> Result<Value, ActionError> {
        let mut request = self.request(call, base, inputs)?;
        // The bytes are counted and stored as they come.
        request.set_header(ACCEPT_ENCODING.as_str(), &"identity".into())?;
        request.timeout = Some(call.time_left.unwrap_or(MAX_TIMEOUT));
        let subject = self.head.subject.as_str();
        let body = FileBody::new(call.file_sink("the bytes of the file"));
        let to = Exchanged { subject, connection: call.connection, body: Some(&body), is_recorded: true };
        let response = self.head.checked(call, &request, subject, call.exchange(&request, &to).await?)?;
        if let Some(coding) =
            response.header(CONTENT_ENCODING.as_str()).filter(|coding| *coding != "identity")
        {
            let message = format!(
                "{subject} sent the file as `{coding}`, though it was asked for the bytes as they are"
            );
            return Err(ActionError::new(ErrorKind::Response, message));
        }
        // An answer that says that nothing has changed has no file.
        if !response.status.is_success() {
            return Ok(Value::Null);
        }
        Ok(Value::from(value::File { data: body.finish().await?, ..response.file() }))
    }
}
