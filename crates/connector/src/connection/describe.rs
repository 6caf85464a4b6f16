//! Connection types in words, for people who decide if they want a connector.

use super::{Auth, Base, ConnectionType, CredentialField, FieldName};

impl ConnectionType {
    /// The address that is called with the connection, for people.
    #[must_use]
    pub fn address_in_words(&self) -> String {
        match &self.base {
            Base::None => "no address".to_owned(),
            Base::Fixed(base) => base.to_string(),
            Base::Input { name, .. } => format!("the address in `{name}`"),
        }
    }

    /// The credentials that a request gets, for people.
    #[must_use]
    pub fn credentials_in_words(&self) -> String {
        let names = |fields: &[CredentialField]| {
            let names = fields.iter().map(|field| match &field.name {
                FieldName::Fixed(name) => format!("`{name}`"),
                FieldName::Input(input) => format!("that `{input}` names"),
            });
            names.collect::<Vec<_>>().join(", ")
        };
        match &self.auth {
            Auth::None => "no credentials".to_owned(),
            Auth::Basic { .. } => "a user name and a password".to_owned(),
            Auth::Bearer { .. } => "a token in the header `Authorization`".to_owned(),
            Auth::Header(fields) => format!("the header {}", names(fields)),
            Auth::Query(fields) => format!("the parameter {}", names(fields)),
            Auth::Path(_) => "a token in the path".to_owned(),
            Auth::OAuth2(_) => "a token of OAuth 2".to_owned(),
            Auth::Session(_) => "the token of a login".to_owned(),
            Auth::SigV4(_) => "signatures of AWS".to_owned(),
        }
    }
}
