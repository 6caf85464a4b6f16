//! Scopes: what a credential may do. Every route names the one that it needs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A part of the API that a credential gives access to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Read the metrics.
    Metrics,
    /// Read everything but secrets and the audit log: executions with their data, automations, files, state.
    Read,
    /// Start, answer and cancel executions, listen, poll, test connections.
    Run,
    /// Change files of the project, state and the progress of polls.
    Write,
    /// Set and delete secrets, log connections in. Secrets are never returned.
    Secrets,
    /// Everything, also tokens and the audit log.
    Admin,
}

impl Scope {
    /// All scopes, in ascending order.
    pub const ALL: [Self; 6] =
        [Self::Metrics, Self::Read, Self::Run, Self::Write, Self::Secrets, Self::Admin];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Read => "read",
            Self::Run => "run",
            Self::Write => "write",
            Self::Secrets => "secrets",
            Self::Admin => "admin",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or_else(|| {
            let all = Self::ALL.map(|scope| format!("`{}`", scope.as_str())).join(", ");
            format!("`{text}` is no scope; there are {all}")
        })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// The scopes of the admin token.
    pub const ADMIN: Self = Self(1 << Scope::Admin as u8);

    /// True if the set gives access to a route that needs `scope`: it has that scope or `admin`; `read` includes `metrics`.
    #[must_use]
    pub fn allow(self, scope: Scope) -> bool {
        let enough = match scope {
            Scope::Metrics => Scope::Metrics.bit() | Scope::Read.bit(),
            scope => scope.bit(),
        };
        self.0 & (enough | Scope::Admin.bit()) != 0
    }

    /// True if the set gives no more access than `other`.
    #[must_use]
    pub fn within(self, other: Self) -> bool {
        self.iter().all(|scope| other.allow(scope))
    }

    /// True if there is no scope in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The scopes in ascending order.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & scope.bit() != 0)
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.iter().map(Scope::as_str).collect();
        formatter.write_str(&words.join(", "))
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Scope::as_str))
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = Vec::<String>::deserialize(deserializer)?;
        words.iter().map(|word| word.parse::<Scope>().map_err(serde::de::Error::custom)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_admin_and_the_same_scope_grant_a_route() {
        for own in Scope::ALL {
            for needed in Scope::ALL {
                let expected =
                    own == needed || own == Scope::Admin || (own == Scope::Read && needed == Scope::Metrics);
                assert_eq!(Scopes::from_iter([own]).allow(needed), expected, "{own} {needed}");
            }
            assert!(!Scopes::default().allow(own));
        }
    }

    #[test]
    fn a_scope_set_is_within_another_if_it_grants_nothing_more() {
        let set = |scopes: &[Scope]| scopes.iter().copied().collect::<Scopes>();
        assert!(set(&[Scope::Read]).within(set(&[Scope::Read, Scope::Run])));
        assert!(set(&[Scope::Metrics]).within(set(&[Scope::Read])));
        assert!(set(&[Scope::Secrets, Scope::Write]).within(Scopes::ADMIN));
        assert!(!set(&[Scope::Admin]).within(set(&[Scope::Read, Scope::Run, Scope::Write, Scope::Secrets])));
    }
}
