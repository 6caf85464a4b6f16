//! `respond`: decides the response to the caller, and sends it at the end of the step.

use model::action::{ActionError, ErrorKind};
use model::automation::{RespondBody, RespondStep, SandboxPermission};
use model::payload::HttpResponse;
use trigger::response::{Body, PartsError, RespondParts};

use super::scope::Scope;
use super::step::Frame;
use super::verbs::failed;
use super::{Exit, Run};

impl Run {
    /// Commits the response that a step has decided, with the end of the step, and sends it.
    pub(super) async fn send_due_response(
        &self,
        key: &str,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<(), Exit> {
        if std::mem::take(&mut scope.is_response_due) {
            self.await_commit(key, frame, self.journal.commit()).await?;
            self.progressed(|progress| progress.response = self.journal.response());
        }
        Ok(())
    }

    /// Records the response to the caller, which is sent at the end of the step.
    pub(super) fn set_response(&self, response: HttpResponse, scope: &mut Scope) {
        self.journal.respond(response);
        scope.is_response_due = true;
    }

    /// Decides the response to the caller.
    pub(super) async fn decide_response(
        &self,
        respond: &RespondStep,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<(), Exit> {
        if self.journal.response().is_some() {
            let message = "the caller has been answered already; only one `respond` may run";
            return Err(failed(ActionError::new(ErrorKind::Failed, message)));
        }
        let status = self.evaluate(&respond.status, scope, "respond.status", frame).await?;
        let content_type = match &respond.content_type {
            Some(template) => Some(self.evaluate(template, scope, "respond.contentType", frame).await?),
            None => None,
        };
        let headers = self.evaluate(&respond.headers, scope, "respond.headers", frame).await?;
        let body = match &respond.body {
            RespondBody::Empty => Body::Empty,
            RespondBody::Body(template) => {
                Body::Any(self.evaluate(template, scope, "respond.body", frame).await?)
            }
            RespondBody::Json(template) => {
                Body::Json(self.evaluate(template, scope, "respond.json", frame).await?)
            }
            RespondBody::File(template) => {
                Body::File(self.evaluate(template, scope, "respond.file", frame).await?)
            }
        };
        let parts = RespondParts {
            status,
            content_type: content_type.unwrap_or_default(),
            headers,
            body,
            allows_forms: respond.allow.contains(&SandboxPermission::Forms),
            allows_scripts: respond.allow.contains(&SandboxPermission::Scripts),
        };
        let response = self.build_response(parts).await.map_err(|error| {
            failed(ActionError::new(ErrorKind::Input, format!("respond.{}: {error}", error.part)))
        })?;
        self.set_response(self.journal.redact_response(response), scope);
        Ok(())
    }

    /// Builds the response. The bytes of files in its JSON are not in memory, so secrets are masked in the value; the files are
    /// read on another thread.
    async fn build_response(&self, mut parts: RespondParts) -> Result<HttpResponse, PartsError> {
        let id = self.journal.id();
        let value = match &mut parts.body {
            Body::Any(value) | Body::Json(value) if value.has_external_file() => value,
            _ => return trigger::response::respond(&parts, &id),
        };
        *value = self.journal.redact_value(std::mem::take(value));
        let building = self.context.large_work.run(move || trigger::response::respond(&parts, &id));
        building.await.unwrap_or_else(|error| Err(PartsError { part: "body", message: error.to_string() }))
    }
}
