//! Checks for contradicting settings. They can come from several sources, so this is not a check of the file.

use super::Config;

/// Checks the given settings against each other.
///
/// # Errors
/// Two of them cannot both take effect; the message names them and the fix.
pub(super) fn check(config: &Config) -> Result<(), String> {
    let given = |key: &str| config.given.contains_key(key);
    if config.retention.keep_failed == Some(true) && given("retention.failedDays") {
        return Err("`retention.keepFailed` keeps failed executions forever, and `retention.failedDays` deletes them; give one of them"
            .to_owned());
    }
    if given("limits.connectionsPerAddress") && config.connections_per_address > config.connections {
        return Err(format!(
            "`limits.connectionsPerAddress` is {}, more than the {} of `limits.connections`; lower it, or raise the other",
            config.connections_per_address, config.connections
        ));
    }
    if given("limits.memory") && config.limits.memory < config.limits.result_bytes {
        let size = |bytes: usize| text::units::format_size(bytes as u64);
        return Err(format!(
            "`limits.memory` is {}, less than one result may have by `limits.resultSize` ({}); raise it, or lower `limits.resultSize`",
            size(config.limits.memory),
            size(config.limits.result_bytes)
        ));
    }
    Ok(())
}

/// The settings without effect because of others, each as a sentence.
pub(super) fn without_effect(config: &Config) -> Vec<String> {
    let mut sentences = super::secret_sources::without_effect(config);
    if config.master_key.is_some() && config.key_file.is_some() {
        sentences.push(
            "`secrets.keyFile` has no effect: the environment gives the key, by COGWORK_MASTER_KEY or a systemd credential".to_owned(),
        );
    }
    sentences
}
