mod wiki;

use model::{Effect, InputType};
use pretty_assertions::assert_eq;
use value::{Map, Value};

use super::*;

fn builtin() -> Registry {
    match Registry::builtin() {
        Ok(registry) => registry,
        Err(reports) => panic!("{}", reports.iter().map(|report| report.render(false)).collect::<String>()),
    }
}

fn with(files: &[(&str, &str)]) -> (Registry, String) {
    let files = files.iter().map(|(path, text)| Arc::new(Source::new(*path, *text))).collect();
    let (registry, reports) = builtin().with_manifests(files);
    let messages = reports.iter().flat_map(|report| report.entries());
    (registry, messages.map(|entry| format!("{}:{}: {}\n", entry.file, entry.line, entry.message)).collect())
}

const SMALL: &str = "
connector: shop
title: Shop
version: 1.0.0
baseUrl: https://shop.example
inputs:
  id: {type: text}
actions:
  getOrder:
    title: Get Order
    request: GET /orders/{id}
    inputs: {id: path}
    example: {with: {id: '17'}, request: GET /orders/17}
";

#[test]
fn built_in_manifests_have_no_warnings() {
    for shipped in &SHIPPED {
        let (manifest, report) = shipped.read();
        assert!(report.is_empty() && manifest.is_some(), "{}", report.render(false));
    }
}

#[test]
fn get_and_list_actions_are_reads_and_the_others_writes() {
    let registry = builtin();
    for action in registry.actions().map(|action| action.spec()).filter(|spec| spec.name.starts_with("wiki."))
    {
        let name = action.name.trim_start_matches("wiki.");
        let is_read = name.starts_with("get") || name.starts_with("list");
        assert_eq!(action.effect == Effect::Read, is_read, "{name}");
        assert!(action.connection_required && action.connections == ["wiki.basic", "wiki.oauth"], "{name}");
    }
    for name in ["log.info", "text.split"] {
        assert_eq!(registry.action(name).expect("it is shipped").spec().effect, Effect::Pure);
    }
}

#[test]
fn every_action_has_a_title_a_valid_example_and_input_descriptions() {
    for action in builtin().actions() {
        let spec = action.spec();
        assert!(!spec.title.is_empty() && spec.result.is_some(), "{}", spec.name);
        let json = serde_json::to_value(spec).expect("it has a JSON form");
        assert!(json["example"].is_object(), "{}", spec.name);
        crate::check_inputs(spec, spec.example.as_map().expect("a map"), &value::Reserved::nothing())
            .expect("a good example");
        for input in &spec.inputs {
            assert!(input.description.is_some(), "{}.{}", spec.name, input.name);
        }
    }
}

#[test]
fn a_connector_with_a_broken_file_is_kept_unless_another_file_defines_it() {
    let (before, _) = with(&[("connectors/shop.yaml", SMALL)]);
    let broken = SMALL.replace("title: Shop", "titel: Shop");
    let (mut now, said) = with(&[("connectors/shop.yaml", &broken)]);
    assert!(said.contains("titel") && now.connector("shop").is_none(), "{said}");
    now.retain_previous(&before, "connectors/shop.yaml");
    let kept = now.connector("shop").expect("it is kept");
    assert_eq!(kept.actions, ["shop.getOrder"]);
    assert!(now.action("shop.getOrder").is_some());
    let (mut other, _) = with(&[
        ("connectors/other.yaml", &SMALL.replace("Get Order", "Another")),
        ("connectors/shop.yaml", &broken),
    ]);
    other.retain_previous(&before, "connectors/shop.yaml");
    assert_eq!(other.action("shop.getOrder").expect("it is there").spec().title, "Another");
    // A user's connector that replaced a shipped one stays in place while its file is invalid.
    let own = SMALL.replace("connector: shop", "connector: wiki");
    let (before, _) = with(&[("connectors/wiki.yaml", &own)]);
    let (mut now, _) = with(&[("connectors/wiki.yaml", &own.replace("title: Shop", "titel: Shop"))]);
    assert!(now.action("wiki.getPage").is_some());
    now.retain_previous(&before, "connectors/wiki.yaml");
    assert!(now.action("wiki.getPage").is_none() && now.action("wiki.getOrder").is_some());
}

