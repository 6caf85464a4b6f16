//! Tokens for a signed assertion (RFC 7523, section 2.1), as service accounts get them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::json;
use value::Secret;

/// The grant type of an assertion.
pub(crate) const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// The type of an assertion that proves a client.
pub(crate) const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// The lifetime of an assertion that is a grant in seconds, the most that Google accepts.
const LIFETIME: i64 = 3600;
/// The lifetime of an assertion that proves a client, in seconds.
const PROOF_LIFETIME: i64 = 300;

/// The claims of an assertion, and the key that signs it. Its `Debug` hides the key.
#[derive(Clone, Debug)]
pub(crate) struct Assertion {
    pub(crate) issuer: String,
    pub(crate) audience: String,
    /// The account that the issuer acts for; `None` for its own.
    pub(crate) subject: Option<String>,
    /// A private RSA key, PKCS #8 in PEM.
    pub(crate) key: Secret,
    /// The marks of the key in an assertion that proves a client; `None` for a grant.
    pub(crate) proof: Option<KeyMarks>,
}

/// The marks by which a provider finds the public key of a client.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyMarks {
    /// The id of the key, `kid`.
    pub(crate) id: Option<String>,
    /// The SHA-256 of the certificate, `x5t#S256`.
    pub(crate) certificate: Option<String>,
}

impl KeyMarks {
    /// Takes the marks of a key. `certificate` is in PEM.
    ///
    /// # Errors
    /// Returns a message if the certificate is not one.
    pub(crate) fn new(id: Option<String>, certificate: Option<&str>) -> Result<Self, String> {
        let wrong = "its certificate is none; give all lines from `-----BEGIN CERTIFICATE-----` on";
        let digest = |text: &str| {
            let der = pem(text, "CERTIFICATE").ok_or_else(|| wrong.to_owned())?;
            Ok::<_, String>(URL_SAFE_NO_PAD.encode(value::Data::from(der).digest()))
        };
        Ok(Self { id, certificate: certificate.map(digest).transpose()? })
    }
}

impl Assertion {
    /// Returns the signed assertion, a JWT with RS256.
    ///
    /// # Errors
    /// Returns a message if the key is not a private RSA key.
    pub(crate) fn signed(&self, scopes: &[String], now: Timestamp) -> Result<Secret, String> {
        let begin = now.as_second();
        let lifetime = if self.proof.is_some() { PROOF_LIFETIME } else { LIFETIME };
        let mut claims =
            json!({"iss": self.issuer, "aud": self.audience, "iat": begin, "exp": begin + lifetime});
        if !scopes.is_empty() {
            claims["scope"] = scopes.join(" ").into();
        }
        if let Some(subject) = &self.subject {
            claims["sub"] = subject.as_str().into();
        }
        let mut head = json!({"alg": "RS256", "typ": "JWT"});
        if let Some(marks) = &self.proof {
            claims["jti"] = unique_id()?.into();
            for (key, mark) in [("kid", &marks.id), ("x5t#S256", &marks.certificate)] {
                if let Some(mark) = mark {
                    head[key] = mark.as_str().into();
                }
            }
        }
        let [head, claims] = [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let text = format!("{head}.{claims}");
        let pair = self.key_pair()?;
        let mut signature = vec![0; pair.public().modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| "its key cannot sign".to_owned())?;
        Ok(Secret::new(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }

    fn key_pair(&self) -> Result<RsaKeyPair, String> {
        let wrong = || {
            "its key is not a private RSA key; give all lines from `-----BEGIN PRIVATE KEY-----` on"
                .to_owned()
        };
        let der = pem(self.key.expose(), "PRIVATE KEY").ok_or_else(wrong)?;
        RsaKeyPair::from_pkcs8(&der).map_err(|_| wrong())
    }
}

/// Returns the bytes of the first part with this label in PEM (RFC 7468).
fn pem(text: &str, label: &str) -> Option<Vec<u8>> {
    // The JSON file of a service account has line breaks as `\n`.
    let text = text.replace("\\n", "\n");
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (base64, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let base64: String = base64.split_whitespace().collect();
    STANDARD.decode(base64).ok()
}

/// Returns an id that no other assertion has.
fn unique_id() -> Result<String, String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the system gives no random numbers".to_owned())?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

    use super::*;

    /// A key that was made for this test and opens nothing.
    const KEY: &str = include_str!("service-account.pem");

    fn assertion(key: &str) -> Assertion {
        Assertion {
            issuer: "robot@project.example".to_owned(),
            audience: "https://issuer.example/token".to_owned(),
            subject: Some("ann@example.com".to_owned()),
            key: Secret::new(key),
            proof: None,
        }
    }

    #[test]
    fn an_assertion_has_its_claims_and_the_signature_of_its_key() {
        let now = "2026-11-30T08:00:00Z".parse().expect("an instant");
        for key in [KEY.to_owned(), KEY.replace('\n', "\\n")] {
            let made = assertion(&key).signed(&["a".to_owned(), "b".to_owned()], now).expect("it signs");
            let parts: Vec<&str> = made.expose().split('.').collect();
            let [head, claims, signature] = parts.as_slice() else { panic!("three parts") };
            let read = |part: &str| URL_SAFE_NO_PAD.decode(part).expect("base64");
            let json = |part: &str| serde_json::from_slice::<serde_json::Value>(&read(part)).expect("JSON");
            assert_eq!(json(head), json!({"alg": "RS256", "typ": "JWT"}));
            let begin = now.as_second();
            assert_eq!(
                json(claims),
                json!({
                    "iss": "robot@project.example",
                    "sub": "ann@example.com",
                    "aud": "https://issuer.example/token",
                    "scope": "a b",
                    "iat": begin,
                    "exp": begin + 3600,
                })
            );
            let pair = assertion(KEY).key_pair().expect("a key");
            let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public().as_ref());
            let text = format!("{head}.{claims}");
            public.verify(text.as_bytes(), &read(signature)).expect("the signature of the key");
        }
    }

    #[test]
    fn no_key_appears_in_messages_and_debug_output() {
        for key in ["secret-text", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----"] {
            let words = assertion(key).signed(&[], Timestamp::UNIX_EPOCH).expect_err("it is no key");
            assert!(words.contains("not a private RSA key") && !words.contains("c2VjcmV0"), "{words}");
            assert!(!format!("{:?}", assertion(key)).contains("c2VjcmV0"));
        }
    }
}
