use std::path::Path;

use super::super::file::apply_text;
use super::super::{Config, Environment};
use super::*;

fn read(text: &str) -> (Config, String) {
    let mut config = Config::new(Path::new("/project"));
    let report = apply_text(text, Path::new("/project"), &mut config);
    let rendered = if report.is_empty() { String::new() } else { report.render(false) };
    (config, rendered)
}

#[test]
fn the_sources_of_a_file_have_their_order_their_names_and_their_providers() {
    let (config, problems) = read(
        "secrets:
  sources: [store, {vault: corp, only: [db*, token]}, {source: environment, only: ci*}]
  keep: 1m
  keepOnError: 2h
  vault:
    corp:
      address: https://vault.internal:8200/
      path: /kv/data/cogwork/
      namespace: team
      login: {kubernetes: cogwork}
",
    );
    assert_eq!(problems, "");
    let sources = config.secret_sources.clone();
    assert_eq!(check(&config), Ok(()));
    assert_eq!((sources.keep.as_secs(), sources.keep_on_error.as_secs()), (60, 7200));
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let rules = [
        SourceRule { source: SourceKind::Store, only: None },
        SourceRule { source: SourceKind::Provider("vault:corp".to_owned()), only: names(&["db*", "token"]) },
        SourceRule { source: SourceKind::Environment, only: names(&["ci*"]) },
    ];
    assert_eq!(sources.order, rules);
    let settings = VaultSettings {
        address: "https://vault.internal:8200".to_owned(),
        path: "kv/data/cogwork".to_owned(),
        namespace: Some("team".to_owned()),
        login: VaultLogin::Jwt {
            role: "cogwork".to_owned(),
            jwt: Credential::File(KUBERNETES_TOKEN.into()),
            mount: "kubernetes".to_owned(),
        },
    };
    assert_eq!(sources.providers.get("vault:corp"), Some(&ProviderSettings::Vault(settings)));
    assert!(sources.may_be_provided("dbPassword") && !sources.may_be_provided("other"));
}

#[test]
fn logins_name_secrets_or_files_relative_to_the_project() {
    let (config, problems) = read(
        "secrets:
  vault:
    a: {address: http://127.0.0.1:8200, path: kv, login: {token: vaultToken}}
    b: {address: https://v, path: kv, login: {appRole: {role: r, secret: {file: id}, mount: /roles/}}}
    c: {address: https://v, path: kv, login: {jwt: {role: r, token: {file: /jwt}}}}
  awsSecretsManager: {main: {region: eu-central-1, accessKey: a, secretKey: b}, plain: {region: eu-west-1}}
  gcpSecretManager: {main: {project: p, login: {key: googleKey}}}
  azureKeyVault: {main: {address: https://v, tenant: t, client: c, login: {token: {file: jwt}}}}
",
    );
    assert_eq!(problems, "");
    let logins = config.secret_sources.providers.iter().map(|(name, settings)| match settings {
        ProviderSettings::Vault(vault) => format!("{name} {:?}", vault.login),
        ProviderSettings::Aws(aws) => format!("{name} {:?}", aws.keys),
        ProviderSettings::Gcp(gcp) => format!("{name} {:?}", gcp.login),
        ProviderSettings::Azure(azure) => format!("{name} {:?}", azure.login),
    });
    assert_eq!(
        logins.collect::<Vec<_>>(),
        [
            r#"awsSecretsManager:main Some((Secret("a"), Secret("b")))"#,
            r#"awsSecretsManager:plain None"#,
            r#"azureKeyVault:main TokenFile(File("/project/jwt"))"#,
            r#"gcpSecretManager:main Key(Secret("googleKey"))"#,
            r#"vault:a Token(Secret("vaultToken"))"#,
            r#"vault:b AppRole { role_id: "r", secret_id: File("/project/id"), mount: "roles" }"#,
            r#"vault:c Jwt { role: "r", jwt: File("/jwt"), mount: "jwt" }"#,
        ]
    );
    assert_eq!(without_effect(&config).len(), 7, "no source names them");
}

#[test]
fn mistakes_are_reported_at_their_place_without_a_value_that_may_be_a_secret() {
    for (text, words) in [
        ("sources: [store, valt]", "unknown value `valt`"),
        ("sources: [{vault: corp, onyl: a}]", "onyl"),
        ("sources: [{vault: corp, only: [a/b]}]", "no name of a secret"),
        ("sources: [{vault: corp, only: []}]", "is an empty list"),
        ("vault: {corp: {adress: https://v, path: kv, login: {token: t}}}", "address"),
        (
            "vault: {corp: {address: http://vault.internal, path: kv, login: {token: t}}}",
            "must begin with https://",
        ),
        ("vault: {corp: {address: https://v, path: kv, login: {token: hvs.s3cret}}}", "no name of a secret"),
        ("vault: {corp: {address: https://v, path: kv, login: {}}}", "kubernetes"),
        ("vault: {corp: {address: https://v, path: kv}}", "login"),
        ("awsSecretsManager: {main: {region: eu/../central}}", "other characters"),
        ("keep: 10ms", "from 1s to 1d"),
        ("keepOnError: 8d", "to 7d"),
        ("command: /usr/bin/pass", "command"),
    ] {
        let problems = read(&format!("secrets: {{{text}}}")).1;
        assert!(problems.contains(words), "{text}\n{problems}");
        assert!(problems.contains("cogwork.yaml:1:"), "{problems}");
    }
    let problem = read("secrets: {vault: {c: {address: https://v, path: kv, login: {token: hvs.s3cret}}}}").1;
    assert!(!problem.contains("s3cret"), "{problem}");
}

#[test]
fn a_source_without_settings_is_an_error_that_names_them() {
    for (text, words) in [
        ("sources: [{vault: corp}]", "add `secrets.vault.corp`"),
        ("sources: [command]", "COGWORK_SECRETS_COMMAND"),
    ] {
        let (config, problems) = read(&format!("secrets: {{{text}}}"));
        assert_eq!(problems, "");
        let error = check(&config).expect_err(text);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_variable_holds_yaml_and_the_program_of_this_machine() {
    let environment = Environment::with([
        ("COGWORK_SECRETS_SOURCES", "[store, command, {vault: corp}]"),
        ("COGWORK_SECRETS_VAULT", "{corp: {address: 'https://v', path: kv, login: {token: t}}}"),
        ("COGWORK_SECRETS_COMMAND", "/usr/bin/pass show cogwork/{name}"),
    ]);
    let mut config = Config::new(Path::new("."));
    environment.apply(&mut config).expect("settings");
    assert_eq!(check(&config), Ok(()));
    let command = config.secret_sources.command.clone().unwrap_or_default();
    assert_eq!(command, ["/usr/bin/pass", "show", "cogwork/{name}"]);
    let wrong = Environment::with([("COGWORK_SECRETS_SOURCES", "[stroe]")]);
    let error = format!("{:#}", wrong.apply(&mut config).expect_err("it is refused"));
    assert!(error.contains("unknown value `stroe`"), "{error}");
}
