//! Reads secrets and variables, and resolves connections and signing keys with them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use connector::ResolvedConnection;
use expression::Reference;
use expression::template::Template;
use model::action::{ActionError, ErrorKind};
use model::automation::{Automation, Encoding, Verify};
use trigger::verify::{Key, Verifier};
use value::redact::{MASK, Redactor};
use value::{Map, Secret, Value, mime};
use zeroize::Zeroizing;

use crate::doubles::Doubles;
use crate::error::Error;
use crate::vault::{self, ListedSecret, RowKind, SecretSource, Vault};
use catalog::{Catalog, how_to_set_secret, is_own_variable, secret_variable};

/// Reads secrets from the store, then from a folder of files, then from the environment. They are read at each use, so
/// that a changed secret applies at once. In a test, only the secrets of the test exist.
pub struct Secrets {
    vault: Option<Arc<Vault>>,
    folder: PathBuf,
    redactor: Redactor,
    /// The variables of the environment that files may read; `None` for all except Cogwork's own.
    allowed: Option<Vec<String>>,
    doubles: Option<Arc<dyn Doubles>>,
}

/// Maximum size of a secret's file, in bytes.
const MAX_SECRET: u64 = 64 << 10;
/// Maximum number of listed files.
const MAX_LISTED: usize = 1000;

impl Secrets {
    /// Reads the secrets of `vault`, then of `folder`, then of the environment; of `doubles` alone in a test.
    #[must_use]
    pub fn new(
        vault: Option<Arc<Vault>>,
        folder: PathBuf,
        redactor: Redactor,
        doubles: Option<Arc<dyn Doubles>>,
    ) -> Self {
        Self { vault, folder, redactor, allowed: None, doubles }
    }

    /// Restricts the variables of the environment that files may read to these; `None` allows all except Cogwork's own.
    #[must_use]
    pub fn with_allowed_variables(self, allowed: Option<Vec<String>>) -> Self {
        Self { allowed, ..self }
    }

    /// Reads a secret; `None` if it is not set.
    ///
    /// # Errors
    /// Returns an error if the store has the secret and it cannot be decrypted. The other sources are not tried then,
    /// because they could have another value.
    pub fn secret(&self, name: &str) -> Result<Option<Zeroizing<String>>, Error> {
        let found = self.find(name)?;
        if let Some(secret) = &found {
            self.redactor.add_secret(secret);
        }
        Ok(found)
    }

