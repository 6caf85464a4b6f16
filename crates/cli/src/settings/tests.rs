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
fn the_file_lies_over_the_defaults() {
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
fn everything_that_is_wrong_is_said_at_once_with_its_place() {
    let shown = shown("hook: 127.0.0.1:1\nlimits: {queu: 5, inFlight: none}\ndurability: fast\n");
    insta::assert_snapshot!(shown, @r"
    error[unknown-key]: unknown key `hook` in the settings
     --> cogwork.yaml:1:1
      |
    1 | hook: 127.0.0.1:1
      | ^^^^ not a key of the settings
      |
      = note: allowed: `hooks`, `admin`, `adminHosts`, `oidc`, `ui`, `publicMetrics`, `publicUrl`, `dataDir`, `store`, `autoDeploy`, `secrets`, `durability`, `filesDir`, `outbound`, `env`, `allowCredentialDebug`, `retention`, `limits`, `log`
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
      = note: allowed: `inFlight`, `queue`, `resultSize`, `memory`, `codeWorkers`, `codeMemory`, `storeSize`, `connections`, `connectionsPerAddress`
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
fn one_setting_has_one_value() {
    assert!(shown("hooks: [a, b]\n").contains("takes one value"));
    assert!(shown("hooks:\n").contains("has no value"));
    assert!(shown("store: mysql://db/cogwork\n").contains("is not supported"));
}

#[test]
fn a_variable_lies_over_the_file_and_a_flag_over_both() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join(FILE), "admin: 127.0.0.1:1\nhooks: 127.0.0.1:1\nlimits: {queue: 1}\n")
        .expect("written");
    let environment = Environment::with([("COGWORK_HOOKS", "2"), ("COGWORK_ADMIN", "2")]);
    let flags = [(Setting::find("hooks").expect("a setting"), vec!["localhost:3".to_owned()])];
    let config = Config::load(dir.path(), &environment, &flags).expect("settings");
    assert_eq!((config.hooks.port(), config.admin.port(), config.limits.queue), (3, 2, 1));
}

#[test]
fn a_variable_holds_a_list_with_commas() {
    let environment = Environment::with([("COGWORK_OUTBOUND_ALLOW", "127.0.0.1, 10.0.0.0/8")]);
    let mut config = Config::new(Path::new("."));
    environment.apply(&mut config).expect("settings");
    assert_eq!(config.outbound_allow, ["127.0.0.1", "10.0.0.0/8"]);
    let environment = Environment::with([("COGWORK_OUTBOUND_ALLOW", "10.0.0.0/99")]);
    assert!(environment.apply(&mut config).is_err());
}

#[test]
fn a_variable_that_is_nearly_one_is_told() {
    let variables = [("COGWORK_HOOK", "1"), ("COGWORK_ADMIN_TOKEN", "x"), ("COGWORK_ORDER_DESK", "y")];
    let environment = Environment::with(variables);
    assert_eq!(environment.unknown_variables(), [("COGWORK_HOOK".to_owned(), "COGWORK_HOOKS".to_owned())]);
}

#[test]
fn what_a_setting_says_of_its_default_is_true() {
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
fn names_follow_from_the_key() {
    let setting = Setting::find("limits.connectionsPerAddress").expect("a setting");
    assert_eq!(setting.variable(), "COGWORK_LIMITS_CONNECTIONS_PER_ADDRESS");
    assert_eq!(setting.flag(), "limits-connections-per-address");
}

#[test]
fn a_listener_on_every_address_is_shown_with_one_that_can_be_reached() {
    let config = Config::new(Path::new("."));
    assert_eq!(config.base("0.0.0.0:7070".parse().expect("an address")), "http://127.0.0.1:7070");
    assert_eq!(config.base("[::]:7070".parse().expect("an address")), "http://[::1]:7070");
}

#[test]
fn the_folder_of_files_is_relative_to_the_project_wherever_it_is_given() {
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
fn the_schema_accepts_what_the_program_accepts() {
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
fn settings_that_contradict_each_other_are_refused() {
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
fn a_word_that_is_no_level_of_the_log_is_refused_with_the_nearest_one() {
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
fn a_mistake_in_the_file_shows_no_password_of_the_file() {
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
