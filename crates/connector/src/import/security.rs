//! Generates the address of a service, and a connection type for each security scheme.

use serde_json::{Map, Value, json};

use super::document::{Document, camel};
use super::free;

/// The largest number of scopes in a description.
const MOST_SCOPES: usize = 20;

/// A connection type generated from a security scheme.
struct GeneratedConnection {
    name: String,
    title: &'static str,
    inputs: Value,
    auth: Value,
}

/// Adds the address and the connection types to the manifest.
pub(super) fn connections(document: &Document<'_>, head: &mut Map<String, Value>, notes: &mut Vec<String>) {
    let address = document.address();
    let mut types = Map::new();
    for (name, scheme) in document.security() {
        let ways = generate(name, document.resolve(scheme), notes);
        if ways.is_empty() {
            notes.push(format!(
                "`{name}` is a way to say who calls that manifests do not have; it is left out"
            ));
        }
        for way in ways {
            let made = connection(way.title, &way.inputs, way.auth, address.is_none());
            types.insert(free(&types, &camel(&way.name)), made);
        }
    }
    match address {
        Some(address) => _ = head.insert("baseUrl".into(), json!(address)),
        None if types.is_empty() => {
            types.insert("server".into(), connection("A server", &json!({}), json!({"none": true}), true));
        }
        None => {}
    }
    if types.is_empty() {
        return;
    }
    if document.root["security"].as_array().is_none_or(Vec::is_empty) && head.contains_key("baseUrl") {
        head.insert("connection".into(), json!("optional"));
    }
    head.insert("connections".into(), Value::Object(types));
}

/// Returns the connection types of a scheme: several for OAuth with several flows, none if manifests do not support
/// it.
fn generate(name: &str, scheme: &Value, notes: &mut Vec<String>) -> Vec<GeneratedConnection> {
    let text = |key: &str| scheme[key].as_str().unwrap_or_default();
    let way = |title, inputs, auth| vec![GeneratedConnection { name: name.to_owned(), title, inputs, auth }];
    match (text("type"), text("scheme").to_ascii_lowercase().as_str(), text("in")) {
        ("basic", ..) | ("http", "basic", _) => way(
            "User name and password",
            json!({"username": {"type": "text", "required": true}, "password": secret("The password.")}),
            json!({"basic": {"user": "username", "password": "password"}}),
        ),
        ("http", "bearer", _) => {
            way("Token", json!({"token": secret("The token.")}), json!({"bearer": "token"}))
        }
        ("apiKey", _, "header") => way(
            "Key in a header",
            json!({"apiKey": secret("The key.")}),
            json!({"header": {"name": scheme["name"], "value": "apiKey"}}),
        ),
        ("oauth2" | "openIdConnect", ..) => {
            let granted = granted(name, scheme);
            if !granted.is_empty() {
                return granted;
            }
            notes.push(format!(
                "`{name}` is OAuth in a way that needs a browser: the connection takes a token that you have got elsewhere"
            ));
            way("Access token", json!({"token": secret("The access token.")}), json!({"bearer": "token"}))
        }
        _ => Vec::new(),
    }
}

/// Returns the connection types of the OAuth 2.0 flows that the daemon supports: with consent of a person, or with
/// client credentials. Flows without complete addresses are skipped.
fn granted(name: &str, scheme: &Value) -> Vec<GeneratedConnection> {
    // In version 2.0 a scheme has one flow, in the scheme itself.
    let flow = |v3: &str, v2: &str| match scheme["flow"].as_str() {
        Some(flow) => (flow == v2).then_some(scheme),
        None => scheme["flows"].get(v3),
    };
    let consent = flow("authorizationCode", "accessCode").and_then(|flow| {
        let inputs = inputs(flow, &[("authorizeUrl", "authorizationUrl"), ("tokenUrl", "tokenUrl")])?;
        let auth = json!({"oauth2": {
            "grant": "authorizationCode", "authorizeUrl": "authorizeUrl", "tokenUrl": "tokenUrl",
            "clientId": "clientId", "clientSecret": "clientSecret", "scopes": "scopes"
        }});
        Some(GeneratedConnection { name: name.to_owned(), title: "OAuth 2.0 by consent", inputs, auth })
    });
    let client = flow("clientCredentials", "application").and_then(|flow| {
        let inputs = inputs(flow, &[("tokenUrl", "tokenUrl")])?;
        let auth = json!({"oauth2": {
            "grant": "clientCredentials", "tokenUrl": "tokenUrl",
            "clientId": "clientId", "clientSecret": "clientSecret", "scopes": "scopes"
        }});
        let title = "OAuth 2.0 with the client's own credentials";
        let name = if consent.is_some() { format!("{name} client") } else { name.to_owned() };
        Some(GeneratedConnection { name, title, inputs, auth })
    });
    consent.into_iter().chain(client).collect()
}

/// Returns the inputs of an OAuth connection; the document's addresses are their defaults.
fn inputs(flow: &Value, addresses: &[(&str, &str)]) -> Option<Value> {
    let mut inputs = Map::new();
    for (input, key) in addresses {
        let address = flow[*key].as_str().filter(|address| is_whole(address))?;
        inputs.insert((*input).to_owned(), json!({"type": "text", "default": address}));
    }
    inputs.insert("clientId".to_owned(), json!({"type": "text", "required": true}));
    inputs.insert("clientSecret".to_owned(), secret("The client's secret."));
    // The author chooses the scopes: all of them would be too many.
    let known: Vec<&str> =
        flow["scopes"].as_object().into_iter().flatten().map(|(scope, _)| scope.as_str()).collect();
    let mut about = "The requested scopes, separated by spaces.".to_owned();
    if !known.is_empty() {
        let more = if known.len() > MOST_SCOPES { " and others" } else { "" };
        let shown = known.iter().take(MOST_SCOPES).map(|scope| format!("`{scope}`")).collect::<Vec<_>>();
        about = format!("{about} There are {}{more}.", shown.join(", "));
    }
    inputs.insert("scopes".to_owned(), json!({"type": "text", "description": about}));
    Some(Value::Object(inputs))
}

fn is_whole(address: &str) -> bool {
    url::Url::parse(address).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

fn secret(about: &str) -> Value {
    json!({"type": "text", "required": true, "secret": true, "description": about})
}

fn connection(title: &str, inputs: &Value, auth: Value, asks_address: bool) -> Value {
    let mut all = Map::new();
    if asks_address {
        all.insert(
            "baseUrl".into(),
            json!({"type": "text", "required": true, "description": "The address of the service."}),
        );
    }
    all.extend(inputs.as_object().cloned().unwrap_or_default());
    let mut made = json!({"title": title, "inputs": all});
    if asks_address {
        made["baseUrl"] = json!({"input": "baseUrl"});
    }
    made["auth"] = auth;
    made
}
