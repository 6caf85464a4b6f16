//! The settings of the identity provider of the web UI.

use server::{LoginOptions, Scope, Scopes};

use super::Config;
use super::values::Values;

/// The settings of the provider; any may be absent.
#[derive(Clone, Debug)]
pub(crate) struct Oidc {
    pub(crate) issuer: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret: Option<String>,
    pub(crate) request_scopes: Vec<String>,
    pub(crate) emails: Vec<(String, Scopes)>,
    pub(crate) groups: Vec<(String, Scopes)>,
    pub(crate) groups_claim: String,
}

impl Default for Oidc {
    fn default() -> Self {
        Self {
            issuer: None,
            name: None,
            client_id: None,
            client_secret: None,
            request_scopes: ["profile", "email"].map(str::to_owned).to_vec(),
            emails: Vec::new(),
            groups: Vec::new(),
            groups_claim: "groups".to_owned(),
        }
    }
}

impl Oidc {
    /// The options of the server; `None` without an issuer.
    pub(crate) fn options(&self) -> Option<LoginOptions> {
        let issuer = self.issuer.clone()?;
        let host = issuer.split("://").nth(1).and_then(|rest| rest.split('/').next()).map(str::to_owned);
        Some(LoginOptions {
            name: self.name.clone().or(host).unwrap_or_else(|| issuer.clone()),
            issuer,
            client_id: self.client_id.clone().unwrap_or_default(),
            client_secret: self.client_secret.clone(),
            request_scopes: self.request_scopes.clone(),
            emails: self.emails.clone(),
            groups: self.groups.clone(),
            groups_claim: self.groups_claim.clone(),
        })
    }
}

/// Checks that the settings of the provider are complete. They may come from several sources, so this is not a check of the file.
///
/// # Errors
/// A setting is missing; the message names it.
pub(super) fn check(config: &Config) -> Result<(), String> {
    let oidc = &config.oidc;
    if oidc.issuer.is_none() {
        let alone = config.given.keys().find(|key| key.starts_with("oidc."));
        return match alone {
            Some(key) => Err(format!(
                "`{key}` has no effect without `oidc.issuer`, the address of the identity provider"
            )),
            None => Ok(()),
        };
    }
    if oidc.client_id.is_none() {
        return Err(
            "`oidc.issuer` needs `oidc.clientId`, the id of this daemon at the identity provider".to_owned()
        );
    }
    if oidc.emails.is_empty() && oidc.groups.is_empty() {
        return Err(
            "`oidc.issuer` lets nobody in; say who may do what with `oidc.emails` or `oidc.groups`, such as \
             `oidc.emails: [ann@example.com=admin]`"
                .to_owned(),
        );
    }
    Ok(())
}

/// The URL of an issuer, exactly as the provider writes it.
pub(super) fn issuer(values: &Values<'_>) -> Result<String, String> {
    let issuer = values.one()?;
    connector::oidc::check_issuer(issuer)?;
    Ok(issuer.to_owned())
}

/// The name of a secret.
pub(super) fn secret(values: &Values<'_>) -> Result<String, String> {
    let name = values.one()?;
    if runtime::is_secret_name(name) {
        return Ok(name.to_owned());
    }
    // Not repeated: the value may be the secret itself.
    Err("it is no name of a secret; set the secret with `cogwork secrets set NAME`, and give its name here"
        .to_owned())
}

/// `WHO=SCOPE+SCOPE`: the scopes of a group or user.
pub(super) fn grants(values: &Values<'_>) -> Result<Vec<(String, Scopes)>, String> {
    let grant = |item: &String| {
        // The name may contain an equals sign: LDAP groups do.
        let (who, scopes) = item
            .rsplit_once('=')
            .filter(|(who, _)| !who.trim().is_empty())
            .ok_or_else(|| format!("`{item}` names no scope; write `{item}=read+run`"))?;
        let scopes =
            scopes.split('+').map(|word| word.trim().parse::<Scope>()).collect::<Result<Scopes, _>>()?;
        Ok((who.trim().to_owned(), scopes))
    };
    values.items.iter().map(grant).collect()
}

