//! Suggests the allowed name that is closest to a misspelt one.

/// The maximum length of compared names, in bytes.
const MAX_LENGTH: usize = 64;

/// Returns the candidate closest to `name`; `None` if none is close enough.
///
/// The same letters in another naming convention (`space_id` for `spaceId`) always match. Otherwise at most a third
/// of the letters may differ (insertion, deletion, substitution, transposition of neighbours), and at least one must be
/// equal. The first of equally close candidates wins.
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
        let max_distance = letters.max(3) / 3;
        if length.abs_diff(other_length) > max_distance {
            // The length difference is a lower bound of the distance: skips most of ten thousand names cheaply.
            continue;
        }
        let distance = if other == folded { 0 } else { strsim::osa_distance(&folded, &other).max(1) };
        let close_enough = distance <= max_distance && distance < letters;
        if close_enough && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
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
    fn a_typing_error_finds_its_name() {
        check("stepz", Some("steps"));
        check("tiemout", Some("timeout"));
        check("descripton", Some("description"));
    }

    #[test]
    fn another_convention_finds_its_name() {
        check("space_id", Some("spaceId"));
        check("SPACE-ID", Some("spaceId"));
    }

    #[test]
    fn a_stranger_finds_nothing() {
        check("colour", None);
        check("x", None);
        check("", None);
        check(&"steps".repeat(100), None);
    }
}
