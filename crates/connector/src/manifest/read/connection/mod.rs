//! Reads the connection types of a manifest.

mod oauth;
mod session;

use std::sync::Arc;

use ::http::HeaderName;
use model::InputType;
use text::Span;
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Field, MapReader};
use value::{Map, Value};

use super::{check_identifier, input};
use crate::connection::{
    Auth, Base, BaseUrl, ConnectionInput, ConnectionTest, ConnectionType, CredentialField, FieldName,
    SigV4Rule,
};

/// Reads the `connections` section.
pub(super) fn read(
    field: Field<'_, '_>,
    connector: &str,
    base: Option<&BaseUrl>,
    diagnostics: &Diagnostics,
) -> Vec<ConnectionType> {
    let mut types = Vec::new();
    for entry in field.entries().into_iter().flatten() {
        check_identifier(&entry.key, entry.key_span, diagnostics);
        let Some(mut reader) = MapReader::new(&entry.value, "a connection type", diagnostics) else {
            continue;
        };
        let title = reader.required("title").name().unwrap_or_default().to_owned();
        let description = reader.take("description").name().map(str::to_owned);
        let inputs = inputs(reader.required("inputs"), diagnostics);
        let check = Check { inputs: &inputs, diagnostics };
        let base = address(&mut reader, &check, base);
        let auth = reader.required("auth").map("auth").map_or(Auth::None, |reader| auth(reader, &check));
        check_secrets(&auth, &check, reader.key_span("auth"));
        let test = reader.take("test").map("test").and_then(|reader| test(reader, connector));
        let vocabulary = vocabulary(reader.take("words"), &check);
        let request_id = check.input(reader.take("requestId"));
        let headers = check.map_input(reader.take("headers"));
        reader.finish();
        let Some(base) = base else { continue };
        types.push(ConnectionType {
            name: format!("{connector}.{}", entry.key),
            title,
            description,
            inputs,
            base,
            auth,
            test,
            vocabulary,
            request_id,
            headers,
        });
    }
    types
}

