//! Expressions without `${{ }}` where a value is expected: `secret: secrets.hook` is the text `secrets.hook`.
//!
//! Reported only if each name that the text would read exists, so that `steps.md` and `item.created` stay texts.

use expression::{Expression, Reference};
use model::automation::{Automation, DeclaredTrigger, StartForm, Verb};
use text::diagnostic::{Diagnostic, Severity, Span};
use text::yaml::{Style, Text};

use crate::load::keys;

const CODE: &str = "bare-expression";

/// The maximum length of a text that is compiled to see if it is an expression, in bytes.
const MAX_LENGTH: usize = 300;

/// The names that an expression may begin with.
const ROOTS: [&str; 12] = [
    "secrets",
    "env",
    "configVars",
    "inputs",
    "vars",
    "steps",
    "trigger",
    "state",
    "item",
    "execution",
    "automation",
    "error",
];
/// Parts of a request, which authors write without the prefix `trigger.results`.
const REQUEST_PARTS: [&str; 3] = ["queryParameters", "headers", "body"];
/// Keys whose texts are free text, names, or expressions already.
const OTHER_KEYS: [&str; 16] = [
    "action",
    "as",
    "call",
    "code",
    "connection",
    "cursor",
    "default",
    "description",
    "file",
    "form",
    "id",
    "items",
    "labels",
    "name",
    "needs",
    "schema",
];
/// Endings of file names, such as `secrets.json`.
const ENDINGS: [&str; 22] = [
    "md", "txt", "json", "yaml", "yml", "csv", "xml", "html", "htm", "js", "ts", "py", "rs", "sh", "env",
    "ini", "toml", "log", "pdf", "zip", "gz", "png",
];
/// Schemes of credentials before a value, as in a header.
const SCHEMES: [&str; 4] = ["Bearer ", "Basic ", "Token ", "token "];

/// The context of a text in its file.
pub(super) struct TextPlace<'a> {
    /// The enclosing keys, outermost first.
    pub(super) keys: &'a [&'a str],
    /// True inside `{ }` or `[ ]`.
    pub(super) in_flow: bool,
    /// True inside a step.
    pub(super) in_step: bool,
    /// The item names of the enclosing loops.
    pub(super) items: &'a [&'a str],
    /// The automation; `None` in a connection.
    pub(super) automation: Option<&'a Automation>,
}

/// True if a text begins with a name of expressions and a path below it, such as `inputs.limit`.
pub(in crate::load) fn begins_with_root(text: &str) -> bool {
    ROOTS.iter().any(|root| text.strip_prefix(root).is_some_and(|rest| rest.starts_with(['.', '['])))
}