    /// Returns true if the secret exists, even if it cannot be decrypted.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        !matches!(self.find(name), Ok(None))
    }

    fn find(&self, name: &str) -> Result<Option<Zeroizing<String>>, Error> {
        if !vault::is_name(name) {
            return Ok(None);
        }
        if let Some(doubles) = &self.doubles {
            return Ok(doubles.secret(name).map(Zeroizing::new));
        }
        if let Some(vault) = &self.vault
            && let Some(found) = vault.read(RowKind::Secret, name)?
        {
            return Ok(Some(found));
        }
        let file = self.folder.join(name);
        let readable =
            std::fs::metadata(&file).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_SECRET);
        if readable
            && let Ok(bytes) = std::fs::read(&file).map(Zeroizing::new)
            && let Some(text) = mime::decode_exact(&bytes, None)
        {
            let text = Zeroizing::new(text.into_owned());
            return Ok(Some(Zeroizing::new(Secret::in_file(&text).to_owned())));
        }
        Ok(std::env::var(secret_variable(name)).ok().map(Zeroizing::new))
    }

    /// Lists the secrets of the store, then of the folder that are not in the store, then the `required` ones that only
    /// the environment has.
    pub(crate) fn list(&self, required: &BTreeSet<String>) -> Vec<ListedSecret> {
        let mut listed: Vec<ListedSecret> = self.vault.iter().flat_map(|vault| vault.secrets()).collect();
        let mut names = secret_files(&self.folder);
        names.retain(|name| listed.iter().all(|known| known.name != *name));
        listed.extend(names.into_iter().map(|name| ListedSecret::outside(name, SecretSource::Folder)));
        let mut others = required.clone();
        others.retain(|name| {
            listed.iter().all(|known| known.name != *name)
                && std::env::var_os(secret_variable(name)).is_some()
        });
        listed.extend(others.into_iter().map(|name| ListedSecret::outside(name, SecretSource::Environment)));
        listed
    }

    /// Reads an environment variable; `None` if it is not set, or files may not read it.
    pub fn variable(&self, name: &str) -> Option<String> {
        match &self.doubles {
            Some(doubles) => doubles.variable(name),
            None if self.is_allowed(name) => std::env::var(name).ok(),
            None => None,
        }
    }

    /// Returns true if files may read a variable of the environment.
    fn is_allowed(&self, name: &str) -> bool {
        let is_named = |allowed: &String| match allowed.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => allowed == name,
        };
        !is_own_variable(name) && self.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(is_named))
    }

    /// Explains why an expression has no value, as far as variables of the environment are the reason.
    fn why_no_value(&self, references: &[Reference]) -> String {
        let denied = references.iter().find_map(|reference| match &*reference.path {
            [root, name, ..] if root == "env" && self.doubles.is_none() && !self.is_allowed(name) => {
                Some(name)
            }
            _ => None,
        });
        match denied {
            Some(name) if is_own_variable(name) => {
                format!("`env` does not have `{name}`, which belongs to Cogwork itself")
            }
            Some(name) => format!("the setting `env.allow` does not name `{name}`"),
            None => "is the variable set?".to_owned(),
        }
    }

    /// Explains how to set a missing secret.
    fn how_to_set(&self, name: &str) -> String {
        match &self.doubles {
            Some(_) => format!("add it to the test: `secrets: {{{name}: …}}`"),
            None => how_to_set_secret(name),
        }
    }

    /// Evaluates `configVars`.
    pub fn config_vars(&self, automation: &Automation) -> Result<Map, ActionError> {
        let mut values = Map::with_capacity(automation.config_vars.len());
        for variable in &automation.config_vars {
            let value = self.evaluate(&variable.value, &format!("configVars.{}", variable.name.name))?;
            values.insert(variable.name.name.as_str(), value);
        }
        Ok(values)
    }

    /// Evaluates `configVars` for people: a variable that is secret, or reads a secret, is masked without being read.
    pub(crate) fn shown_config_vars(&self, automation: &Automation) -> Result<Map, ActionError> {
        let mut values = Map::with_capacity(automation.config_vars.len());
        for variable in &automation.config_vars {
            let mut roots = variable.value.references().into_iter();
            let is_secret = variable.secret
                || roots
                    .any(|reference| reference.path.first().is_none_or(|root| root.as_str() == "secrets"));
            let value = match is_secret {
                true => Value::from(MASK),
                false => self.evaluate(&variable.value, &format!("configVars.{}", variable.name.name))?,
            };
            values.insert(variable.name.name.as_str(), value);
        }
        Ok(values)
    }

    /// Resolves a connection: evaluates its inputs and applies its type.
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
                self.evaluate(template, &place).map_err(|inner| error(inner.into_message()))?,
            );
        }
        kind.resolve(name, &values)
    }

    /// Reads the secrets that verify requests.
    pub fn proof<'a>(&self, verify: &'a Verify) -> Result<Verifier<'a>, ActionError> {
        if let Verify::Basic { user, password } = verify {
            let user = self.evaluate(user, "verify.user")?.to_text();
            let password = self.evaluate(password, "verify.password")?.to_text();
            let password = Key::parse(&password, Encoding::Text, None, None)
                .map_err(|error| ActionError::new(ErrorKind::Input, format!("verify.password: {error}")))?;
            return Ok(Verifier::Password { user, password });
        }
        Ok(Verifier::Keys(verify, self.keys(verify)?))
    }

    /// Reads the signing keys of a sender; empty for basic authentication.
    pub fn keys(&self, verify: &Verify) -> Result<Vec<Key>, ActionError> {
        let keys = match verify {
            Verify::Signature(rule) => &rule.keys,
            Verify::Token { keys, .. } => keys,
            Verify::Basic { .. } => return Ok(Vec::new()),
        };
        let read = keys.iter().map(|key| {
            let secret = self.evaluate(&key.secret, "verify.secret")?.to_text();
            Key::parse(&secret, key.encoding, key.prefix.as_deref(), key.not_after)
                .map_err(|error| ActionError::new(ErrorKind::Input, format!("verify.secret: {error}")))
        });
        read.collect()
    }

    /// Reads the secret of a challenge.
    pub fn challenge_key(&self, secret: &Template) -> Result<Key, ActionError> {
        let secret = self.evaluate(secret, "challenge.secret")?.to_text();
        Key::parse(&secret, Encoding::Text, None, None)
            .map_err(|error| ActionError::new(ErrorKind::Input, format!("challenge.secret: {error}")))
    }

    /// Evaluates a template in which only `secrets` and `env` are defined.
    fn evaluate(&self, template: &Template, place: &str) -> Result<Value, ActionError> {
        if let Some(value) = template.literal() {
            return Ok(value.clone());
        }
        let references = template.references();
        let mut secrets = Map::new();
        let mut env = Map::new();
        for Reference { path, optional, .. } in &references {
            let [root, name, ..] = &**path else { continue };
            match root.as_str() {
                "secrets" => match self.secret(name).map_err(|error| unreadable(place, name, &error))? {
                    Some(value) => {
                        secrets.insert(name.as_str(), value.as_str());
                    }
                    None if *optional => {}
                    None => {
                        let how_to_set = self.how_to_set(name);
                        let message = format!("{place}: the secret `{name}` is not set; {how_to_set}");
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
        // The scope contains secrets, so the evaluation error itself is not shown.
        template.evaluate(&scope, &value::Budget::default()).map_err(|error| {
            let why = self.why_no_value(&references);
            let message = format!("{place}: `{}` has no value; {why}", error.expression);
            ActionError::new(ErrorKind::Connection, message)
        })
    }
}

/// Lists the names of secrets in a folder of files, sorted; empty if the folder does not exist.
#[must_use]
pub fn secret_files(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().take(MAX_LISTED).flatten();
    let names =
        files.filter(|file| file.path().is_file()).filter_map(|file| file.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| vault::is_name(name)).collect();
    names.sort_unstable();
    names
}

/// Lists the secret files in a folder that group or others can read or write, sorted.
#[must_use]
pub fn exposed_secret_files(folder: &Path) -> Vec<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let is_exposed =
        |file: &PathBuf| std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o066 != 0);
    secret_files(folder).into_iter().map(|name| folder.join(name)).filter(is_exposed).collect()
}

fn unreadable(place: &str, name: &str, error: &Error) -> ActionError {
    ActionError::new(ErrorKind::Connection, format!("{place}: the secret `{name}` cannot be read: {error}"))
}

/// Returns true if a secret has a file in the folder, or a variable of the environment. Those of the store come first, and
/// are not looked for here.
#[must_use]
pub fn is_secret_set(folder: &Path, name: &str) -> bool {
    let file = folder.join(name);
    let is_file = || std::fs::metadata(&file).is_ok_and(|found| found.is_file() && found.len() <= MAX_SECRET);
    vault::is_name(name) && (is_file() || std::env::var_os(secret_variable(name)).is_some())
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
            assert_eq!(secret_variable(name), expected);
        }
    }

    #[cfg(unix)]
    #[test]
    fn secret_files_readable_by_others_are_listed() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        for (name, mode) in [("own", 0o600), ("group", 0o640), ("all", 0o666), ("no-name!", 0o666)] {
            let path = folder.path().join(name);
            std::fs::write(&path, "s3cret").expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("it is set");
        }
        let names = exposed_secret_files(folder.path())
            .into_iter()
            .map(|path| path.file_name().map(ToOwned::to_owned));
        assert_eq!(names.flatten().collect::<Vec<_>>(), ["all", "group"]);
        assert!(exposed_secret_files(&folder.path().join("none")).is_empty());
    }

    #[test]
    fn a_secret_file_loses_its_final_newline_and_cannot_be_outside_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("token"), "s3cret\n").expect("written");
        let secrets = Secrets::new(None, folder.path().join("."), Redactor::default(), None);
        let secret = |name| secrets.secret(name).expect("it can be read").map(|found| found.to_string());
        assert_eq!(secret("token").as_deref(), Some("s3cret"));
        assert_eq!(secret("../token"), None);
        assert_eq!(secret(""), None);
    }

    #[test]
    fn files_read_only_allowed_variables_and_none_of_the_daemon() {
        let secrets = || Secrets::new(None, PathBuf::from("/none"), Redactor::default(), None);
        let all = secrets();
        assert!(all.variable("PATH").is_some());
        for own in
            ["COGWORK_MASTER_KEY", "COGWORK_SECRET_X", "OTEL_EXPORTER_OTLP_HEADERS", "CREDENTIALS_DIRECTORY"]
        {
            assert!(!all.is_allowed(own) && all.variable(own).is_none(), "{own}");
        }
        let some = |names: &[&str]| {
            secrets().with_allowed_variables(Some(names.iter().map(|name| (*name).to_owned()).collect()))
        };
        assert!(some(&["PATH"]).variable("PATH").is_some());
        assert!(some(&["PA*"]).variable("PATH").is_some());
        for names in [&[][..], &["HOME"], &["PATH_"], &["P"]] {
            assert_eq!(some(names).variable("PATH"), None, "{names:?}");
        }
        assert!(!some(&["*", "COGWORK_MASTER_KEY"]).is_allowed("COGWORK_MASTER_KEY"));
    }
}
