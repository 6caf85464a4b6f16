//! A double of an OpenID Connect provider that can be set to misbehave. It consents for every person at once, checks what a provider has to
//! check (client, code, PKCE, redirect address), and signs with ES256.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::Url;

/// The client that is registered, and its secret.
pub const CLIENT: &str = "cogwork";
/// The secret of the client.
pub const CLIENT_SECRET: &str = "the-secret-of-the-client";
/// The subject of the person who consents.
pub const SUBJECT: &str = "u-1";
/// The time for which an ID token is valid, in seconds.
const VALID_FOR: u64 = 300;
/// Maximum number of bytes of a body.
const LARGEST_BODY: usize = 64 << 10;

/// The conduct of the provider. The default is a right one.
#[derive(Clone, Debug, Default)]
pub struct Conduct {
    /// Members in place of those of the description.
    pub description: Map<String, Value>,
    /// Members in place of those of the ID token's header.
    pub header: Map<String, Value>,
    /// Members in place of those of the ID token; `null` removes one.
    pub claims: Map<String, Value>,
    /// Members in place of those of the user info.
    pub user_info: Map<String, Value>,
    /// True if the ID token has an empty signature.
    pub is_unsigned: bool,
    /// True if the ID token is signed with a key that is not published.
    pub has_strange_key: bool,
    /// The id of the key; the first one is `k1`.
    pub key_id: Option<String>,
    /// A path whose answers have 64 MiB.
    pub huge: Option<String>,
    /// A path that answers with status 500.
    pub failing: Option<String>,
}

/// A running double. Dropping it stops it.
pub struct IdentityProvider {
    shared: Arc<Shared>,
}

struct Shared {
    issuer: String,
    key: EcdsaKeyPair,
    strange_key: EcdsaKeyPair,
    state: Mutex<State>,
    stop: CancellationToken,
}

#[derive(Default)]
struct State {
    conduct: Conduct,
    /// The requests for logins by code, until the code is used.
    codes: HashMap<String, HashMap<String, String>>,
    access_tokens: HashSet<String>,
    requests: Vec<String>,
}

impl IdentityProvider {
    /// Listens on a free port.
    ///
    /// # Errors
    /// The system refuses, or gives no key.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let shared = Arc::new(Shared {
            issuer: format!("http://{}", listener.local_addr()?),
            key: new_key()?,
            strange_key: new_key()?,
            state: Mutex::default(),
            stop: CancellationToken::new(),
        });
        tokio::spawn(serve(listener, shared.clone()));
        Ok(Self { shared })
    }

    /// The issuer identifier.
    pub fn issuer(&self) -> &str {
        &self.shared.issuer
    }

    /// Changes the conduct from now on.
    pub fn behave(&self, conduct: Conduct) {
        self.shared.state().conduct = conduct;
    }

    /// The paths of the requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.shared.state().requests.clone()
    }

    /// A person opens the address of a login and consents. Returns the code and the state with which they are sent back.
    ///
    /// # Errors
    /// The address is not this provider's, or lacks something.
    pub fn consent(&self, address: &str) -> io::Result<(String, String)> {
        let url = Url::parse(address).map_err(io::Error::other)?;
        let query: HashMap<String, String> = url.query_pairs().into_owned().collect();
        let has = |name: &str, value: &str| query.get(name).is_some_and(|found| found == value);
        let is_right = address.starts_with(&format!("{}/authorize?", self.shared.issuer))
            && has("response_type", "code")
            && has("client_id", CLIENT)
            && has("code_challenge_method", "S256")
            && query.get("scope").is_some_and(|scope| scope.split(' ').any(|scope| scope == "openid"))
            && ["state", "nonce", "code_challenge", "redirect_uri"]
                .iter()
                .all(|name| query.contains_key(*name));
        if !is_right {
            return Err(io::Error::other(format!("no request of a login: {address}")));
        }
        let state = query.get("state").cloned().unwrap_or_default();
        let code = uuid::Uuid::new_v4().to_string();
        self.shared.state().codes.insert(code.clone(), query);
        Ok((code, state))
    }
}

