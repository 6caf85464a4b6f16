//! The reference of the language as Markdown, for the manual: generated, like the JSON Schema, from the tables that the
//! loader reads by, so they cannot disagree.

use std::fmt::Write as _;

use crate::load::keys::{AUTOMATION_ID, CONTENT_TYPE, Choice, IDENTIFIER, Key, Object, Shape};
use crate::load::{AUTOMATION, CONFIG_VAR, CONNECTION, PROJECT, STEP_KEYS, SUITE, TRIGGER, VERBS};

/// A page of the reference.
#[derive(Clone, Debug)]
pub struct ReferencePage {
    /// The file name, without the extension.
    pub name: &'static str,
    /// Its text.
    pub text: String,
}

/// Objects with a page of their own, and its file name.
const SEPARATE_PAGES: [(&Object, &str); 1] = [(&TRIGGER, "triggers.md")];

/// All pages, in the order of the table of contents.
#[must_use]
pub fn pages() -> Vec<ReferencePage> {
    let whole = |name, title: &str, about: &str, object: &'static Object| {
        let mut text = opening(title, about);
        Section { title: None, object, path: String::new() }.write(&mut text);
        ReferencePage { name, text }
    };
    vec![
        whole(
            "file",
            "Keys of an automation",
            "The keys of a file below `automations/`. The page [The file](../automations.md) describes them.",
            &AUTOMATION,
        ),
        whole(
            "triggers",
            "Keys of triggers",
            "The keys below `trigger`. Pages about them: [webhooks](../webhooks.md), [schedules](../schedules.md), [manual starts](../manual.md).",
            &TRIGGER,
        ),
        steps(),
        whole(
            "connections",
            "Keys of a connection",
            "The keys of a file below `connections/`. The page [Connections and secrets](../connections.md) describes them.",
            &CONNECTION,
        ),
        whole(
            "project",
            "Keys of the project file",
            "The keys of `project.yaml`. The page [The project file and defaults](../project-file.md) describes them.",
            &PROJECT,
        ),
        whole("tests", "Keys of tests", "The keys of a file whose name ends in `.test.yaml`.", &SUITE),
    ]
}

fn opening(title: &str, about: &str) -> String {
    format!("# {title}\n\n{about}\n")
}

fn steps() -> ReferencePage {
    let mut text = opening(
        "Keys of steps",
        "A step has exactly one verb, and keys that every step may have. The page [Steps](../steps.md) describes them.",
    );
    let _ = write!(text, "\n## Every step\n");
    keys(&mut text, STEP_KEYS, "");
    for verb in VERBS {
        let _ = write!(text, "\n## {}\n\n{}\n", verb.word, verb.about);
        keys(&mut text, verb.keys, verb.word);
    }
    ReferencePage { name: "steps", text }
}

/// A mapping with fixed keys, with those inside it.
struct Section {
    title: Option<String>,
    object: &'static Object,
    path: String,
}

impl Section {
    fn write(&self, text: &mut String) {
        if let Some(title) = &self.title {
            let _ = write!(text, "\n### {title}\n");
        }
        let quoted = |keys: &[&str]| keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        match self.object.choice {
            Choice::Any => {}
            Choice::ExactlyOne(names) => drop(write!(text, "\nExactly one of {}.\n", quoted(names))),
            Choice::AtMostOne(names) => drop(write!(text, "\nAt most one of {}.\n", quoted(names))),
            Choice::ExactlyOneUnless { one, when: (key, value), all } => drop(write!(
                text,
                "\nExactly one of {}; with `{key}: {value}` all of {} in their place.\n",
                quoted(one),
                quoted(all)
            )),
        }
        if self.object.keys.is_empty() {
            text.push_str("\nIt has no keys.\n");
        } else {
            keys(text, self.object.keys, &self.path);
        }
    }
}

