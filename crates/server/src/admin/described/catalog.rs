//! Schemas of what a project declares and of the hosts that it calls, as [`model`], `catalog` and `connector` serialise them.
#![expect(dead_code, reason = "its fields exist to be described")]

use utoipa::ToSchema;

use super::AnyJson;

/// An input of an action, an automation, a form or a connection.
#[derive(ToSchema)]
#[schema(as = Input)]
pub(crate) struct InputInfo {
    name: String,
    #[schema(rename = "type")]
    kind: InputType,
    /// True if a value is required.
    required: bool,
    /// The value that counts where none is given.
    default: Option<AnyJson>,
    /// The meaning, in one sentence.
    description: Option<String>,
}

/// The type of an input.
#[derive(ToSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum InputType {
    Any,
    Text,
    Url,
    Integer {
        /// The least value.
        min: Option<i64>,
        /// The greatest value.
        max: Option<i64>,
    },
    Number,
    Boolean,
    Choice {
        /// The texts to choose from.
        options: Vec<String>,
    },
    List {
        /// The type of each item.
        #[schema(no_recursion)]
        items: Box<InputType>,
    },
    Object {
        /// The entries.
        #[schema(no_recursion)]
        fields: Vec<InputInfo>,
    },
    Map {
        /// The type of each value.
        #[schema(no_recursion)]
        values: Box<InputType>,
    },
    File,
}

/// The effect of an action outside: none, reading, or a change.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) enum Effect {
    Pure,
    Read,
    Write,
}

/// An action of a connector.
#[derive(ToSchema)]
#[schema(as = Action, rename_all = "camelCase")]
pub(crate) struct ActionInfo {
    /// As written under `action:`.
    name: String,
    /// A summary in one line.
    title: String,
    description: Option<String>,
    effect: Effect,
    /// The connection types that it takes; empty if it takes no connection.
    connections: Vec<String>,
    /// True if a step must name a connection.
    connection_required: bool,
    inputs: Vec<InputInfo>,
    /// The result in words.
    result: Option<String>,
    /// The type of its result, `steps.<id>.results`.
    results: ResultType,
    /// An example of a step's `with`.
    example: AnyJson,
}

/// The type of a result, or of a part of it.
#[derive(ToSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum ResultType {
    Any,
    Null,
    Text,
    Integer,
    Number,
    Boolean,
    Choice {
        /// The possible texts.
        options: Vec<String>,
    },
    List {
        /// The type of each item.
        #[schema(no_recursion)]
        items: Box<ResultType>,
    },
    Map {
        /// The type of each value.
        #[schema(no_recursion)]
        values: Box<ResultType>,
    },
    Object {
        /// The connector's name for it.
        name: Option<String>,
        /// The fields, in the order of the documentation.
        fields: Vec<ResultField>,
        /// True if there may be further fields.
        open: Option<bool>,
    },
    File,
    OneOf {
        /// The alternatives.
        #[schema(no_recursion)]
        types: Vec<ResultType>,
    },
}

/// A field of a result.
#[derive(ToSchema)]
pub(crate) struct ResultField {
    name: String,
    #[schema(rename = "type", no_recursion)]
    kind: ResultType,
    /// True if it may be absent.
    optional: Option<bool>,
    description: Option<String>,
}

/// A type of connections.
#[derive(ToSchema)]
#[schema(as = ConnectionType)]
pub(crate) struct ConnectionTypeInfo {
    /// As written under `type:`.
    name: String,
    title: String,
    description: Option<String>,
    inputs: Vec<ConnectionInput>,
    /// The call that tests a connection.
    test: Option<ConnectionTest>,
}

/// An input of a connection type.
#[derive(ToSchema)]
pub(crate) struct ConnectionInput {
    name: String,
    #[schema(rename = "type")]
    kind: InputType,
    /// True if a value is required.
    required: bool,
    /// The value that counts where none is given.
    default: Option<AnyJson>,
    /// The meaning, in one sentence.
    description: Option<String>,
    /// True if the value is a secret.
    secret: bool,
}

/// The call that tests a connection.
#[derive(ToSchema)]
pub(crate) struct ConnectionTest {
    /// The action.
    action: String,
    /// Its inputs.
    with: Option<std::collections::HashMap<String, AnyJson>>,
}

/// A host that was called, with one connection or without.
#[derive(ToSchema)]
#[schema(as = Host, rename_all = "camelCase")]
pub(crate) struct HostInfo {
    /// Scheme, host and port.
    host: String,
    /// The connection of the calls.
    connection: Option<String>,
    /// When it last answered or failed.
    #[schema(format = DateTime)]
    called_at: Option<String>,
    /// The status of its last answer.
    status: Option<u16>,
    /// How often in a row it did not answer, or answered 502, 503 or 504.
    failures: u32,
    /// Until then calls fail at once, since it did not answer too often.
    #[schema(format = DateTime)]
    open_until: Option<String>,
    /// Until then it asked not to be called.
    #[schema(format = DateTime)]
    held_until: Option<String>,
    rate_limit: Option<RateLimit>,
}

/// The rate limit that a host reports in its headers, in its own words.
#[derive(ToSchema)]
pub(crate) struct RateLimit {
    /// Calls in a window.
    limit: Option<String>,
    /// Calls left in the window.
    remaining: Option<String>,
    /// The end of the window.
    reset: Option<String>,
    /// Why a call was refused.
    reason: Option<String>,
}
