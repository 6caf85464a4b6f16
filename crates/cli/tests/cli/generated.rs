//! Files of the repository that are made by the program: each is as the program would make it now.

use std::fs;
use std::path::Path;

use crate::support::Project;

#[test]
fn the_committed_schemas_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // `make schemas` writes them anew.
    Project::empty().cogwork(&["--dir", &root.to_string_lossy(), "schema", "--check"]).exits(0);
    let api = Project::empty().cogwork(&["schema", "--api"]).exits(0).stdout;
    let committed = fs::read_to_string(root.join("schemas/openapi.json")).expect("the description");
    assert!(committed == api, "`cogwork schema --api` prints another description");
}

#[test]
fn project_schemas_include_its_connectors_and_connections() {
    let shop = "connector: shop
title: Shop
version: '1'
connections:
  key:
    title: API key
    inputs: {host: {type: text, required: true}, key: {type: text, secret: true}}
    baseUrl: {input: host}
    auth: {bearer: key}
inputs: {id: {type: text, description: The id of the order.}}
actions:
  getOrder:
    title: Get an order
    request: GET /orders/{id}
    inputs: {id: path}
    example: {with: {id: '1'}, request: GET /orders/1}
";
    let project = Project::with(&[
        ("connectors/shop.yaml", shop),
        (
            "connections/mainShop.yaml",
            "type: shop.key\nwith: {host: shop.example.com, key: '${{ secrets.shop }}'}\n",
        ),
    ]);
    project.cogwork(&["schema", "--check"]).exits(1).says("schemas/automation.schema.json is not fresh");
    project.cogwork(&["schema", "--write"]).exits(0).says("wrote schemas/connector.schema.json");
    project.cogwork(&["schema", "--check"]).exits(0);
    let schema = project.read("schemas/automation.schema.json");
    for part in ["shop.getOrder", "The id of the order. (text)", "mainShop"] {
        assert!(schema.contains(part), "`{part}` is missing");
    }
    let printed = project.cogwork(&["schema", "connection"]).exits(0).json();
    let types = printed.pointer("/properties/type/anyOf/0/enum").expect("the types").to_string();
    assert!(types.contains("shop.key") && types.contains("wiki.basic"), "{types}");
}
