//! Keeps secrets out of what is stored, logged and answered: by value, wherever they stand, and by the names of fields.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::action::ActionError;
use crate::connection::Secret;
use crate::value::{File, List, Map, Value};

/// What stands in the place of a secret.
pub const MASK: &str = "***";

/// Shorter secrets are hidden by field alone: they would mask half of every text (threat model 4.7).
const SHORTEST: usize = 8;

/// The most secrets that are known at one time; the one that was not read for longest goes first.
const MOST: usize = 1000;

/// What a query leaves as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Headers whose values are credentials, in lower case. A signature is good for its own body alone, but whoever keeps
/// many of them keeps what a brute force on the secret needs.
const CREDENTIAL_HEADERS: [&str; 6] =
    ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key"];

/// Finds what the names of other such headers contain.
static TELLING: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::new(["signature", "hmac", "token", "secret"]).ok());

/// Whether the header of this name, in lower case, carries a credential or a signature.
#[must_use]
pub fn is_credential_header(name: &str) -> bool {
    // Where it cannot be told, none is shown.
    CREDENTIAL_HEADERS.contains(&name) || TELLING.as_ref().is_none_or(|telling| telling.is_match(name))
}

/// The secrets that were read, and a search for all of them at once. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Known>>);

#[derive(Default)]
struct Known {
    secrets: VecDeque<Secret>,
    texts: HashSet<Secret>,
    /// Finds every form of every secret; `None` while there is none. Made when it is first needed: secrets come in groups.
    search: OnceLock<Option<Arc<AhoCorasick>>>,
}

impl Known {
    fn make_search(&self) -> Option<Arc<AhoCorasick>> {
        let forms: Vec<String> = self.secrets.iter().flat_map(|secret| forms(secret.expose())).collect();
        if forms.is_empty() {
            return None;
        }
        // It can only fail for more patterns than there are.
        AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(forms).ok().map(Arc::new)
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Redactor")
    }
}

impl Redactor {
    /// Hides this secret from now on, in every form in which it is usually sent.
    pub fn hide(&self, secret: &str) {
        if secret.len() < SHORTEST {
            return;
        }
        let secret = Secret::new(secret);
        if self.0.read().unwrap_or_else(PoisonError::into_inner).texts.contains(&secret) {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !known.texts.insert(secret.clone()) {
            return;
        }
        known.secrets.push_back(secret);
        if known.secrets.len() > MOST
            && let Some(oldest) = known.secrets.pop_front()
        {
            known.texts.remove(&oldest);
        }
        known.search = OnceLock::new();
    }

    /// Whether nothing is hidden.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).secrets.is_empty()
    }

    /// The text without secrets.
    #[must_use]
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.search() {
            Some(search) if search.is_match(text) => Cow::Owned(masked(&search, text)),
            _ => Cow::Borrowed(text),
        }
    }

    /// The bytes without secrets; `None` where they hold none.
    #[must_use]
    pub fn bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let search = self.search()?;
        search.is_match(bytes).then(|| masked_bytes(&search, bytes))
    }

    /// The value without secrets: in texts, in the keys of maps, and in files.
    #[must_use]
    pub fn value(&self, value: Value) -> Value {
        let Some(search) = self.search() else { return value };
        masked_value(&search, &value).unwrap_or(value)
    }

    /// The failure without secrets.
    #[must_use]
    pub fn error(&self, mut error: ActionError) -> ActionError {
        let Some(search) = self.search() else { return error };
        if search.is_match(&error.message) {
            error.message = masked(&search, &error.message);
        }
        let known = &mut *error;
        for text in [&mut known.code, &mut known.request_id].into_iter().flatten() {
            if search.is_match(text.as_str()) {
                *text = masked(&search, text);
            }
        }
        if let Some(body) = &error.body
            && let Some(masked) = masked_value(&search, body)
        {
            error.body = Some(masked);
        }
        error
    }

    fn search(&self) -> Option<Arc<AhoCorasick>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.search.get_or_init(|| known.make_search()).clone()
    }
}

