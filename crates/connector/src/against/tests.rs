//! Tests with a small document and connectors that differ from it.

use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::json;
use text::diagnostic::Source;

use super::*;

fn document() -> Value {
    json!({
        "openapi": "3.0.0",
        "servers": [{"url": "https://shop.example/v1"}],
        "paths": {
            "/orders/{id}": {
                "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
                "get": {
                    "parameters": [
                        {"name": "view", "in": "query", "schema": {"type": "string", "enum": ["full", "short"]}},
                        {"name": "created", "in": "query", "style": "deepObject", "schema": {"type": "object"}}
                    ],
                    "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}}}
                }
            },
            "/orders": {
                "post": {
                    "requestBody": {"content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/NewOrder"}},
                        "application/x-www-form-urlencoded": {"schema": {"$ref": "#/components/schemas/NewOrder"}}
                    }},
                    "responses": {"201": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}}}
                }
            }
        },
        "components": {"schemas": {
            "Order": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "string"},
                    "secret": {"type": "string", "writeOnly": true},
                    "parent": {"nullable": true, "allOf": [{"$ref": "#/components/schemas/Order"}]},
                    "lines": {"type": "array", "items": {"type": "object", "properties": {"count": {"type": "integer"}}}}
                }
            },
            "NewOrder": {"allOf": [
                {"type": "object", "required": ["name", "id"], "properties": {"name": {"type": "string"}, "id": {"type": "string", "readOnly": true}}},
                {"type": "object", "properties": {"lines": {"type": "array", "items": {"type": "object", "properties": {"count": {"type": "integer"}}}}}}
            ]}
        }}
    })
}

const MANIFEST: &str = "connector: shop
title: Shop
version: 1.0.0
baseUrl: https://shop.example/v1
inputs:
  id: {type: text}
  name: {type: text}
  view: {type: text}
  since: {type: text}
  lines: {type: list, items: any}
types:
  Order: {type: object, open: true, fields: {id: text, lines: {type: list, items: {type: object, fields: {count: integer}}}}}
actions:
  getOrder:
    title: Get order
    request: GET /orders/{id}
    inputs: {id: path, view: query view, since: 'query created[gte]'}
    results: Order
    example:
      with: {id: a/b, view: full, since: x}
      request: GET /orders/a%2Fb?view=full&created[gte]=x
      answer: {id: '1', lines: [{count: 2}], parent: {id: '0'}}
  makeOrder:
    title: Make order
    request: POST /orders
    inputs: {name: body name, lines: body lines}
    encoding: {form: brackets}
    example:
      with: {name: '12', lines: [{count: 2}]}
      request: POST /orders
      body: {name: '12', 'lines[0][count]': 2}
";

/// Checks the differences after changes of the manifest, each a text and what takes its place everywhere.
fn check(changes: &[(&str, &str)], expected: &[&str]) {
    let mut text = MANIFEST.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let registry = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
    let (registry, reports) = registry.with_manifests(vec![Arc::new(Source::new("shop.yaml", text))]);
    let said: String = reports.iter().map(|report| report.render(false)).collect();
    assert!(registry.connector("shop").is_some(), "{said}");
    let found = differences(&registry, "shop", &document()).expect("a document");
    let found: Vec<&str> = found.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_connector_that_its_service_describes_has_no_differences() {
    check(&[], &[]);
    let as_json = [("    encoding: {form: brackets}\n", ""), ("'lines[0][count]': 2", "lines: [{count: 2}]")];
    check(&as_json, &[]);
}

#[test]
fn a_request_that_the_service_does_not_describe_is_a_difference() {
    check(&[("POST /orders", "PUT /orders")], &["the document has no operation for `PUT /orders`"]);
    check(
        &[("view=full", "look=full"), ("query view", "query look")],
        &["the operation has no parameter `look` in its query"],
    );
    check(
        &[("view: full", "view: most"), ("view=full", "view=most")],
        &["the parameter `view`: `` value must be one of 'full', 'short'"],
    );
    check(
        &[("name: body name", "name: body named"), ("{name: '12', 'lines[0]", "{named: '12', 'lines[0]")],
        &["the body: `` needs `name`"],
    );
    check(
        &[
            ("{count: 2}]}\n      request: POST", "{number: 2}]}\n      request: POST"),
            ("[count]': 2", "[number]': 2"),
        ],
        &["the body: `/lines/0/number` must not be present"],
    );
    check(
        &[("parent: {id: '0'}", "parent: {id: '0', more: 1}")],
        &["the answer: `/parent/more` must not be present"],
    );
    check(
        &[(
            "open: true, fields: {id: text,",
            "open: true, fields: {id: text, total: {type: number, optional: true},",
        )],
        &["the result `total` is not in the described answer"],
    );
    check(
        &[("{id: text, lines", "{id: integer, lines"), ("answer: {id: '1'", "answer: {id: 1")],
        &[
            "the answer: `/id` must be string, found number",
            "the result `id` is described as something else than whole number",
        ],
    );
}
