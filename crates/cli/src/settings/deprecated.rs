//! Settings that a later release removes. They still work, and each use is reported.

use super::{Config, Origin, Setting};

/// A setting that a later release removes.
#[derive(Debug)]
pub(crate) struct Deprecated {
    /// Its key, which is a row of the table of settings.
    pub(crate) key: &'static str,
    /// The release that deprecated it. The next minor release may remove it.
    pub(crate) since: &'static str,
    /// The setting to use instead.
    pub(crate) instead: &'static str,
}

/// All of them, in the order of the table of settings.
pub(crate) const DEPRECATED: &[Deprecated] =
    &[Deprecated { key: "concurrency", since: "0.1.0", instead: "limits.inFlight" }];

impl Deprecated {
    /// The row of this key, if it is deprecated.
    pub(crate) fn find(key: &str) -> Option<&'static Self> {
        DEPRECATED.iter().find(|row| row.key == key)
    }

    /// The message for its use in the file of settings.
    pub(crate) fn message(&self) -> String {
        format!("`{}` is deprecated since {}, and a later release removes it", self.key, self.since)
    }

    /// The way out.
    pub(crate) fn help(&self) -> String {
        format!("use `{}`", self.instead)
    }
}

impl Config {
    /// The deprecated settings that a variable or a flag gave, each as a sentence. Those of the file are diagnostics.
    pub(crate) fn deprecated_uses(&self) -> Vec<String> {
        let uses = DEPRECATED.iter().filter_map(|row| {
            let (used, instead) = match (&self.given.get(row.key)?.0, Setting::find(row.instead)?) {
                (Origin::File, _) => return None,
                (Origin::Variable(name), instead) => (format!("the variable `{name}`"), instead.variable()),
                (Origin::Flag(name), instead) => (format!("`--{name}`"), format!("--{}", instead.flag())),
            };
            Some(format!(
                "{used} is deprecated since {}, and a later release removes it; use `{instead}`",
                row.since
            ))
        });
        uses.collect()
    }
}
