//! CSS selectors. Errors name the place in the selector: the parser does not tell it.

use scraper::Selector;

/// The longest part of a selector that an error shows, in characters.
const SHOWN: usize = 40;
/// The longest selector in which the place of a mistake is looked for, in bytes.
const MAX_SEARCHED: usize = 1_000;
/// The characters between two selectors.
const BETWEEN: [char; 4] = [',', '>', '+', '~'];
/// The pseudo-classes of a selector.
const PSEUDO_CLASSES: [&str; 15] = [
    "not",
    "is",
    "where",
    "has",
    "root",
    "empty",
    "first-child",
    "last-child",
    "only-child",
    "nth-child",
    "nth-last-child",
    "first-of-type",
    "last-of-type",
    "only-of-type",
    "nth-of-type",
];

/// Parses a selector.
///
/// # Errors
/// Returns a message that begins with the selector.
pub(super) fn parse(css: &str) -> Result<Selector, String> {
    Selector::parse(css)
        .map_err(|_| format!("`{}` is not a CSS selector: {}", text::truncate(css, 200), mistake(css)))
}

/// The mistake in a selector that cannot be parsed.
fn mistake(css: &str) -> String {
    if css.trim().is_empty() {
        return "it is empty".to_owned();
    }
    if css.len() > MAX_SEARCHED {
        return format!("it has a mistake somewhere in its {} bytes; take it apart", css.len());
    }
    // The longest begin that is a selector ends before the mistake.
    let mut ends = css.char_indices().map(|(at, _)| at).rev();
    let good = ends.find(|end| Selector::parse(&css[..*end]).is_ok()).unwrap_or(0);
    let rest = css[good..].trim_start();
    let at = css[..css.len() - rest.len()].chars().count() + 1;
    let shown = text::truncate(rest.trim_end(), SHOWN);
    format!("at character {at}, `{shown}`, {}", reason(rest))
}

/// The reason for which the rest of a selector cannot be read.
fn reason(rest: &str) -> String {
    let first = rest.chars().next().unwrap_or_default();
    match first {
        ':' => pseudo(rest),
        '[' => "an attribute is written `[name]` or `[name=\"value\"]`".to_owned(),
        '#' | '.' => {
            "a name that begins with a letter has to follow; others are written `[id=\"1\"]` or `[class~=\"1\"]`".to_owned()
        }
        first if BETWEEN.contains(&first) => {
            format!("there has to be a selector on both sides of `{first}`")
        }
        ')' | ']' => format!("`{first}` closes nothing"),
        '/' => "paths of XPath are not taken: write `table tr` for `//table//tr`".to_owned(),
        '0'..='9' => "a name begins with a letter".to_owned(),
        _ => "this is no part of a selector".to_owned(),
    }
}

fn pseudo(rest: &str) -> String {
    if rest.starts_with("::") {
        return "pseudo-elements are no part of a page: the text is taken anyway, an attribute with `attr`"
            .to_owned();
    }
    let name: String = rest.chars().skip(1).take_while(|c| c.is_alphanumeric() || *c == '-').collect();
    if PSEUDO_CLASSES.contains(&name.as_str()) || name == "nth-last-of-type" {
        return format!("`:{name}` does not take this");
    }
    let known = PSEUDO_CLASSES.map(|known| format!("`:{known}`")).join(", ");
    match text::diagnostic::nearest(&name, PSEUDO_CLASSES) {
        Some(near) => format!("there is no `:{name}`; did you mean `:{near}`?"),
        None => format!("there is no `:{name}`; there are {known}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pseudo_classes_that_are_listed_can_be_used() {
        for name in PSEUDO_CLASSES {
            let argument = match name {
                "not" | "is" | "where" | "has" => "(b)",
                name if name.starts_with("nth-") => "(2n)",
                _ => "",
            };
            assert!(parse(&format!("a:{name}{argument}")).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_wrong_selector_is_an_error_with_the_place_and_the_reason() {
        for (css, expected) in [
            ("", "it is empty"),
            ("div >> p", "at character 5, `>> p`, there has to be a selector on both sides of `>`"),
            ("äh, ", "at character 3, `,`, there has to be a selector on both sides of `,`"),
            ("b[", "at character 2, `[`, an attribute is written"),
            (
                "a:contains('x')",
                "at character 2, `:contains('x')`, there is no `:contains`; there are `:not`,",
            ),
            (
                "li:firstchild",
                "at character 3, `:firstchild`, there is no `:firstchild`; did you mean `:first-child`?",
            ),
            ("li:nth-child(x)", "at character 3, `:nth-child(x)`, `:nth-child` does not take this"),
            ("a::text", "at character 2, `::text`, pseudo-elements are no part of a page"),
            ("#1", "at character 1, `#1`, a name that begins with a letter has to follow"),
            ("//table/tr", "at character 1, `//table/tr`, paths of XPath"),
            ("a)", "at character 2, `)`, `)` closes nothing"),
            ("a {", "at character 3, `{`, this is no part of a selector"),
        ] {
            let message = parse(css).expect_err(css);
            let start = format!("`{css}` is not a CSS selector: {expected}");
            assert!(message.starts_with(&start), "{message}");
        }
        let long = format!("{}>>", "a ".repeat(1_000));
        let message = parse(&long).expect_err("it is wrong");
        assert!(message.ends_with("a mistake somewhere in its 2002 bytes; take it apart"), "{message}");
    }
}
