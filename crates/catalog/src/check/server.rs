//! Checks the inputs by which a connection reaches a server that speaks a protocol of its own: its name, its certificates, and inputs
//! that have no effect together. Codes: `wrong-input`, `missing-input`, `unused-setting`, `conflicting-keys`.

use connector::ConnectionType;
use expression::template::Template;
use model::Connection;
use model::automation::SpannedName;
use text::diagnostic::Diagnostic;
use value::Value;

/// Inputs of which one does without the others: a login by the first, or by the second list.
const LOGINS: [(&str, &[&str]); 2] =
    [("token", &["user", "password", "credentials"]), ("credentials", &["user", "password"])];

/// Inputs that concern the encryption of a connection.
const OF_ENCRYPTION: [&str; 3] = ["ca", "clientCert", "clientKey"];

/// Checks a connection of a type without a base URL.
pub(super) fn check(connection: &Connection, kind: &ConnectionType, found: &mut Vec<Diagnostic>) {
    if kind.has_base_url() || kind.input("host").is_none() {
        return;
    }
    let given = |name: &str| {
        connection.with.iter().find(|(given, _)| given.name == name && kind.input(name).is_some())
    };
    let literal = |name: &str| given(name)?.1.literal().and_then(Value::as_str);
    if let Some((name, Template::Literal(Value::String(host)))) = given("host") {
        found.extend(host_problem(name, host, kind));
    }
    let is_plain = ["tls", "security"].into_iter().find(|name| literal(name) == Some("none"));
    if let Some(encryption) = is_plain {
        for (name, _) in OF_ENCRYPTION.into_iter().filter_map(given) {
            let message =
                format!("`{}` has no effect: with `{encryption}: none` nothing is encrypted", name.name);
            found.push(
                Diagnostic::warning("unused-setting", message, name.span)
                    .help(format!("remove it, or remove `{encryption}: none`")),
            );
        }
    }
    for (one, other) in [("clientCert", "clientKey"), ("clientKey", "clientCert")] {
        if let (Some((name, _)), None) = (given(one), given(other)) {
            let message = format!("`{one}` needs `{other}`");
            found.push(
                Diagnostic::error("missing-input", message, name.span)
                    .help(format!("add `{other}:` below `with`")),
            );
        }
    }
    for (login, others) in LOGINS {
        let Some((name, _)) = given(login) else { continue };
        let others: Vec<String> = others
            .iter()
            .filter_map(|other| given(other))
            .map(|(other, _)| format!("`{}`", other.name))
            .collect();
        if !others.is_empty() {
            let message = format!("`{login}` is given in place of {}", others.join(", "));
            found.push(
                Diagnostic::error("conflicting-keys", message, name.span)
                    .help("remove the one or the others"),
            );
        }
    }
    for name in ["authorizeUrl", "tokenUrl"] {
        if let (Some((place, _)), Some(text)) = (given(name), literal(name))
            && !["https://", "http://"].iter().any(|scheme| text.starts_with(scheme))
        {
            let message = format!("`{name}` is an address, which begins with `https://`, found `{text}`");
            let help = format!("write `{name}: https://{text}`");
            found.push(Diagnostic::error("wrong-input", message, place.span).help(help));
        }
    }
    for name in ["ca", "clientCert"] {
        if let (Some((place, _)), Some(text)) = (given(name), literal(name))
            && !text.contains("-----BEGIN")
        {
            let message = format!("`{name}` is the text of a certificate, which begins with `-----BEGIN`");
            found.push(
                Diagnostic::error("wrong-input", message, place.span)
                    .help("write the text as a block (`|`), or keep it as a secret: `${{ secrets.NAME }}`"),
            );
        }
    }
}

/// The problem of the name of a server that is written with more than the name.
fn host_problem(name: &SpannedName, host: &str, kind: &ConnectionType) -> Option<Diagnostic> {
    let (scheme, rest) = host.split_once("://").map_or((None, host), |(scheme, rest)| (Some(scheme), rest));
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let bare = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = bare.rsplit_once(':').filter(|(name, port)| {
        let is_name = !name.contains(':') || name.ends_with(']');
        is_name && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    let meant = port.map_or(bare, |(name, _)| name);
    if meant == host {
        let has_space = host.is_empty() || host.contains(char::is_whitespace);
        let message = format!("`host` is the name or the address of a server, found `{host}`");
        return has_space.then(|| {
            Diagnostic::error("wrong-input", message, name.span).help("write it like `server.example.com`")
        });
    }
    let with_port =
        port.filter(|_| kind.input("port").is_some()).map(|(_, port)| format!(" and `port: {port}`"));
    let found = match (scheme, port) {
        (Some(_), _) => "an address with a scheme",
        (None, Some(_)) => "a name with a port",
        (None, None) => "more than that",
    };
    let message = format!("`host` is the name of a server, and this is {found}");
    let help = format!("write `host: {meant}`{}", with_port.unwrap_or_default());
    Some(Diagnostic::error("wrong-input", message, name.span).help(help))
}
