//! The key of the server that a connection names.

use russh::keys::{Algorithm, HashAlg, PublicKey};

/// The key that a server must show.
#[derive(Clone, Debug)]
pub(super) enum HostKey {
    /// The connection names none yet.
    Unknown,
    Fingerprint(String),
    Key(Box<PublicKey>),
}

impl HostKey {
    /// Reads a fingerprint or a line of `known_hosts`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "unknown" {
            return Ok(Self::Unknown);
        }
        if let Some(digest) = text.strip_prefix("SHA256:") {
            let digest = digest.trim_end_matches('=');
            let is_digest = digest.len() == 43
                && digest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte));
            if is_digest {
                return Ok(Self::Fingerprint(format!("SHA256:{digest}")));
            }
        }
        // A line has the names of the host before the key, and the key may have a comment behind it.
        let words: Vec<&str> = text.split_whitespace().filter(|word| !word.starts_with('@')).collect();
        let keys = words.windows(2).filter_map(|pair| PublicKey::from_openssh(&pair.join(" ")).ok());
        let key = keys.into_iter().next();
        key.map(|key| Self::Key(Box::new(key))).ok_or_else(|| {
            "`hostKey` is neither a fingerprint, `SHA256:…`, nor a line of `known_hosts`; with `unknown`, `cogwork connections \
             test` names the key of the server"
                .to_owned()
        })
    }

    /// The algorithm that the server must use; `None` if any will do.
    pub(super) fn algorithm(&self) -> Option<Algorithm> {
        match self {
            Self::Key(key) => Some(key.algorithm()),
            Self::Unknown | Self::Fingerprint(_) => None,
        }
    }

    /// Checks the key that the server shows.
    ///
    /// # Errors
    /// Returns the reason, with the fingerprint that the server shows.
    pub(super) fn check(&self, shown: &PublicKey) -> Result<(), String> {
        let fingerprint = shown.fingerprint(HashAlg::Sha256).to_string();
        let kind = shown.algorithm();
        let expected = match self {
            Self::Key(key) if key.key_data() == shown.key_data() => return Ok(()),
            Self::Fingerprint(expected) if *expected == fingerprint => return Ok(()),
            Self::Unknown => {
                return Err(format!(
                    "the server shows the key `{fingerprint}` ({kind}); compare it with what the operator of the server says, and \
                     set it as `hostKey`"
                ));
            }
            Self::Key(key) => key.fingerprint(HashAlg::Sha256).to_string(),
            Self::Fingerprint(expected) => expected.clone(),
        };
        Err(format!(
            "the server shows the key `{fingerprint}` ({kind}), and `hostKey` names `{expected}`: it has a new key, or another \
             server answers; ask its operator before you change `hostKey`"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

    #[test]
    fn a_host_key_is_a_fingerprint_or_a_line_of_known_hosts() {
        let key = PublicKey::from_openssh(KEY).expect("a key");
        let fingerprint = key.fingerprint(HashAlg::Sha256).to_string();
        for text in [
            KEY.to_owned(),
            format!("files.example.com {KEY}"),
            format!("[files.example.com]:2222,10.0.0.1 {KEY} ada@example"),
            format!("|1|c2FsdA==|aGFzaA== {KEY}"),
            fingerprint.clone(),
            format!(" {fingerprint}=\n"),
        ] {
            HostKey::parse(&text)
                .expect("a key")
                .check(&key)
                .unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        let other = HostKey::parse(&fingerprint.replace(':', ":A").replace("SHA256:AA", "SHA256:A"));
        assert!(other.is_err() || other.is_ok_and(|other| other.check(&key).is_err()));
        let unknown = HostKey::parse("unknown").expect("a word").check(&key).expect_err("nothing is trusted");
        assert!(unknown.contains(&fingerprint), "{unknown}");
        for text in ["", "SHA256:", "SHA256:short", "MD5:00:11", "ssh-ed25519", "files.example.com"] {
            assert!(HostKey::parse(text).is_err(), "{text}");
        }
    }
}
