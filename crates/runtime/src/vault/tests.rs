use std::path::Path;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn store(dir: &TempDir) -> Arc<dyn Store> {
    store_sqlite::open(dir.path(), store::Options::default()).expect("the store opens")
}

async fn vault(store: &Arc<dyn Store>, dir: &Path) -> Vault {
    Vault::open(store.clone(), KeySource::in_folder(dir)).await.expect("it opens")
}

fn value(vault: &Vault, name: &str) -> Option<String> {
    vault.read(RowKind::Secret, name).expect("it can be opened").map(|value| value.to_string())
}

fn key_file(dir: &TempDir) -> std::path::PathBuf {
    dir.path().join("master.key")
}

#[cfg(unix)]
fn write_key(dir: &TempDir, bytes: &[u8]) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(key_file(dir), bytes).expect("it is written");
    std::fs::set_permissions(key_file(dir), std::fs::Permissions::from_mode(0o600)).expect("it is set");
}

#[tokio::test]
async fn a_secret_survives_a_restart_and_counts_its_versions() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = store(&dir);
    let first = vault(&store, dir.path()).await;
    assert_eq!(value(&first, "wikiToken"), None);
    first.set_secret("wikiToken", "one", NOW).await.expect("kept");
    let kept = first.set_secret("wikiToken", "two", NOW).await.expect("kept");
    assert_eq!((kept.version, kept.readable), (Some(2), true));
    assert_eq!(value(&first, "wikiToken").as_deref(), Some("two"));
    let second = vault(&store, dir.path()).await;
    assert_eq!(value(&second, "wikiToken").as_deref(), Some("two"));
    assert!(second.remove_secret("wikiToken").await.expect("removed"));
    assert!(!second.remove_secret("wikiToken").await.expect("there is none"));
    assert_eq!(value(&second, "wikiToken"), None);
}

#[tokio::test]
async fn the_store_contains_neither_the_value_nor_the_key() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = store(&dir);
    let vault = vault(&store, dir.path()).await;
    vault.set_secret("token", "a-very-plain-value", NOW).await.expect("kept");
    let key = std::fs::read_to_string(key_file(&dir)).expect("the key");
    for file in std::fs::read_dir(dir.path()).expect("the folder").flatten() {
        if file.path() == key_file(&dir) {
            continue;
        }
        let bytes = std::fs::read(file.path()).expect("a file");
        for secret in ["a-very-plain-value", key.trim()] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{}", file.path().display());
        }
    }
}

#[tokio::test]
async fn a_sealed_row_cannot_replace_another_row_or_version() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = store(&dir);
    let before = vault(&store, dir.path()).await;
    before.set_secret("low", "public", NOW).await.expect("kept");
    before.set_secret("high", "precious", NOW).await.expect("kept");
    let rows = store.list_state(SCOPE, None, 10).await.expect("rows");
    let (high, low) = (&rows[0], &rows[1]);
    let swapped = StateWrite {
        scope: SCOPE.to_owned(),
        key: low.key.clone(),
        expected: Some(low.entry.version),
        value: Some(high.entry.value.clone()),
        expires_at: None,
    };
    store.write_state(vec![swapped]).await.expect("written");
    let after = vault(&store, dir.path()).await;
    let error = after.read(RowKind::Secret, "low").expect_err("refused").to_string();
    assert!(error.contains("was not stored under this name"), "{error}");
    let mut sealed = Sealed::from_value(&high.entry.value).expect("a row");
    sealed.version += 1;
    let ring = KeyRing::read(&KeySource::in_folder(dir.path())).expect("keys");
    assert!(sealed.open("secret/high", ring.as_ref()).is_err());
}

#[tokio::test]
async fn a_key_rotation_reseals_everything_and_the_old_key_opens_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = store(&dir);
    let vault = vault(&store, dir.path()).await;
    vault.set_secret("a", "first", NOW).await.expect("kept");
    vault.set_secret("b", "second", NOW).await.expect("kept");
    vault.put(RowKind::Connection, "wiki", "tokens", NOW).await.expect("kept");
    let old = std::fs::read_to_string(key_file(&dir)).expect("the key");
    let rotation = vault.rotate().await.expect("rotated");
    assert_eq!((rotation.sealed, rotation.given), (3, false));
    let new = std::fs::read_to_string(key_file(&dir)).expect("the key");
    assert_eq!(new.lines().count(), 1);
    assert_ne!(old, new);
    assert_eq!(value(&vault, "a").as_deref(), Some("first"));
    assert!(
        vault
            .secrets()
            .iter()
            .all(|secret| secret.key.as_ref() == Some(&rotation.key) && secret.version == Some(1))
    );
    std::fs::write(key_file(&dir), old).expect("written");
    let with_old = Vault::open(store, KeySource::in_folder(dir.path())).await.expect("it opens");
    assert!(with_old.read(RowKind::Secret, "a").is_err());
    assert!(!with_old.secrets()[0].readable);
}