fn masked(search: &AhoCorasick, text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    search.replace_all_with(text, &mut out, |_, _, out| {
        out.push_str(MASK);
        true
    });
    out
}

fn masked_bytes(search: &AhoCorasick, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    search.replace_all_with_bytes(bytes, &mut out, |_, _, out| {
        out.extend_from_slice(MASK.as_bytes());
        true
    });
    out
}

/// The value without secrets; `None` where it holds none, so that nothing is copied.
fn masked_value(search: &AhoCorasick, value: &Value) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(_) => None,
        Value::Number(number) => {
            let text = number.to_string();
            (text.len() >= SHORTEST && search.is_match(&text)).then(|| Value::from(masked(search, &text)))
        }
        Value::String(text) => search.is_match(&**text).then(|| Value::from(masked(search, text))),
        Value::List(list) => {
            let changed: Vec<Option<Value>> = list.0.iter().map(|item| masked_value(search, item)).collect();
            changed.iter().any(Option::is_some).then(|| {
                let items = list.0.iter().zip(changed);
                let items = items.map(|(item, changed)| changed.unwrap_or_else(|| item.clone()));
                Value::List(Arc::new(List(items.collect())))
            })
        }
        Value::Map(map) => masked_map(search, map).map(|map| Value::Map(Arc::new(map))),
        Value::File(file) => {
            let filename = file.filename.as_deref().filter(|name| search.is_match(*name));
            // What is kept outside stays as it came, as the body of a request does.
            let data = file.data.here().filter(|bytes| search.is_match(&bytes[..]));
            let data = data.map(|bytes| masked_bytes(search, bytes));
            (filename.is_some() || data.is_some()).then(|| {
                Value::File(Arc::new(File {
                    content_type: file.content_type.clone(),
                    filename: match filename {
                        Some(name) => Some(masked(search, name).into()),
                        None => file.filename.clone(),
                    },
                    data: data.map_or_else(|| file.data.clone(), Into::into),
                }))
            })
        }
    }
}

fn masked_map(search: &AhoCorasick, map: &Map) -> Option<Map> {
    let changed: Vec<(bool, Option<Value>)> =
        map.iter().map(|(key, value)| (search.is_match(&**key), masked_value(search, value))).collect();
    if !changed.iter().any(|(key, value)| *key || value.is_some()) {
        return None;
    }
    let mut masked_map = map.clone();
    for ((key, old), (key_changed, value)) in map.iter().zip(changed) {
        let value = value.unwrap_or_else(|| old.clone());
        if key_changed {
            masked_map.remove(key);
            masked_map.insert(masked(search, key), value);
        } else if let Some(place) = masked_map.get_mut(key) {
            *place = value;
        }
    }
    Some(masked_map)
}

