//! The JSON Schemas of the settings with a structure.

use serde_json::{Map, Value, json};

use super::{KINDS, MAX_SOURCES, PLAIN};

/// The JSON Schema of a setting with a structure, by its key.
pub(in crate::settings) fn schema(key: &str) -> Option<Value> {
    let provider = match key {
        "secrets.sources" => return Some(sources()),
        "secrets.vault" => vault(),
        "secrets.awsSecretsManager" => object(
            &["region"],
            &[
                ("region", text()),
                ("prefix", text()),
                ("endpoint", address()),
                ("tokenService", address()),
                ("accessKey", credential()),
                ("secretKey", credential()),
                ("sessionToken", credential()),
            ],
        ),
        "secrets.gcpSecretManager" => object(
            &["project", "login"],
            &[
                ("project", text()),
                ("prefix", text()),
                ("address", address()),
                ("login", one_of(&[("key", credential()), ("token", credential())])),
            ],
        ),
        "secrets.azureKeyVault" => object(
            &["address", "tenant", "client", "login"],
            &[
                ("address", address()),
                ("prefix", text()),
                ("tenant", text()),
                ("client", text()),
                ("authority", address()),
                ("scope", text()),
                ("login", one_of(&[("secret", credential()), ("token", credential())])),
            ],
        ),
        _ => return None,
    };
    Some(json!({"type": "object", "additionalProperties": provider}))
}

fn sources() -> Value {
    let pattern = json!({"type": "string", "pattern": "^([A-Za-z0-9_-]+[*]?|[*])$"});
    let only = json!({
        "description": "The names for which it is read, with `*` at the end for a prefix.",
        "anyOf": [{"type": "array", "minItems": 1, "items": pattern}, pattern],
    });
    let mut properties = vec![("source", json!({"enum": PLAIN})), ("only", only)];
    properties.extend(KINDS.map(|kind| (kind, text())));
    let mut source = object(&[], &properties);
    let named: Vec<&str> = ["source"].into_iter().chain(KINDS).collect();
    source["oneOf"] = named.iter().map(|key| json!({"required": [key]})).collect();
    let source = json!({"anyOf": [{"enum": PLAIN}, source]});
    json!({"anyOf": [{"type": "array", "maxItems": MAX_SOURCES, "items": source}, source]})
}

fn vault() -> Value {
    let role = |required: &[&str], proof: &'static str| {
        object(required, &[("role", text()), (proof, credential()), ("mount", text())])
    };
    let login = one_of(&[
        ("token", credential()),
        ("appRole", role(&["role", "secret"], "secret")),
        ("kubernetes", json!({"anyOf": [text(), role(&["role"], "token")]})),
        ("jwt", role(&["role", "token"], "token")),
    ]);
    let properties = [("address", address()), ("path", text()), ("namespace", text()), ("login", login)];
    object(&["address", "path", "login"], &properties)
}

/// A mapping with these keys.
fn object(required: &[&str], properties: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> =
        properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "additionalProperties": false, "required": required, "properties": properties})
}

/// A mapping with exactly one of these keys.
fn one_of(properties: &[(&str, Value)]) -> Value {
    let mut schema = object(&[], properties);
    schema["minProperties"] = 1.into();
    schema["maxProperties"] = 1.into();
    schema
}

fn text() -> Value {
    json!({"type": "string", "minLength": 1})
}

fn address() -> Value {
    json!({"type": "string", "pattern": "^https?://"})
}

/// The name of a secret, or a file.
fn credential() -> Value {
    let name = json!({"type": "string", "pattern": "^[A-Za-z0-9_-]{1,100}$"});
    json!({"anyOf": [name, object(&["file"], &[("file", text())])]})
}