impl Drop for IdentityProvider {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

/// An error of `ring`, whose errors are none of the standard library without a feature.
fn no_crypto(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

fn new_key() -> io::Result<EcdsaKeyPair> {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).map_err(no_crypto)?;
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).map_err(no_crypto)
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stop.cancelled() => return,
        };
        let Ok((stream, _)) = stream else { continue };
        let (served, stop) = (shared.clone(), shared.stop.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(served.clone(), request));
            tokio::select! {
                _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service) => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, LARGEST_BODY).collect().await.map_err(io::Error::other)?.to_bytes();
    let path = head.uri.path().to_owned();
    shared.state().requests.push(path.clone());
    let conduct = shared.state().conduct.clone();
    let (status, value) = match path.as_str() {
        path if conduct.failing.as_deref() == Some(path) => (StatusCode::INTERNAL_SERVER_ERROR, json!({})),
        "/.well-known/openid-configuration" => (StatusCode::OK, shared.description(&conduct)),
        "/keys" => (StatusCode::OK, shared.keys(&conduct)),
        "/token" => shared.tokens(&head.headers, &body, &conduct)?,
        "/userinfo" => shared.user_info(&head.headers, &conduct),
        _ => (StatusCode::NOT_FOUND, json!({})),
    };
    let mut body = value.to_string();
    if conduct.huge.as_deref() == Some(&path) {
        body.push_str(&" ".repeat(64 << 20));
    }
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(Full::new(Bytes::from(body))).map_err(io::Error::other)
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn description(&self, conduct: &Conduct) -> Value {
        let issuer = &self.issuer;
        let mut description = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "userinfo_endpoint": format!("{issuer}/userinfo"),
            "jwks_uri": format!("{issuer}/keys"),
        });
        replace(&mut description, &conduct.description);
        description
    }

    fn keys(&self, conduct: &Conduct) -> Value {
        let id = conduct.key_id.as_deref().unwrap_or("k1");
        let (x, y) = self.key.public_key().as_ref()[1..].split_at(32);
        let encode = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
        json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "x": encode(x), "y": encode(y)}]})
    }

    /// The token endpoint: a code is good once, for its own verifier and redirect address.
    #[expect(clippy::disallowed_methods, reason = "a provider has a clock of its own")]
    fn tokens(&self, headers: &HeaderMap, body: &[u8], conduct: &Conduct) -> io::Result<(StatusCode, Value)> {
        let form: HashMap<String, String> = url::form_urlencoded::parse(body).into_owned().collect();
        let refusal = |code: &str| Ok((StatusCode::BAD_REQUEST, json!({"error": code})));
        let credentials = format!("Basic {}", STANDARD.encode(format!("{CLIENT}:{CLIENT_SECRET}")));
        if headers.get("authorization").is_none_or(|found| found.as_bytes() != credentials.as_bytes()) {
            return refusal("invalid_client");
        }
        let asked = form.get("code").and_then(|code| self.state().codes.remove(code));
        let Some(asked) = asked else { return refusal("invalid_grant") };
        let verifier = form.get("code_verifier").map(String::as_str).unwrap_or_default();
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
        if asked.get("code_challenge") != Some(&challenge)
            || asked.get("redirect_uri") != form.get("redirect_uri")
        {
            return refusal("invalid_grant");
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?.as_secs();
        let mut header = json!({"alg": "ES256", "kid": conduct.key_id.as_deref().unwrap_or("k1")});
        replace(&mut header, &conduct.header);
        let mut claims = json!({
            "iss": self.issuer, "sub": SUBJECT, "aud": CLIENT, "iat": now, "exp": now + VALID_FOR, "nonce": asked.get("nonce"),
        });
        replace(&mut claims, &conduct.claims);
        let access = uuid::Uuid::new_v4().to_string();
        self.state().access_tokens.insert(access.clone());
        let id_token = self.sign(&header, &claims, conduct)?;
        Ok((StatusCode::OK, json!({"access_token": access, "token_type": "Bearer", "id_token": id_token})))
    }

    fn sign(&self, header: &Value, claims: &Value, conduct: &Conduct) -> io::Result<String> {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        if conduct.is_unsigned {
            return Ok(format!("{message}."));
        }
        let key = if conduct.has_strange_key { &self.strange_key } else { &self.key };
        let signature = key.sign(&SystemRandom::new(), message.as_bytes()).map_err(no_crypto)?;
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn user_info(&self, headers: &HeaderMap, conduct: &Conduct) -> (StatusCode, Value) {
        let token =
            headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        if !token.is_some_and(|token| self.state().access_tokens.contains(token)) {
            return (StatusCode::UNAUTHORIZED, json!({}));
        }
        let mut info =
            json!({"sub": SUBJECT, "email": "ann@example.com", "email_verified": true, "groups": ["ops"]});
        replace(&mut info, &conduct.user_info);
        (StatusCode::OK, info)
    }
}

fn replace(value: &mut Value, others: &Map<String, Value>) {
    let Some(members) = value.as_object_mut() else { return };
    for (name, other) in others {
        if other.is_null() {
            members.remove(name);
        } else {
            members.insert(name.clone(), other.clone());
        }
    }
}
