//! Where secrets and variables come from, and connections opened with them when a step runs.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use connector::ResolvedConnection;
use model::action::{ActionError, ErrorKind};
use model::automation::{Automation, Encoding, Verify};
use model::expression::Reference;
use model::template::Template;
use model::value::{Map, Value};
use trigger::verify::{Key, Proof};

use crate::catalog::Catalog;
use crate::doubles::Doubles;

/// Reads secrets from a folder of files, then from the environment. Nothing is kept, so a rotated secret applies at
/// once. In a test there are only those of the test.
pub(crate) struct Secrets {
    folder: PathBuf,
    doubles: Option<Arc<dyn Doubles>>,
}

/// The most bytes of a secret's file.
const MAX_SECRET: u64 = 64 << 10;

impl Secrets {
    pub(crate) fn new(folder: PathBuf, doubles: Option<Arc<dyn Doubles>>) -> Self {
        Self { folder, doubles }
    }

    /// The secret called `name`, if there is one.
    pub(crate) fn secret(&self, name: &str) -> Option<String> {
        let plain = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if !plain {
            return None;
        }
        if let Some(doubles) = &self.doubles {
            return doubles.secret(name);
        }
        let file = self.folder.join(name);
        let readable =
            std::fs::metadata(&file).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_SECRET);
        if readable && let Ok(text) = std::fs::read_to_string(&file) {
            return Some(text.trim_end_matches(['\n', '\r']).to_owned());
        }
        std::env::var(variable(name)).ok()
    }

    /// The environment variable called `name`, if there is one.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        match &self.doubles {
            Some(doubles) => doubles.variable(name),
            None => std::env::var(name).ok(),
        }
    }

    /// Where a secret that is not set would be looked for.
    fn way_out(&self, name: &str) -> String {
        match &self.doubles {
            Some(_) => format!("add it to the test: `secrets: {{{name}: …}}`"),
            None => format!("put it into the file secrets/{name} or the variable {}", variable(name)),
        }
    }

    /// The values of `configVars`, by name.
    pub(crate) fn config_vars(&self, automation: &Automation) -> Result<Map, ActionError> {
        let mut values = Map::with_capacity(automation.config_vars.len());
        for variable in &automation.config_vars {
            let value = self.evaluate(&variable.value, &format!("configVars.{}", variable.name.name))?;
            values.insert(variable.name.name.as_str(), value);
        }
        Ok(values)
    }

    /// The connection called `name`, opened.
    pub(crate) fn resolve(&self, catalog: &Catalog, name: &str) -> Result<ResolvedConnection, ActionError> {
        let error = |message: String| ActionError::new(ErrorKind::Connection, message);
        let connection = catalog.connection(name).ok_or_else(|| {
            error(format!("there is no connection `{name}`; make the file connections/{name}.yaml"))
        })?;
        let kind = catalog
            .registry()
            .connection_type(&connection.kind)
            .ok_or_else(|| error(format!("connection `{name}`: there is no type `{}`", connection.kind)))?;
        let mut values = Map::with_capacity(connection.with.len());
        for (input, template) in &connection.with {
            let place = format!("connection `{name}`, `{}`", input.name);
            values.insert(
                input.name.as_str(),
                self.evaluate(template, &place).map_err(|inner| error(inner.message))?,
            );
        }
        kind.resolve(name, &values)
    }

    /// What requests are verified by, with its secrets read.
    pub(crate) fn proof<'a>(&self, verify: &'a Verify) -> Result<Proof<'a>, ActionError> {
        if let Verify::Basic { user, password } = verify {
            let user = self.evaluate(user, "verify.user")?.to_text();
            let password = self.evaluate(password, "verify.password")?.to_text();
            return Ok(Proof::Password { user, password });
        }
        Ok(Proof::Keys(verify, self.keys(verify)?))
    }

    /// The keys that a sender signs with; none where it sends a name with a password.
    pub(crate) fn keys(&self, verify: &Verify) -> Result<Vec<Key>, ActionError> {
        let keys = match verify {
            Verify::Signature(rule) => &rule.keys,
            Verify::Token { keys, .. } => keys,
            Verify::Basic { .. } => return Ok(Vec::new()),
        };
        let read = keys.iter().map(|key| {
            let secret = self.evaluate(&key.secret, "verify.secret")?.to_text();
            Key::read(&secret, key.encoding, key.prefix.as_deref(), key.not_after)
                .map_err(|error| ActionError::new(ErrorKind::Input, format!("verify.secret: {error}")))
        });
        read.collect()
    }

    /// The secret of a challenge.
    pub(crate) fn challenge_key(&self, secret: &Template) -> Result<Key, ActionError> {
        let secret = self.evaluate(secret, "challenge.secret")?.to_text();
        Key::read(&secret, Encoding::Text, None, None)
            .map_err(|error| ActionError::new(ErrorKind::Input, format!("challenge.secret: {error}")))
    }

    /// Keeps a secret that is not there yet, for its owner alone to read, durably. Whoever looks for it finds all of it
    /// or nothing.
    pub(crate) fn keep(&self, name: &str, secret: &str) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let (file, fresh) = (self.folder.join(name), self.folder.join(format!(".{name}.new")));
        let _ = std::fs::remove_file(&fresh);
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut opened = options.open(&fresh)?;
        opened.write_all(secret.as_bytes())?;
        opened.sync_all()?;
        // A link never writes over what is there.
        let linked = std::fs::hard_link(&fresh, &file);
        std::fs::remove_file(&fresh)?;
        linked
    }

    /// A value in which only `secrets` and `env` exist.
    fn evaluate(&self, template: &Template, place: &str) -> Result<Value, ActionError> {
        if let Some(value) = template.literal() {
            return Ok(value.clone());
        }
        let references = template.references();
        let mut secrets = Map::new();
        let mut env = Map::new();
        for Reference { path, optional, .. } in &references {
            let [root, name, ..] = path.as_slice() else { continue };
            match root.as_str() {
                "secrets" => match self.secret(name) {
                    Some(value) => {
                        secrets.insert(name.as_str(), value);
                    }
                    None if *optional => {}
                    None => {
                        let way_out = self.way_out(name);
                        let message = format!("{place}: the secret `{name}` is not set; {way_out}");
                        return Err(ActionError::new(ErrorKind::Connection, message));
                    }
                },
                "env" => {
                    if let Some(value) = self.variable(name) {
                        env.insert(name.as_str(), value);
                    }
                }
                _ => {}
            }
        }
        let scope = Value::Map(Arc::new(Map::from_iter([("secrets", secrets), ("env", env)])));
        // The scope holds secrets, so what it says of its own contents stays out of the message.
        template.evaluate(&scope).map_err(|error| {
            let message = format!("{place}: `{}` has no value; is the variable set?", error.expression);
            ActionError::new(ErrorKind::Connection, message)
        })
    }
}

