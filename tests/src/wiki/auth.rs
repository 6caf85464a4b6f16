//! Authentication: Basic on the site, bearer tokens and scoped API tokens on the gateway.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::clock::Moment;
use super::error::ApiError;
use super::oauth::OAuth;
use super::users::{ApiToken, User, Who};

/// Which of the two hosts of the API a path belongs to. Here both are one address, told apart by the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Host {
    Site,
    Gateway,
}

/// A parsed Authorization header.
#[derive(Debug, PartialEq, Eq)]
enum Credentials<'a> {
    Basic(String, String),
    Bearer(&'a str),
}

/// Checks the Authorization header of a call.
///
/// # Errors
/// 401, in the shape of the host; for a right password where an API token belongs, in plain text.
pub(super) fn authenticate(
    host: Host,
    authorization: Option<&str>,
    users: &[User],
    oauth: &OAuth,
    self_hosted: bool,
    now: Moment,
) -> Result<Who, ApiError> {
    let credentials = authorization.and_then(read).ok_or_else(ApiError::unauthorized)?;
    match (host, credentials) {
        (Host::Site, Credentials::Basic(name, secret)) => {
            let user = find(users, &name).ok_or_else(ApiError::unauthorized)?;
            if token(user, &secret).is_some_and(|token| token.scopes.is_none()) {
                return Ok(Who { account_id: user.account_id.clone(), scopes: None });
            }
            match user.password.as_deref() == Some(secret.as_str()) {
                true if self_hosted => Ok(Who { account_id: user.account_id.clone(), scopes: None }),
                true => Err(ApiError::password_refused()),
                false => Err(ApiError::unauthorized()),
            }
        }
        // A token of the gateway is never accepted on the site.
        (Host::Site, Credentials::Bearer(_)) => Err(ApiError::unauthorized()),
        (Host::Gateway, Credentials::Basic(name, secret)) => {
            let user = find(users, &name).ok_or_else(ApiError::gateway_unauthorized)?;
            match token(user, &secret) {
                Some(ApiToken { scopes: Some(scopes), .. }) => {
                    Ok(Who { account_id: user.account_id.clone(), scopes: Some(scopes.clone()) })
                }
                _ => Err(ApiError::gateway_unauthorized()),
            }
        }
        (Host::Gateway, Credentials::Bearer(token)) => {
            oauth.bearer(token, now).ok_or_else(ApiError::gateway_unauthorized)
        }
    }
}

/// The pair of a Basic header, for the token endpoint.
pub(super) fn basic_pair(authorization: &str) -> Option<(String, String)> {
    match read(authorization)? {
        Credentials::Basic(name, secret) => Some((name, secret)),
        Credentials::Bearer(_) => None,
    }
}

fn find<'a>(users: &'a [User], email: &str) -> Option<&'a User> {
    users.iter().find(|user| user.email.eq_ignore_ascii_case(email))
}

fn token<'a>(user: &'a User, secret: &str) -> Option<&'a ApiToken> {
    user.api_tokens.iter().find(|token| token.secret == secret)
}

fn read(authorization: &str) -> Option<Credentials<'_>> {
    let (scheme, rest) = authorization.trim().split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return (!rest.is_empty()).then_some(Credentials::Bearer(rest));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(rest).ok()?).ok()?;
    let (name, secret) = text.split_once(':')?;
    Some(Credentials::Basic(name.to_owned(), secret.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(pair: &str) -> String {
        format!("Basic {}", STANDARD.encode(pair))
    }

    #[track_caller]
    fn check(host: Host, authorization: Option<&str>, expected: Result<&str, u16>) {
        let users = [User::new("acc", "a@example.com")
            .api_token("plain")
            .scoped_api_token("scoped", "read:page:wiki")
            .password("password")];
        let now = Moment::from_millis(0);
        let mut oauth = OAuth::default();
        let issued = oauth.grant("c", "acc", "read:page:wiki", now).access_token;
        let bearer = format!("Bearer {issued}");
        let authorization =
            authorization.map(|text| if text == "Bearer good" { bearer.as_str() } else { text });
        let found = authenticate(host, authorization, &users, &oauth, false, now);
        assert_eq!(found.as_ref().map(Who::account_id).map_err(ApiError::status), expected);
    }

    #[test]
    fn the_site_takes_full_api_tokens_and_nothing_else() {
        check(Host::Site, Some(&basic("a@example.com:plain")), Ok("acc"));
        check(Host::Site, Some(&basic("A@Example.com:plain")), Ok("acc"));
        check(Host::Site, Some(&basic("a@example.com:scoped")), Err(401));
        check(Host::Site, Some(&basic("a@example.com:password")), Err(401));
        check(Host::Site, Some(&basic("b@example.com:plain")), Err(401));
        check(Host::Site, Some("Bearer good"), Err(401));
        check(Host::Site, Some("Basic %%%"), Err(401));
        check(Host::Site, Some("Digest x"), Err(401));
        check(Host::Site, None, Err(401));
    }

    #[test]
    fn the_gateway_takes_bearer_tokens_and_scoped_api_tokens() {
        check(Host::Gateway, Some("Bearer good"), Ok("acc"));
        check(Host::Gateway, Some("Bearer bad"), Err(401));
        check(Host::Gateway, Some(&basic("a@example.com:scoped")), Ok("acc"));
        check(Host::Gateway, Some(&basic("a@example.com:plain")), Err(401));
    }
}