/// Checks a text. `span` is the span of its node.
pub(super) fn check(text: &Text, span: Span, place: &TextPlace<'_>) -> Option<Diagnostic> {
    if text.value.trim() == "error" && place.keys.contains(&"onError") && place.keys.last() == Some(&"fail") {
        let message = "this is the text `error` itself, not the error that `onError` handles";
        let help = format!(
            "write `${{{{ error }}}}` to fail with it; if the text is meant, write `# cogwork: allow({CODE})` on the line above"
        );
        let fix = "\"${{ error }}\"".to_owned();
        return Some(Diagnostic::warning(CODE, message, span).help(help).replace(span, fix));
    }
    let may_be_path = text.value.len() <= MAX_LENGTH && text.value.contains(['.', '[']);
    if !may_be_path || text.value.contains("${{") {
        return None;
    }
    let value = text.value.trim();
    let inside = SCHEMES.iter().find_map(|scheme| value.strip_prefix(scheme)).unwrap_or(value);
    if !place.takes_value() {
        return None;
    }
    let Some(bare) = place.meant(inside) else { return within(text, span, place) };
    let start = text.value.len() - text.value.trim_start().len() + value.len() - inside.len();
    let told = text.locate_span(start, start + inside.len());
    let is_secret = bare.secret.is_some();
    let severity = if is_secret { Severity::Error } else { Severity::Warning };
    let message = match (&bare.secret, inside == value) {
        (Some(secret), _) => {
            format!("this is the text `{secret}` itself, not the secret: anybody can know it")
        }
        (None, _) => format!("this is the text `{inside}` itself: a value is read in `${{{{ }}}}`"),
    };
    let diagnostic = Diagnostic::new(severity, CODE, message, told);
    let meant = bare.meant.unwrap_or(inside.to_owned());
    if let Some(help) = place.unavailable(&bare.root) {
        return Some(diagnostic.help(help));
    }
    let written = format!("${{{{ {meant} }}}}");
    let help = format!("write `{written}`");
    let help = if is_secret {
        help
    } else {
        format!("{help}; if the text is meant, write `# cogwork: allow({CODE})` on the line above")
    };
    let diagnostic = diagnostic.help(help);
    let whole = format!("{}{written}", &value[..value.len() - inside.len()]);
    Some(match text.style {
        Style::Literal | Style::Folded => diagnostic,
        _ if meant.contains(['\n', '\\']) => diagnostic,
        Style::Plain if !place.in_flow && !meant.contains([':', '#']) => diagnostic.replace(span, whole),
        _ if !meant.contains('"') => diagnostic.replace(span, format!("\"{whole}\"")),
        _ => diagnostic.replace(span, format!("'{}'", whole.replace('\'', "''"))),
    })
}

/// Checks a text without spaces, such as an address or a key, for a path in it: `https://example.com/?k=secrets.key`.
fn within(text: &Text, span: Span, place: &TextPlace<'_>) -> Option<Diagnostic> {
    let value = text.value.as_str();
    if value.contains(char::is_whitespace) {
        return None;
    }
    let is_of_path = |c: char| c.is_alphanumeric() || ['_', '.'].contains(&c);
    let mut found = ROOTS.iter().flat_map(|root| value.match_indices(root)).filter_map(|(start, _)| {
        let before = &value[..start];
        let path =
            &value[start..value[start..].find(|c| !is_of_path(c)).map_or(value.len(), |end| start + end)];
        // A host name is not a path, nor is the end of another name.
        let begins =
            !before.is_empty() && !before.ends_with(|c| is_of_path(c) || c == '@') && !before.ends_with("//");
        let bare = place.meant(path).filter(|_| begins)?;
        Some((start, path, bare))
    });
    let (start, path, bare) = found.next()?;
    let told = text.locate_span(start, start + path.len());
    let message = format!("this is the text `{path}` itself: a value is read in `${{{{ }}}}`");
    let diagnostic = Diagnostic::warning(CODE, message, told);
    if let Some(help) = place.unavailable(&bare.root) {
        return Some(diagnostic.help(help));
    }
    let written = format!("${{{{ {path} }}}}");
    let diagnostic = diagnostic.help(format!(
        "write `{written}`; if the text is meant, write `# cogwork: allow({CODE})` on the line above"
    ));
    let is_kept_by_yaml = match text.style {
        Style::Literal | Style::Folded => false,
        Style::Plain => !place.in_flow && !value.contains('#'),
        _ => true,
    };
    let whole = format!("{}{written}{}", &value[..start], &value[start + path.len()..]);
    Some(match is_kept_by_yaml {
        true if text.style == Style::Plain => diagnostic.replace(span, whole),
        true => diagnostic.replace(told, written),
        false => diagnostic,
    })
}

/// The expression that a text was probably meant to be.
struct Bare {
    /// The name that it starts with.
    root: String,
    /// The path of the secret that it reads.
    secret: Option<String>,
    /// The expression, if it differs from the text.
    meant: Option<String>,
}

