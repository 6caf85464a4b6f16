//! Ids of triggers, and the keys under which what belongs to a trigger is stored.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::AutomationId;

/// The id of a trigger, unique in its file: an identifier. `trigger: {…}` declares the trigger `main`.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TriggerId(Option<Arc<str>>);

impl TriggerId {
    /// The id of the trigger that the key `trigger` declares.
    pub const MAIN: Self = Self(None);
    const MAIN_TEXT: &str = "main";
    /// The maximum number of characters.
    pub const MAX_LENGTH: usize = 60;

    /// Parses an id; `None` if `text` is not a valid one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == Self::MAIN_TEXT {
            return Some(Self::MAIN);
        }
        let first = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let rest = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        (first && rest && text.len() <= Self::MAX_LENGTH).then(|| Self(Some(text.into())))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or(Self::MAIN_TEXT)
    }

    /// Returns true for `main`.
    #[must_use]
    pub fn is_main(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Display for TriggerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl fmt::Debug for TriggerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

impl From<TriggerId> for String {
    fn from(id: TriggerId) -> Self {
        id.as_str().to_owned()
    }
}

impl TryFrom<String> for TriggerId {
    type Error = InvalidTriggerKey;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or(InvalidTriggerKey)
    }
}

/// A text that is no key of a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not the key of a trigger")]
pub struct InvalidTriggerKey;

/// The key of a trigger in the whole project, under which its addresses, positions and captures are stored: the id of the automation
/// for the trigger `main`, else `automation#trigger`. Keys are ordered by automation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TriggerKey {
    /// The automation.
    pub automation: AutomationId,
    /// The trigger.
    pub trigger: TriggerId,
}

impl TriggerKey {
    /// Stands between the two ids; it is part of neither.
    const SEPARATOR: char = '#';

    /// Creates the key of a trigger.
    #[must_use]
    pub const fn new(automation: AutomationId, trigger: TriggerId) -> Self {
        Self { automation, trigger }
    }

    /// Returns the name by which people select the trigger: `orders` for the trigger `main`, else `orders/paid`.
    #[must_use]
    pub fn name(&self) -> String {
        self.joined('/')
    }

    fn joined(&self, separator: char) -> String {
        match self.trigger.is_main() {
            true => self.automation.to_string(),
            false => format!("{}{separator}{}", self.automation, self.trigger),
        }
    }
}

impl From<AutomationId> for TriggerKey {
    fn from(automation: AutomationId) -> Self {
        Self::new(automation, TriggerId::MAIN)
    }
}

impl FromStr for TriggerKey {
    type Err = InvalidTriggerKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (automation, trigger) = match text.split_once(Self::SEPARATOR) {
            Some((automation, trigger)) => (automation, TriggerId::parse(trigger)),
            None => (text, Some(TriggerId::MAIN)),
        };
        AutomationId::parse(automation)
            .zip(trigger)
            .map(|(automation, trigger)| Self { automation, trigger })
            .ok_or(InvalidTriggerKey)
    }
}

impl fmt::Display for TriggerKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.joined(Self::SEPARATOR))
    }
}

impl fmt::Debug for TriggerKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl From<TriggerKey> for String {
    fn from(key: TriggerKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for TriggerKey {
    type Error = InvalidTriggerKey;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_main_trigger_is_the_id_of_the_automation() {
        for (text, name, trigger) in [("orders", "orders", "main"), ("orders#paid", "orders/paid", "paid")] {
            let key: TriggerKey = text.parse().expect("a key");
            assert_eq!(
                (key.to_string(), key.name(), key.trigger.as_str()),
                (text.to_owned(), name.to_owned(), trigger)
            );
        }
        for text in ["", "#paid", "orders#", "orders#a b", "orders#a#b", "Orders"] {
            assert_eq!(text.parse::<TriggerKey>(), Err(InvalidTriggerKey), "{text}");
        }
    }

    #[test]
    fn keys_of_one_automation_are_neighbours() {
        let mut keys: Vec<TriggerKey> = ["orders-x", "orders#b", "orders", "orders#a", "order"]
            .map(|key| key.parse().expect("a key"))
            .into();
        keys.sort();
        assert_eq!(
            keys.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["order", "orders", "orders#a", "orders#b", "orders-x"]
        );
    }
}