#[tokio::test]
async fn a_crash_during_a_key_rotation_loses_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = store(&dir);
    let source = KeySource::in_folder(dir.path());
    let before = vault(&store, dir.path()).await;
    before.set_secret("a", "first", NOW).await.expect("kept");
    // Simulates a crash after the new key was written to the file and before the first value was encrypted with it.
    let mut ring = KeyRing::read(&source).expect("keys").expect("a key");
    ring.add(&source).expect("added");
    let after = vault(&store, dir.path()).await;
    assert_eq!(value(&after, "a").as_deref(), Some("first"));
    // Simulates a crash after everything was encrypted and before the old key was removed from the file.
    after.rotate().await.expect("rotated");
    assert_eq!(value(&vault(&store, dir.path()).await, "a").as_deref(), Some("first"));
}

#[tokio::test]
async fn environment_keys_override_the_key_file_and_the_first_one_seals() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = store(&dir);
    let given = |text: &str| KeySource { given: Some(value::Secret::new(text)), file: key_file(&dir) };
    let (one, two) =
        ("MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA=", "MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE=");
    let first = Vault::open(store.clone(), given(one)).await.expect("it opens");
    first.set_secret("a", "value", NOW).await.expect("kept");
    assert!(!key_file(&dir).exists());
    let both = Vault::open(store.clone(), given(&format!("{two},{one}"))).await.expect("it opens");
    assert!(both.rotate().await.expect("rotated").given);
    let second = Vault::open(store.clone(), given(two)).await.expect("it opens");
    assert_eq!(value(&second, "a").as_deref(), Some("value"));
    let error = Vault::open(store, given("short")).await.expect_err("no key").to_string();
    assert!(error.contains("32 bytes in base64") && !error.contains("short"), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_key_file_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a folder");
    let store = store(&dir);
    vault(&store, dir.path()).await.set_secret("a", "value", NOW).await.expect("kept");
    let mode = |mode| std::fs::set_permissions(key_file(&dir), std::fs::Permissions::from_mode(mode));
    assert_eq!(std::fs::metadata(key_file(&dir)).expect("a file").permissions().mode() & 0o777, 0o600);
    mode(0o640).expect("set");
    let error = Vault::open(store, KeySource::in_folder(dir.path())).await.expect_err("refused").to_string();
    assert!(error.contains("chmod 600"), "{error}");
}

#[tokio::test]
async fn invalid_names_and_values_of_secrets_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let vault = vault(&store(&dir), dir.path()).await;
    for name in ["", "../x", "a b", "ä", &"x".repeat(101)] {
        assert!(vault.set_secret(name, "value", NOW).await.is_err(), "{name}");
    }
    assert!(vault.set_secret("a", "", NOW).await.is_err());
    assert!(vault.set_secret("a", &"x".repeat(MAX_BYTES + 1), NOW).await.is_err());
    assert!(!key_file(&dir).exists(), "a key was made for nothing");
}

#[cfg(unix)]
#[tokio::test]
async fn no_new_key_is_created_while_the_store_has_values_of_a_missing_key() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = store(&dir);
    vault(&store, dir.path()).await.set_secret("wikiToken", "one", NOW).await.expect("kept");
    let key = std::fs::read(key_file(&dir)).expect("the key");
    std::fs::remove_file(key_file(&dir)).expect("it goes");
    let without = vault(&store, dir.path()).await;
    for refused in [without.set_secret("other", "two", NOW).await.map(drop), without.rotate().await.map(drop)]
    {
        let message = refused.expect_err("there is no key").to_string();
        assert!(message.contains("master.key` is missing") && message.contains("umask 077"), "{message}");
    }
    assert!(!key_file(&dir).exists(), "none is made");
    // Restoring the file recovers everything, and a key created by a person is accepted.
    write_key(&dir, &key);
    let with = vault(&store, dir.path()).await;
    assert_eq!(value(&with, "wikiToken").as_deref(), Some("one"));
    write_key(&dir, format!("{}=\n", "A".repeat(43)).as_bytes());
    let anew = vault(&store, dir.path()).await;
    anew.set_secret("other", "two", NOW).await.expect("it is a person's decision");
    assert_eq!(value(&anew, "other").as_deref(), Some("two"));
}

#[tokio::test]
async fn a_vault_has_a_maximum_of_secrets_and_of_their_size() {
    let dir = tempfile::tempdir().expect("a folder");
    let store: Arc<dyn Store> = store::Memory::default().open();
    let vault = vault(&store, dir.path()).await;
    vault.set_secret("s0", &"x".repeat(MAX_BYTES), NOW).await.expect("it fits");
    for number in 1..MAX_ROWS {
        vault.set_secret(&format!("s{number}"), "value", NOW).await.expect("there is room");
    }
    let refused = vault.set_secret("further", "value", NOW).await.expect_err("there is no room").to_string();
    assert!(refused.contains("the maximum of 1000 secrets"), "{refused}");
    vault.set_secret("s1", "another", NOW).await.expect("one that is there may change");
}
