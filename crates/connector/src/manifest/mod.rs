//! Connectors as data: checked manifests, with their reader, their interpreter and the check of their examples.
//!
//! A manifest has no logic: no conditions, no loops, no templates except input names. An action is a request line
//! with the location of each input, and an example that is checked without a network.

mod brackets;
mod download;
mod example;
pub(crate) mod fetch_all;
mod graphql;
mod interpret;
mod operation;
pub(crate) mod page;
pub(crate) mod put;
pub(crate) mod read;
mod schema;
mod service;
mod upload;

use std::sync::Arc;

use ::http::Method;
use model::{ActionSpec, ResultType};
use text::Span;
use value::Value;

use crate::action::Action;
use crate::connection::{BaseUrl, ConnectionType};
use crate::event::EventSpec;
use crate::http::{BodyFormat, ErrorShape, RequestRules};
use crate::stages::StatusExample;

pub(crate) use example::Example;
pub use example::{Shown, show};
pub(crate) use interpret::empty_filter;
pub(crate) use operation::Operation;
pub(crate) use schema::manifest as schema;
pub use service::{Idempotency, Proof, ProofKind};
pub(crate) use upload::{SessionLocation, Upload, UploadProtocol};

/// A checked manifest.
pub(crate) struct Manifest {
    pub head: Arc<Head>,
    /// The position of the name, for reports of duplicates.
    pub name_span: Span,
    pub connections: Vec<ConnectionType>,
    pub actions: Vec<Arc<dyn Action>>,
    pub events: Vec<EventSpec>,
}

/// The part of a manifest that all actions of its connector share.
#[derive(Debug)]
pub(crate) struct Head {
    pub name: String,
    pub title: String,
    pub version: String,
    pub description: Option<String>,
    /// The called system as messages name it: `the wiki`.
    pub subject: String,
    /// The base address of calls without a connection that has one.
    pub base: Option<BaseUrl>,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
    pub paging: Option<Paging>,
    pub errors: ErrorShape,
    pub proof: Option<Proof>,
    /// The placement of the key of a call; an action may have another one.
    pub idempotency: Idempotency,
    /// The rules of requests, which an action can replace.
    pub rules: Arc<RequestRules>,
    /// The full names of the connection types.
    pub connection_types: Vec<String>,
    pub connection_required: bool,
}

/// The pagination of lists.
#[derive(Clone, Debug)]
pub(crate) struct Paging {
    /// The input for the cursor, the page number or the offset.
    pub input: String,
    pub style: PagingStyle,
    /// The path to the items in a response; `None` if they are under `results`, or if the response is a list.
    pub items: Option<String>,
    /// The input for the largest number of items per page.
    pub limit: Option<String>,
}

/// The style of pagination.
#[derive(Clone, Debug)]
pub(crate) enum PagingStyle {
    /// A cursor in the response.
    Cursor(CursorPages),
    /// A GraphQL connection: its `pageInfo` is beside its `nodes`, the items.
    GraphQl,
    /// A page number or an offset.
    NumberedPages(NumberedPages),
}

/// A list with cursors.
#[derive(Clone, Debug)]
pub(crate) struct CursorPages {
    /// The locations of the next cursor, tried in order.
    pub next: Vec<Next>,
    /// The path to a Boolean that is true while further pages exist; `None` if a missing cursor ends the list.
    pub more: Option<String>,
}

/// A list with page numbers or offsets.
#[derive(Clone, Debug)]
pub(crate) struct NumberedPages {
    pub unit: Unit,
    /// The path to a Boolean that is true while further pages exist.
    pub more: Option<String>,
    /// The path to the total number of pages or items.
    pub total: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Page numbers; `first` is the number of the first page.
    Page { first: i64 },
    /// Offsets: the number of items before the page.
    Offset,
}

