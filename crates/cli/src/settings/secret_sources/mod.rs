//! The settings of the sources of secrets: their order, how long values are kept, and the providers.

mod schema;

use std::path::Path;
use std::time::Duration;

use connector::secret_provider::{
    self, AwsSettings, AzureLogin, AzureSettings, Credential, GcpLogin, GcpSettings, KUBERNETES_TOKEN,
    ProviderSettings, VaultLogin, VaultSettings,
};
use runtime::{SecretSources, SourceKind, SourceRule};
use text::diagnostic::{Diagnostic, Diagnostics, Severity, Source, nearest};
use text::yaml::{Field, Kind, MapReader, parse};

use super::Config;
use super::values::Values;

pub(super) use schema::schema;

/// The kinds of providers, as their settings and sources name them.
const KINDS: [&str; 4] = ["vault", "awsSecretsManager", "gcpSecretManager", "azureKeyVault"];
/// The sources without settings of their own.
const PLAIN: [&str; 4] = ["store", "files", "environment", SecretSources::COMMAND];
/// The largest number of sources.
const MAX_SOURCES: usize = 20;
/// The limits of `secrets.keep`: a shorter time would ask the provider for each step.
const KEEP: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(24 * 3600));
/// The limits of `secrets.keepOnError`.
const KEEP_ON_ERROR: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(7 * 24 * 3600));

/// Reads a value with a structure: of the file as it is, of a variable or a flag as YAML.
fn structured<T>(
    values: &Values<'_>,
    read: impl FnOnce(Field<'_, '_>, &Diagnostics) -> Option<T>,
) -> Result<Option<T>, String> {
    if let Some((node, diagnostics)) = values.node {
        return Ok(read(Field::new(node, "it", diagnostics), diagnostics));
    }
    let diagnostics = Diagnostics::new(Source::new("the value", values.one()?));
    let found =
        parse(&diagnostics).and_then(|node| read(Field::new(&node, "it", &diagnostics), &diagnostics));
    let report = diagnostics.into_report();
    let error = report.diagnostics().iter().find(|found| found.severity == Severity::Error);
    match error {
        Some(error) => Err(format!("{} (it is YAML, as in cogwork.yaml)", error.message)),
        None => Ok(found),
    }
}

/// `secrets.sources`.
pub(super) fn sources(config: &mut Config, values: &Values<'_>) -> Result<(), String> {
    let order = structured(values, |field, _| {
        let items = field.one_or_more()?;
        if items.len() > MAX_SOURCES {
            field.error("bad-setting", format!("there can be at most {MAX_SOURCES} sources"));
            return None;
        }
        items.into_iter().map(source).collect::<Option<Vec<_>>>()
    })?;
    order.into_iter().for_each(|order| config.secret_sources.order = order);
    Ok(())
}

fn source(field: Field<'_, '_>) -> Option<SourceRule> {
    let node = field.node()?;
    if !matches!(node.kind, Kind::Map(_)) {
        return Some(SourceRule { source: plain(field.choice(&PLAIN)?), only: None });
    }
    let mut reader = field.map("a source")?;
    let named: Vec<&str> = ["source"].into_iter().chain(KINDS).collect();
    let key = reader.exactly_one_of(&named)?;
    let value = reader.take(key);
    let source = match key {
        "source" => plain(value.choice(&PLAIN)?),
        kind => SourceKind::Provider(format!("{kind}:{}", value.name()?)),
    };
    let only = reader.take("only");
    let patterns = only.one_or_more();
    reader.finish();
    if patterns.as_ref().is_some_and(Vec::is_empty) {
        only.error(
            "bad-setting",
            "`only` is an empty list; name secrets, or remove the line: then the source is read for all",
        );
        return None;
    }
    let only = match patterns {
        Some(patterns) => Some(patterns.into_iter().map(pattern).collect::<Option<Vec<_>>>()?),
        None => None,
    };
    Some(SourceRule { source, only })
}

