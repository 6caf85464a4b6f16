//! Inputs of a connection, one of several names.

use value::Map;

/// Returns the first of these inputs that is set.
pub(super) fn first<'i>(inputs: &'i Map, names: &[String]) -> Result<&'i str, String> {
    given(inputs, names).ok_or_else(|| match names {
        [one] => format!("`{one}` is empty"),
        several => format!("one of `{}` must be given", several.join("`, `")),
    })
}

/// Returns the first of these inputs that is set, if one is.
pub(super) fn given<'i>(inputs: &'i Map, names: &[String]) -> Option<&'i str> {
    names.iter().filter_map(|name| inputs.get(name)?.as_str()).find(|text| !text.is_empty())
}
