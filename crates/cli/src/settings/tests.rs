use super::*;

fn read(text: &str) -> (Config, Report) {
    let dir = Path::new("project");
    let mut config = Config::new(dir);
    let report = file::apply_text(text, dir, &mut config);
    (config, report)
}

fn shown(text: &str) -> String {
    read(text).1.render(false)
}

#[test]
fn the_settings_file_overrides_the_defaults() {
    let (config, report) = read(
        "hooks: 0.0.0.0:80\npublicUrl: https://hooks.example.com/\ndataDir: data\noutbound: {allow: [127.0.0.1, 10.0.0.0/8]}\n\
         limits: {queue: 5, resultSize: 1MiB, inFlight: 7}\nretention: {days: 3, keepFailed: true}\ndurability: relaxed\n\
         log: {level: debug, format: json}\nallowCredentialDebug: false\n",
    );
    assert!(report.is_empty(), "{}", report.render(false));
    assert_eq!(config.hooks.to_string(), "0.0.0.0:80");
    assert_eq!(config.public_url.as_deref(), Some("https://hooks.example.com"));
    assert_eq!(config.data_dir, Path::new("project/data"));
    assert_eq!(config.outbound_allow, ["127.0.0.1", "10.0.0.0/8"]);
    assert_eq!((config.limits.queue, config.limits.result_bytes, config.limits.in_flight), (5, 1 << 20, 7));
    assert_eq!((config.retention.days, config.retention.keep_failed), (Some(3), Some(true)));
    assert_eq!(config.durability, store::Durability::Relaxed);
    assert_eq!((config.log_level.as_deref(), config.log_format), (Some("debug"), LogFormat::Json));
    assert!(!config.allow_credential_debug);
}

#[test]
fn a_file_of_comments_changes_nothing() {
    assert!(read("# nothing\n").1.is_empty());
    assert!(read("").1.is_empty());
    assert!(read("limits:\n").1.is_empty());
}

#[test]
fn all_errors_are_reported_together_with_their_positions() {
    let shown = shown("hook: 127.0.0.1:1\nlimits: {queu: 5, inFlight: none}\ndurability: fast\n");
    insta::assert_snapshot!(shown, @r"
    error[unknown-key]: unknown key `hook` in the settings
     --> cogwork.yaml:1:1
      |
    1 | hook: 127.0.0.1:1
      | ^^^^ not a key of the settings
      |
      = note: allowed: `hooks`, `admin`, `adminHosts`, `oidc`, `ui`, `publicMetrics`, `publicUrl`, `adminUrl`, `dataDir`, `store`, `autoDeploy`, `secrets`, `durability`, `filesDir`, `outbound`, `env`, `allowCredentialDebug`, `retention`, `limits`, `log`
    help: did you mean `hooks`?
      |
    1 | hooks: 127.0.0.1:1
      |     +

    error[unknown-key]: unknown key `queu` in `limits`
     --> cogwork.yaml:2:10
      |
    2 | limits: {queu: 5, inFlight: none}
      |          ^^^^ not a key of `limits`
      |
      = note: allowed: `inFlight`, `queue`, `chain`, `resultSize`, `fileSize`, `memory`, `codeWorkers`, `codeMemory`, `storeSize`, `connections`, `connectionsPerAddress`
    help: did you mean `queue`?
      |
    2 | limits: {queue: 5, inFlight: none}
      |              +

    error[bad-setting]: `limits.inFlight`: `none` is no whole number from 1 on
     --> cogwork.yaml:2:29
      |
    2 | limits: {queu: 5, inFlight: none}
      |                             ^^^^

    error[bad-setting]: `durability`: `fast` is none of `full`, `relaxed`
     --> cogwork.yaml:3:13
      |
    3 | durability: fast
      |             ^^^^
    ");
}

#[test]
fn a_list_or_empty_value_for_a_scalar_setting_is_rejected() {
    assert!(shown("hooks: [a, b]\n").contains("takes one value"));
    assert!(shown("hooks:\n").contains("has no value"));
    assert!(shown("store: mysql://db/cogwork\n").contains("is not supported"));
}

#[test]
fn a_variable_overrides_the_file_and_a_flag_overrides_both() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join(FILE), "admin: 127.0.0.1:1\nhooks: 127.0.0.1:1\nlimits: {queue: 1}\n")
        .expect("written");
    let environment = Environment::with([("COGWORK_HOOKS", "2"), ("COGWORK_ADMIN", "2")]);
    let flags = [(Setting::find("hooks").expect("a setting"), vec!["localhost:3".to_owned()])];
    let config = Config::load(dir.path(), &environment, &flags).expect("settings");
    assert_eq!((config.hooks.port(), config.admin.port(), config.limits.queue), (3, 2, 1));
}