fn plain(word: &str) -> SourceKind {
    match word {
        "store" => SourceKind::Store,
        "files" => SourceKind::Files,
        "environment" => SourceKind::Environment,
        other => SourceKind::Provider(other.to_owned()),
    }
}

fn pattern(field: Field<'_, '_>) -> Option<String> {
    let text = field.name()?;
    let name = text.strip_suffix('*').unwrap_or(text);
    if !name.is_empty() && !runtime::is_secret_name(name) {
        field.error(
            "bad-setting",
            format!("`{text}` is no name of a secret; write `dbPassword`, or `db*` for a prefix"),
        );
        return None;
    }
    Some(text.to_owned())
}

/// `secrets.keep`.
pub(super) fn keep(config: &mut Config, values: &Values<'_>) -> Result<(), String> {
    config.secret_sources.keep = duration(values, KEEP)?;
    Ok(())
}

/// `secrets.keepOnError`.
pub(super) fn keep_on_error(config: &mut Config, values: &Values<'_>) -> Result<(), String> {
    config.secret_sources.keep_on_error = duration(values, KEEP_ON_ERROR)?;
    Ok(())
}

fn duration(values: &Values<'_>, (least, most): (Duration, Duration)) -> Result<Duration, String> {
    let text = values.one()?;
    let found = text::units::parse_duration(text).map_err(|error| error.to_string())?;
    if found < least || found > most {
        let [least, most] = [least, most].map(text::units::format_duration);
        return Err(format!("`{text}` must be from {least} to {most}"));
    }
    Ok(found)
}

/// The program of the source `command`, from the environment: words, of which the first is the program.
pub(super) fn command(text: &str) -> Option<Vec<String>> {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    (!words.is_empty()).then_some(words)
}

/// The settings of the providers of one kind, by name.
pub(super) fn providers(config: &mut Config, values: &Values<'_>, kind: &str) -> Result<(), String> {
    let base = values.base;
    let found = structured(values, |field, diagnostics| {
        let mut found = Vec::new();
        for entry in field.entries()?.iter() {
            let (name, what) = (entry.key.as_str(), format!("the provider `{}`", entry.key));
            if !runtime::is_secret_name(name) {
                let message = format!("`{name}` is no name of a provider; use letters, digits, `_` and `-`");
                Field::new(&entry.value, name, diagnostics).error("bad-setting", message);
                continue;
            }
            let Some(mut reader) = MapReader::new(&entry.value, &what, diagnostics) else { continue };
            let settings = match kind {
                "vault" => vault(&mut reader, base),
                "awsSecretsManager" => aws(&mut reader, base),
                "gcpSecretManager" => gcp(&mut reader, base),
                _ => azure(&mut reader, base),
            };
            reader.finish();
            found.extend(settings.map(|settings| (format!("{kind}:{name}"), settings)));
        }
        Some(found)
    })?;
    let providers = &mut config.secret_sources.providers;
    providers.retain(|name, _| name.split(':').next() != Some(kind));
    providers.extend(found.into_iter().flatten());
    Ok(())
}

fn vault(reader: &mut MapReader<'_, '_>, base: &Path) -> Option<ProviderSettings> {
    let address = address(reader.required("address"));
    let path = reader.required("path").name().map(|path| path.trim_matches('/').to_owned());
    let namespace = reader.take("namespace").name().map(str::to_owned);
    let login = reader.required("login").map("the login").and_then(|login| vault_login(login, base));
    Some(ProviderSettings::Vault(VaultSettings { address: address?, path: path?, namespace, login: login? }))
}

