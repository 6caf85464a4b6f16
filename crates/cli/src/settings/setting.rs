//! One setting: its names, and how its value is set.

use std::path::Path;

use text::diagnostic::Diagnostics;
use text::yaml::Node;

use super::table::SETTINGS;
use super::values::Values;
use super::{Config, Origin};
use crate::mask::GivenText;

/// The commands that use a setting; later ones also take the flags of earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// All commands, which have its flag already.
    Everywhere,
    /// The commands that read the data.
    Place,
    /// The commands that run automations.
    Run,
    /// The daemon.
    Serve,
}

/// An example value of a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sample {
    /// The default.
    Default(&'static str),
    /// An example, for a setting without a default.
    Example(&'static str),
}

impl Sample {
    /// The default, if there is one.
    pub(crate) fn default(self) -> Option<&'static str> {
        match self {
            Self::Default(text) => Some(text),
            Self::Example(_) => None,
        }
    }

    /// The text of the value.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Default(text) | Self::Example(text) => text,
        }
    }
}

/// One setting.
pub(crate) struct Setting {
    /// Its key in `cogwork.yaml`; a dot means a mapping.
    pub(crate) key: &'static str,
    /// The commands that use it.
    pub(crate) scope: Scope,
    /// The placeholder for its value in `--help`.
    pub(crate) value: &'static str,
    /// True if it takes several values.
    pub(crate) list: bool,
    /// A description of one line.
    pub(crate) about: &'static str,
    /// An example value.
    pub(crate) sample: Sample,
    pub(super) set: fn(&mut Config, &Values<'_>) -> Result<(), String>,
}

impl Setting {
    /// The setting with this key.
    pub(crate) fn find(key: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.key == key)
    }

    /// Its variable: `outbound.allow` is `COGWORK_OUTBOUND_ALLOW`.
    pub(crate) fn variable(&self) -> String {
        format!("COGWORK_{}", self.words('_').to_ascii_uppercase())
    }

    /// Its flag without the leading dashes: `outbound.allow` is `outbound-allow`.
    pub(crate) fn flag(&self) -> String {
        self.words('-')
    }

    /// Splits a text into values: a list is separated by commas.
    pub(crate) fn split(&self, text: &str) -> Vec<String> {
        if !self.list {
            return vec![text.to_owned()];
        }
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(str::to_owned).collect()
    }

    /// Sets these values from `origin`; paths are relative to `base`.
    pub(super) fn apply(
        &self,
        config: &mut Config,
        items: &[String],
        base: &Path,
        origin: Origin,
    ) -> Result<(), String> {
        let given: Vec<GivenText> = items.iter().map(GivenText::new).collect();
        // A message that repeats a value masks its credentials.
        let masked = |message: String| {
            let values =
                items.iter().map(|item| item.trim()).zip(&given).filter(|(item, _)| !item.is_empty());
            values.fold(message, |message, (item, given)| message.replace(item, &given.to_string()))
        };
        (self.set)(config, &Values { items, base, node: None }).map_err(masked)?;
        config.given.insert(self.key, (origin, given));
        Ok(())
    }

    /// True if its value has a structure: in variables and flags it is YAML.
    pub(super) fn is_structured(&self) -> bool {
        self.value == "YAML"
    }

    /// Sets a value with a structure from the file. Its problems go to `diagnostics`.
    pub(super) fn apply_node(
        &self,
        config: &mut Config,
        (node, diagnostics): (&Node, &Diagnostics),
        base: &Path,
    ) -> Result<(), String> {
        (self.set)(config, &Values { items: &[], base, node: Some((node, diagnostics)) })?;
        let given = vec![GivenText::new(node.to_json().to_string())];
        config.given.insert(self.key, (Origin::File, given));
        Ok(())
    }

    fn words(&self, between: char) -> String {
        let mut words = String::new();
        for character in self.key.chars() {
            match character {
                '.' => words.push(between),
                upper if upper.is_ascii_uppercase() => words.extend([between, upper.to_ascii_lowercase()]),
                other => words.push(other),
            }
        }
        words
    }
}

impl std::fmt::Debug for Setting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Setting({})", self.key)
    }
}
