//! Reads the uploads of actions.

use ::http::HeaderName;
use model::InputType;
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Field, MapReader};

use super::action::Wired;
use super::hosts;
use crate::manifest::{RequestLocation, SessionLocation, Upload, UploadProtocol};

/// The largest piece of a file, in bytes.
const MAX_CHUNK: usize = 60 << 20;

/// Reads `upload`.
pub(super) fn read(action: &mut MapReader<'_, '_>, diagnostics: &Diagnostics) -> Option<Upload> {
    for other in ["answer", "download", "paging", "graphql", "operation"] {
        action.at_most_one_of(&["upload", other]);
    }
    let mut reader = action.take("upload").map("an upload")?;
    let protocols = [("google", UploadProtocol::Google), ("microsoft", UploadProtocol::Microsoft)];
    let protocol = reader.required("protocol").one_of(&protocols);
    let location = reader
        .required("location")
        .map("the address of an upload")
        .and_then(|reader| location(reader, diagnostics));
    let hosts = hosts::read(reader.take("hosts"), diagnostics);
    let span = reader.key_span("chunk");
    let size = reader.take("chunk").size();
    reader.finish();
    let protocol = protocol?;
    let chunk = size.map_or(protocol.usual_chunk(), |size| usize::try_from(size).unwrap_or(usize::MAX));
    if chunk == 0 || chunk > MAX_CHUNK || !chunk.is_multiple_of(protocol.unit()) {
        let size = |bytes: usize| text::units::format_size(bytes as u64);
        let message = format!(
            "a piece of an upload is a multiple of {}, and has at most {}",
            size(protocol.unit()),
            size(MAX_CHUNK)
        );
        diagnostics.push(Diagnostic::error("out-of-range", message, span));
    }
    Some(Upload { protocol, location: location?, chunk, hosts })
}

fn location(mut reader: MapReader<'_, '_>, diagnostics: &Diagnostics) -> Option<SessionLocation> {
    let span = reader.key_span("header");
    let text = |field: Field<'_, '_>| field.name().map(str::to_owned);
    let found = match reader.exactly_one_of(&["header", "body"]) {
        Some("header") => text(reader.take("header")).map(SessionLocation::Header),
        Some(_) => text(reader.take("body")).map(SessionLocation::Body),
        None => None,
    };
    reader.finish();
    if let Some(SessionLocation::Header(name)) = &found
        && HeaderName::try_from(name).is_err()
    {
        let message = format!("`{name}` is no name of a header");
        diagnostics.push(Diagnostic::error("invalid-header", message, span).help("write `header: Location`"));
    }
    found
}

/// Checks that an upload has one file to send, and that no other action has a file for an upload.
pub(super) fn check(
    upload: Option<&Upload>,
    wired: &[Wired],
    action: &MapReader<'_, '_>,
    diagnostics: &Diagnostics,
) {
    let error = |message: &str, span, help: &str| {
        diagnostics.push(Diagnostic::error("wrong-place", message, span).help(help));
    };
    let is_upload = |input: &&Wired| input.wire.places.contains(&RequestLocation::Upload);
    let sent: Vec<&Wired> = wired.iter().filter(is_upload).collect();
    match (upload, sent.as_slice()) {
        (None, [input, ..]) => {
            error(
                "the action has no `upload` for this input",
                input.span,
                "add `upload`, or name another place",
            );
        }
        (Some(_), [input]) if input.spec.kind != InputType::File || !input.spec.required => {
            error(
                "an upload sends a file that is required",
                input.span,
                "declare it with `type: file, required: true`",
            );
        }
        (Some(_), []) => {
            let help = "add an input of the type `file` with the place `upload`";
            error("the upload has no file to send", action.key_span("upload"), help);
        }
        (Some(_), [_, second, ..]) => error("an upload sends one file", second.span, "name another place"),
        _ => {}
    }
}