impl TextPlace<'_> {
    /// True if the text at this position is a value.
    fn takes_value(&self) -> bool {
        let Some(key) = self.keys.last() else { return false };
        if self.automation.is_none() {
            return self.keys.first() == Some(&"with");
        }
        let outer = &self.keys[..self.keys.len() - 1];
        let in_value =
            outer.iter().any(|key| ["with", "set", "configVars", "json", "outputs", "result"].contains(key))
                || outer.windows(2).any(|keys| keys == ["fail", "data"])
                || outer.first().is_some_and(|key| ["trigger", "triggers"].contains(key))
                    && outer.contains(&"inputs");
        let is_other = OTHER_KEYS.contains(key) || keys::takes_expression(key) || *key == "until";
        in_value || (keys::is_key(key) && !is_other)
    }

    /// The expression that the text would be; `None` if it is a text.
    fn meant(&self, text: &str) -> Option<Bare> {
        let begins = |name: &&str| text.starts_with(*name) && text[name.len()..].starts_with(['.', '[']);
        if let Some(part) = REQUEST_PARTS.iter().find(|part| begins(part)) {
            return self.request_part(part, text);
        }
        let holds = |root: &&str| text.contains(&format!("{root}.")) || text.contains(&format!("{root}["));
        if !ROOTS.iter().chain(self.items.iter()).any(holds) {
            return None;
        }
        let expression = Expression::compile(text, Span::default()).ok()?;
        let reads = expression.references();
        let exists = |read: &Reference| self.exists(read);
        if text.starts_with('$') || reads.is_empty() || !reads.iter().all(exists) {
            return None;
        }
        let secret = reads.iter().find(|read| read.path.first().is_some_and(|root| root == "secrets"));
        let first = secret.or(reads.first())?;
        Some(Bare {
            root: first.path.first()?.to_string(),
            secret: secret.map(|read| read.path.join(".")),
            meant: None,
        })
    }

    /// `queryParameters.page` in a value of a webhook's step.
    fn request_part(&self, part: &str, text: &str) -> Option<Bare> {
        let by_request = |trigger: &DeclaredTrigger| matches!(trigger.on.start_form(), StartForm::Request(_));
        self.automation?.triggers.iter().find(|trigger| by_request(trigger))?;
        let expression = Expression::compile(text, Span::default()).ok()?;
        let expression::DirectPath::One(read) = expression.direct_path()? else { return None };
        let second = read.path.get(1)?;
        if ENDINGS.contains(&second.as_str()) && read.path.len() == 2 || (part == "body" && second != "data")
        {
            return None;
        }
        Some(Bare {
            root: "trigger".to_owned(),
            secret: None,
            meant: Some(format!("trigger.results.{text}")),
        })
    }

    /// True if a path certainly leads to something that exists.
    fn exists(&self, read: &Reference) -> bool {
        let path: Vec<&str> = read.path.iter().map(|name| name.as_str()).collect();
        let is_file = |name: &str| path.len() == 2 && ENDINGS.contains(&name);
        match (path.as_slice(), self.automation) {
            (["secrets", name], _) => !is_file(name),
            (["env", name], _) => {
                name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            }
            ([root, name, ..], Some(_))
                if self.items.contains(root) || (*root == "item" && !self.items.is_empty()) =>
            {
                let is_event = self.keys.last().is_some_and(|key| ["event", "name"].contains(key));
                !is_event && !is_file(name)
            }
            (["inputs", name, ..], Some(automation)) => {
                automation.inputs.iter().any(|input| input.name == *name)
            }
            (["configVars", name, ..], Some(automation)) => {
                automation.config_vars.iter().any(|variable| variable.name.name == *name)
            }
            (["vars", name, ..], Some(automation)) => finds(
                automation,
                |verb, _| matches!(verb, Verb::Set(values) if values.iter().any(|(set, _)| **set == **name)),
            ),
            (["steps", id, member, ..], Some(automation)) => {
                ["results", "error", "ok", "timedOut"].contains(member)
                    && finds(automation, |_, step| step == *id)
            }
            (["trigger", "results", ..], Some(_)) => true,
            (["state", key], Some(automation)) => {
                !is_file(key) && finds(automation, |verb, _| stores(verb, key))
            }
            (["execution", member], Some(_)) => {
                ["id", "startedAt", "attempt", "url", "resumeUrl"].contains(member)
            }
            (["automation", member], Some(_)) => ["id", "name"].contains(member),
            (["error", member, ..], Some(_)) => {
                let handles = ["onError", "undo", "finally"].iter().any(|key| self.keys.contains(key));
                handles && ["message", "kind", "step", "status", "code", "body", "requestId"].contains(member)
            }
            (["outcome", member, ..], Some(_)) => {
                self.keys.contains(&"finally") && ["status", "reason", "error", "result"].contains(member)
            }
            _ => false,
        }
    }

    /// Explains how to read a name that exists, but not in this context; `None` if it can be read here.
    fn unavailable(&self, root: &str) -> Option<&'static str> {
        let is_outside = ["secrets", "env"].contains(&root);
        let in_config = self.keys.first() == Some(&"configVars") || self.automation.is_none();
        let in_verify = matches!(self.keys.first(), Some(&("trigger" | "triggers")))
            && !self.in_step
            && !["with", "inputs"].iter().any(|key| self.keys.contains(key));
        match (is_outside, in_config || in_verify) {
            (true, true) | (false, false) => None,
            (true, false) if root == "secrets" => Some(
                "a step reads a secret from a variable: `configVars: {name: {value: \"${{ secrets.NAME }}\", secret: true}}`, then \
                 `${{ configVars.name }}`; a call that has a `connection` takes it from there",
            ),
            (true, false) => Some(
                "a step reads it from a variable: `configVars: {name: \"${{ env.NAME }}\"}`, then `${{ configVars.name }}`",
            ),
            (false, true) => {
                Some("only `env` and `secrets` can be read here; name the value in a step, with `set`")
            }
        }
    }
}