fn vault_login(mut reader: MapReader<'_, '_>, base: &Path) -> Option<VaultLogin> {
    let method = reader.exactly_one_of(&["token", "appRole", "kubernetes", "jwt"])?;
    let value = reader.take(method);
    let mount = |inner: &mut MapReader<'_, '_>, usual: &str| {
        inner
            .take("mount")
            .name()
            .map_or_else(|| usual.to_owned(), |mount| mount.trim_matches('/').to_owned())
    };
    let login = match method {
        "token" => VaultLogin::Token(credential(&mut reader, method, base)?),
        "appRole" => {
            let mut inner = value.map("`appRole`")?;
            let role_id = inner.required("role").name().map(str::to_owned);
            let secret_id = credential(&mut inner, "secret", base);
            let mount = mount(&mut inner, "approle");
            inner.finish();
            VaultLogin::AppRole { role_id: role_id?, secret_id: secret_id?, mount }
        }
        "kubernetes" if value.node().is_some_and(|node| node.as_str().is_some()) => VaultLogin::Jwt {
            role: value.name()?.to_owned(),
            jwt: Credential::File(KUBERNETES_TOKEN.into()),
            mount: method.to_owned(),
        },
        _ => {
            let mut inner = value.map("the login")?;
            let role = inner.required("role").name().map(str::to_owned);
            let token = match (method, inner.has("token")) {
                ("kubernetes", false) => {
                    inner.allow(&["token"]);
                    Some(Credential::File(KUBERNETES_TOKEN.into()))
                }
                _ => credential(&mut inner, "token", base),
            };
            let mount = mount(&mut inner, method);
            inner.finish();
            VaultLogin::Jwt { role: role?, jwt: token?, mount }
        }
    };
    reader.finish();
    Some(login)
}

fn aws(reader: &mut MapReader<'_, '_>, base: &Path) -> Option<ProviderSettings> {
    let region = region(reader.required("region"));
    let prefix = prefix(reader);
    let mut optional = |key| {
        let given = reader.take(key);
        if given.is_present() { address(given).map(Some) } else { Some(None) }
    };
    let (endpoint, token_service) = (optional("endpoint")?, optional("tokenService")?);
    reader.allow(&["accessKey", "secretKey", "sessionToken"]);
    let has_keys = reader.has("accessKey") || reader.has("secretKey");
    let mut key = |key, variable| match reader.has(key) {
        true => credential(reader, key, base),
        false => Some(Credential::Variable(variable)),
    };
    let keys = match has_keys {
        true => Some((key("accessKey", "AWS_ACCESS_KEY_ID")?, key("secretKey", "AWS_SECRET_ACCESS_KEY")?)),
        false => None,
    };
    let session_token = match reader.has("sessionToken") {
        true => Some(credential(reader, "sessionToken", base)?),
        false => None,
    };
    Some(ProviderSettings::Aws(AwsSettings {
        region: region?,
        prefix,
        endpoint,
        token_service,
        keys,
        session_token,
    }))
}

fn gcp(reader: &mut MapReader<'_, '_>, base: &Path) -> Option<ProviderSettings> {
    let project = region(reader.required("project"));
    let prefix = prefix(reader);
    let address = optional_address(reader, "address", "https://secretmanager.googleapis.com");
    let login = reader.required("login").map("the login").and_then(|login| {
        Some(match either(login, ["key", "token"], base)? {
            (true, key) => GcpLogin::Key(key),
            (false, token) => GcpLogin::TokenFile(token),
        })
    });
    Some(ProviderSettings::Gcp(GcpSettings { address: address?, project: project?, prefix, login: login? }))
}

fn azure(reader: &mut MapReader<'_, '_>, base: &Path) -> Option<ProviderSettings> {
    let address = address(reader.required("address"));
    let prefix = prefix(reader);
    let authority = optional_address(reader, "authority", "https://login.microsoftonline.com");
    let scope = reader.take("scope").name().unwrap_or("https://vault.azure.net/.default").to_owned();
    let [tenant, client_id] = ["tenant", "client"].map(|key| region(reader.required(key)));
    let login = reader.required("login").map("the login").and_then(|login| {
        Some(match either(login, ["secret", "token"], base)? {
            (true, secret) => AzureLogin::Secret(secret),
            (false, token) => AzureLogin::TokenFile(token),
        })
    });
    Some(ProviderSettings::Azure(AzureSettings {
        address: address?,
        prefix,
        authority: authority?,
        scope,
        tenant: tenant?,
        client_id: client_id?,
        login: login?,
    }))
}

