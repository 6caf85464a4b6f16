//! Tests with three documents in the style of well-known public ones: version 2.0 with forms and references (a pet
//! store), 3.0 with shared parameters and links (a code host), 3.1 with form bodies and merged schemas (a payment
//! service).

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::registry::Registry;

const PETS: &str = include_str!("tests/pets.json");
const TRACKER: &str = include_str!("tests/tracker.json");
const PAYMENTS: &str = include_str!("tests/payments.json");

fn import(text: &str, options: &ImportOptions) -> Imported {
    let document: Value = serde_json::from_str(text).expect("JSON");
    openapi(&document, options).unwrap_or_else(|words| panic!("{words}"))
}

/// Returns the request line and the body in the example of an action.
fn example(imported: &Imported, action: &str) -> (String, Value) {
    let example = &imported.manifest["actions"][action]["example"];
    (example["request"].as_str().unwrap_or_default().to_owned(), example["body"].clone())
}

#[test]
fn an_imported_manifest_loads_in_a_project() {
    for text in [PETS, TRACKER, PAYMENTS] {
        let imported = import(text, &ImportOptions::default());
        let source = Arc::new(Source::new("connectors/made.yaml", imported.manifest.to_string()));
        let registry = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
        let (registry, reports) = registry.with_manifests(vec![source]);
        let said: String = reports.iter().map(|report| report.render(false)).collect();
        assert_eq!(said, "", "{}", imported.name);
        let connector = registry.connector(&imported.name).expect("it is there");
        assert_eq!(connector.actions.len(), imported.actions);
    }
}

#[test]
fn version_2_documents_with_forms_and_references_are_imported() {
    let pets = import(PETS, &ImportOptions::default());
    assert_eq!((pets.name.as_str(), pets.actions), ("petStore", 6));
    assert_eq!(pets.manifest["baseUrl"], "https://pets.example.com/v2");
    assert_eq!(
        pets.manifest["connections"]["apiKey"]["auth"],
        json!({"header": {"name": "api_key", "value": "apiKey"}})
    );
    assert_eq!(
        example(&pets, "addPet"),
        ("POST /pet".to_owned(), json!({"name": "doggie", "photoUrls": ["photoUrl"]}))
    );
    assert_eq!(example(&pets, "findPetsByStatus").0, "GET /pet/findByStatus?status=available");
    assert_eq!(example(&pets, "uploadFile"), ("POST /pet/1/uploadImage".to_owned(), json!({"file": "file"})));
    let types = &pets.manifest["types"];
    assert_eq!(types["Pet"]["fields"]["category"]["type"], "Category");
    assert_eq!(
        types["Category"]["fields"]["parent"]["type"], "any",
        "a type that comes to itself has no end"
    );
    assert_eq!(
        pets.manifest["actions"]["findPetsByStatus"]["results"],
        json!({"type": "list", "items": "Pet"})
    );
    assert_eq!(
        pets.manifest["actions"]["getInventory"]["results"],
        json!({"type": "map", "values": "integer"})
    );
    assert!(pets.notes[0].contains("OAuth"), "{:?}", pets.notes);
}

/// Returns the connection types of a document with these security schemes.
fn connections_of(document: Value) -> Value {
    let mut document = document;
    document["info"] = json!({"title": "Shop"});
    document["paths"] = json!({"/a": {"get": {"responses": {"200": {"description": "all"}}}}});
    let imported = openapi(&document, &ImportOptions::default()).expect("a manifest");
    imported.manifest["connections"].clone()
}