/// The environment variable that may hold a secret: `wikiToken` is `COGWORK_SECRET_WIKI_TOKEN`.
fn variable(name: &str) -> String {
    let mut variable = String::from("COGWORK_SECRET_");
    let mut previous_lower = false;
    for character in name.chars() {
        if character.is_ascii_uppercase() && previous_lower {
            variable.push('_');
        }
        previous_lower = character.is_ascii_lowercase() || character.is_ascii_digit();
        variable.push(if character == '-' { '_' } else { character.to_ascii_uppercase() });
    }
    variable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_a_variable_in_the_usual_spelling() {
        for (name, expected) in [
            ("wikiToken", "COGWORK_SECRET_WIKI_TOKEN"),
            ("hook", "COGWORK_SECRET_HOOK"),
            ("api2Key", "COGWORK_SECRET_API2_KEY"),
            ("order-hook", "COGWORK_SECRET_ORDER_HOOK"),
        ] {
            assert_eq!(variable(name), expected);
        }
    }

    #[test]
    fn a_file_holds_a_secret_without_its_last_line_break_and_a_path_never_leaves_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("token"), "s3cret\n").expect("written");
        let secrets = Secrets::new(folder.path().join("."), None);
        assert_eq!(secrets.secret("token").as_deref(), Some("s3cret"));
        assert_eq!(secrets.secret("../token"), None);
        assert_eq!(secrets.secret(""), None);
    }
}