fn inputs(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Vec<ConnectionInput> {
    let mut inputs = Vec::new();
    for entry in field.entries().into_iter().flatten() {
        check_identifier(&entry.key, entry.key_span, diagnostics);
        let Some(mut reader) = MapReader::new(&entry.value, "an input of a connection", diagnostics) else {
            continue;
        };
        let spec = input::spec(&entry.key, &mut reader);
        let secret = reader.take("secret").bool().unwrap_or(false);
        if secret && spec.kind != InputType::Text {
            let message = format!("`{}` is a secret, which only a text can be", entry.key);
            diagnostics.push(Diagnostic::error("secret-type", message, reader.key_span("type")));
        }
        if secret && spec.default.is_some() {
            let message = format!("`{}` is a secret, which has no default", entry.key);
            diagnostics.push(Diagnostic::error("secret-default", message, reader.key_span("default")));
        }
        reader.finish();
        inputs.push(ConnectionInput { spec, secret });
    }
    inputs
}

fn address(reader: &mut MapReader<'_, '_>, check: &Check<'_>, fixed: Option<&BaseUrl>) -> Option<Base> {
    if let Some(fixed) = fixed.filter(|_| !reader.has("baseUrl")) {
        return Some(Base::Fixed(fixed.clone()));
    }
    let mut base = reader.required("baseUrl").map("baseUrl")?;
    if base.take("none").bool() == Some(true) {
        base.finish();
        return Some(Base::None);
    }
    let name = check.input(base.required("input"));
    let strip = base.take("strip").name().map(str::to_owned);
    base.finish();
    Some(Base::Input { name: name?, strip })
}

fn auth(mut reader: MapReader<'_, '_>, check: &Check<'_>) -> Auth {
    let auth = match reader
        .exactly_one_of(&["basic", "bearer", "header", "query", "path", "oauth2", "session", "sigv4", "none"])
    {
        Some("basic") => reader.take("basic").map("basic").map(|mut basic| {
            let user = check.inputs(basic.required("user"));
            let password = check.inputs(basic.required("password"));
            basic.finish();
            Auth::Basic { user, password }
        }),
        Some("bearer") => Some(Auth::Bearer { token: check.inputs(reader.take("bearer")) }),
        Some("header") => Some(Auth::Header(credential_fields(reader.take("header"), "header", check))),
        Some("query") => Some(Auth::Query(credential_fields(reader.take("query"), "query", check))),
        Some("path") => reader.take("path").map("path").map(|mut path| {
            let value = check.inputs(path.required("value"));
            let prefix = path.take("prefix").string().unwrap_or_default().to_owned();
            path.finish();
            Auth::Path(CredentialField {
                name: FieldName::Fixed(String::new()),
                value,
                prefix,
                optional: false,
            })
        }),
        Some("sigv4") => reader
            .take("sigv4")
            .map("sigv4")
            .and_then(|reader| sigv4(reader, check))
            .map(|rule| Auth::SigV4(Box::new(rule))),
        Some("oauth2") => reader
            .take("oauth2")
            .map("oauth2")
            .and_then(|reader| oauth::read(reader, check))
            .map(|rule| Auth::OAuth2(Box::new(rule))),
        Some("session") => reader
            .take("session")
            .map("session")
            .and_then(|reader| session::read(reader, &|name, span| check.named(name, span)))
            .map(|rule| Auth::Session(Box::new(rule))),
        _ => None,
    };
    reader.finish();
    auth.unwrap_or(Auth::None)
}

/// Reads the `sigv4` section of a connection type.
fn sigv4(mut reader: MapReader<'_, '_>, check: &Check<'_>) -> Option<SigV4Rule> {
    let service = reader.required("service").name().map(str::to_owned);
    let mut input = |key| check.input(reader.required(key));
    let (region, access_key, secret_key) = (input("region"), input("accessKey"), input("secretKey"));
    let token = reader.take("sessionToken");
    let session_token = if token.is_present() { check.input(token) } else { None };
    reader.finish();
    Some(SigV4Rule {
        service: service?,
        region: region?,
        access_key: access_key?,
        secret_key: secret_key?,
        session_token,
    })
}

/// Reads one field with a credential, or a list of them.
fn credential_fields<'n, 'd>(
    field: Field<'n, 'd>,
    place: &'d str,
    check: &Check<'_>,
) -> Vec<CredentialField> {
    let items = field.one_or_more().unwrap_or_default();
    let read = |item: Field<'n, 'd>| {
        let mut reader = item.map(place)?;
        let name = match reader.exactly_one_of(&["name", "nameFrom"]) {
            Some("name") if place == "header" => {
                header_name(reader.take("name"), check.diagnostics).map(FieldName::Fixed)
            }
            Some("name") => reader.take("name").name().map(|name| FieldName::Fixed(name.to_owned())),
            Some(_) => check.input(reader.take("nameFrom")).map(FieldName::Input),
            None => None,
        };
        let value = check.inputs(reader.required("value"));
        let prefix = reader.take("prefix").string().unwrap_or_default().to_owned();
        let optional = reader.take("optional").bool().unwrap_or(false);
        reader.finish();
        Some(CredentialField { name: name?, value, prefix, optional })
    };
    items.into_iter().filter_map(read).collect()
}

fn header_name(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<String> {
    let text = field.name()?;
    if HeaderName::from_bytes(text.as_bytes()).is_ok() {
        return Some(text.to_owned());
    }
    let message = format!("`{text}` is not the name of a header");
    diagnostics.push(Diagnostic::error("invalid-header", message, field.span().unwrap_or_default()));
    None
}

/// Reports credentials that are not marked as secret, because they would be logged.
fn check_secrets(auth: &Auth, check: &Check<'_>, span: Span) {
    let names: Vec<&String> = match auth {
        Auth::None => return,
        Auth::Basic { password, .. } => password.iter().collect(),
        Auth::Bearer { token } => token.iter().collect(),
        Auth::Path(field) => field.value.iter().collect(),
        // An optional field tells more about the caller, and is no proof of who that is.
        Auth::Header(fields) | Auth::Query(fields) => {
            fields.iter().filter(|field| !field.optional).flat_map(|field| &field.value).collect()
        }
        Auth::OAuth2(rule) => vec![&rule.client_secret],
        Auth::Session(rule) => {
            let is_secret =
                |name: &String| check.inputs.iter().any(|input| input.spec.name == *name && input.secret);
            let mut names = rule.inputs.iter().map(|(name, _)| name);
            // The name of a user may be seen.
            if names.clone().any(is_secret) { Vec::new() } else { names.by_ref().collect() }
        }
        Auth::SigV4(rule) => [&rule.secret_key].into_iter().chain(&rule.session_token).collect(),
    };
    let open = check.inputs.iter().filter(|input| names.contains(&&input.spec.name) && !input.secret);
    for input in open {
        let message = format!("`{}` is sent as a credential but is not marked as secret", input.spec.name);
        let diagnostic = Diagnostic::error("open-secret", message, span);
        check.diagnostics.push(diagnostic.help(format!("add `secret: true` to `{}`", input.spec.name)));
    }
}

/// Reads the call that tests a connection.
fn test(mut reader: MapReader<'_, '_>, connector: &str) -> Option<ConnectionTest> {
    let action = reader.required("action").name().map(|name| format!("{connector}.{name}"));
    let with = reader.take("with").node().map(|node| Value::from_serde(node.to_json()));
    reader.finish();
    let with = match with {
        Some(Value::Map(map)) => Arc::unwrap_or_clone(map),
        _ => Map::new(),
    };
    Some(ConnectionTest { action: action?, with })
}

/// Reads the vocabulary: manifest terms, each with the input that names the service's term.
fn vocabulary(field: Field<'_, '_>, check: &Check<'_>) -> Vec<(String, String)> {
    let mut terms = Vec::new();
    for entry in field.entries().into_iter().flatten() {
        let name = entry.value.as_str().unwrap_or_default();
        terms.extend(check.named(name, entry.value.span).map(|input| (entry.key.to_string(), input)));
    }
    terms
}

/// Checks names of inputs.
struct Check<'a> {
    inputs: &'a [ConnectionInput],
    diagnostics: &'a Diagnostics,
}

impl Check<'_> {
    fn input(&self, field: Field<'_, '_>) -> Option<String> {
        let name = field.name()?;
        self.named(name, field.span().unwrap_or_default())
    }

    /// Reads the name of an input that is a map of texts.
    fn map_input(&self, field: Field<'_, '_>) -> Option<String> {
        let span = field.span().unwrap_or_default();
        let name = self.input(field)?;
        let input = self.inputs.iter().find(|input| input.spec.name == name)?;
        if matches!(&input.spec.kind, InputType::Map { values } if **values == InputType::Text) {
            return Some(name);
        }
        let message = format!("`{name}` holds headers, which only a map of texts does");
        let help = format!("declare it as `{name}: {{type: map, values: text}}`");
        self.diagnostics.push(Diagnostic::error("wrong-type", message, span).help(help));
        None
    }

    fn named(&self, name: &str, span: Span) -> Option<String> {
        if self.inputs.iter().any(|input| input.spec.name == name) {
            return Some(name.to_owned());
        }
        let message = format!("`{name}` is not an input of this connection type");
        let names = self.inputs.iter().map(|input| input.spec.name.as_str());
        let diagnostic = Diagnostic::error("unknown-input", message, span);
        self.diagnostics.push(diagnostic.expected_names(name, names));
        None
    }

    fn inputs(&self, field: Field<'_, '_>) -> Vec<String> {
        field.one_or_more().unwrap_or_default().into_iter().filter_map(|item| self.input(item)).collect()
    }
}
