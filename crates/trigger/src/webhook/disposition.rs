//! A parser for the parameters of `Content-Disposition` and `Content-Type` headers, as tolerant as senders require.

/// A header value.
#[derive(Clone, Copy)]
pub(super) struct Disposition<'a>(pub(super) &'a [u8]);

impl Disposition<'_> {
    /// The value of a parameter, whose name is case-insensitive. In quotes, `\"` is a quote and any other backslash literal, as
    /// browsers that send Windows paths expect; without quotes it ends at a `;` or a space. `None` if it is missing or not UTF-8.
    pub(super) fn value(self, name: &str) -> Option<String> {
        let mut rest = self.0;
        // The part before the first `;` is the type.
        loop {
            rest = skip_to_parameter(rest)?;
            let length = rest.iter().position(|byte| matches!(byte, b'=' | b';'))?;
            let found = rest[..length].trim_ascii();
            if rest[length] == b';' {
                rest = &rest[length..];
                continue;
            }
            let (value, after) = parse_value(rest[length + 1..].trim_ascii_start())?;
            if found.eq_ignore_ascii_case(name.as_bytes()) {
                return String::from_utf8(value).ok();
            }
            rest = after;
        }
    }
}

/// The text after the next `;`.
fn skip_to_parameter(text: &[u8]) -> Option<&[u8]> {
    let at = text.iter().position(|byte| *byte == b';')?;
    Some(text[at + 1..].trim_ascii_start())
}

/// A parameter value and the remaining text.
fn parse_value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|byte| matches!(byte, b';' | b' ')).unwrap_or(text.len());
        return Some((text[..end].to_vec(), &text[end..]));
    };
    let mut value = Vec::new();
    let mut at = 0;
    loop {
        match (quoted.get(at)?, quoted.get(at + 1)) {
            (b'\\', Some(b'"')) => {
                value.push(b'"');
                at += 2;
            }
            (b'"', _) => return Some((value, &quoted[at + 1..])),
            (byte, _) => {
                value.push(*byte);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn check(header: &str, name: &str, expected: Option<&str>) {
        assert_eq!(Disposition(header.as_bytes()).value(name).as_deref(), expected, "{header}");
    }

    #[test]
    fn parameters_are_read_with_and_without_quotes_in_any_order() {
        check("form-data; name=\"a\"; filename=\"b c.txt\"", "name", Some("a"));
        check("form-data; filename=\"name=x; y.txt\"; name=a", "name", Some("a"));
        check("form-data; filename=\"name=x; y.txt\"; name=a", "filename", Some("name=x; y.txt"));
        check("form-data; Name = \"a\"", "name", Some("a"));
        check("form-data; name=\"\"", "name", Some(""));
        check("form-data; name=", "name", Some(""));
        check("form-data", "name", None);
        check("form-data; x; name=a", "name", Some("a"));
        check("multipart/form-data; charset=utf-8; boundary=\"a;b\"", "boundary", Some("a;b"));
    }

    #[test]
    fn a_quote_is_escaped_and_a_path_of_windows_is_not() {
        check(r#"form-data; name="a\"b""#, "name", Some("a\"b"));
        check(r#"form-data; name="C:\new\x.txt""#, "name", Some("C:\\new\\x.txt"));
        check("form-data; name=\"open", "name", None);
    }
}