#[test]
fn secrets_of_connection_types_are_marked() {
    let registry = builtin();
    let basic = registry.connection_type("wiki.basic").expect("it is shipped");
    let secrets = basic.inputs.iter().filter(|input| input.secret).map(|input| input.spec.name.as_str());
    assert_eq!(secrets.collect::<Vec<_>>(), ["apiToken", "password"]);
    let json = serde_json::to_value(basic).expect("it has a JSON form");
    assert_eq!(
        (&json["inputs"][1]["name"], &json["inputs"][1]["secret"]),
        (&"apiToken".into(), &true.into())
    );
    for kind in ["http.basic", "http.bearer", "http.header"] {
        assert!(registry.connection_type(kind).is_some(), "{kind}");
    }
}

#[test]
fn a_project_connector_is_available_once_loaded() {
    let (registry, messages) = with(&[("connectors/shop.yaml", SMALL)]);
    assert_eq!(messages, "");
    let action = registry.action("shop.getOrder").expect("it was added");
    let inputs: Map = [("id", Value::from("a/../b?c"))].into_iter().collect();
    let request = action.prepare(&inputs, None).expect("it sends one").expect("good inputs");
    assert_eq!(request.url.as_str(), "https://shop.example/orders/a%2F..%2Fb%3Fc");
    assert_eq!(
        registry.connector("shop").expect("it was added").file.as_deref(),
        Some("connectors/shop.yaml")
    );
}

#[test]
fn an_invalid_manifest_is_skipped_and_the_others_load() {
    let (registry, messages) = with(&[
        ("connectors/bad.yaml", "connector: bad\ntitle: Bad\nversion: 1\nactionz: {}\n"),
        ("connectors/shop.yaml", SMALL),
    ]);
    assert!(messages.contains("connectors/bad.yaml:4: unknown key `actionz`"), "{messages}");
    assert!(registry.connector("bad").is_none() && registry.action("shop.getOrder").is_some());
}

#[test]
fn only_duplicate_and_native_connector_names_conflict() {
    let wiki = SMALL.replace("connector: shop", "connector: wiki");
    let (registry, messages) = with(&[("connectors/wiki.yaml", &wiki)]);
    assert_eq!(messages, "");
    assert!(registry.action("wiki.getOrder").is_some() && registry.action("wiki.getPage").is_none());
    let (_, messages) = with(&[("connectors/a.yaml", SMALL), ("connectors/b.yaml", SMALL)]);
    assert_eq!(messages, "connectors/b.yaml:2: the connector `shop` is already in `connectors/a.yaml`\n");
    let (_, messages) = with(&[("connectors/a.yaml", &SMALL.replace("connector: shop", "connector: log"))]);
    assert!(messages.contains("belongs to a connector that is built in"), "{messages}");
}

#[test]
fn page_lists_offer_only_statuses_and_formats_that_lists_have() {
    let registry = builtin();
    let kind = |action: &str, input: &str| {
        registry.action(action).and_then(|action| action.spec().input(input).cloned()).expect("an input").kind
    };
    assert_eq!(
        kind("wiki.listPages", "status").describe(),
        "list of one of current, archived, deleted, trashed"
    );
    assert_eq!(kind("wiki.listPagesInSpace", "bodyFormat").describe(), "one of storage, wiki_doc_format");
    assert_eq!(kind("wiki.listContentPropertiesForPage", "sort").describe(), "one of key, -key");
    assert_eq!(kind("wiki.createPage", "status").describe(), "one of current, draft");
    assert_eq!(kind("wiki.listPagesInSpace", "depth").describe(), "one of all, root");
    assert_eq!(kind("wiki.listSpaces", "limit"), InputType::Integer { min: Some(1), max: Some(250) });
}
