//! The right name closest to a wrong one.

/// Longer names are not compared: nobody mistypes a sentence.
const MAX_LENGTH: usize = 64;

/// The candidate that was most likely meant by `name`, or nothing when none is close enough.
///
/// The same letters in another convention (`space_id` for `spaceId`) always count; otherwise at most a third of
/// the letters may differ (insertions, deletions, replacements, swapped neighbours), and at least one must be the
/// same. Of equally close candidates the first wins.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.is_empty() || name.len() > MAX_LENGTH {
        return None;
    }
    let folded = fold(name);
    let own = folded.chars().count();
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates.into_iter().filter(|candidate| candidate.len() <= MAX_LENGTH) {
        let other = fold(candidate);
        let theirs = other.chars().count();
        let letters = own.max(theirs);
        let most = letters.max(3) / 3;
        if own.abs_diff(theirs) > most {
            // So many letters differ at least; among ten thousand names most need no closer look.
            continue;
        }
        let distance = if other == folded { 0 } else { strsim::osa_distance(&folded, &other).max(1) };
        let close_enough = distance <= most && distance < letters;
        if close_enough && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Letters only, in lower case: what is left of a name when its convention is taken away.
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