/// A table of keys, and a section for each mapping inside them. `path` is their path.
fn keys(text: &mut String, keys: &'static [Key], path: &str) {
    text.push_str("\n| Key | Takes | Default | Meaning |\n|---|---|---|---|\n");
    let mut inside = Vec::new();
    for key in keys {
        // A verb's own key has the verb's name, which the path contains already.
        let own = if path.is_empty() || path == key.name {
            key.name.to_owned()
        } else {
            format!("{path}.{}", key.name)
        };
        let takes = describe_value(&key.shape, &own, &mut inside);
        let (meaning, default) = key.about.split_once(" Default: ").unwrap_or((key.about, ""));
        let (default, rest) = default.split_once(". ").unwrap_or((default.trim_end_matches('.'), ""));
        let meaning =
            [meaning, rest].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" ");
        let default = if key.required { "required" } else { default };
        let cells = [format!("`{}`", key.name), takes, default.to_owned(), meaning];
        let _ = writeln!(text, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    for section in inside {
        section.write(text);
    }
}

/// Describes the value of a key. A mapping with fixed keys gets a section of its own.
fn describe_value(shape: &Shape, path: &str, inside: &mut Vec<Section>) -> String {
    let mut within = |shape: &Shape, path: &str| describe_value(shape, path, inside);
    match shape {
        Shape::Text | Shape::NonBlankText => "text".into(),
        Shape::Pattern(IDENTIFIER) => "name".into(),
        Shape::Pattern(AUTOMATION_ID) => "id".into(),
        Shape::Pattern(CONTENT_TYPE) => "content type".into(),
        Shape::Pattern(_) => "text".into(),
        Shape::Bool => "`true` or `false`".into(),
        Shape::ConstTrue => "`true`".into(),
        Shape::Integer(min, max) if min == max => format!("`{min}`"),
        Shape::Integer(min, max) => format!("whole number, {min} to {max}"),
        Shape::Number(min, max) if *min == f64::MIN && *max == f64::MAX => "number".into(),
        Shape::Number(min, max) => format!("number, {min} to {max}"),
        Shape::Duration => "duration".into(),
        Shape::Size => "size".into(),
        Shape::Enum(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Shape::Optional(inner) => format!("{}, or nothing", within(inner, path)),
        Shape::AnyOf(shapes) => {
            shapes.iter().map(|shape| within(shape, path)).collect::<Vec<_>>().join("; or ")
        }
        Shape::List(item) => format!("list: {}", within(item, &format!("{path}[]"))),
        Shape::OneOrMore(item) => format!("one or a list: {}", within(item, &format!("{path}[]"))),
        Shape::MapOf(_, value) | Shape::NonEmptyMapOf(_, value) => {
            format!("map: {}", within(value, &format!("{path}.name")))
        }
        Shape::Object(object) => section(object, path, inside),
        Shape::Expression => "expression".into(),
        Shape::ListOrExpression => "expression or list".into(),
        Shape::WrappedExpression => "text with `${{ }}`".into(),
        Shape::Template => "any value".into(),
        Shape::MaybeEmptySteps | Shape::Steps => "steps".into(),
        Shape::ConfigVar => {
            format!("any value; or {}", section(&CONFIG_VAR, &format!("{path}.name"), inside))
        }
    }
}

fn section(object: &'static Object, path: &str, inside: &mut Vec<Section>) -> String {
    if let Some((_, page)) = SEPARATE_PAGES.iter().find(|(other, _)| std::ptr::eq(*other, object)) {
        return format!("[map]({page})");
    }
    if object.keys.is_empty() {
        return "`{}`".into();
    }
    let title = format!("Inside {path}");
    let anchor = title.to_lowercase().replace(['.', '[', ']'], "").replace(' ', "-");
    inside.push(Section { title: Some(title), object, path: path.to_owned() });
    format!("[map](#{anchor})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_row_and_every_mapping_a_section_in_the_reference() {
        let pages = pages();
        let text = |name: &str| &pages.iter().find(|page| page.name == name).expect("a page").text;
        for key in AUTOMATION.keys {
            assert!(text("file").contains(&format!("\n| `{}` |", key.name)), "{}", key.name);
        }
        for key in STEP_KEYS.iter().chain(VERBS.iter().flat_map(|verb| verb.keys)) {
            assert!(text("steps").contains(&format!("\n| `{}` |", key.name)), "{}", key.name);
        }
        assert!(text("steps").contains("### Inside waitFor.approval.form.name\n"));
        assert!(text("triggers").contains("### Inside webhook.respond\n"));
    }

    #[test]
    fn a_default_has_a_column_of_its_own() {
        let mut text = String::new();
        keys(&mut text, AUTOMATION.keys, "");
        assert!(text.contains("| `timeout` | duration | 15m | The time limit of the execution. |"), "{text}");
        assert!(text.contains("| `steps` | steps | required | The steps, from top to bottom. |"), "{text}");
    }
}
