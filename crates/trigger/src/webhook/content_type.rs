//! The content type of a body, which selects its parser.

/// The largest body that is parsed as JSON, a form or text, in bytes; such a body is in memory as a whole.
pub const MAX_PARSED_BYTES: usize = 25 << 20;

/// The content type of bytes without a declared one.
pub(crate) const UNKNOWN: &str = "application/octet-stream";

/// Text types outside `text/`.
const TEXT: [&str; 6] = [
    "application/csv",
    "application/graphql",
    "application/javascript",
    "application/x-ndjson",
    "application/xml",
    "application/yaml",
];

/// The parser of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No content type was sent.
    Unknown,
    /// `application/json`, `text/json` or any `+json`.
    Json,
    /// `application/x-www-form-urlencoded`.
    Form,
    /// `multipart/form-data`.
    Multipart,
    /// Text, XML, CSV.
    Text,
    /// Anything else.
    Binary,
}

/// The kind of a body with this `Content-Type` header.
pub(crate) fn kind(content_type: &str) -> Kind {
    let essence = essence(content_type);
    match essence.as_str() {
        "" => Kind::Unknown,
        "application/json" | "text/json" => Kind::Json,
        "application/x-www-form-urlencoded" => Kind::Form,
        "multipart/form-data" => Kind::Multipart,
        // An image is a file even if its format is XML.
        image if image.starts_with("image/") => Kind::Binary,
        text if text.starts_with("text/") || TEXT.contains(&text) || text.ends_with("+xml") => Kind::Text,
        json if json.ends_with("+json") => Kind::Json,
        _ => Kind::Binary,
    }
}

/// The type and subtype in lower case: `text/html` for `Text/HTML; charset=utf-8`.
pub(crate) fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_decides_the_parser() {
        let check = |content_type: &str, expected| assert_eq!(kind(content_type), expected, "{content_type}");
        check("", Kind::Unknown);
        check("application/json", Kind::Json);
        check("Application/JSON ; charset=utf-8", Kind::Json);
        check("text/json", Kind::Json);
        check("application/vnd.wiki.page+json;v=2", Kind::Json);
        check("application/x-www-form-urlencoded; charset=UTF-8", Kind::Form);
        check("multipart/form-data; boundary=x", Kind::Multipart);
        check("multipart/mixed; boundary=x", Kind::Binary);
        check("text/xml", Kind::Text);
        check("application/soap+xml", Kind::Text);
        check("text/csv; header=present", Kind::Text);
        check("image/png", Kind::Binary);
        check("image/svg+xml", Kind::Binary);
        check("application/pdf", Kind::Binary);
        check("not a type at all", Kind::Binary);
    }
}
