//! Reads the `oauth2` section of a connection type.

use text::yaml::{Field, MapReader};

use super::Check;
use crate::oauth::{AssertionConfig, ClientAuthConfig, Flow, OAuthConfig, SitesConfig};

pub(super) fn read(mut reader: MapReader<'_, '_>, check: &Check<'_>) -> Option<OAuthConfig> {
    // With an assertion a client gets tokens by itself, too.
    let grant = reader.required("grant").one_of(&[
        ("authorizationCode", (Flow::AuthorizationCode, false)),
        ("clientCredentials", (Flow::ClientCredentials, false)),
        ("jwtBearer", (Flow::ClientCredentials, true)),
    ]);
    let (flow, asserts) = grant.unzip();
    let asserts = asserts.unwrap_or(false);
    let input = |reader: &mut MapReader<'_, '_>, key: &'static str| {
        if reader.has(key) { check.input(reader.take(key)) } else { None }
    };
    let server = input(&mut reader, "server");
    let authorize_url = input(&mut reader, "authorizeUrl");
    let token_url = input(&mut reader, "tokenUrl");
    let scopes = input(&mut reader, "scopes");
    let optional_scopes = reader.take("moreScopes").map("moreScopes").and_then(|mut reader| {
        let name = check.input(reader.required("input"));
        let scopes = reader.required("scopes").string().map(str::to_owned);
        reader.finish();
        Some((name?, scopes?))
    });
    let audience = input(&mut reader, "audience");
    let issuer = input(&mut reader, "issuer");
    let authorize_path = reader.take("authorizePath").name().map(str::to_owned);
    let token_path = reader.take("tokenPath").name().map(str::to_owned);
    let client_id = check.input(reader.required(if asserts { "issuer" } else { "clientId" }));
    let client_secret = check.input(reader.required(if asserts { "key" } else { "clientSecret" }));
    let assertion = asserts.then(|| AssertionConfig {
        key: client_secret.clone().unwrap_or_default(),
        audience: audience.clone(),
        subject: input(&mut reader, "subject"),
    });
    let parameters = pairs(reader.take("parameters"));
    let token_parameters = pairs(reader.take("tokenParameters"));
    let client_auth = match reader.take("clientAuth").choice(&["body", "basic", "jwt"]) {
        Some("basic") => ClientAuthConfig::Basic,
        Some("jwt") => ClientAuthConfig::Jwt {
            key_id: input(&mut reader, "keyId"),
            certificate: input(&mut reader, "certificate"),
        },
        _ => ClientAuthConfig::Body,
    };
    let json = reader.take("request").one_of(&[("form", false), ("json", true)]).unwrap_or(false);
    let sites = reader.take("sites").map("sites").and_then(|reader| sites(reader, check));
    reader.finish();
    Some(OAuthConfig {
        flow: flow?,
        server,
        authorize_path,
        token_path,
        authorize_url,
        token_url,
        client_id: client_id?,
        client_secret: client_secret?,
        scopes,
        optional_scopes,
        audience,
        issuer: issuer.filter(|_| !asserts),
        parameters,
        json,
        client_auth,
        token_parameters,
        assertion,
        sites,
    })
}

fn sites(mut reader: MapReader<'_, '_>, check: &Check<'_>) -> Option<SitesConfig> {
    let list = reader.required("list").name().map(str::to_owned);
    let choice = check.input(reader.required("choice"));
    let slug = check.input(reader.required("slug"));
    let product = check.input(reader.required("product"));
    let placeholder = reader.required("word").name().map(str::to_owned);
    let paths = pairs(reader.take("paths"));
    reader.finish();
    Some(SitesConfig {
        list: list?,
        choice: choice?,
        slug: slug?,
        product: product?,
        placeholder: placeholder?,
        paths,
    })
}

fn pairs(field: Field<'_, '_>) -> Vec<(String, String)> {
    let entries = field.entries().into_iter().flat_map(|map| map.iter());
    entries.filter_map(|entry| Some((entry.key.to_string(), entry.value.as_str()?.to_owned()))).collect()
}
