//! The signatures of ID tokens, checked by `ring`, which TLS uses too: `jsonwebtoken` has no cryptography of its own then.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error as SignatureError, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

/// Only verifies: nothing is signed here, and no key is converted.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: verifier,
    key_utils: KeyUtils {
        rsa_pub_components_from_private_key: |_| Err(ErrorKind::InvalidAlgorithm.into()),
        rsa_pub_components_from_public_key: |_| Err(ErrorKind::InvalidAlgorithm.into()),
        ec_pub_components_from_private_key: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
        ed_pub_components_from_private_key: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
        compute_digest: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    },
};

/// Makes `ring` the cryptography of `jsonwebtoken` in this process.
pub(super) fn install() {
    // An error means that it is installed already.
    let _ = PROVIDER.install_default();
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let key = match (scheme(*algorithm), key.kind()) {
        (Some(Scheme::Rsa(parameters)), DecodingKeyKind::RsaModulusExponent { n, e }) => {
            Key::Rsa(parameters, n.clone(), e.clone())
        }
        (Some(Scheme::Curve(parameters)), DecodingKeyKind::SecretOrDer(point)) => {
            Key::Curve(parameters, point.clone())
        }
        _ => return Err(ErrorKind::InvalidAlgorithm.into()),
    };
    Ok(Box::new(RingVerifier { algorithm: *algorithm, key }))
}

enum Scheme {
    Rsa(&'static RsaParameters),
    Curve(&'static dyn VerificationAlgorithm),
}

/// The scheme of an algorithm; `None` if `ring` or this program does not take it.
fn scheme(algorithm: Algorithm) -> Option<Scheme> {
    Some(match algorithm {
        Algorithm::RS256 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Scheme::Curve(&ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Scheme::Curve(&ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Scheme::Curve(&ED25519),
        _ => return None,
    })
}

enum Key {
    /// Modulus and exponent.
    Rsa(&'static RsaParameters, Vec<u8>, Vec<u8>),
    /// A point in its uncompressed form, or an Ed25519 key.
    Curve(&'static dyn VerificationAlgorithm, Vec<u8>),
}

struct RingVerifier {
    algorithm: Algorithm,
    key: Key,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), SignatureError> {
        let verified = match &self.key {
            Key::Rsa(parameters, n, e) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            Key::Curve(parameters, point) => {
                UnparsedPublicKey::new(*parameters, point).verify(message, signature)
            }
        };
        verified.map_err(|_| SignatureError::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::jwk::Jwk;
    use jsonwebtoken::{Validation, decode};
    use serde::Deserialize;
    use serde_json::Value;

    use super::super::ALGORITHMS;
    use super::*;

    /// A token that pyca/cryptography has signed, with the key that verifies it.
    #[derive(Deserialize)]
    struct Vector {
        alg: Algorithm,
        jwk: Jwk,
        token: String,
    }

    fn verified(token: &str, vector: &Vector, algorithm: Algorithm) -> bool {
        let key = DecodingKey::from_jwk(&vector.jwk).expect("a key");
        let mut rules = Validation::new(algorithm);
        rules.required_spec_claims.clear();
        rules.validate_exp = false;
        decode::<Value>(token, &key, &rules).is_ok()
    }

    #[test]
    fn each_accepted_algorithm_verifies_its_own_signatures_only() {
        install();
        let vectors: Vec<Vector> = serde_json::from_str(include_str!("vectors.json")).expect("vectors");
        assert_eq!(vectors.iter().map(|vector| vector.alg).collect::<Vec<_>>(), ALGORITHMS);
        for vector in &vectors {
            let Vector { alg, token, .. } = vector;
            assert!(verified(token, vector, *alg), "{alg:?}");
            let changed = token.replacen(".eyJzdWIiOiJ1In0.", ".eyJzdWIiOiJ2In0.", 1);
            assert!(&changed != token && !verified(&changed, vector, *alg), "{alg:?} with other claims");
            let (message, _) = token.rsplit_once('.').expect("three parts");
            assert!(!verified(&format!("{message}."), vector, *alg), "{alg:?} without a signature");
            for other in vectors.iter().filter(|other| other.alg != *alg) {
                assert!(!verified(token, other, other.alg), "{alg:?} as {:?}", other.alg);
            }
        }
    }
}