#[test]
fn a_variable_may_hold_a_comma_separated_list() {
    let environment = Environment::with([("COGWORK_OUTBOUND_ALLOW", "127.0.0.1, 10.0.0.0/8")]);
    let mut config = Config::new(Path::new("."));
    environment.apply(&mut config).expect("settings");
    assert_eq!(config.outbound_allow, ["127.0.0.1", "10.0.0.0/8"]);
    let environment = Environment::with([("COGWORK_OUTBOUND_ALLOW", "10.0.0.0/99")]);
    assert!(environment.apply(&mut config).is_err());
}

#[test]
fn a_misspelt_variable_is_reported_with_the_nearest_name() {
    let variables = [("COGWORK_HOOK", "1"), ("COGWORK_ADMIN_TOKEN", "x"), ("COGWORK_ORDER_DESK", "y")];
    let environment = Environment::with(variables);
    assert_eq!(environment.unknown_variables(), [("COGWORK_HOOK".to_owned(), "COGWORK_HOOKS".to_owned())]);
}

#[test]
fn documented_defaults_of_settings_are_true() {
    let plain = format!("{:?}", Config::new(Path::new("project")));
    for setting in SETTINGS {
        let mut config = Config::new(Path::new("project"));
        let values = [setting.sample.text().to_owned()];
        let values = if setting.list { Vec::new() } else { values.to_vec() };
        setting.apply(&mut config, &values, Path::new("project"), Origin::File).expect("its sample is right");
        if setting.key == "log.level" {
            config.log_level = None;
        }
        config.given.clear();
        if matches!(setting.sample, table::Sample::Default(_)) {
            assert_eq!(format!("{config:?}"), plain, "{}", setting.key);
        }
    }
}

#[test]
fn variable_and_flag_names_follow_from_the_key() {
    let setting = Setting::find("limits.connectionsPerAddress").expect("a setting");
    assert_eq!(setting.variable(), "COGWORK_LIMITS_CONNECTIONS_PER_ADDRESS");
    assert_eq!(setting.flag(), "limits-connections-per-address");
}

#[test]
fn a_wildcard_listener_is_shown_as_a_loopback_url() {
    let config = Config::new(Path::new("."));
    assert_eq!(config.base("0.0.0.0:7070".parse().expect("an address")), "http://127.0.0.1:7070");
    assert_eq!(config.base("[::]:7070".parse().expect("an address")), "http://[::1]:7070");
}

#[test]
fn the_host_of_the_admin_url_may_call_the_api() {
    let (config, report) =
        read("adminUrl: https://cogwork.internal:8443/ui/\nadminHosts: [other.internal]\n");
    assert!(report.is_empty(), "{}", report.render(false));
    assert_eq!(config.server().admin_hosts, ["other.internal", "cogwork.internal"]);
    let admin = "0.0.0.0:7071".parse().expect("an address");
    assert_eq!(config.admin_base(admin), "https://cogwork.internal:8443/ui");
    assert_eq!(read("").0.admin_base(admin), "http://127.0.0.1:7071");
    assert_eq!(values::host("http://[fd00::7]:7071"), Some("[fd00::7]"));
}

#[test]
fn the_files_folder_is_relative_to_the_project_from_every_source() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join(FILE), "filesDir: one\n").expect("written");
    let none = Environment::default();
    let load = |environment: &Environment, flags: &[FlagValues]| {
        Config::load(dir.path(), environment, flags).expect("settings").files_dir
    };
    assert_eq!(load(&none, &[]), Some(dir.path().join("one")));
    let environment = Environment::with([("COGWORK_FILES_DIR", "two")]);
    assert_eq!(load(&environment, &[]), Some(dir.path().join("two")));
    let flags = [(Setting::find("filesDir").expect("a setting"), vec!["three".to_owned()])];
    assert_eq!(load(&none, &flags), Some(dir.path().join("three")));
}