/// One of two credentials; true for the first.
fn either(mut reader: MapReader<'_, '_>, keys: [&'static str; 2], base: &Path) -> Option<(bool, Credential)> {
    let key = reader.exactly_one_of(&keys)?;
    let found = credential(&mut reader, key, base);
    reader.finish();
    Some((keys.first() == Some(&key), found?))
}

fn prefix(reader: &mut MapReader<'_, '_>) -> String {
    reader.take("prefix").name().unwrap_or_default().to_owned()
}

/// A word that becomes a part of an address.
fn region(field: Field<'_, '_>) -> Option<String> {
    let text = field.name()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !text.bytes().all(is_plain) {
        field.error(
            "bad-setting",
            format!("`{text}` has other characters than letters, digits, `-`, `_` and `.`"),
        );
        return None;
    }
    Some(text.to_owned())
}

fn optional_address(reader: &mut MapReader<'_, '_>, key: &'static str, usual: &str) -> Option<String> {
    let field = reader.take(key);
    if field.is_present() { address(field) } else { Some(usual.to_owned()) }
}

fn address(field: Field<'_, '_>) -> Option<String> {
    let text = field.name()?;
    match secret_provider::check_address(text) {
        Ok(_) => Some(text.trim_end_matches('/').to_owned()),
        Err(problem) => {
            field.error("bad-setting", problem);
            None
        }
    }
}

/// A credential: the name of a secret, or `{file: PATH}`.
fn credential<'d>(reader: &mut MapReader<'_, 'd>, key: &'d str, base: &Path) -> Option<Credential> {
    let field = reader.required(key);
    if let Kind::Map(_) = field.node()?.kind {
        let mut reader = field.map("a credential")?;
        let file = reader.required("file").name().map(|path| base.join(path));
        reader.finish();
        return file.map(Credential::File);
    }
    let name = field.name()?;
    if !runtime::is_secret_name(name) {
        // Not repeated: the value may be the secret itself.
        let message = format!("`{key}` is no name of a secret");
        let help =
            "write the name of a secret that the store, a file or the environment has, or `{file: PATH}`";
        let place = field.span().unwrap_or_default();
        reader.diagnostics().push(Diagnostic::error("bad-setting", message, place).concealed().help(help));
        return None;
    }
    Some(Credential::Secret(name.to_owned()))
}

/// Checks the sources against the providers. They may come from several places, so this is not a check of the file.
///
/// # Errors
/// A source has no settings; the message names it.
pub(super) fn check(config: &Config) -> Result<(), String> {
    let sources = &config.secret_sources;
    for name in used(sources) {
        if name == SecretSources::COMMAND {
            if sources.command.is_none() {
                return Err("the source `command` of `secrets.sources` needs its program in the variable COGWORK_SECRETS_COMMAND of this machine".to_owned());
            }
        } else if !sources.providers.contains_key(name) {
            let known = sources.providers.keys().map(String::as_str);
            let near =
                nearest(name, known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            let key = name.replace(':', ".");
            return Err(format!(
                "the source `{name}` of `secrets.sources` has no settings; add `secrets.{key}`{near}"
            ));
        }
    }
    Ok(())
}

/// The providers that no source names, each as a sentence.
pub(super) fn without_effect(config: &Config) -> Vec<String> {
    let sources = &config.secret_sources;
    let is_unused = |name: &&String| !used(sources).any(|used| used == name.as_str());
    let sentence = |name: &String| {
        let (kind, own) = name.split_once(':').unwrap_or((name, ""));
        format!(
            "`secrets.{kind}.{own}` has no effect: `secrets.sources` does not name it; add `{{{kind}: {own}}}` there"
        )
    };
    sources.providers.keys().filter(is_unused).map(sentence).collect()
}

fn used(sources: &SecretSources) -> impl Iterator<Item = &str> {
    sources.order.iter().filter_map(|rule| match &rule.source {
        SourceKind::Provider(name) => Some(name.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
