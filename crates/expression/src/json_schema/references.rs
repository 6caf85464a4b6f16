//! References inside a schema: the resources of a document (`$id`), their anchors, and the targets of `$ref`.
//!
//! RFC 6901 for pointers, RFC 3986 for addresses, JSON Schema Core 2020-12 sections 8.2 and 9.

use std::collections::HashMap;

use serde_json::Value;
use url::Url;

use super::{EXTERNAL_REFERENCE, keywords};

/// The base URI of a document without an `$id`.
pub(super) const ADDRESS: &str = "schema:///";

/// A part of the document with its own URI; the first resource is the whole document.
struct Resource {
    url: Url,
    /// The JSON Pointer of the part.
    pointer: String,
}

/// The resources and anchors of a document.
pub(super) struct References {
    resources: Vec<Resource>,
    /// Anchors by resource and name: the pointer, and true for a dynamic anchor.
    anchors: HashMap<(usize, String), (String, bool)>,
}

/// The target of a reference.
pub(super) struct Target {
    /// The JSON Pointer in the document.
    pub(super) pointer: String,
    /// The name of the dynamic anchor, if the reference names one.
    pub(super) dynamic: Option<String>,
}

impl References {
    /// Collects the URIs and anchors of a document.
    ///
    /// # Errors
    /// Returns the pointer of an `$id` that is not a URI.
    pub(super) fn read(document: &Value) -> Result<Self, String> {
        let url = Url::parse(ADDRESS).map_err(|_| String::new())?;
        let root = Resource { url, pointer: String::new() };
        let mut references = Self { resources: vec![root], anchors: HashMap::new() };
        references.visit(document, "", 0)?;
        Ok(references)
    }

    fn visit(&mut self, schema: &Value, at: &str, within: usize) -> Result<(), String> {
        let Some(map) = schema.as_object() else { return Ok(()) };
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        let mut resource = within;
        // The fragment of a URI is irrelevant here; a URI of a fragment alone does not start a resource.
        let id = text("$id").map(|id| id.split('#').next().unwrap_or_default());
        if let Some(id) = id.filter(|id| !id.is_empty()) {
            let url = self.resources[within].url.join(id).map_err(|_| format!("{at}/$id"))?;
            if at.is_empty() {
                self.resources[0].url = url;
            } else {
                resource = self.resources.len();
                self.resources.push(Resource { url, pointer: at.to_owned() });
            }
        }
        for (key, is_dynamic) in [("$anchor", false), ("$dynamicAnchor", true)] {
            if let Some(name) = text(key) {
                self.anchors.insert((resource, name.to_owned()), (at.to_owned(), is_dynamic));
            }
        }
        let mut result = Ok(());
        keywords::visit_subschemas(map, at, &mut |schema, at| {
            if result.is_ok() {
                result = self.visit(schema, at, resource);
            }
        });
        result
    }

    /// The number of resources.
    pub(super) fn len(&self) -> usize {
        self.resources.len()
    }

    /// The innermost resource that contains a pointer.
    pub(super) fn resource(&self, pointer: &str) -> usize {
        let encloses = |outer: &str| {
            pointer.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let enclosing = self.resources.iter().enumerate().filter(|(_, resource)| encloses(&resource.pointer));
        enclosing.max_by_key(|(_, resource)| resource.pointer.len()).map_or(0, |(index, _)| index)
    }

    /// The dynamic anchors of a resource, with their pointers.
    pub(super) fn dynamic_anchors(&self, resource: usize) -> impl Iterator<Item = (&str, &str)> {
        let anchors = self.anchors.iter();
        anchors
            .filter(move |((within, _), (_, is_dynamic))| *within == resource && *is_dynamic)
            .map(|((_, name), (pointer, _))| (name.as_str(), pointer.as_str()))
    }

    /// Resolves `reference` relative to `resource`.
    ///
    /// # Errors
    /// Returns a message if the reference leads nowhere or out of the document.
    pub(super) fn resolve(&self, resource: usize, reference: &str) -> Result<Target, String> {
        let missing = || format!("there is no `{reference}` in this schema");
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let resource = if address.is_empty() {
            resource
        } else {
            let mut url =
                self.resources[resource].url.join(address).map_err(|_| EXTERNAL_REFERENCE.to_owned())?;
            url.set_fragment(None);
            let found = self.resources.iter().position(|resource| resource.url == url);
            found.ok_or_else(|| EXTERNAL_REFERENCE.to_owned())?
        };
        let fragment = percent_encoding::percent_decode_str(fragment).decode_utf8().map_err(|_| missing())?;
        if fragment.is_empty() || fragment.starts_with('/') {
            let pointer = format!("{}{fragment}", self.resources[resource].pointer);
            return Ok(Target { pointer, dynamic: None });
        }
        let anchor = self.anchors.get(&(resource, fragment.clone().into_owned())).ok_or_else(missing)?;
        let (pointer, is_dynamic) = anchor.clone();
        Ok(Target { pointer, dynamic: is_dynamic.then(|| fragment.into_owned()) })
    }
}