/// Every form in which a secret is usually sent.
fn forms(secret: &str) -> Vec<String> {
    let escaped = serde_json::Value::from(secret).to_string();
    let encoded = utf8_percent_encode(secret, ENCODED).to_string();
    let mut forms = vec![
        secret.to_owned(),
        escaped[1..escaped.len() - 1].to_owned(),
        encoded.to_ascii_lowercase(),
        encoded.replace("%20", "+"),
        encoded,
        hex::encode(secret),
        // With what fills up the last characters, which are the secret's own where nothing follows.
        STANDARD.encode(secret),
        URL_SAFE.encode(secret),
        STANDARD_NO_PAD.encode(secret),
        URL_SAFE_NO_PAD.encode(secret),
    ];
    for before in 0..3 {
        forms.extend(inside_base64(secret, before));
    }
    forms.retain(|form| form.len() >= SHORTEST);
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// How the secret looks inside base64 of a longer text, with so many bytes (modulo 3) before it: the characters that
/// depend on the secret alone. `Basic` is such a text, with the user's name before it.
fn inside_base64(secret: &str, before: usize) -> [String; 2] {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(secret.as_bytes());
    // A character is 6 bits: those that reach into the bytes before or behind are not the secret's own.
    let first = (before * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)]
        .map(|text| text.get(first..last).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "p@ss/w\"rd +1";

    fn redactor() -> Redactor {
        let redactor = Redactor::default();
        redactor.hide(SECRET);
        redactor
    }

    #[test]
    fn a_secret_is_hidden_in_every_form_in_which_it_is_sent() {
        let redactor = redactor();
        for text in [
            SECRET.to_owned(),
            format!("x{SECRET}y"),
            serde_json::json!({ "key": SECRET }).to_string(),
            format!("https://h.example/?key={}", utf8_percent_encode(SECRET, ENCODED)),
            "key=p%40ss%2Fw%22rd+%2B1&x".to_owned(),
            "key=p%40ss%2fw%22rd%20%2b1&x".to_owned(),
            format!("Basic {}", STANDARD.encode(format!("user:{SECRET}"))),
            format!("Basic {}", STANDARD.encode(format!("us:{SECRET}"))),
            STANDARD.encode(format!("u:{SECRET}more")),
            URL_SAFE.encode(SECRET),
            hex::encode(SECRET),
        ] {
            let hidden = redactor.text(&text);
            assert!(hidden.contains(MASK), "{text}");
        }
        assert_eq!(redactor.text("nothing here"), "nothing here");
    }

    #[test]
    fn a_short_secret_is_not_looked_for() {
        let redactor = Redactor::default();
        redactor.hide("1234567");
        assert!(redactor.is_idle());
        assert_eq!(redactor.text("1234567"), "1234567");
    }

    #[test]
    fn values_are_hidden_deep_inside_and_in_keys_and_files() {
        let value = Value::from(Map::from_iter([
            ("list", Value::from(vec![Value::from(1), Value::from(format!("a {SECRET} b"))])),
            (SECRET, Value::from("key")),
            (
                "file",
                Value::from(File {
                    content_type: "text/plain".into(),
                    filename: Some(SECRET.into()),
                    data: format!("bytes {SECRET}").into_bytes().into(),
                }),
            ),
        ]));
        let hidden = redactor().value(value).to_json();
        assert!(!hidden.contains("p@ss"), "{hidden}");
        assert!(hidden.contains("a *** b") && hidden.contains("\"***\":\"key\""), "{hidden}");
        let numbers = Redactor::default();
        numbers.hide("1234567890");
        assert_eq!(numbers.value(Value::from(1_234_567_890)), Value::from(MASK));
    }

    #[test]
    fn what_holds_no_secret_is_not_copied() {
        let text: Arc<str> = "as plain as can be, and too long to stand in place".into();
        let Value::String(same) = redactor().value(Value::from(text.clone())) else { panic!("a text") };
        assert_eq!(text.as_ptr(), same.as_ptr());
    }

    #[test]
    fn the_oldest_secrets_are_forgotten_first() {
        let redactor = redactor();
        for number in 0..MOST {
            redactor.hide(&format!("secret-number-{number}"));
        }
        assert_eq!(redactor.text(SECRET), SECRET);
        assert_eq!(redactor.text("secret-number-0"), MASK);
    }

    #[test]
    fn fields_that_carry_credentials_are_known_by_name() {
        for name in
            ["authorization", "cookie", "x-api-key", "x-hub-signature-256", "x-hmac-hash", "x-gitlab-token"]
        {
            assert!(is_credential_header(name), "{name}");
        }
        for name in ["content-type", "host", "accept", "x-request-id"] {
            assert!(!is_credential_header(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_alignment_of_base64_hides_a_secret(
            before in "[a-z:]{0,7}", secret in "[ -~]{12,40}", after in "[a-z]{0,7}",
        ) {
            let redactor = Redactor::default();
            redactor.hide(&secret);
            let text = STANDARD.encode(format!("{before}{secret}{after}"));
            prop_assert!(redactor.text(&text).contains(MASK), "{text}");
        }
    }
}
