//! Reads secrets and variables, and resolves connections and signing keys with them.

mod command;
mod listing;
mod local;
mod provider;
mod providers;
mod reading;
mod sources;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use connector::ResolvedConnection;
use connector::secret_provider::ProvidedSecret;
use expression::Reference;
use expression::template::Template;
use model::action::{ActionError, ErrorKind};
use model::automation::{Automation, ConfigVar, Encoding, Verify};
use trigger::verify::{Key, Verifier};
use value::redact::{MASK, Redactor};
use value::{Map, Secret, Value};

use crate::clock::Clock;
use crate::doubles::Doubles;
use crate::error::Error;
use crate::vault::{self, Vault};
use catalog::{Catalog, how_to_set_secret, is_own_variable};
use local::LocalSources;
use provider::State;
use providers::Providers;
use reading::{Reading, Values};

pub use local::{exposed_secret_files, is_secret_set, secret_files};
pub use reading::PROVIDER_FAILURE;
pub use sources::{SecretSources, SourceKind, SourceRule};

/// Reads secrets from their sources in order: by default the store, then a folder of files, then the environment. Sources on this machine
/// are read at each use, so that a changed secret applies at once; answers of providers are kept for some minutes. In a test, only the
/// secrets of the test exist.
pub struct Secrets {
    local: Arc<LocalSources>,
    providers: Providers,
    redactor: Redactor,
    /// The variables of the environment that files may read; `None` for all except Cogwork's own.
    allowed: Option<Vec<String>>,
    doubles: Option<Arc<dyn Doubles>>,
}

/// The addresses that the clients of providers may call, besides the ones in their settings, and must not call.
#[derive(Clone, Debug, Default)]
pub struct ProviderNetwork {
    /// Private hosts and networks.
    pub allow: Vec<String>,
    /// The addresses of the daemon's own listeners.
    pub own: Vec<std::net::SocketAddr>,
    /// The servers of the store, by name and port.
    pub servers: Vec<(String, u16)>,
}

impl Secrets {
    /// Reads the secrets of `vault`, then of `folder`, then of the environment; of `doubles` alone in a test.
    #[must_use]
    pub fn new(
        vault: Option<Arc<Vault>>,
        folder: PathBuf,
        redactor: Redactor,
        doubles: Option<Arc<dyn Doubles>>,
    ) -> Self {
        let local = Arc::new(LocalSources { vault, folder });
        Self { local, providers: Providers::none(), redactor, allowed: None, doubles }
    }

    /// Restricts the variables of the environment that files may read to these; `None` allows all except Cogwork's own.
    #[must_use]
    pub fn with_allowed_variables(self, allowed: Option<Vec<String>>) -> Self {
        Self { allowed, ..self }
    }

    /// Reads secrets from these sources, in their order.
    #[must_use]
    pub fn with_sources(
        self,
        sources: &SecretSources,
        network: ProviderNetwork,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let providers = Providers::new(sources, network, self.redactor.clone(), clock);
        Self { providers, ..self }
    }

    /// Returns true if secrets may come from a provider.
    pub(crate) fn has_providers(&self) -> bool {
        self.providers.exist()
    }

    /// Reads the text of a secret; `None` if it is not set.
    ///
    /// # Errors
    /// Returns an error if a source has the secret and it cannot be decrypted, or a provider fails. The other sources are not tried then,
    /// because they could have another value.
    pub async fn secret(&self, name: &str) -> Result<Option<Secret>, Error> {
        let Some(found) = self.read(name).await? else { return Ok(None) };
        let text = reading::text(name, &found).map_err(Error::Input)?.clone();
        self.hide(name, &text, |found| found.text());
        Ok(Some(text))
    }

    /// Reads a secret with all its fields; `None` if it is not set. `hide` gets its version before, and this version: the caller hides the
    /// values that it uses.
    ///
    /// # Errors
    /// Like [`Self::secret`].
    pub async fn whole_secret(
        &self,
        name: &str,
        hide: &(dyn Fn(&ProvidedSecret) + Sync),
    ) -> Result<Option<Arc<ProvidedSecret>>, Error> {
        let Some(found) = self.read(name).await? else { return Ok(None) };
        let previous = self.sources_of(name).filter_map(|rule| match &rule.source {
            SourceKind::Provider(provider) => self.providers.previous(provider, name),
            _ => None,
        });
        previous.chain([found.clone()]).for_each(|version| hide(&version));
        Ok(Some(found))
    }

