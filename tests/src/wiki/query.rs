//! Reading query parameters and ids the way the v2 API does.

use super::error::ApiError;

/// The query of a request, in the order it was sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    raw: String,
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads the part after the `?`.
    pub(super) fn parse(raw: &str) -> Self {
        let pairs = url::form_urlencoded::parse(raw.as_bytes()).into_owned().collect();
        Self { raw: raw.to_owned(), pairs }
    }

    /// The same with other values; the query as it was sent stays what it was.
    pub(super) fn map(self, value: impl Fn(&str, String) -> String) -> Self {
        let pairs = self.pairs.into_iter().map(|(name, text)| {
            let text = value(&name, text);
            (name, text)
        });
        Self { raw: self.raw, pairs: pairs.collect() }
    }

    /// All pairs, decoded.
    pub(super) fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    /// The query as it was sent, without the parameter of this name.
    pub(super) fn raw_without<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.raw.split('&').filter(move |pair| !pair.is_empty() && pair.split('=').next() != Some(name))
    }

    /// The first value of this name. An empty one counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .filter(|text| !text.is_empty())
    }

    /// The values of an array parameter: comma-separated, repeated, or both. `None` when it is absent.
    pub(super) fn array(&self, name: &str) -> Option<Vec<&str>> {
        let values: Vec<&str> = self
            .pairs
            .iter()
            .filter(|(key, _)| key == name)
            .flat_map(|(_, value)| value.split(','))
            .map(str::trim)
            .filter(|value| !value.is_empty())
            .collect();
        (!values.is_empty()).then_some(values)
    }

    /// A boolean written as `true` or `false`.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, ApiError> {
        match self.get(name) {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(wrong_type(name, other, "boolean")),
        }
    }

    /// A positive 32-bit number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u32>, ApiError> {
        self.get(name).map(|text| text.parse().map_err(|_| wrong_type(name, text, "int"))).transpose()
    }

    /// A list of ids of at most `most` entries.
    pub(super) fn ids(&self, name: &str, most: usize) -> Result<Option<Vec<u64>>, ApiError> {
        let Some(texts) = self.array(name) else { return Ok(None) };
        if texts.len() > most {
            return Err(ApiError::bad_parameter(
                format!("The parameter '{name}' takes at most {most} values"),
                None,
            ));
        }
        texts.into_iter().map(|text| parse_id(name, text)).collect::<Result<_, _>>().map(Some)
    }

    /// One of a closed set of words, or nothing.
    pub(super) fn one_of<'a>(&self, name: &str, allowed: &[&'a str]) -> Result<Option<&'a str>, ApiError> {
        self.get(name).map(|text| allowed_word(name, text, allowed)).transpose()
    }

    /// Several of a closed set of words. `None` when the parameter is absent.
    pub(super) fn some_of<'a>(
        &self,
        name: &str,
        allowed: &[&'a str],
    ) -> Result<Option<Vec<&'a str>>, ApiError> {
        let Some(texts) = self.array(name) else { return Ok(None) };
        texts.into_iter().map(|text| allowed_word(name, text, allowed)).collect::<Result<_, _>>().map(Some)
    }
}

fn allowed_word<'a>(name: &str, text: &str, allowed: &[&'a str]) -> Result<&'a str, ApiError> {
    allowed.iter().find(|word| **word == text).copied().ok_or_else(|| {
        ApiError::bad_parameter(
            format!("The value '{text}' is not valid for '{name}'. Valid values: {}", allowed.join(", ")),
            None,
        )
    })
}

/// Reads an id of a page, space, custom content or property: a decimal 64-bit number. Anything else is 400; a negative
/// number names nothing, so it becomes 0, which no record has.
pub(super) fn parse_id(name: &str, text: &str) -> Result<u64, ApiError> {
    match text.parse::<i64>() {
        Ok(id) => Ok(u64::try_from(id).unwrap_or(0)),
        Err(_) => Err(wrong_type(name, text, "long")),
    }
}

/// Reads an attachment id, with or without its `att` prefix.
pub(super) fn parse_attachment_id(text: &str) -> Result<u64, ApiError> {
    let digits = text.strip_prefix("att").unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong_type("attachment-id", text, "(att)?[0-9]+"));
    }
    parse_id("attachment-id", digits)
}

/// 400 for a value of the wrong type.
pub(super) fn wrong_type(name: &str, value: &str, expected: &str) -> ApiError {
    let shown: String = value.chars().take(100).collect();
    ApiError::bad_parameter(
        format!("The value {{{shown}}} for '{name}' is not the correct type. Expected type is {expected}"),
        None,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_may_be_comma_separated_repeated_or_both() {
        let query = Query::parse("status=current,archived&limit=5&status=trashed");
        assert_eq!(query.array("status"), Some(vec!["current", "archived", "trashed"]));
        assert_eq!(query.array("id"), None);
        assert_eq!(Query::parse("id=").array("id"), None);
    }

    #[test]
    fn ids_are_64_bit_and_nothing_else() {
        assert_eq!(parse_id("id", "9007199254740993").unwrap(), 9_007_199_254_740_993);
        assert_eq!(parse_id("id", "-5").unwrap(), 0);
        assert_eq!(parse_id("id", "9223372036854775808").unwrap_err().status(), 400);
        assert_eq!(parse_id("id", "DEMO").unwrap_err().status(), 400);
        assert_eq!(parse_attachment_id("att77").unwrap(), 77);
        assert_eq!(parse_attachment_id("77").unwrap(), 77);
        assert_eq!(parse_attachment_id("att-7").unwrap_err().status(), 400);
    }

    #[test]
    fn flags_are_true_or_false_and_too_many_ids_are_refused() {
        let query = Query::parse("purge=true&draft=yes&id=1,2,3");
        assert!(query.flag("purge", false).unwrap());
        assert!(!query.flag("absent", false).unwrap());
        assert_eq!(query.flag("draft", false).unwrap_err().status(), 400);
        assert_eq!(query.ids("id", 2).unwrap_err().status(), 400);
        assert_eq!(query.ids("id", 3).unwrap(), Some(vec![1, 2, 3]));
    }

    #[test]
    fn the_rest_of_a_query_keeps_its_order_and_its_escapes() {
        let query = Query::parse("a=1%2C2&cursor=x==&b=c%20d&&cursored=y");
        assert_eq!(query.raw_without("cursor").collect::<Vec<_>>(), ["a=1%2C2", "b=c%20d", "cursored=y"]);
    }
}