/// Like [`grants`], for verified e-mail addresses and domains: `ann@example.com=admin`, `@example.com=read`.
pub(super) fn emails(values: &Values<'_>) -> Result<Vec<(String, Scopes)>, String> {
    let grants = grants(values)?;
    let is_email = |who: &str| who.rsplit_once('@').is_some_and(|(_, domain)| !domain.is_empty());
    match grants.iter().find(|(who, _)| !is_email(who)) {
        Some((who, _)) => Err(format!(
            "`{who}` is no e-mail address; write `ann@example.com`, or `@example.com` for all of a domain"
        )),
        None => Ok(grants),
    }
}

/// Protocol identifiers: scopes to request, names of claims.
pub(super) fn words(values: &Values<'_>) -> Result<Vec<String>, String> {
    match values.items.iter().find(|word| word.is_empty() || word.contains(char::is_whitespace)) {
        Some(word) => Err(format!("`{word}` is no scope of OpenID Connect; write `profile`")),
        None => Ok(values.items.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file::apply_text;
    use super::*;

    fn checked(text: &str) -> Result<(), String> {
        let mut config = Config::new(Path::new("project"));
        let report = apply_text(text, Path::new("project"), &mut config);
        if report.has_errors() {
            return Err(report.render(false));
        }
        check(&config)
    }

    #[test]
    fn a_provider_needs_a_client_id_and_allowed_users() {
        for (text, why) in [
            ("oidc: {issuer: https://id.example.com}", "needs `oidc.clientId`"),
            ("oidc: {issuer: https://id.example.com, clientId: cogwork}", "lets nobody in"),
            ("oidc: {issuer: https://id.example.com, clientId: cogwork, emails: []}", "lets nobody in"),
            ("oidc: {clientId: cogwork}", "no effect without `oidc.issuer`"),
            ("oidc: {issuer: http://id.example.com}", "must begin with https://"),
            ("oidc: {emails: [ann=read]}", "no e-mail address"),
            ("oidc: {groups: [ops]}", "names no scope"),
            ("oidc: {groups: [ops=rule]}", "`rule` is no scope"),
            ("oidc: {groups: [=read]}", "names no scope"),
            ("oidc: {clientSecret: not a name}", "no name of a secret"),
            ("oidc: {requestScopes: [a b]}", "no scope of OpenID Connect"),
        ] {
            let message = checked(text).expect_err(text);
            assert!(message.contains(why), "{text}: {message}");
        }
        for who in ["emails: [ann@example.com=admin]", "groups: ['cn=ops,dc=example=read+run']"] {
            let text = format!("oidc: {{issuer: https://id.example.com, clientId: cogwork, {who}}}");
            assert_eq!(checked(&text), Ok(()), "{text}");
        }
    }

    #[test]
    fn a_secret_value_given_as_its_name_is_not_repeated() {
        let message = checked("oidc: {clientSecret: 'Sup3r s3cret!'}").expect_err("refused");
        // The excerpt of the file below the message contains it, as it contains every line.
        assert!(!message.lines().next().unwrap_or_default().contains("s3cret"), "{message}");
    }

    #[test]
    fn groups_and_emails_map_to_scopes() {
        let mut config = Config::new(Path::new("project"));
        let text = "oidc: {issuer: 'https://id.example.com/a/', clientId: c, groups: ['cn=ops=read + run'], emails: ['@example.com=admin']}";
        assert!(apply_text(text, Path::new("project"), &mut config).is_empty());
        let options = config.oidc.options().expect("a provider");
        assert_eq!(
            (options.issuer.as_str(), options.name.as_str()),
            ("https://id.example.com/a/", "id.example.com")
        );
        assert_eq!(options.groups, [("cn=ops".to_owned(), [Scope::Read, Scope::Run].into_iter().collect())]);
        assert_eq!(options.emails, [("@example.com".to_owned(), Scopes::ADMIN)]);
    }
}