#[test]
fn supported_oauth_flows_become_connection_types() {
    let (consent, tokens) = ("https://id.example.com/consent", "https://id.example.com/token");
    let flow = json!({"authorizationUrl": consent, "tokenUrl": tokens, "scopes": {"read": "", "write": ""}});
    let types = connections_of(json!({
        "openapi": "3.0.3", "servers": [{"url": "https://shop.example.com"}],
        "components": {"securitySchemes": {"shop_auth": {"type": "oauth2", "flows": {
            "authorizationCode": flow, "clientCredentials": {"tokenUrl": tokens, "scopes": {}}, "implicit": flow
        }}}},
    }));
    let by_consent = &types["shopAuth"];
    assert_eq!(by_consent["auth"]["oauth2"]["grant"], "authorizationCode");
    assert_eq!(by_consent["inputs"]["authorizeUrl"]["default"], consent);
    assert_eq!(
        by_consent["inputs"]["scopes"]["description"],
        "The requested scopes, separated by spaces. There are `read`, `write`."
    );
    assert_eq!(types["shopAuthClient"]["auth"]["oauth2"]["grant"], "clientCredentials");
    let old = connections_of(json!({
        "swagger": "2.0", "host": "shop.example.com",
        "securityDefinitions": {
            "code": {"type": "oauth2", "flow": "accessCode", "authorizationUrl": consent, "tokenUrl": tokens},
            "own": {"type": "oauth2", "flow": "application", "tokenUrl": tokens},
            "page": {"type": "oauth2", "flow": "implicit", "authorizationUrl": consent},
            "nowhere": {"type": "oauth2", "flow": "application", "tokenUrl": "/token"},
        },
    }));
    let grants = ["code", "own", "page", "nowhere"].map(|name| old[name]["auth"]["oauth2"]["grant"].clone());
    assert_eq!(grants, [json!("authorizationCode"), json!("clientCredentials"), json!(null), json!(null)]);
    assert_eq!(old["page"]["auth"], json!({"bearer": "token"}));
}

#[test]
fn version_3_documents_with_shared_parameters_are_imported() {
    let tracker = import(TRACKER, &ImportOptions::default());
    let list = &tracker.manifest["actions"]["issuesListForRepo"];
    assert_eq!(list["title"], "List repository issues");
    assert_eq!(list["request"], "GET /repos/{owner}/{repo}/issues");
    assert_eq!(list["inputs"]["perPage"], "query per_page");
    assert_eq!(list["results"], json!({"type": "list", "items": "Issue"}));
    assert_eq!(tracker.manifest["inputs"]["labels"]["join"], ",");
    assert_eq!(
        tracker.manifest["actions"]["issuesCreate"]["inputs"]["labels"]["use"], "labels2",
        "of another type"
    );
    assert_eq!(tracker.manifest["inputs"]["state"]["default"], "open");
    assert_eq!(example(&tracker, "issuesListForRepo").0, "GET /repos/owner/repo/issues");
    assert_eq!(
        example(&tracker, "issuesLock"),
        ("PUT /repos/owner/repo/issues/1/lock".to_owned(), json!({}))
    );
    assert_eq!(tracker.manifest["actions"]["issuesLock"]["results"], "null");
    assert_eq!(tracker.manifest["actions"]["markdownRenderRaw"]["answer"], "text");
    assert_eq!(tracker.manifest["types"]["Issue"]["fields"]["user"]["type"], "NullableSimpleUser");
    assert_eq!(tracker.manifest["types"]["NullableSimpleUser"]["nullable"], true);
}

#[test]
fn version_3_1_documents_with_forms_and_merged_schemas_are_imported() {
    let payments =
        import(PAYMENTS, &ImportOptions { name: Some("pay".to_owned()), ..ImportOptions::default() });
    assert_eq!(payments.name, "pay");
    let basic = &payments.manifest["connections"]["basicAuth"];
    assert_eq!(basic["baseUrl"], json!({"input": "baseUrl"}), "an address with blanks is the connection's");
    assert_eq!(
        example(&payments, "postCharges"),
        ("POST /charges".to_owned(), json!({"amount": "1", "currency": "eur"}))
    );
    assert_eq!(payments.manifest["actions"]["getReceipt"]["answer"], "binary");
    let charge = &payments.manifest["types"]["Charge"]["fields"];
    assert_eq!(charge["failure_code"], json!({"type": "text", "nullable": true, "optional": true}));
    assert_eq!(charge["id"], json!({"type": "text"}));
    let left_out: Vec<bool> = ["`created`", "`cookieAuth`"]
        .iter()
        .map(|name| payments.notes.iter().any(|note| note.contains(name)))
        .collect();
    assert_eq!(left_out, [true, true], "{:?}", payments.notes);
}

#[test]
fn a_parameter_without_a_name_is_skipped_and_the_rest_imported() {
    let imported = openapi(
        &json!({
            "openapi": "3.0.3", "info": {"title": "Shop"}, "servers": [{"url": "https://shop.example.com"}],
            "paths": {"/a": {"get": {"operationId": "look", "parameters": [
                {"name": "", "in": "header", "schema": {"type": "string"}},
                {"name": "q", "in": "query", "schema": {"type": "string"}},
            ], "responses": {"200": {"description": "all"}}}}},
        }),
        &ImportOptions::default(),
    );
    let imported = imported.expect("a manifest");
    assert_eq!(imported.manifest["actions"]["look"]["inputs"], json!({"q": "query q"}));
    assert_eq!(imported.notes, ["`look`: a parameter without a name is left out"]);
}

