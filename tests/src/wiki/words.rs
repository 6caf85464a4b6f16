//! The words by which a wiki calls its parts. The simulator speaks neutral ones; a product has its own, and with those a
//! client that was made for the product can be pointed at it.
//!
//! Everything behind this module knows the neutral words alone: a call is translated before it is answered, and the answer
//! before it is written. Where a product has a word of its own, the neutral one is no longer known.

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reply::Reply;

/// The words of a product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Words {
    /// The product in scopes and in the reasons of refusals: `read:page:wiki`, `wiki-burst-based`.
    pub product: String,
    /// The product in paths of the gateway: `/ex/wiki/{cloudId}`.
    pub path_slug: String,
    /// The JSON format of bodies.
    pub document_format: String,
    /// The header without which the older API takes no upload, in lower case.
    pub upload_header: String,
}

impl Default for Words {
    fn default() -> Self {
        Self {
            product: "wiki".to_owned(),
            path_slug: "wiki".to_owned(),
            document_format: DOCUMENT.to_owned(),
            upload_header: UPLOAD_HEADER.to_owned(),
        }
    }
}

const PRODUCT: &str = "wiki";
const DOCUMENT: &str = "wiki_doc_format";
/// The neutral header of uploads.
pub(super) const UPLOAD_HEADER: &str = "x-wiki-token";