/// A location of the next cursor in a response.
#[derive(Clone, Debug)]
pub(crate) struct Next {
    pub source: NextSource,
    /// The query parameter of the link that holds the cursor; `None` if the located text is the cursor.
    pub parameter: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum NextSource {
    /// A path in the body.
    Body(String),
    /// A path in the body to the address of the next page, which is the cursor.
    BodyLink(String),
    /// A path in the last item of the page.
    LastItem(String),
    /// The target of the `Link` header with this relation.
    Link(String),
    /// A header.
    Header(String),
}

/// The definition of an action in a manifest.
#[derive(Debug)]
pub(crate) struct Definition {
    pub spec: ActionSpec,
    pub method: Method,
    pub path: Vec<Piece>,
    /// Constant parameters of the request line.
    pub query: Vec<(String, String)>,
    pub wires: Vec<InputPlacement>,
    /// Constant values and their locations.
    pub fixed: Vec<(RequestLocation, Value)>,
    pub encoding: Encoding,
    pub answer: BodyFormat,
    /// True if the response becomes a file while it arrives.
    pub is_download: bool,
    /// The type of the response.
    pub answers: ResultType,
    /// The pagination; `None` if the result is not a paged list.
    pub paging: Option<Paging>,
    /// The work that the request starts; `None` if the response is all.
    pub operation: Option<Operation>,
    /// The upload of a file for which the request begins a session; `None` if it sends all.
    pub upload: Option<Upload>,
    /// True if the request is a GraphQL query or mutation, whose result is the `data` of the response.
    pub is_graphql: bool,
    pub idempotency: Idempotency,
    pub rules: Arc<RequestRules>,
    /// The response to the request of the example; `None` if the example has none.
    pub example_answer: Option<Value>,
    /// The last response of the example's operation; `None` without an operation.
    pub example_status: Option<StatusExample>,
}

/// A part of a path: constant text, or an input.
#[derive(Debug, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    Input(String),
}

/// The placement of an input in the request.
#[derive(Debug)]
pub(crate) struct InputPlacement {
    pub input: String,
    pub places: Vec<RequestLocation>,
    /// The value that is left out of the request, because it is the default of the service.
    pub omit: Option<Value>,
    /// The separator that joins list items in one parameter; `None` to repeat the parameter.
    pub join: Option<String>,
    /// The separator that splits a text passed for a list.
    pub split: Option<String>,
    /// True if an empty text is an error, because the request without it would have another meaning.
    pub not_empty: bool,
    /// The other input, and the value of it with which this input is optional.
    pub required_unless: Option<(String, String)>,
}

/// A location in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestLocation {
    /// The `{…}` of the path with the input's name.
    Path,
    /// A query parameter; `None` spreads the entries of a map, which replace other parameters.
    Query(Option<String>),
    /// A header; `None` spreads the entries of a map.
    Header(Option<String>),
    /// A path in the body; `None` is the whole body.
    Body(Option<Vec<String>>),
    /// The file that an upload sends.
    Upload,
}

/// The encoding of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    /// A form with one field for each entry: a list repeats the field, a map is JSON.
    Form,
    /// A form that writes what is inside lists and maps in brackets: `items[0][price]`.
    BracketedForm,
    /// A form in which lists and maps are JSON.
    JsonForm,
    Multipart,
}

/// A callable action of a manifest.
pub(crate) struct RestAction {
    pub head: Arc<Head>,
    pub definition: Definition,
}

/// The settings of a native action in a manifest.
#[derive(Debug, Default)]
pub(crate) struct NativeSettings {
    /// The name of the native action.
    pub name: &'static str,
    /// The constant path, for native actions that call a single path.
    pub path: Option<String>,
    /// The `with` of its example.
    pub example: Value,
}

/// Builds a native action for a connector. The error is for the author of the manifest.
pub(crate) type BuildNative<'a> =
    &'a (dyn Fn(&Arc<Head>, &NativeSettings) -> Result<Arc<dyn Action>, String> + Sync);

/// The native actions that a manifest may enable, by name.
pub(crate) type Natives<'a> = [(&'static str, BuildNative<'a>)];

#[cfg(test)]
mod tests;