fn finds(automation: &Automation, is_meant: impl Fn(&Verb, &str) -> bool) -> bool {
    let mut found = false;
    automation.walk(&mut |step| found = found || is_meant(&step.verb, &step.id));
    found
}

/// True if the verb is an action of the state with this key.
fn stores(verb: &Verb, key: &str) -> bool {
    let Verb::Action(call) = verb else { return false };
    call.action.name.starts_with("state.")
        && call.with.iter().any(|(name, value)| {
            name.name == "key" && value.literal().and_then(value::Value::as_str) == Some(key)
        })
}

/// Keywords for *no value* in other languages, which are texts in YAML.
const NONES: [&str; 5] = ["none", "None", "nil", "undefined", "NONE"];

/// Warns of `end: none` in a value that an expression of the file compares with `none`; hints elsewhere.
pub(super) fn check_none(text: &Text, span: Span, place: &TextPlace<'_>) -> Option<Diagnostic> {
    let automation = place.automation.filter(|_| text.style == Style::Plain)?;
    if !NONES.contains(&text.value.as_str()) {
        return None;
    }
    let [.., around, key] = place.keys else { return None };
    let is_value = match *around {
        "set" | "configVars" => true,
        "outputs" => place.keys.len() == 2,
        "stop" => *key == "result",
        "with" => *key == "value",
        _ => false,
    };
    if !is_value {
        return None;
    }
    let compares = |expression: &Expression| {
        let text = expression.text();
        let reads = |read: &Reference| read.path.iter().any(|name| name == *key);
        (text.contains("none") || text.contains("null")) && expression.references().iter().any(reads)
    };
    let mut is_compared = false;
    automation.walk(&mut |step| step.expressions(&mut |expression| is_compared |= compares(expression)));
    let word = &text.value;
    let message = format!(
        "this is the text `{word}`: nothing is `null` in YAML, and `none` or `null` in an expression"
    );
    let help = format!("write `null`, or `\"{word}\"` for the text");
    Some(if is_compared {
        Diagnostic::warning("none-text", message, span).help(help).replace(span, "null")
    } else {
        Diagnostic::hint("none-text", message, span).help(help)
    })
}
