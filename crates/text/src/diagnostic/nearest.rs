//! Suggests the allowed name that is closest to a misspelt one.

/// The maximum length of compared names, in bytes.
const MAX_LENGTH: usize = 64;

/// Returns the candidate closest to `name`; `None` if none is close enough.
///
/// The same letters in another naming convention (`space_id` for `spaceId`) always match. Otherwise at most one letter of
/// three, two of seven, three of eleven may differ (insertion, deletion, substitution, transposition of neighbours), and most
/// letters of each word of a name must be equal: `parseUrl` is not `parseXml`, and `id` is not `if`. The first of equally close
/// candidates wins.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.is_empty() || name.len() > MAX_LENGTH {
        return None;
    }
    let folded = fold(name);
    let length = folded.chars().count();
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates.into_iter().filter(|candidate| candidate.len() <= MAX_LENGTH) {
        let other = fold(candidate);
        let other_length = other.chars().count();
        let letters = length.max(other_length);
        let max_distance = (letters.max(3) + 1) / 4;
        if length.abs_diff(other_length) > max_distance {
            // The length difference is a lower bound of the distance: skips most of ten thousand names cheaply.
            continue;
        }
        let distance = if other == folded { 0 } else { strsim::osa_distance(&folded, &other).max(1) };
        // One of two letters is half the name.
        let is_other =
            length == 2 && other_length == 2 && distance > 0 && !other.chars().rev().eq(folded.chars());
        let close_enough =
            distance <= max_distance && distance < letters && !is_other && !has_other_word(name, candidate);
        if close_enough && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// True if two names of several words differ in one word only, and most letters of that word differ.
fn has_other_word(name: &str, other: &str) -> bool {
    let (names, others) = (words(name), words(other));
    if names.len() < 2 || names.len() != others.len() {
        return false;
    }
    let mut different = names.iter().zip(&others).filter(|(one, other)| one != other);
    let (Some((one, other)), None) = (different.next(), different.next()) else { return false };
    strsim::osa_distance(one, other) * 2 > one.chars().count().max(other.chars().count())
}

/// The words of a name in camelCase, snake_case or kebab-case, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        let is_separator = matches!(c, '_' | '-' | ' ' | '.');
        if is_separator || c.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| !is_separator) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Removes the naming convention: separators dropped, letters in lower case.
fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Option<&str>) {
        assert_eq!(nearest(name, ["id", "name", "steps", "spaceId", "timeout", "description"]), expected);
    }

    #[test]
    fn a_typo_finds_the_nearest_name() {
        check("stepz", Some("steps"));
        check("tiemout", Some("timeout"));
        check("descripton", Some("description"));
    }

    #[test]
    fn another_case_convention_finds_the_name() {
        check("space_id", Some("spaceId"));
        check("SPACE-ID", Some("spaceId"));
    }

    #[test]
    fn an_unrelated_name_finds_nothing() {
        check("colour", None);
        check("if", None);
        check("di", Some("id"));
        check("idd", Some("id"));
        check("x", None);
        check("", None);
        check(&"steps".repeat(100), None);
    }
}