#[test]
fn only_selected_tags_and_operations_are_imported() {
    let store = import(PETS, &ImportOptions { tags: vec!["store".to_owned()], ..ImportOptions::default() });
    assert_eq!(store.actions, 1);
    let operations = vec!["getPetById".to_owned()];
    let one = import(PETS, &ImportOptions { operations, ..ImportOptions::default() });
    assert_eq!((one.actions, one.manifest["inputs"].as_object().map(Map::len)), (1, Some(1)));
    let none = ImportOptions { tags: vec!["stores".to_owned()], ..ImportOptions::default() };
    let document: Value = serde_json::from_str(PETS).expect("JSON");
    let words = openapi(&document, &none).expect_err("nothing");
    assert_eq!(words, "the document has no operation that is asked for; its tags are: pet, store");
    assert!(openapi(&json!({"a": 1}), &none).expect_err("no document").contains("not an OpenAPI document"));
}

#[test]
fn a_damaged_document_never_panics() {
    let whole: Value = serde_json::from_str(TRACKER).expect("JSON");
    for pointer in [
        "/paths/~1repos~1{owner}~1{repo}~1issues/parameters",
        "/paths/~1repos~1{owner}~1{repo}~1issues/get/responses",
        "/components/schemas/issue/properties",
        "/components/parameters/owner",
        "/components/securitySchemes/token",
        "/servers/0/url",
        "/info",
    ] {
        for damage in [
            json!(null),
            json!(7),
            json!([[]]),
            json!({"$ref": "#/nowhere"}),
            json!({"$ref": "#/info"}),
            json!("{"),
        ] {
            let mut document = whole.clone();
            *document.pointer_mut(pointer).expect(pointer) = damage;
            if let Ok(imported) = openapi(&document, &ImportOptions::default()) {
                assert!(imported.actions > 0);
            }
        }
    }
}

#[test]
fn a_built_in_connector_name_is_rejected_with_a_suggestion() {
    let titled = |title: &str, name: Option<&str>| {
        let document = PAYMENTS.replacen(&title_of(PAYMENTS), title, 1);
        let document: Value = serde_json::from_str(&document).expect("JSON");
        let options = ImportOptions { name: name.map(str::to_owned), ..ImportOptions::default() };
        openapi(&document, &options).map(|imported| imported.name)
    };
    let expected = "the document is titled `GitHub`, and `github` is a connector that is built in; give it another name, \
                    such as `--name githubApi`";
    assert_eq!(titled("GitHub", None), Err(expected.to_owned()));
    for title in ["github", "wiki", "Wiki", "Http", "mail", "State", "log"] {
        assert!(titled(title, None).expect_err("taken").contains("--name"), "{title}");
    }
    let words = titled("Shop", Some("http")).expect_err("taken");
    assert!(words.starts_with("`http` is the name of a connector that is built in; "), "{words}");
    assert_eq!(
        titled("Shop", Some("github")).as_deref(),
        Ok("github"),
        "a file may take the place of this one"
    );
    assert_eq!(titled("GitHub", Some("githubApi")).as_deref(), Ok("githubApi"));
}

fn title_of(text: &str) -> String {
    let document: Value = serde_json::from_str(text).expect("JSON");
    document["info"]["title"].as_str().expect("a title").to_owned()
}

#[test]
fn an_operation_with_a_204_response_may_return_null() {
    let document = json!({
        "openapi": "3.0.0", "info": {"title": "Shop", "version": "1"}, "servers": [{"url": "https://shop.example"}],
        "paths": {"/items": {"get": {"operationId": "listItems", "responses": {
            "200": {"description": "a", "content": {"application/json": {"schema": {"type": "object", "properties": {"id": {"type": "string"}}}}}},
            "204": {"description": "nothing"}
        }}}}
    });
    let imported = openapi(&document, &ImportOptions::default()).expect("a manifest");
    assert_eq!(imported.manifest["actions"]["listItems"]["results"]["nullable"], true);
}
