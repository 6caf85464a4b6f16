//! `code`: JavaScript, inline or in a separate file.

use std::sync::Arc;

use model::automation::{CODE_EXTENSIONS, Code, SpannedName};
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Field, Kind};

use super::common::{named, shorten};
use super::keys::{Choice, Key, Object, Shape};

pub(super) static FILE: Object = Object {
    what: "a file of code",
    keys: &[Key::required(
        "file",
        Shape::NonBlankText,
        "A `.js` or `.mjs` file below `automations/`, by its path from this file's folder, such as `./reshape.js`. A change takes effect at once.",
    )],
    choice: Choice::Any,
};

/// The form of the value of `code`.
pub(crate) const SHAPE: Shape = Shape::AnyOf(&[Shape::NonBlankText, Shape::Object(&FILE)]);

/// The code under a key.
pub(super) fn lower(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Code> {
    let node = field.node()?;
    if !matches!(node.kind, Kind::Map(_)) {
        field.name()?;
        let text = Arc::new(node.as_text()?.clone());
        return Some(Code::Inline { text, span: node.span });
    }
    let mut reader = FILE.open(node, diagnostics)?;
    let file = named(reader.take("file"), diagnostics);
    reader.finish();
    let file = file?;
    let Some(name) = beside(diagnostics.source().path(), &file.name) else {
        let message = format!("`{}` cannot be a file of code", shorten(&file.name));
        diagnostics.push(
            Diagnostic::error("invalid-file", message, file.span).help(
                "name a `.js` or `.mjs` file below `automations/`, by its path from this file's folder",
            ),
        );
        return None;
    };
    Some(Code::File(SpannedName { name, span: file.span }))
}

/// Resolves `name` against the folder of the file at `path`; the result is relative to the project folder.
fn beside(path: &str, name: &str) -> Option<String> {
    if name.starts_with('/')
        || name.contains('\\')
        || !CODE_EXTENSIONS.iter().any(|ending| name.ends_with(ending))
    {
        return None;
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in name.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            // Hidden folders and files are not loaded.
            part if part.starts_with('.') => return None,
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    // The path must not leave the automations folder.
    let folder = path.split_once('/').map_or("", |(folder, _)| folder);
    let below = joined.strip_prefix(folder).is_some_and(|rest| folder.is_empty() || rest.starts_with('/'));
    below.then_some(joined)
}

#[cfg(test)]
mod tests {
    use super::beside;

    #[test]
    fn a_code_file_must_be_below_the_automations_folder() {
        let from = |name| beside("automations/team/a.yaml", name);
        assert_eq!(from("./x.js").as_deref(), Some("automations/team/x.js"));
        assert_eq!(from("../lib/x.mjs").as_deref(), Some("automations/lib/x.mjs"));
        for refused in ["../../x.js", "/x.js", "x.ts", "..\\x.js", ".hidden/x.js", "../../../x.js", ".js/"] {
            assert_eq!(from(refused), None, "{refused}");
        }
    }
}
