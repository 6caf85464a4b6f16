use catalog::secret_variable;

use super::*;

#[test]
fn a_secret_has_a_variable_in_the_usual_spelling() {
    for (name, expected) in [
        ("wikiToken", "COGWORK_SECRET_WIKI_TOKEN"),
        ("hook", "COGWORK_SECRET_HOOK"),
        ("api2Key", "COGWORK_SECRET_API2_KEY"),
        ("order-hook", "COGWORK_SECRET_ORDER_HOOK"),
    ] {
        assert_eq!(secret_variable(name), expected);
    }
}

#[tokio::test]
async fn a_secret_file_loses_its_final_newline_and_cannot_be_outside_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("token"), "s3cret\n").expect("written");
    let secrets = Secrets::new(None, folder.path().join("."), Redactor::default(), None);
    let secret = async |name| {
        let found = secrets.secret(name).await.expect("it can be read");
        found.map(|found| found.expose().to_owned())
    };
    assert_eq!(secret("token").await.as_deref(), Some("s3cret"));
    assert_eq!(secret("../token").await, None);
    assert_eq!(secret("").await, None);
}

#[test]
fn files_read_only_allowed_variables_and_none_of_the_daemon() {
    let secrets = || Secrets::new(None, PathBuf::from("/none"), Redactor::default(), None);
    let all = secrets();
    assert!(all.variable("PATH").is_some());
    for own in
        ["COGWORK_MASTER_KEY", "COGWORK_SECRET_X", "OTEL_EXPORTER_OTLP_HEADERS", "CREDENTIALS_DIRECTORY"]
    {
        assert!(!all.is_allowed(own) && all.variable(own).is_none(), "{own}");
    }
    let some = |names: &[&str]| {
        secrets().with_allowed_variables(Some(names.iter().map(|name| (*name).to_owned()).collect()))
    };
    assert!(some(&["PATH"]).variable("PATH").is_some());
    assert!(some(&["PA*"]).variable("PATH").is_some());
    for names in [&[][..], &["HOME"], &["PATH_"], &["P"]] {
        assert_eq!(some(names).variable("PATH"), None, "{names:?}");
    }
    assert!(!some(&["*", "COGWORK_MASTER_KEY"]).is_allowed("COGWORK_MASTER_KEY"));
}