    /// Reads a secret from the first source that has it.
    async fn read(&self, name: &str) -> Result<Option<Arc<ProvidedSecret>>, Error> {
        if !self.providers.exist() {
            return self.read_known(name);
        }
        for rule in self.sources_of(name) {
            let found = match &rule.source {
                SourceKind::Provider(provider) => self.providers.read(provider, name, &*self.local).await?,
                source => self.local.read(source, name)?.map(|text| whole(&text)),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Reads a secret without asking a provider: from its last answer.
    fn read_known(&self, name: &str) -> Result<Option<Arc<ProvidedSecret>>, Error> {
        if let Some(doubles) = &self.doubles {
            return doubles.secret(name);
        }
        for rule in self.sources_of(name) {
            let found = match &rule.source {
                SourceKind::Provider(provider) => match self.providers.state(provider, name) {
                    State::Fresh(found)
                    | State::Aging(found)
                    | State::Kept(found)
                    | State::Failing(Ok(found)) => found,
                    State::Failing(Err(message)) => return Err(Error::SecretProvider(message)),
                    State::Unknown => {
                        let message = format!("the secret provider `{provider}` has not been asked yet");
                        return Err(Error::SecretProvider(message));
                    }
                },
                source => self.local.read(source, name)?.map(|text| whole(&text)),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Reads a secret that no provider can have before a source of this machine; `None` if only a provider can tell.
    fn read_before_providers(&self, name: &str) -> Option<Result<Option<Arc<ProvidedSecret>>, Error>> {
        if self.doubles.is_some() {
            return Some(self.read_known(name));
        }
        for rule in self.sources_of(name) {
            match &rule.source {
                SourceKind::Provider(_) => return None,
                source => match self.local.read(source, name) {
                    Ok(None) => {}
                    Ok(Some(text)) => return Some(Ok(Some(whole(&text)))),
                    Err(error) => return Some(Err(error)),
                },
            }
        }
        Some(Ok(None))
    }

    /// Returns true if reading one of these secrets would wait for a provider.
    fn would_wait<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> bool {
        self.providers.exist() && names.into_iter().any(|name| self.would_wait_for(name))
    }

    fn would_wait_for(&self, name: &str) -> bool {
        for rule in self.sources_of(name) {
            let is_absent = match &rule.source {
                SourceKind::Provider(provider) if self.providers.would_ask(provider, name) => return true,
                SourceKind::Provider(provider) => self.providers.state(provider, name).is_absent(),
                source => matches!(self.local.read(source, name), Ok(None)),
            };
            if !is_absent {
                return false;
            }
        }
        false
    }

    /// Returns true if [`Self::config_vars`] would wait for a provider.
    pub(crate) fn config_vars_would_wait(&self, automation: &Automation) -> bool {
        let reads =
            |variable: &ConfigVar| self.would_wait(reading::names(&[Reading::new("", &variable.value)]));
        self.providers.exist() && automation.config_vars.iter().any(reads)
    }

    /// Returns true if [`Self::resolve`] would wait for a provider.
    pub(crate) fn connection_would_wait(&self, catalog: &Catalog, name: &str) -> bool {
        self.providers.exist()
            && reading::of_connection(catalog, name)
                .is_ok_and(|inputs| self.would_wait(reading::names(&inputs)))
    }

    /// Returns the sources that may have a secret, in their order.
    fn sources_of(&self, name: &str) -> impl Iterator<Item = &SourceRule> {
        let order = if vault::is_name(name) { self.providers.order() } else { &[] };
        order.iter().filter(move |rule| rule.applies_to(name))
    }

    /// Registers a value with the redactor before its use, and the value before it again, so that the last two versions stay hidden.
    fn hide(&self, name: &str, value: &Secret, part: impl Fn(&ProvidedSecret) -> Option<&Secret>) {
        let rules = self.sources_of(name);
        for rule in rules.filter(|_| self.providers.exist()) {
            if let SourceKind::Provider(provider) = &rule.source
                && let Some(previous) = self.providers.previous(provider, name)
                && let Some(value) = part(&previous)
            {
                self.redactor.add_secret(value.expose());
            }
        }
        self.redactor.add_secret(value.expose());
    }

    /// Returns true if the secret exists, cannot be decrypted, or may be at a provider that has not answered yet.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        !matches!(self.read_known(name), Ok(None))
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
    pub async fn config_vars(&self, automation: &Automation) -> Result<Map, ActionError> {
        let variables = &automation.config_vars;
        let readings = variables
            .iter()
            .map(|variable| Reading::new(format!("configVars.{}", variable.name.name), &variable.value));
        let values = self.evaluate_all(readings.collect()).await?;
        Ok(variables.iter().map(|variable| variable.name.name.as_str()).zip(values).collect())
    }

    /// Evaluates the `configVars` whose secrets this machine has, in sources that come before the providers.
    pub(crate) fn local_config_vars(&self, automation: &Automation) -> Result<Map, ActionError> {
        let mut values = Map::with_capacity(automation.config_vars.len());
        for variable in &automation.config_vars {
            let reading = Reading::new(format!("configVars.{}", variable.name.name), &variable.value);
            let names = reading::names(std::slice::from_ref(&reading)).into_iter();
            let found = names.map(|name| Some((name.to_owned(), self.read_before_providers(name)?)));
            let Some(found) = found.collect::<Option<Values>>() else { continue };
            values.insert(variable.name.name.as_str(), self.evaluate(&reading, &found)?);
        }
        Ok(values)
    }

    /// Evaluates the `configVars` that can be evaluated without asking a provider.
    pub(crate) fn known_config_vars(&self, automation: &Automation) -> Map {
        let mut values = Map::with_capacity(automation.config_vars.len());
        for variable in &automation.config_vars {
            let name = variable.name.name.as_str();
            let reading = Reading::new(format!("configVars.{name}"), &variable.value);
            let known = self.known(std::slice::from_ref(&reading));
            if let Ok(value) = self.evaluate(&reading, &known) {
                values.insert(name, value);
            }
        }
        values
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
                false => {
                    let place = format!("configVars.{}", variable.name.name);
                    self.evaluate(&Reading::new(place, &variable.value), &Values::default())?
                }
            };
            values.insert(variable.name.name.as_str(), value);
        }
        Ok(values)
    }

    /// Resolves a connection: evaluates its inputs and applies its type. All inputs are of one version of each secret.
    pub(crate) async fn resolve(
        &self,
        catalog: &Catalog,
        name: &str,
    ) -> Result<ResolvedConnection, ActionError> {
        let inputs = reading::of_connection(catalog, name)?;
        let values = self.values(&inputs).await;
        self.resolve_with(catalog, name, &inputs, &values)
    }

    /// Resolves a connection without asking a provider.
    pub(crate) fn resolve_known(
        &self,
        catalog: &Catalog,
        name: &str,
    ) -> Result<ResolvedConnection, ActionError> {
        let inputs = reading::of_connection(catalog, name)?;
        self.resolve_with(catalog, name, &inputs, &self.known(&inputs))
    }

    fn resolve_with(
        &self,
        catalog: &Catalog,
        name: &str,
        inputs: &[Reading<'_>],
        values: &Values,
    ) -> Result<ResolvedConnection, ActionError> {
        let (connection, kind) = reading::find_connection(catalog, name)?;
        let mut resolved = Map::with_capacity(inputs.len());
        for ((input, _), reading) in connection.with.iter().zip(inputs) {
            resolved.insert(input.name.as_str(), self.evaluate(reading, values)?);
        }
        kind.resolve(name, &resolved)
    }

    /// Reads again the secrets of a connection whose login was refused, unless they are new.
    pub(crate) async fn renew(&self, catalog: &Catalog, name: &str) {
        let Ok(inputs) = reading::of_connection(catalog, name) else { return };
        let renew = |secret| async move {
            for rule in self.sources_of(secret) {
                if let SourceKind::Provider(provider) = &rule.source {
                    self.providers.renew(provider, secret, &*self.local).await;
                }
            }
        };
        futures_util::future::join_all(reading::names(&inputs).into_iter().map(renew)).await;
    }

    /// Reads the secrets that verify requests.
    pub async fn proof<'a>(&self, verify: &'a Verify) -> Result<Verifier<'a>, ActionError> {
        if let Verify::Basic { user, password } = verify {
            let readings = vec![Reading::new("verify.user", user), Reading::new("verify.password", password)];
            let values = self.evaluate_all(readings).await?;
            let mut texts = values.iter().map(Value::to_text);
            let (user, password) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
            let password = Key::parse(&password, Encoding::Text, None, None)
                .map_err(|error| ActionError::new(ErrorKind::Input, format!("verify.password: {error}")))?;
            return Ok(Verifier::Password { user, password });
        }
        Ok(Verifier::Keys(Cow::Borrowed(verify), self.keys(verify).await?))
    }

    /// Reads the signing keys of a sender; empty for basic authentication.
    pub async fn keys(&self, verify: &Verify) -> Result<Vec<Key>, ActionError> {
        let keys = match verify {
            Verify::Signature(rule) => &rule.keys,
            Verify::Token { keys, .. } => keys,
            Verify::Basic { .. } => return Ok(Vec::new()),
        };
        let readings = keys.iter().map(|key| Reading::new("verify.secret", &key.secret)).collect();
        let secrets = self.evaluate_all(readings).await?;
        let read = keys.iter().zip(secrets).map(|(key, secret)| {
            Key::parse(&secret.to_text(), key.encoding, key.prefix.as_deref(), key.not_after)
                .map_err(|error| ActionError::new(ErrorKind::Input, format!("verify.secret: {error}")))
        });
        read.collect()
    }

    /// Reads the secret of a challenge.
    pub async fn challenge_key(&self, secret: &Template) -> Result<Key, ActionError> {
        let values = self.evaluate_all(vec![Reading::new("challenge.secret", secret)]).await?;
        let secret = values.first().map(Value::to_text).unwrap_or_default();
        Key::parse(&secret, Encoding::Text, None, None)
            .map_err(|error| ActionError::new(ErrorKind::Input, format!("challenge.secret: {error}")))
    }

    /// Evaluates templates, all of one version of each secret.
    async fn evaluate_all(&self, readings: Vec<Reading<'_>>) -> Result<Vec<Value>, ActionError> {
        let values = self.values(&readings).await;
        readings.iter().map(|reading| self.evaluate(reading, &values)).collect()
    }

    /// Reads the secrets that templates name without asking a provider.
    fn known(&self, readings: &[Reading<'_>]) -> Values {
        let names = reading::names(readings).into_iter();
        names.map(|name| (name.to_owned(), self.read_known(name))).collect()
    }

    /// Reads the secrets that templates name, all at once.
    async fn values(&self, readings: &[Reading<'_>]) -> Values {
        if !self.providers.exist() {
            return self.known(readings);
        }
        let read = |name: &'_ str| {
            let name = name.to_owned();
            async move {
                let found = self.read(&name).await;
                (name, found)
            }
        };
        let reads = reading::names(readings).into_iter().map(read);
        futures_util::future::join_all(reads).await.into_iter().collect()
    }

    /// Evaluates a template in which only `secrets` and `env` are defined.
    fn evaluate(&self, reading: &Reading<'_>, values: &Values) -> Result<Value, ActionError> {
        let Reading { place, template, references } = reading;
        if let Some(value) = template.literal() {
            return Ok(value.clone());
        }
        let mut secrets = Map::new();
        let mut env = Map::new();
        for Reference { path, optional, .. } in references {
            let [root, name, fields @ ..] = &**path else { continue };
            match root.as_str() {
                "secrets" => {
                    let found = values.get(name.as_str()).unwrap_or(&Ok(None));
                    let found = found.as_ref().map_err(|error| reading::unreadable(place, name, error))?;
                    match found {
                        Some(found) => {
                            let field = fields.first().map(|field| field.as_str());
                            self.insert(&mut secrets, reading, (name, found), field)?;
                        }
                        None if *optional => {}
                        None => {
                            let how_to_set = self.how_to_set(name);
                            let message = format!("{place}: the secret `{name}` is not set; {how_to_set}");
                            return Err(reading::failed(message));
                        }
                    }
                }
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
            let why = self.why_no_value(references);
            reading::failed(format!("{place}: `{}` has no value; {why}", error.expression))
        })
    }

    /// Adds the text of a secret, or one of its fields, to the names of a template.
    fn insert(
        &self,
        secrets: &mut Map,
        reading: &Reading<'_>,
        (name, found): (&str, &ProvidedSecret),
        field: Option<&str>,
    ) -> Result<(), ActionError> {
        let Some(field) = field else {
            let text = reading::text(name, found);
            let text = text.map_err(|problem| reading::failed(format!("{}: {problem}", reading.place)))?;
            self.hide(name, text, |found| found.text());
            secrets.insert(name, text.expose());
            return Ok(());
        };
        let mut fields = match secrets.get(name) {
            Some(Value::Map(fields)) => (**fields).clone(),
            _ => Map::new(),
        };
        if let Some(value) = reading::field(reading, (name, found), field)? {
            self.hide(name, value, |found| found.fields().get(field));
            fields.insert(field, value.expose());
        }
        secrets.insert(name, Value::from(fields));
        Ok(())
    }
}

/// Returns a secret that is a text.
fn whole(text: &str) -> Arc<ProvidedSecret> {
    Arc::new(ProvidedSecret::from_text(Secret::new(text)))
}
