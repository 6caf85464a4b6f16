//! Estimates the memory of a value before it is parsed.

/// The bytes of memory that an item of a list or a form takes, besides its text: a value has 24 bytes, and a list that grows
/// has room for up to twice its items.
const ITEM: usize = 48;
/// The bytes of memory that an entry of a map takes besides: its key.
const ENTRY: usize = 48;
/// The bytes of memory that a list or map takes besides its items: its allocations and the room for the first items.
const CONTAINER: usize = 96;

/// Estimates the memory that the lists and maps in a text of JSON, or of a form, take besides that text, from the number of its
/// separators. Separators in strings count too.
#[must_use]
pub fn memory_of_parts(text: &[u8]) -> usize {
    let part = |byte: &u8| match byte {
        b',' | b'&' => ITEM,
        b':' | b'=' => ENTRY,
        b'[' | b'{' => CONTAINER,
        _ => 0,
    };
    text.iter().map(part).sum()
}
