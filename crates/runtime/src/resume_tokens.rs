//! Tokens of resume addresses: everyone who knows one can answer a waiting execution, so they are masked for readers who may not.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::execution::ExecutionId;
use value::redact::{MASK, Mask};

use crate::context::Context;
use crate::store_secret::Secret;

/// Makes the tokens of executions, and finds them in texts. A token is the id of an execution with its HMAC, so it is recognised by
/// itself, wherever an author has put it.
#[derive(Clone, Debug)]
pub struct ResumeTokens(Secret);

impl ResumeTokens {
    /// The length of a token, in characters.
    pub const LEN: usize = 43;

    pub(crate) fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// Creates the tokens that belong to this key.
    #[must_use]
    pub fn with_key(key: [u8; 32]) -> Self {
        Self(Secret::new(key))
    }

    /// The token of an execution.
    #[must_use]
    pub fn token(&self, id: ExecutionId) -> String {
        let mut bytes = id.as_bytes().to_vec();
        bytes.extend(self.mac(id));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The execution of a token.
    pub(crate) fn execution(&self, token: &[u8]) -> Option<ExecutionId> {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (id, mac) = bytes.split_at_checked(16)?;
        let id = ExecutionId::from_bytes(id.try_into().ok()?);
        let right = self.mac(id);
        // Compared in constant time.
        let same =
            mac.len() == right.len() && mac.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0;
        same.then_some(id)
    }

    fn mac(&self, id: ExecutionId) -> [u8; 16] {
        self.0.derive(&[b"resume", id.as_bytes()])
    }

    /// Returns true if a byte may be part of a token.
    #[must_use]
    pub fn is_part(byte: u8) -> bool {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
    }

    /// The first token from `start` on.
    fn next(&self, bytes: &[u8], start: usize) -> Option<Range<usize>> {
        let mut at = start;
        while let Some(window) = bytes.get(at..at + Self::LEN) {
            match window.iter().rposition(|byte| !Self::is_part(*byte)) {
                // No window with this byte is a token.
                Some(other) => at += other + 1,
                None if looks_like_id(window) && self.execution(window).is_some() => {
                    return Some(at..at + Self::LEN);
                }
                None => at += 1,
            }
        }
        None
    }

    /// Masks the tokens in bytes; `None` if they contain none.
    #[must_use]
    pub fn masked(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut next = self.next(bytes, 0)?;
        let (mut out, mut done) = (Vec::with_capacity(bytes.len()), 0);
        loop {
            out.extend_from_slice(bytes.get(done..next.start).unwrap_or_default());
            out.extend_from_slice(MASK.as_bytes());
            done = next.end;
            let Some(further) = self.next(bytes, done) else { break };
            next = further;
        }
        out.extend_from_slice(bytes.get(done..).unwrap_or_default());
        Some(out)
    }
}

impl Mask for ResumeTokens {
    fn masked_text(&self, text: &str) -> Option<String> {
        // Tokens are ASCII, so the rest stays UTF-8.
        self.masked(text.as_bytes()).and_then(|masked| String::from_utf8(masked).ok())
    }

    fn masked_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.masked(bytes)
    }
}

/// Returns true if the time, the version and the variant of a UUID can belong to a token. The time of an id begins with six zero bits
/// until the year 2109, whatever the clock said. One of 4096 texts passes, so long texts in base64 cost little.
fn looks_like_id(window: &[u8]) -> bool {
    let bits = |index: usize| match window.get(index) {
        Some(letter @ b'A'..=b'Z') => letter - b'A',
        Some(letter @ b'a'..=b'z') => letter - b'a' + 26,
        Some(digit @ b'0'..=b'9') => digit - b'0' + 52,
        Some(b'-') => 62,
        _ => 63,
    };
    bits(0) == 0 && bits(8) >> 2 == 7 && bits(10) & 3 == 2
}

impl Context {
    /// The URL at which a waiting execution is answered. Its token is derived from the execution's id and the secret of the
    /// store, so that it is unguessable and need not be stored.
    #[must_use]
    pub fn resume_url(&self, id: ExecutionId) -> String {
        let base = self.settings.public_url.as_deref().unwrap_or("http://127.0.0.1:7070");
        format!("{}/resume/{}", base.trim_end_matches('/'), self.resume_tokens().token(id))
    }

    /// The tokens of resume addresses.
    #[must_use]
    pub fn resume_tokens(&self) -> ResumeTokens {
        ResumeTokens::new(self.secret.clone())
    }

    /// Derives an unguessable text from another with the secret of the store, the same on each node. No two labels give the same.
    #[must_use]
    pub fn derived_text(&self, label: &str, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.secret.derive(&[b"text", label.as_bytes(), text.as_bytes()]))
    }

    /// The execution of a resume token.
    #[must_use]
    pub fn resumed_by(&self, token: &str) -> Option<ExecutionId> {
        self.resume_tokens().execution(token.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use value::Value;
    use value::redact::masked_value;

    use super::*;

    fn tokens() -> (ResumeTokens, String) {
        let tokens = ResumeTokens::with_key([7; 32]);
        let token = tokens.token(ExecutionId::new(Timestamp::UNIX_EPOCH, [9; 10]));
        assert_eq!(token.len(), ResumeTokens::LEN);
        (tokens, token)
    }

    #[test]
    fn a_token_of_any_time_is_recognised_and_a_repeated_letter_is_not() {
        let (tokens, _) = tokens();
        for second in [0, 946_684_800, 1_700_000_000, 4_300_000_000] {
            let time = Timestamp::from_second(second).expect("a time");
            for random in [0, 0x55, 0xff] {
                assert!(
                    looks_like_id(tokens.token(ExecutionId::new(time, [random; 10])).as_bytes()),
                    "{time}"
                );
            }
        }
        for letter in (0..=u8::MAX).filter(|byte| ResumeTokens::is_part(*byte)) {
            assert!(!looks_like_id(&[letter; ResumeTokens::LEN]), "{}", char::from(letter));
        }
    }

    #[test]
    fn a_token_is_masked_anywhere_in_a_text() {
        let (tokens, token) = tokens();
        let check = |text: String, expected: &str| {
            assert_eq!(tokens.masked_text(&text).as_deref(), Some(expected), "{text}");
        };
        check(token.clone(), "***");
        check(format!("http://h/resume/{token}?x=1"), "http://h/resume/***?x=1");
        check(format!("before{token}after, {token}"), "before***after, ***");
        check(format!("ü{token}{token}"), "ü******");
        let other = ResumeTokens::with_key([8; 32]);
        assert_eq!(other.masked(token.as_bytes()), None);
        assert_eq!(tokens.masked(&token.as_bytes()[1..]), None);
        let value = Value::from(vec![Value::from("a"), Value::from(token.as_str())]);
        let masked = masked_value(&value, &tokens).expect("it has a token");
        assert_eq!(masked, Value::from(vec![Value::from("a"), Value::from("***")]));
    }
}
