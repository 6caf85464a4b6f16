//! A person as the provider describes them.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::error::Error;

/// The most characters of a person's name.
const NAME: usize = 100;

/// A person as the provider describes them.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// The identifier at the provider, which never changes.
    pub subject: String,
    /// All claims of the ID token, and those of the user info that it lacks.
    pub claims: Map<String, Value>,
}

impl Identity {
    /// Adds the user info. Claims of the ID token, which is signed, stay.
    pub(super) fn add(&mut self, more: Map<String, Value>) -> Result<(), Error> {
        // Without this check a token of another person could be put in (Core, section 5.3.2).
        if more.get("sub").and_then(Value::as_str) != Some(self.subject.as_str()) {
            return Err(Error::Login("the user info of the provider describes another person".to_owned()));
        }
        // An address and its verification are of one source: the token has signed the address, and not what the user info says of it.
        let of_email = ["email", "email_verified"];
        let has_email = of_email.iter().any(|name| self.claims.contains_key(*name));
        for (name, value) in more {
            if has_email && of_email.contains(&name.as_str()) {
                continue;
            }
            self.claims.entry(name).or_insert(value);
        }
        Ok(())
    }

    /// The name for people: the first of `email` if it is verified, `preferred_username` and `name`, or else the subject; without control
    /// characters.
    #[must_use]
    pub fn name(&self) -> String {
        let claim =
            |name: &str| self.claims.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let name = self.email().or_else(|| claim("preferred_username")).or_else(|| claim("name"));
        let name = name.unwrap_or(&self.subject);
        // Nor those that change the direction of the text around them.
        let is_plain =
            |c: &char| !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        name.chars().filter(is_plain).take(NAME).collect()
    }

    /// The e-mail address; `None` if there is none, or the provider has not verified it.
    #[must_use]
    pub fn email(&self) -> Option<&str> {
        let email = self.claims.get("email")?.as_str()?;
        let is_verified = match self.claims.get("email_verified")? {
            Value::Bool(verified) => *verified,
            // Some providers send it as text.
            Value::String(text) => text == "true",
            _ => false,
        };
        let (name, domain) = email.rsplit_once('@')?;
        (is_verified && !name.is_empty() && !domain.is_empty()).then_some(email)
    }

    /// The values of a claim that has a text or a list of texts. A dot in `claim` leads into an object: `realm_access.roles`.
    #[must_use]
    pub fn texts(&self, claim: &str) -> HashSet<&str> {
        let found = self.claims.get(claim).or_else(|| {
            let mut names = claim.split('.');
            let first = self.claims.get(names.next()?)?;
            names.try_fold(first, |value, name| value.get(name))
        });
        match found {
            Some(Value::String(text)) => HashSet::from([text.as_str()]),
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
            _ => HashSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn person(claims: Value) -> Identity {
        let Value::Object(claims) = claims else { panic!("claims are an object") };
        Identity { subject: "u-1".to_owned(), claims }
    }

    #[test]
    fn an_email_address_counts_only_if_the_provider_has_verified_it() {
        for verified in [json!(true), json!("true")] {
            let person = person(json!({"email": "a@example.com", "email_verified": verified}));
            assert_eq!(person.email(), Some("a@example.com"));
        }
        for claims in [
            json!({"email": "a@example.com"}),
            json!({"email": "a@example.com", "email_verified": false}),
            json!({"email": "a@example.com", "email_verified": 1}),
            json!({"email": "example.com", "email_verified": true}),
            json!({"email": ["a@example.com"], "email_verified": true}),
            json!({}),
        ] {
            assert_eq!(person(claims.clone()).email(), None, "{claims}");
        }
    }

    #[test]
    fn a_display_name_has_no_control_or_bidi_characters() {
        assert_eq!(person(json!({})).name(), "u-1");
        assert_eq!(person(json!({"name": "A\u{202e}b\n", "preferred_username": " "})).name(), "Ab");
        assert_eq!(person(json!({"preferred_username": "x".repeat(500)})).name().len(), NAME);
        // An address that is not verified is that of somebody else.
        assert_eq!(person(json!({"email": "boss@example.com", "preferred_username": "me"})).name(), "me");
    }

    #[test]
    fn a_claim_may_be_a_text_a_list_or_nested() {
        let person = person(json!({
            "groups": ["a", "b", 1], "role": "c", "realm_access": {"roles": ["d"]}, "https://x.example/roles": ["e"],
        }));
        assert_eq!(person.texts("groups"), HashSet::from(["a", "b"]));
        assert_eq!(person.texts("role"), HashSet::from(["c"]));
        assert_eq!(person.texts("realm_access.roles"), HashSet::from(["d"]));
        assert_eq!(person.texts("https://x.example/roles"), HashSet::from(["e"]));
        for none in ["", "other", "realm_access", "realm_access.other", "role.inside"] {
            assert_eq!(person.texts(none), HashSet::new(), "{none}");
        }
    }

    #[test]
    fn user_info_adds_claims_of_the_same_subject_and_replaces_none() {
        let mut person = person(json!({"groups": ["a"]}));
        let more = |text: Value| text.as_object().cloned().unwrap_or_default();
        assert!(person.add(more(json!({"sub": "u-2", "groups": ["admins"]}))).is_err());
        assert!(person.add(more(json!({"groups": ["admins"]}))).is_err());
        person.add(more(json!({"sub": "u-1", "groups": ["admins"], "role": "c"}))).expect("the same person");
        assert_eq!(
            (person.texts("groups"), person.texts("role")),
            (HashSet::from(["a"]), HashSet::from(["c"]))
        );
    }

    #[test]
    fn user_info_does_not_verify_the_email_of_the_token() {
        let info = json!({"sub": "u-1", "email": "boss@example.com", "email_verified": true});
        let Value::Object(info) = info else { panic!("claims are an object") };
        for (token, email) in [
            (json!({"email": "boss@example.com"}), None),
            (json!({"email": "boss@example.com", "email_verified": false}), None),
            (json!({"email_verified": true}), None),
            (json!({"email": "me@example.com", "email_verified": true}), Some("me@example.com")),
            (json!({}), Some("boss@example.com")),
        ] {
            let mut person = person(token.clone());
            person.add(info.clone()).expect("the same person");
            assert_eq!(person.email(), email, "{token}");
        }
    }
}
