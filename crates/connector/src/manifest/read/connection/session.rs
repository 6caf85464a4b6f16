//! Reads the `session` section of a connection type.

use ::http::{HeaderName, Method};
use text::Span;
use text::diagnostic::Diagnostics;
use text::yaml::{Field, MapReader};

use crate::oauth::session::{SessionConfig, SessionPlace, TokenHeader, TokenPlace};

/// The methods that a login may have.
const METHODS: [(&str, Method); 2] = [("POST", Method::POST), ("PUT", Method::PUT)];

/// Reads the section. `named` returns the name of an input of the connection, or reports that it is missing.
pub(super) fn read(
    mut reader: MapReader<'_, '_>,
    named: &dyn Fn(&str, Span) -> Option<String>,
) -> Option<SessionConfig> {
    let diagnostics = reader.diagnostics();
    let request = request(reader.required("request"));
    let inputs = inputs(reader.required("inputs"), named, diagnostics);
    let is_form = reader.take("encoding").one_of(&[("json", false), ("form", true)]).unwrap_or(false);
    let token = reader.required("token").map("the place of a token").and_then(token);
    let expires = reader.take("expires").name().map(str::to_owned);
    let send = reader.take("send").map("the header of a token").and_then(send);
    reader.finish();
    let (method, path) = request?;
    let send = send.unwrap_or_else(TokenHeader::bearer);
    Some(SessionConfig { method, path, inputs, is_form, token: token?, expires, send })
}

/// Reads the request line of a login, whose path is plain.
fn request(field: Field<'_, '_>) -> Option<(Method, String)> {
    let (word, path) = field.name()?.split_once(' ').unwrap_or_default();
    let method = METHODS.into_iter().find(|(name, _)| *name == word).map(|(_, method)| method);
    let is_plain = path.starts_with('/')
        && !path.starts_with("//")
        && !path.contains(|c: char| "{}?# ".contains(c) || c.is_control());
    if method.is_none() || !is_plain {
        field
            .error("invalid-request", "a login is a `POST` or `PUT` and a plain path, such as `POST /login`");
    }
    Some((method.filter(|_| is_plain)?, path.to_owned()))
}

/// Reads `{user: body name}`: the inputs of the connection with their places in the login.
fn inputs(
    field: Field<'_, '_>,
    named: &dyn Fn(&str, Span) -> Option<String>,
    diagnostics: &Diagnostics,
) -> Vec<(String, SessionPlace)> {
    let mut found = Vec::new();
    for entry in field.entries().into_iter().flatten() {
        let Some(name) = named(&entry.key, entry.key_span) else { continue };
        let value = Field::new(&entry.value, &entry.key, diagnostics);
        let Some(text) = value.name() else { continue };
        let placed = match text.split_once(' ') {
            Some(("body", path)) => Some(SessionPlace::Body(path.split('.').map(str::to_owned).collect())),
            Some(("header", name)) => HeaderName::from_bytes(name.as_bytes()).ok().map(SessionPlace::Header),
            _ => None,
        };
        match placed {
            Some(placed) => found.push((name, placed)),
            None => {
                value.error("wrong-place", "a login takes an input at `body path.in.it` or `header Name`")
            }
        }
    }
    found
}

fn token(mut reader: MapReader<'_, '_>) -> Option<TokenPlace> {
    let place = match reader.exactly_one_of(&["body", "header"]) {
        Some("header") => header(reader.take("header")).map(TokenPlace::Header),
        _ => reader.take("body").name().map(|path| TokenPlace::Body(path.to_owned())),
    };
    reader.finish();
    place
}

fn send(mut reader: MapReader<'_, '_>) -> Option<TokenHeader> {
    let name = header(reader.required("header"));
    let prefix = reader.take("prefix").string().unwrap_or_default().to_owned();
    reader.finish();
    Some(TokenHeader { name: name?, prefix })
}

fn header(field: Field<'_, '_>) -> Option<HeaderName> {
    let text = field.name()?;
    let name = HeaderName::from_bytes(text.as_bytes()).ok();
    if name.is_none() {
        field.error("invalid-header", format!("`{text}` is not the name of a header"));
    }
    name
}