impl Words {
    /// Reads `name=word,name=word`, as the program's option has it.
    ///
    /// # Errors
    /// A name that there is not, or an entry without a word.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, word) = entry.split_once('=').unwrap_or((entry, ""));
            let slot = match name {
                "product" => &mut words.product,
                "pathSlug" => &mut words.path_slug,
                "documentFormat" => &mut words.document_format,
                "uploadHeader" => &mut words.upload_header,
                _ => {
                    return Err(format!(
                        "`{name}` is no word; there are product, pathSlug, documentFormat and uploadHeader"
                    ));
                }
            };
            if word.is_empty() {
                return Err(format!("`{name}` has no word; write it like `{name}=word`"));
            }
            *slot = word.to_owned();
        }
        words.upload_header.make_ascii_lowercase();
        Ok(words)
    }

    fn is_neutral(&self) -> bool {
        *self == Self::default()
    }

    /// The neutral path. One with the neutral slug becomes unknown where the product has its own.
    pub(super) fn path(&self, path: &str) -> String {
        match path.strip_prefix("/ex/").and_then(|rest| rest.split_once('/')) {
            Some((slug, rest)) if slug == self.path_slug => format!("/ex/wiki/{rest}"),
            Some((_, rest)) => format!("/ex/-/{rest}"),
            None => path.to_owned(),
        }
    }

    /// The neutral value of a query parameter.
    pub(super) fn query_value(&self, name: &str, value: String) -> String {
        match name {
            "body-format" => self.format(&value).to_owned(),
            "scope" => self.scopes(&value),
            _ => value,
        }
    }

    /// The format's neutral word; that word itself is exchanged for the product's, which nobody knows here.
    fn format<'a>(&'a self, word: &'a str) -> &'a str {
        if word == self.document_format {
            DOCUMENT
        } else if word == DOCUMENT {
            &self.document_format
        } else {
            word
        }
    }

    fn scopes(&self, text: &str) -> String {
        if self.product == PRODUCT {
            return text.to_owned();
        }
        let scopes = text.split(' ').map(|scope| match scope.contains(&self.product) {
            true => scope.replace(&self.product, PRODUCT),
            // A neutral one is unknown.
            false => scope.replace(PRODUCT, "-"),
        });
        scopes.collect::<Vec<_>>().join(" ")
    }

    /// The neutral headers.
    pub(super) fn headers(&self, mut headers: HeaderMap) -> HeaderMap {
        if self.upload_header != UPLOAD_HEADER {
            headers.remove(UPLOAD_HEADER);
            let own = HeaderName::from_bytes(self.upload_header.as_bytes()).ok();
            if let Some(value) = own.and_then(|own| headers.remove(own)) {
                headers.insert(HeaderName::from_static(UPLOAD_HEADER), value);
            }
        }
        headers
    }

    /// The neutral body of a call. Only the words of the API itself are exchanged, no content.
    pub(super) fn body(&self, body: Bytes) -> Bytes {
        if self.is_neutral() {
            return body;
        }
        let Ok(Value::Object(mut map)) = serde_json::from_slice::<Value>(&body) else { return body };
        if let Some(Value::String(scope)) = map.get_mut("scope") {
            *scope = self.scopes(scope);
        }
        if let Some(content) = map.get_mut("body") {
            self.exchange(content);
        }
        serde_json::to_vec(&map).map_or(body, Bytes::from)
    }

    /// Exchanges the words of a body of a page: `{representation, value}`, or the same below its format.
    fn exchange(&self, content: &mut Value) {
        let Value::Object(map) = content else { return };
        let entries = std::mem::take(map);
        for (key, mut value) in entries {
            match &mut value {
                Value::String(word) if key == "representation" => *word = self.format(word).to_owned(),
                Value::Object(_) => self.exchange(&mut value),
                _ => {}
            }
            map.insert(self.format(&key).to_owned(), value);
        }
    }

    /// Puts the product's words into an answer.
    pub(super) fn dress(&self, reply: &mut Reply) {
        if self.is_neutral() {
            return;
        }
        let reason = reply.headers.get("ratelimit-reason").and_then(|value| value.to_str().ok());
        if let Some(reason) = reason.and_then(|reason| reason.strip_prefix("wiki-")) {
            let reason = format!("{}-{reason}", self.product);
            reply.set("ratelimit-reason", &reason);
        }
        let Ok(mut value) = serde_json::from_slice::<Value>(&reply.body) else { return };
        if reply.status.is_success() {
            self.dress_value(&mut value);
        } else {
            self.dress_texts(&mut value);
        }
        if let Ok(body) = serde_json::to_vec(&value) {
            reply.body = body.into();
        }
    }

    fn dress_value(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.dress_value(item)),
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    match (key.as_str(), value) {
                        ("body", content) => self.exchange(content),
                        ("scope", Value::String(scope)) => *scope = scope.replace(PRODUCT, &self.product),
                        ("scopes", scopes) => self.dress_scopes(scopes),
                        // The content of a property is its author's.
                        ("value", _) => {}
                        (_, value) => self.dress_value(value),
                    }
                }
            }
            _ => {}
        }
    }

    fn dress_scopes(&self, scopes: &mut Value) {
        for scope in scopes.as_array_mut().into_iter().flatten() {
            if let Value::String(scope) = scope {
                *scope = scope.replace(PRODUCT, &self.product);
            }
        }
    }

    fn dress_texts(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.dress_texts(item)),
            Value::Object(map) => map.values_mut().for_each(|value| self.dress_texts(value)),
            Value::String(text) if text.contains(DOCUMENT) => {
                *text = text.replace(DOCUMENT, &self.document_format);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words() -> Words {
        Words::parse("product=acme, pathSlug=acmewiki,documentFormat=acme_doc,uploadHeader=X-Acme-Token")
            .unwrap()
    }

    #[test]
    fn a_call_in_the_products_words_is_read_and_one_in_neutral_words_is_not() {
        let words = words();
        assert_eq!(words.path("/ex/acmewiki/1/wiki/api/v2/pages"), "/ex/wiki/1/wiki/api/v2/pages");
        assert_eq!(words.path("/ex/wiki/1/wiki/api/v2/pages"), "/ex/-/1/wiki/api/v2/pages");
        assert_eq!(words.path("/wiki/api/v2/pages"), "/wiki/api/v2/pages");
        assert_eq!(words.query_value("body-format", "acme_doc".to_owned()), DOCUMENT);
        assert_eq!(words.query_value("body-format", DOCUMENT.to_owned()), "acme_doc");
        assert_eq!(words.query_value("title", DOCUMENT.to_owned()), DOCUMENT);
        let scopes = words.query_value("scope", "offline_access read:page:acme read:page:wiki".to_owned());
        assert_eq!(scopes, "offline_access read:page:wiki read:page:-");
        let body = json!({"title": "acme_doc", "body": {"acme_doc": {"representation": "acme_doc", "value": "acme_doc"}}});
        let read: Value = serde_json::from_slice(&words.body(body.to_string().into())).unwrap();
        let expected = json!({"title": "acme_doc", "body": {DOCUMENT: {"representation": DOCUMENT, "value": "acme_doc"}}});
        assert_eq!(read, expected);
        let mut headers = HeaderMap::new();
        headers.insert("x-acme-token", "no-check".parse().unwrap());
        assert_eq!(words.headers(headers)[UPLOAD_HEADER], "no-check");
    }

    #[test]
    fn an_answer_has_the_products_words_where_the_api_has_words() {
        let body = json!({
            "results": [{"body": {DOCUMENT: {"representation": DOCUMENT, "value": DOCUMENT}}, "value": {"body": {DOCUMENT: 1}}}],
            "scopes": ["read:page:wiki"]
        });
        let mut reply = Reply::ok(&body);
        words().dress(&mut reply);
        let expected = json!({
            "results": [{"body": {"acme_doc": {"representation": "acme_doc", "value": DOCUMENT}}, "value": {"body": {DOCUMENT: 1}}}],
            "scopes": ["read:page:acme"]
        });
        assert_eq!(serde_json::from_slice::<Value>(&reply.body).unwrap(), expected);
    }

    #[test]
    fn a_word_that_there_is_not_is_refused() {
        assert!(Words::parse("slug=x").unwrap_err().contains("`slug` is no word"));
        assert!(Words::parse("product").unwrap_err().contains("product=word"));
        assert_eq!(Words::parse(""), Ok(Words::default()));
    }
}
