//! Connectors as data: a manifest as it is checked, and the reading, the interpreting and the proving of it.
//!
//! A manifest holds no logic: no condition, no loop, no template beyond naming an input. Each action is one request
//! line and the place of each input in it; each carries an example that is checked without a network.

pub(crate) mod all;
mod example;
mod interpret;
pub(crate) mod page;
mod read;
mod schema;

use std::sync::Arc;

use ::http::Method;
use model::{ActionSpec, ResultType, Span, Value};

use crate::action::Action;
use crate::connection::{BaseUrl, ConnectionType};
use crate::event::EventSpec;
use crate::http::{ErrorShape, Reading};

pub(crate) use example::Example;
pub use example::{Shown, show};
pub(crate) use interpret::empty_filter;
pub(crate) use read::{examples, read};
pub(crate) use schema::manifest as schema;

/// A checked manifest.
pub(crate) struct Manifest {
    pub head: Arc<Head>,
    /// Where the name stands, for a clash with another manifest.
    pub name_span: Span,
    pub connections: Vec<ConnectionType>,
    pub actions: Vec<Arc<dyn Action>>,
    pub events: Vec<EventSpec>,
}

/// What all actions of a connector share.
#[derive(Debug)]
pub(crate) struct Head {
    pub name: String,
    pub title: String,
    pub version: String,
    pub description: Option<String>,
    /// Who is called, in the words of messages: `the wiki`.
    pub subject: String,
    /// The address of every call, unless a connection names another.
    pub base: Option<BaseUrl>,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
    pub paging: Option<Paging>,
    pub errors: ErrorShape,
    /// The full names of the connection types.
    pub connection_types: Vec<String>,
    pub connection_required: bool,
}

/// How lists go on.
#[derive(Clone, Debug)]
pub(crate) struct Paging {
    /// The input that takes the cursor, the number of the page or the offset.
    pub input: String,
    pub style: PagingStyle,
    /// The path of the items in an answer. Without it they are under `results`, or the answer is a list itself.
    pub items: Option<String>,
    /// The input that says how many items an answer has at most.
    pub limit: Option<String>,
}

/// What the next page is asked for with.
#[derive(Clone, Debug)]
pub(crate) enum PagingStyle {
    /// What an answer says, in the order the places are tried.
    Cursor(Vec<Next>),
    /// A count of pages or of items.
    Counted(Counted),
}

/// A list whose pages are counted.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub unit: Unit,
    /// The path of what is true as long as there are more.
    pub more: Option<String>,
    /// The path of how many units there are in all.
    pub total: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Pages, of which the first has this number.
    Page { first: i64 },
    /// Items before the page.
    Offset,
}

/// One place where an answer may say how to go on.
#[derive(Clone, Debug)]
pub(crate) struct Next {
    pub source: NextSource,
    /// The query parameter of the link that holds the cursor; without one, what is found is the cursor.
    pub parameter: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum NextSource {
    /// A path in the body.
    Body(String),
    /// The entry of the `Link` header with this relation.
    Link(String),
    /// A header.
    Header(String),
}

/// An action that a manifest declares.
#[derive(Debug)]
pub(crate) struct Definition {
    pub spec: ActionSpec,
    pub method: Method,
    pub path: Vec<Piece>,
    /// Parameters that the request line itself has.
    pub query: Vec<(String, String)>,
    pub wires: Vec<Wire>,
    /// Values that are always sent.
    pub fixed: Vec<(Place, Value)>,
    pub encoding: Encoding,
    pub answer: Reading,
    /// What an answer is.
    pub answers: ResultType,
    /// How it goes on, for a list that does.
    pub paging: Option<Paging>,
}

/// A piece of a path.
#[derive(Debug, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    Input(String),
}

/// Where an input goes.
#[derive(Debug)]
pub(crate) struct Wire {
    pub input: String,
    pub places: Vec<Place>,
    /// The value that is not sent, because it is what the other side does anyway.
    pub omit: Option<Value>,
    /// What joins the items of a list in one parameter; without it the parameter is repeated.
    pub join: Option<String>,
    /// What separates several items in a text of a list.
    pub split: Option<String>,
    /// Whether an empty text is an error, since the request would mean something else without it.
    pub not_empty: bool,
    /// The input and its value with which alone this one may be left out.
    pub required_unless: Option<(String, String)>,
}

/// One place in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The `{…}` of the path that has the input's name.
    Path,
    /// A parameter, or with no name all entries of a map, which take the place of others.
    Query(Option<String>),
    /// A header, or with no name all entries of a map.
    Header(Option<String>),
    /// A path in the body, or with no path the whole of it.
    Body(Option<Vec<String>>),
}

/// How the body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Form,
    Multipart,
}

/// An action of a manifest, ready to be called.
pub(crate) struct Rest {
    pub head: Arc<Head>,
    pub definition: Definition,
}

/// What a manifest says of a native action that it switches on.
#[derive(Debug, Default)]
pub(crate) struct NativeSettings {
    /// The address's path, for a native that always calls the same.
    pub path: Option<String>,
    /// The `with` of its example.
    pub example: Value,
}

/// Makes a native action for a connector; the error is for whoever wrote the manifest.
pub(crate) type BuildNative = fn(&Arc<Head>, &NativeSettings) -> Result<Arc<dyn Action>, String>;

/// The native actions that a manifest may switch on, by name.
pub(crate) type Natives = [(&'static str, BuildNative)];

#[cfg(test)]
mod tests;
