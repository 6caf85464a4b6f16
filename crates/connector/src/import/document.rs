//! An OpenAPI document: its references, its address and its names.

use serde_json::Value;

/// The largest number of references in a chain.
const MAX_HOPS: usize = 16;

/// An OpenAPI document.
pub(crate) struct Document<'a> {
    pub root: &'a Value,
    /// True for version 2.0, which has another structure.
    pub is_v2: bool,
}

impl<'a> Document<'a> {
    pub(crate) fn new(root: &'a Value) -> Result<Self, String> {
        let version = |key: &str| root[key].as_str().unwrap_or_default();
        let is_v2 = version("swagger").starts_with("2.");
        if !is_v2 && !version("openapi").starts_with("3.") {
            return Err(
                "this is not an OpenAPI document: it says neither `openapi: 3.…` nor `swagger: \"2.0\"`"
                    .to_owned(),
            );
        }
        Ok(Self { root, is_v2 })
    }

    /// Resolves a reference; returns other values unchanged. References to other files are not resolved.
    pub(crate) fn resolve<'v>(&self, value: &'v Value) -> &'v Value
    where
        'a: 'v,
    {
        let mut value = value;
        for _ in 0..MAX_HOPS {
            let Some(target) = value["$ref"].as_str().and_then(|target| target.strip_prefix('#')) else {
                return value;
            };
            match self.root.pointer(&crate::http::decode(target)) {
                Some(found) => value = found,
                None => return &Value::Null,
            }
        }
        &Value::Null
    }

    /// Returns the address of the service; `None` if it contains variables.
    pub(super) fn address(&self) -> Option<String> {
        let address = if self.is_v2 {
            let host = self.root["host"].as_str()?;
            let scheme = self.root["schemes"].as_array().and_then(|schemes| {
                let has = |wanted: &str| schemes.iter().any(|scheme| scheme == wanted);
                (!has("https") && has("http")).then_some("http")
            });
            let path = self.root["basePath"].as_str().unwrap_or_default();
            format!("{}://{host}{path}", scheme.unwrap_or("https"))
        } else {
            self.root["servers"][0]["url"].as_str()?.to_owned()
        };
        let is_whole = address.starts_with("https://") || address.starts_with("http://");
        let parsed = crate::connection::BaseUrl::parse(&address, None).is_ok();
        (is_whole && parsed && !address.contains('{')).then(|| address.trim_end_matches('/').to_owned())
    }

    /// Returns the path in front of the paths of all operations, without a slash at its end; empty for most.
    pub(crate) fn base_path(&self) -> String {
        let address = &self.root["servers"][0]["url"];
        let path = match self.is_v2 {
            true => self.root["basePath"].as_str().unwrap_or_default(),
            false => {
                let address = address.as_str().unwrap_or_default();
                let host = address.split_once("://").map_or(address, |(_, rest)| rest);
                host.find('/').map_or("", |at| &host[at..])
            }
        };
        path.trim_end_matches('/').to_owned()
    }

    /// Returns the security schemes by name.
    pub(super) fn security(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let place = if self.is_v2 {
            &self.root["securityDefinitions"]
        } else {
            &self.root["components"]["securitySchemes"]
        };
        place.as_object().into_iter().flatten()
    }
}

/// Converts a text to camelCase with letters and digits only: `issues/list-for_repo` becomes `issuesListForRepo`.
pub(super) fn camel(text: &str) -> String {
    let mut name = String::new();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let is_first = name.is_empty();
        let shouts = word.chars().all(|c| !c.is_ascii_lowercase());
        let mut letters = word.chars();
        let first = letters.next().into_iter();
        match (is_first, shouts) {
            (true, true) => name.push_str(&word.to_ascii_lowercase()),
            (true, false) => name.extend(first.map(|c| c.to_ascii_lowercase()).chain(letters)),
            (false, _) => name.extend(first.map(|c| c.to_ascii_uppercase()).chain(letters)),
        }
    }
    match name.chars().next() {
        Some(first) if first.is_ascii_lowercase() => name,
        Some(_) => format!("n{name}"),
        None => "unnamed".to_owned(),
    }
}

/// Converts a text to PascalCase, for names of types.
pub(super) fn pascal(text: &str) -> String {
    let name = camel(text);
    let mut letters = name.chars();
    letters.next().into_iter().map(|first| first.to_ascii_uppercase()).chain(letters).collect()
}

/// Returns the first paragraph on one line, shortened.
pub(super) fn one_line(text: &str, most: usize) -> String {
    let paragraph = text.trim().split("\n\n").next().unwrap_or_default();
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    let kept: String = line.chars().take(most - 1).collect();
    format!("{}…", kept.trim_end())
}
