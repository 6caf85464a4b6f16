//! Templates that read secrets, and the parts of a secret that they may read.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use catalog::Catalog;
use connector::ConnectionType;
use connector::secret_provider::ProvidedSecret;
use expression::Reference;
use expression::template::Template;
use model::Connection;
use model::action::{ActionError, ErrorKind};
use value::Secret;

use crate::error::Error;

/// The secrets that templates name, as they were read.
pub(super) type Values = HashMap<String, Result<Option<Arc<ProvidedSecret>>, Error>>;

/// The `error.code` of a failure that ends when the provider of a secret answers again.
pub const PROVIDER_FAILURE: &str = "secretProvider";

/// A template with its place in messages.
pub(super) struct Reading<'t> {
    pub(super) place: String,
    pub(super) template: &'t Template,
    pub(super) references: Vec<Reference>,
}

impl<'t> Reading<'t> {
    pub(super) fn new(place: impl Into<String>, template: &'t Template) -> Self {
        let references = if template.literal().is_some() { Vec::new() } else { template.references() };
        Self { place: place.into(), template, references }
    }

    /// Returns true if the template reads the whole of a secret.
    fn reads_text_of(&self, name: &str) -> bool {
        let is_text = |reference: &Reference| match &*reference.path {
            [root, of] => root == "secrets" && of == name,
            _ => false,
        };
        self.references.iter().any(is_text)
    }
}

/// Returns the names of the secrets that templates read.
pub(super) fn names<'r>(readings: &'r [Reading<'_>]) -> BTreeSet<&'r str> {
    let references = readings.iter().flat_map(|reading| &reading.references);
    let names = references.filter_map(|reference| match &*reference.path {
        [root, name, ..] if root == "secrets" => Some(name.as_str()),
        _ => None,
    });
    names.collect()
}

/// Returns the inputs of a connection, in the order of its file.
pub(super) fn of_connection<'c>(catalog: &'c Catalog, name: &str) -> Result<Vec<Reading<'c>>, ActionError> {
    let (connection, _) = find_connection(catalog, name)?;
    let reading = |(input, template): &'c (model::automation::SpannedName, Template)| {
        Reading::new(format!("connection `{name}`, `{}`", input.name), template)
    };
    Ok(connection.with.iter().map(reading).collect())
}

/// Finds a connection with its type.
pub(super) fn find_connection<'c>(
    catalog: &'c Catalog,
    name: &str,
) -> Result<(&'c Connection, &'c ConnectionType), ActionError> {
    let connection = catalog.connection(name).ok_or_else(|| {
        failed(format!("there is no connection `{name}`; make the file connections/{name}.yaml"))
    })?;
    let kind = catalog
        .registry()
        .connection_type(&connection.kind)
        .ok_or_else(|| failed(format!("connection `{name}`: there is no type `{}`", connection.kind)))?;
    Ok((connection, kind))
}

/// Returns the text of a secret.
///
/// # Errors
/// Returns a sentence if it has fields and no text.
pub(super) fn text<'f>(name: &str, found: &'f ProvidedSecret) -> Result<&'f Secret, String> {
    found.text().ok_or_else(|| {
        let example = found.fields().keys().next().map_or("FIELD", String::as_str);
        format!(
            "the secret `{name}` has the fields {}, and no field `value`; read one of them: `secrets.{name}.{example}`",
            field_names(found)
        )
    })
}

/// Returns a field of a secret; `None` if it has none of this name, and the reference is optional.
pub(super) fn field<'f>(
    reading: &Reading<'_>,
    (name, found): (&str, &'f ProvidedSecret),
    field: &str,
) -> Result<Option<&'f Secret>, ActionError> {
    let place = &reading.place;
    if reading.reads_text_of(name) {
        let message = format!(
            "{place}: it reads the secret `{name}` as a whole and by its fields; read the fields only"
        );
        return Err(failed(message));
    }
    let is_this = |reference: &&Reference| match &*reference.path {
        [root, of, named, ..] => root == "secrets" && of == name && named == field,
        _ => false,
    };
    let value = found.fields().get(field);
    if value.is_some() || reading.references.iter().filter(is_this).all(|reference| reference.optional) {
        return Ok(value);
    }
    let has = match found.fields().is_empty() {
        true => "it is a plain text".to_owned(),
        false => format!("it has {}", field_names(found)),
    };
    Err(failed(format!("{place}: the secret `{name}` has no field `{field}`; {has}")))
}

fn field_names(found: &ProvidedSecret) -> String {
    let names: Vec<String> = found.fields().keys().take(20).map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

pub(super) fn failed(message: String) -> ActionError {
    ActionError::new(ErrorKind::Connection, message)
}

pub(super) fn unreadable(place: &str, name: &str, error: &Error) -> ActionError {
    let failure = failed(format!("{place}: the secret `{name}` cannot be read: {error}"));
    match error {
        Error::SecretProvider(_) => failure.with_code(PROVIDER_FAILURE),
        _ => failure,
    }
}