#[test]
fn the_schema_accepts_the_same_settings_as_the_program() {
    let schema = jsonschema::validator_for(&schema()).expect("it is a schema");
    for setting in SETTINGS {
        let sample: serde_json::Value = serde_yaml::from_str(setting.sample.text()).expect("it is YAML");
        for value in [sample, serde_json::json!({"nonsense": 1})] {
            let file = match setting.key.split_once('.') {
                None => serde_json::json!({setting.key: value}),
                Some((group, key)) => serde_json::json!({group: {key: value}}),
            };
            let program = read(&file.to_string()).1;
            assert_eq!(schema.is_valid(&file), !program.has_errors(), "{file}\n{}", program.render(false));
        }
    }
    for (text, valid) in [
        ("limits: {queu: 5}", false),
        ("hook: 7070", false),
        ("hooks: 7070", true),
        ("durability: fast", false),
        ("limits: {memory: 1GB, storeSize: 20GiB}", true),
        ("limits: {memory: 1024}", false),
        ("limits: {memory: many}", false),
        ("publicMetrics: yes please", false),
        ("limits:", true),
        ("outbound: {allow: 127.0.0.1}", true),
    ] {
        let file: serde_json::Value = serde_yaml::from_str(text).expect("it is YAML");
        assert_eq!((schema.is_valid(&file), !read(text).1.has_errors()), (valid, valid), "{text}");
    }
}

#[test]
fn contradicting_settings_are_rejected() {
    let refused = |text: &str| {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join(FILE), text).expect("written");
        Config::load(dir.path(), &Environment::default(), &[]).map(drop).map_err(|error| error.to_string())
    };
    for (text, says) in [
        ("retention: {keepFailed: true, failedDays: 90}\n", "give one of them"),
        (
            "limits: {connections: 10, connectionsPerAddress: 11}\n",
            "more than the 10 of `limits.connections`",
        ),
        ("limits: {memory: 1MiB, resultSize: 2MiB}\n", "raise it, or lower `limits.resultSize`"),
    ] {
        let message = refused(text).expect_err("it is refused");
        assert!(message.contains(says), "{message}");
    }
    for text in [
        "retention: {keepFailed: false, failedDays: 90}\n",
        "limits: {connections: 10}\n",
        "limits: {memory: 128MiB, resultSize: 2MiB}\n",
    ] {
        assert_eq!(refused(text), Ok(()), "{text}");
    }
}

#[test]
fn a_longer_chain_of_executions_than_the_longest_is_rejected() {
    let text = shown("limits: {chain: 101}\n");
    assert!(text.contains("101") && text.contains("100"), "{text}");
    assert_eq!(shown("limits: {chain: 100}\n"), "");
}

#[test]
fn an_unknown_log_level_is_rejected_with_the_nearest_one() {
    for (word, near) in [
        ("inof", "`info`"),
        ("engine=debgu", "`debug`"),
        ("warn,store=", "error, warn"),
        ("verbose", "error, warn"),
    ] {
        let text = shown(&format!("log: {{level: '{word}'}}\n"));
        assert!(text.contains("is no log level") && text.contains(near), "{text}");
    }
    for word in ["error", "INFO", "info,engine=debug", "store=trace", "off"] {
        assert_eq!(shown(&format!("log: {{level: '{word}'}}\n")), "", "{word}");
    }
}

#[test]
fn errors_in_the_settings_file_show_no_password() {
    for text in [
        "store: postgres://u:canary@x@db/x\n",
        "stor: postgres://u:canary@db/x\n",
        "store: postgres://u:canary@db/x\nhook: 1\n",
        "store: [postgres://u:canary@db/x]\n",
        "oidc: {issuer: 'https://u:canary@id.example.com'}\n",
        "store: postgres://u:can%61ry@db:canary/x\n",
    ] {
        let shown = shown(text);
        assert!(shown.contains("error") && !shown.contains("canary"), "{shown}");
    }
    let (config, _) = read("store: postgres://u:canary@db/x\n");
    assert!(!format!("{config:?}").contains("canary"), "{config:?}");
}
